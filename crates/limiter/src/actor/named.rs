//! An actor with its name, and the key of a rule's actors: their values in one byte string, in the
//! order of [`NamedActor::canonical_form`]. Different values have different keys, but different
//! lists of actors may share one, so the store must separate the lists.
//!
//! ```text
//!   actor: [tenant, user]     x-tenant: a, x-user-id: bc
//!   key:   01 00 00 00 'a'    02 00 00 00 'b' 'c'
//! ```

use super::Actor;
use super::address::Network;
use super::ip::{ClientIp, Ip};
use crate::request::{Parts, REQUEST_JSON, Request};
use diana_base::format::hex;
use diana_base::sort;
use std::borrow::Cow;
use std::sync::Arc;

/// An actor with its name. Two are equal if they have the same source, whatever their names.
#[derive(Clone, Debug)]
pub struct NamedActor {
    name: Arc<str>,
    canonical_form: Arc<str>,
    actor: Arc<dyn Actor>,
    /// The position in the rule's list.
    place: usize,
    is_secret: bool,
}

impl NamedActor {
    /// The actor `actor` under this name.
    #[must_use]
    #[inline]
    pub fn new(name: &str, actor: Arc<dyn Actor>, parts: &Parts) -> NamedActor {
        let canonical_form: Arc<str> = actor.canonical_form(parts).into();
        let is_secret = sounds_secret(name) || is_secret(&canonical_form);
        NamedActor { name: name.into(), canonical_form, actor, place: 0, is_secret }
    }

    /// The actor `ip`: the client's address under the policy's `ip` options.
    #[must_use]
    pub fn ip(options: &ClientIp, parts: &Parts) -> NamedActor {
        NamedActor::new("ip", Arc::new(Ip::new(options.clone())), parts)
    }

    /// The actors of a rule, whose values count together. The order of the result does not depend
    /// on the order of the list.
    #[must_use]
    pub fn list(actors: Vec<NamedActor>) -> Vec<NamedActor> {
        let placed = |(place, named)| NamedActor { place, ..named };
        let mut actors: Vec<NamedActor> = actors.into_iter().enumerate().map(placed).collect();
        sort::sort_by_key(&mut actors, |named| (Arc::clone(&named.canonical_form), named.place));
        actors
    }

    /// The name; `user` for the alias `account`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The canonical text of the source, without the name: see [`Actor::canonical_form`].
    #[must_use]
    pub fn canonical_form(&self) -> &str {
        &self.canonical_form
    }

    /// Whether the value is a part of the request's body.
    #[must_use]
    pub fn reads_body(&self) -> bool {
        self.canonical_form.starts_with(REQUEST_JSON)
    }

    /// The position in the rule's list of actors, from 0.
    #[must_use]
    pub fn place(&self) -> usize {
        self.place
    }

    /// Whether the value may give access to something, by the names of the actor and of its source:
    /// any cookie, or a name with a word such as `key` or `token`. Such values are never shown.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        self.is_secret
    }

    /// The value, as [`Actor::write`] writes it, for people: an address or a network as text,
    /// anything else as it is.
    pub(crate) fn shown<'v>(&self, value: &'v [u8]) -> Cow<'v, [u8]> {
        let network = if self.actor.is_address() { Network::of_key(value) } else { None };
        match network {
            Some(network) if network.is_single() => network.first().to_string().into_bytes().into(),
            Some(network) => network.to_string().into_bytes().into(),
            None => value.into(),
        }
    }

    /// The value as text for people. A question to `inspect` takes the same text. Bytes that are
    /// not UTF-8 are escaped as in `caf\xe9`, and a backslash is doubled.
    #[must_use]
    pub fn text(&self, value: &[u8]) -> String {
        let mut text = String::new();
        for chunk in self.shown(value).utf8_chunks() {
            text.push_str(&chunk.valid().replace('\\', r"\\"));
            for byte in chunk.invalid() {
                text.push_str(r"\x");
                hex(&mut text, *byte);
            }
        }
        text
    }

    /// The source of the value.
    #[must_use]
    pub fn actor(&self) -> &dyn Actor {
        &*self.actor
    }
}

