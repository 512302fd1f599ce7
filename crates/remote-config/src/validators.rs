//! The validators of a reply, which let a server answer that nothing has changed.

/// The validators of a reply (RFC 9110 §8.8), as the server wrote them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validators {
    /// `etag`; empty if there is none.
    pub etag: String,
    /// `last-modified`; empty if there is none.
    pub modified: String,
}

impl Validators {
    /// The longest validator that is kept, in bytes.
    const LONGEST: usize = 256;

    /// The validators of a reply with this `date`. A validator that could not be sent back is
    /// dropped. If the document changed in the very second of the reply, both are dropped.
    /// Otherwise a second change in that second would go unnoticed (RFC 9110 §8.8.2.2). A host
    /// joins the lines of a reply with several dates, for example of a proxy and its upstream.
    ///
    /// ```
    /// use diana_remote_config::Validators;
    ///
    /// let validators = Validators::of(Some(b"\"v1\"".into()), None, None);
    /// assert_eq!(validators.etag, "\"v1\"");
    /// ```
    #[must_use]
    pub fn of(etag: Option<Vec<u8>>, modified: Option<Vec<u8>>, date: Option<Vec<u8>>) -> Validators {
        if let (Some(changed), Some(dates)) = (&modified, &date)
            && dates.windows(changed.len().max(1)).any(|date| date == changed)
        {
            return Validators::default();
        }
        let validator = |value: Option<Vec<u8>>| {
            let is_plain = |byte: &u8| (b' '..=b'~').contains(byte);
            let fits = |value: &Vec<u8>| value.len() <= Validators::LONGEST && value.iter().all(is_plain);
            value.filter(fits).and_then(|value| String::from_utf8(value).ok()).unwrap_or_default()
        };
        Validators { etag: validator(etag), modified: validator(modified) }
    }
}
