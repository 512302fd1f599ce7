//! JSON pointers (RFC 6901), compiled once for all responses.

use std::sync::Arc;

/// How deep objects and lists are read: each is a bit of a `u64`. A longer pointer finds nothing.
pub(crate) const MAX_DEPTH: usize = 64;

/// A compiled JSON pointer: the place of a number in a JSON document.
///
/// ```
/// use diana_response_meter::Pointer;
///
/// assert!(Pointer::parse("/usage/total_tokens").is_ok());
/// assert!(Pointer::parse("/choices/0/tokens").is_ok(), "an index in a list, a key in an object");
/// assert!(Pointer::parse("/a~1b").is_ok(), "the key `a/b`");
/// assert!(Pointer::parse("").is_ok(), "the whole document");
/// assert!(Pointer::parse("usage").is_err());
/// ```
#[derive(Debug)]
pub struct Pointer(Box<[Name]>);

/// The pointers of the numbers that a reader looks for. A clone shares them.
///
/// ```
/// use diana_response_meter::Pointers;
///
/// assert_eq!(Pointers::parse(["/a", "/b/0"]).map(|pointers| pointers.len()), Ok(2));
/// assert!(Pointers::parse(["/a", "b"]).is_err());
/// ```
#[derive(Clone, Debug)]
pub struct Pointers(Arc<[Pointer]>);

impl Pointers {
    /// Compiles pointers, which keep their order. The error is that of [`Pointer::parse`].
    pub fn parse<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Pointers, &'static str> {
        let mut all = Vec::new();
        for text in texts {
            all.push(Pointer::parse(text)?);
        }
        Ok(Pointers(all.into()))
    }

    /// The number of pointers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names of each pointer.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[Name]> {
        self.0.iter().map(Pointer::names)
    }

    /// The names of the pointer at this index.
    pub(crate) fn names(&self, at: usize) -> &[Name] {
        self.0.get(at).map(Pointer::names).unwrap_or_default()
    }
}

/// One step of a pointer.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) key: Box<[u8]>,
    /// The name as an index of a list, below `u32::MAX`. Larger indices match nothing.
    pub(crate) index: Option<u32>,
}

impl Pointer {
    /// Compiles a pointer (RFC 6901 §3, §4) of at most 64 names.
    ///
    /// # Errors
    ///
    /// A sentence that says what is allowed, without the text and without its place in a document.
    pub fn parse(text: &str) -> Result<Pointer, &'static str> {
        let mut names = Vec::new();
        if !text.is_empty() {
            let path = text.strip_prefix('/').ok_or(
                "a JSON pointer has a `/` before each name, for example `/usage/total_tokens`, or is empty",
            )?;
            for name in path.split('/') {
                names.push(Name::parse(name)?);
            }
        }
        if names.len() > MAX_DEPTH {
            return Err("a JSON pointer has at most 64 names");
        }
        Ok(Pointer(names.into()))
    }

    pub(crate) fn names(&self) -> &[Name] {
        &self.0
    }
}

impl Name {
    fn parse(text: &str) -> Result<Name, &'static str> {
        let mut key = Vec::with_capacity(text.len());
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            key.push(match byte {
                b'~' => match bytes.next() {
                    Some(b'0') => b'~',
                    Some(b'1') => b'/',
                    _ => return Err("in a JSON pointer, `~` is written `~0`, and `/` in a name `~1`"),
                },
                byte => byte,
            });
        }
        // RFC 6901 §4: digits without leading zeros.
        let is_index = text == "0" || text.starts_with(|first: char| matches!(first, '1'..='9'));
        let index = text.parse::<u32>().ok().filter(|index| is_index && *index < u32::MAX);
        Ok(Name { key: key.into(), index })
    }
}