/// Parts of the names of headers, parameters, segments and properties whose values may be secrets.
const PARTS: [&str; 13] = [
    "auth",
    "bearer",
    "cookie",
    "credential",
    "csrf",
    "jwt",
    "key",
    "passw",
    "secret",
    "session",
    "signature",
    "ticket",
    "token",
];

/// The same for whole words, which are also parts of harmless ones, such as `shipping`.
const WORDS: [&str; 7] = ["code", "otp", "pass", "pin", "pwd", "sid", "sig"];

/// Whether a value of this name may give access to something.
#[must_use]
#[inline]
pub fn sounds_secret(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let byte = |at: usize| name.as_bytes().get(at).copied().unwrap_or(b' ');
    // Words are joined as in `user_pin`, `user-pin2` and `userPin`.
    let is_joint = |at: usize| {
        let (before, after) = (byte(at.wrapping_sub(1)), byte(at));
        !before.is_ascii_alphabetic()
            || !after.is_ascii_alphabetic()
            || before.is_ascii_lowercase() && after.is_ascii_uppercase()
    };
    let is_whole = |at: usize, word: &str| is_joint(at) && is_joint(at.saturating_add(word.len()));
    PARTS.iter().any(|part| lower.contains(part))
        || WORDS.iter().any(|word| lower.match_indices(word).any(|(at, word)| is_whole(at, word)))
}

/// Whether the source with this canonical form may have secrets. The last name of the form decides:
/// `x-api-key` in `header 9:x-api-key`, or the last step of a property.
fn is_secret(canonical_form: &str) -> bool {
    let kind = canonical_form.split(' ').next();
    let name = canonical_form.rsplit(':').next().filter(|_| canonical_form.contains(':'));
    kind == Some("cookie") || name.is_some_and(sounds_secret)
}

impl PartialEq for NamedActor {
    fn eq(&self, other: &NamedActor) -> bool {
        self.canonical_form == other.canonical_form
    }
}

impl Eq for NamedActor {}

/// Appends the key of `actors` in this request to `out`. If the request lacks one of the actors,
/// returns `false` and appends nothing. The key of `all`, an empty list, is empty.
pub fn key(actors: &[NamedActor], request: &Request, out: &mut Vec<u8>) -> bool {
    let before = out.len();
    let complete = actors.iter().all(|named| component(out, |out| named.actor().write(request, out)));
    if !complete {
        out.truncate(before);
    }
    complete
}

/// The key of `actors` for a value written in a configuration. The error says why no request has
/// the value.
///
/// For several actors, `value` lists one value each, separated by `,`, in the order in which the
/// rule lists the actors. Spaces around each are dropped. Only the value of a single actor may
/// contain a comma.
#[inline]
pub fn parse_key(actors: &[NamedActor], value: &str) -> Result<Vec<u8>, String> {
    let values: Vec<&str> = match actors {
        [] => return Err("`all` is nobody in particular: it has no values".into()),
        [_] => vec![value.trim()],
        _ => value.split(',').map(str::trim).collect(),
    };
    if values.len() != actors.len() {
        let mut listed: Vec<&NamedActor> = actors.iter().collect();
        sort::sort_by_key(&mut listed, |named| named.place());
        let names: Vec<&str> = listed.into_iter().map(NamedActor::name).collect();
        let (expected, found) = (actors.len(), values.len());
        return Err(format!("expected {expected} values as in `{}`, found {found}", names.join(", ")));
    }
    let mut key = Vec::new();
    for named in actors {
        let value = values.get(named.place()).copied();
        debug_assert!(value.is_some(), "each actor of a rule has a place in the rule's list");
        let value = named.actor().parse(value.unwrap_or_default())?;
        component(&mut key, |key| {
            key.extend(value);
            true
        });
    }
    Ok(key)
}

/// The bytes of a value that [`NamedActor::text`] has written. `None` if a backslash begins no
/// escape: people write `DOMAIN\ann`, too.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut rest) = (Vec::new(), text);
    while let Some((plain, escape)) = rest.split_once('\\') {
        bytes.extend_from_slice(plain.as_bytes());
        let (byte, after) = match escape.strip_prefix('\\') {
            Some(after) => (b'\\', after),
            None => {
                let (digits, after) = escape.strip_prefix('x')?.split_at_checked(2)?;
                (u8::from_str_radix(digits, 16).ok()?, after)
            }
        };
        bytes.push(byte);
        rest = after;
    }
    bytes.extend_from_slice(rest.as_bytes());
    Some(bytes)
}

/// The key of `actors` for values by their names, as text. The error says which value is missing or
/// why no request has it. The key of `all`, an empty list, is empty.
pub(crate) fn key_of(
    actors: &[NamedActor],
    value: impl Fn(&str) -> Option<String>,
) -> Result<Vec<u8>, String> {
    let mut key = Vec::new();
    for named in actors {
        let value = value(named.name()).ok_or(["expected `", named.name(), "=VALUE`"].concat())?;
        let bytes = unescaped(&value).unwrap_or_else(|| value.clone().into_bytes());
        let value = match str::from_utf8(&bytes) {
            Ok(text) => named.actor().parse(text)?,
            // No address, host or method.
            Err(_) => bytes,
        };
        component(&mut key, |key| {
            key.extend(value);
            true
        });
    }
    Ok(key)
}

/// Appends the output of `write` after its length: four bytes, little-endian.
fn component(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
    let start = out.len();
    out.extend([0; 4]);
    let value_start = out.len();
    let found = write(out);
    // A wasm host has at most 4 GiB of memory, so every length fits.
    let length = u32::try_from(out.len().saturating_sub(value_start));
    let slot = out.get_mut(start..).and_then(|tail| tail.first_chunk_mut());
    debug_assert!(length.is_ok() && slot.is_some(), "a value stands behind its length");
    if let Some(slot) = slot {
        *slot = length.unwrap_or(u32::MAX).to_le_bytes();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::Header;
    use crate::actor::ip::ClientIpOptions;
    use crate::request::{Part, Values};
    use proptest::prelude::*;

    fn select(names: &[&str]) -> (Vec<NamedActor>, Parts) {
        let mut parts = Parts::default();
        let ip = ClientIp::new(&ClientIpOptions::default(), &mut parts).unwrap();
        let mut header = |name, header| {
            let actor = Header::new(header, &mut parts).unwrap();
            NamedActor::new(name, Arc::new(actor), &parts)
        };
        let (user, tenant) = (header("user", "x-user-id"), header("tenant", "x-tenant"));
        let known = [user, tenant, NamedActor::ip(&ip, &parts)];
        let named = |name: &&str| known.iter().find(|named| named.name() == *name).cloned();
        (NamedActor::list(names.iter().filter_map(named).collect()), parts)
    }

    fn request(user: &str, tenant: &str) -> Values {
        Values::default()
            .with(Part::Header("x-user-id".into()), user)
            .with(Part::Header("x-tenant".into()), tenant)
            .with(Part::Address, "192.0.2.7:0")
    }

    fn key_of(names: &[&str], request: &Values) -> Option<Vec<u8>> {
        let (actors, parts) = select(names);
        let mut out = b"before".to_vec();
        let found = key(&actors, &Request::new(request, &parts), &mut out);
        let key = out.strip_prefix(b"before").unwrap().to_vec();
        assert!(found || key.is_empty());
        found.then_some(key)
    }

    #[test]
    fn a_key_is_each_value_behind_its_length() {
        let full = request("a", "bc");
        assert_eq!(key_of(&["user"], &full).unwrap(), b"\x01\0\0\0a");
        for names in [["user", "tenant"], ["tenant", "user"]] {
            assert_eq!(key_of(&names, &full).unwrap(), b"\x02\0\0\0bc\x01\0\0\0a", "{names:?}");
        }
        assert_eq!(
            key_of(&["tenant", "ip"], &full).unwrap(),
            b"\x02\0\0\0bc\x06\0\0\0\x04\x20\xc0\0\x02\x07"
        );
        assert_eq!(key_of(&["all"], &full).unwrap(), b"");
        let long = request(&"x".repeat(60_000), "bc");
        assert_eq!(key_of(&["user"], &long).unwrap().first_chunk(), Some(&60_000u32.to_le_bytes()));
    }

    #[test]
    fn what_may_be_a_secret_is_known_by_its_name() {
        for (form, expected) in [
            ("header 9:x-api-key", true),
            ("header 13:authorization", true),
            ("header 14:X-Access-Token", true),
            ("query 8:password", true),
            ("cookie 1:s", true),
            ("jwt 3:sub", false),
            ("jwt 10:session_id", true),
            ("property 3 8:metadata9:jwt_authn3:sub", false),
            ("property 1 5:token", true),
            ("header 9:x-user-id", false),
            ("path 1", false),
            ("address", false),
        ] {
            assert_eq!(is_secret(form), expected, "{form}");
        }
        let secrets =
            "apikey Session x-csrf-token ticket bearer pwd userPass sms_code pin2 OTP connect.sid sig";
        let others = "user shipping passenger inside design decoder bypass opinion";
        assert_eq!(secrets.split(' ').find(|name| !sounds_secret(name)), None);
        assert_eq!(others.split(' ').find(|name| sounds_secret(name)), None);
    }

    #[test]
    fn a_key_needs_every_actor() {
        for names in [&["user", "tenant"][..], &["tenant", "user"], &["user"]] {
            assert_eq!(key_of(names, &request("", "t")), None, "{names:?}");
        }
    }

    #[test]
    fn a_value_that_is_not_utf_8_is_shown_and_found_by_escapes() {
        let (actors, _) = select(&["user"]);
        for (value, text) in [
            (&b"caf\xe9"[..], r"caf\xe9"),
            (b"\xff\\x41\xc3", r"\xff\\x41\xc3"),
            ("é\\xe9".as_bytes(), r"é\\xe9"),
            (br"\\xe9", r"\\\\xe9"),
            (b"a\\b", r"a\\b"),
            (br"\x4", r"\\x4"),
        ] {
            assert_eq!(actors[0].text(value), text);
            let mut key = u32::try_from(value.len()).unwrap().to_le_bytes().to_vec();
            key.extend(value);
            assert_eq!(super::key_of(&actors, |_| Some(text.into())), Ok(key), "{text}");
        }
        let typed = |text: &str| super::key_of(&actors, |_| Some(text.into())).unwrap().split_off(4);
        assert_eq!((typed(r"DOMAIN\ann"), typed(r"\x4")), (br"DOMAIN\ann".to_vec(), br"\x4".to_vec()));
    }

    fn check(names: &[&str], value: &str, expected: Result<&[u8], &str>) {
        let found = parse_key(&select(names).0, value);
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{value}");
    }

    #[test]
    fn a_configured_value_is_the_key_of_its_requests() {
        check(&["user"], "a", Ok(b"\x01\0\0\0a"));
        check(&["user"], " a,b ", Ok(b"\x03\0\0\0a,b"));
        check(&["user", "tenant"], "a,bc", Ok(b"\x02\0\0\0bc\x01\0\0\0a"));
        check(&["tenant", "user"], "bc,a", Ok(b"\x02\0\0\0bc\x01\0\0\0a"));
        check(&["tenant", "ip"], " bc , 192.0.2.7", Ok(b"\x02\0\0\0bc\x06\0\0\0\x04\x20\xc0\0\x02\x07"));
        check(&["user", "tenant"], "a", Err("expected 2 values as in `user, tenant`, found 1"));
        check(&["user", "tenant"], "a,b,c", Err("expected 2 values as in `user, tenant`, found 3"));
        check(&["user", "tenant"], "a,", Err("an empty value is never counted"));
        check(&["user"], "", Err("an empty value is never counted"));
        check(&["all"], "a", Err("`all` is nobody in particular: it has no values"));
    }

    proptest! {
        #[test]
        fn different_values_have_different_keys(
            a in "[ab\\x01\\x02]{1,4}", b in "[ab\\x01\\x02]{1,4}",
            c in "[ab\\x01\\x02]{1,4}", d in "[ab\\x01\\x02]{1,4}",
        ) {
            let names = ["user", "tenant"];
            let keys = (key_of(&names, &request(&a, &b)), key_of(&names, &request(&c, &d)));
            prop_assert_eq!(keys.0 == keys.1, (&a, &b) == (&c, &d));
            prop_assert_eq!(parse_key(&select(&names).0, &format!("{a},{b}")).ok(), keys.0);
        }

        #[test]
        fn moving_the_border_changes_the_key(text in "[ab]{3,6}", cut in 1usize..3, other in 1usize..3) {
            let key = |cut| key_of(&["user", "tenant"], &request(&text[..cut], &text[cut..]));
            prop_assert_eq!(key(cut) == key(other), cut == other);
        }
    }
}
