//! Objects with known keys, or with keys that the user chooses. Several readers may take keys from
//! one object in turn (a rule's common keys, then its algorithm's); the last one calls
//! [`Fields::finish`], which reports the keys that nobody took.

use super::errors::Errors;
use super::node::Node;
use super::places::Place;
use super::value::Value;
use super::words::{nearest, one_of};
use diana_base::format::quoted;
use diana_base::map::KeySet;
use std::borrow::Cow;

/// The most unknown keys of an object that may be misspellings of a missing one.
const MAX_COMPARED: usize = 64;

/// The keys of one object, and which of them have been taken.
///
/// ```
/// use diana_document::{Errors, Node, parse};
///
/// let (document, errors) = (parse(br#"{"actor": "ip", "brust": 5}"#)?, Errors::default());
/// if let Some(mut fields) = Node::root(&document, &errors).fields() {
///     assert_eq!(fields.take("actor").and_then(|node| node.text()), Some("ip"));
///     assert!(fields.take("burst").is_none());
///     fields.finish();
/// }
/// assert_eq!(errors.into_vec()[0].why, "unknown key `brust`, did you mean `burst`?");
/// # Ok::<(), diana_document::Error>(())
/// ```
pub struct Fields<'a> {
    entries: &'a [(String, Value)],
    /// The fallback for keys that `entries` lacks: the rule that an override changes.
    base: &'a [(String, Value)],
    base_place: Place,
    place: Place,
    errors: &'a Errors,
    known: Vec<&'static str>,
    /// Known keys that no hint offers: alternative spellings and refused keys.
    unoffered: Vec<&'static str>,
    missing: Vec<&'static str>,
    /// Earlier names of keys, and how to write them now.
    renamed: Vec<(&'static str, &'static str)>,
    /// Keys of other objects, and the places of those objects.
    misplaced: Vec<(&'static str, Cow<'static, str>)>,
}

impl<'a> Node<'a> {
    /// An object with known keys: see [`Fields`].
    #[must_use]
    pub fn fields(&self) -> Option<Fields<'a>> {
        match self.value {
            Value::Object(entries) => Some(Fields::new(entries, self.place, self.errors)),
            _ => self.expected("an object"),
        }
    }

    /// An object whose keys the user chooses. A duplicate key is reported, and its first value is
    /// returned.
    #[must_use]
    pub fn entries(&self) -> Option<Vec<(&'a str, Node<'a>)>> {
        let Value::Object(entries) = self.value else {
            return self.expected("an object");
        };
        let node = |(key, value): &'a (String, Value)| {
            (key.as_str(), Node { value, place: self.errors.places.key(self.place, key.clone()), ..*self })
        };
        Some(first_of_each(entries, self.place, self.errors).into_iter().map(node).collect())
    }
}

impl<'a> Fields<'a> {
    fn new(entries: &'a [(String, Value)], place: Place, errors: &'a Errors) -> Fields<'a> {
        first_of_each(entries, place, errors);
        Fields {
            entries,
            base: &[],
            base_place: Place::default(),
            place,
            errors,
            known: Vec::new(),
            unoffered: Vec::new(),
            missing: Vec::new(),
            renamed: Vec::new(),
            misplaced: Vec::new(),
        }
    }

    /// Lays these keys over those of `base`: a key that is absent here is read from `base`.
    #[must_use]
    pub fn over(self, base: &Fields<'a>) -> Fields<'a> {
        Fields { base: base.entries, base_place: base.place, ..self }
    }

    /// Reports a mistake about the object itself.
    pub fn fail(&self, why: impl Into<Cow<'static, str>>) {
        self.errors.add(self.place, why);
    }

    /// Reports a mistake about the base object if there is one, else about this object.
    pub fn fail_as_rule(&self, why: impl Into<Cow<'static, str>>) {
        let place = if self.base.is_empty() { self.place } else { self.base_place };
        self.errors.add(place, why);
    }

    /// The value at `key`, if present. The key is known from now on.
    pub fn take(&mut self, key: &'static str) -> Option<Node<'a>> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        let find = |entries: &'a [(String, Value)]| entries.iter().find(|(name, _)| name == key);
        let (place, (_, value)) = match find(self.entries) {
            Some(entry) => (self.place, entry),
            None => (self.base_place, find(self.base)?),
        };
        Some(Node { value, place: self.errors.places.key(place, key), errors: self.errors })
    }

    /// The value at a required `key`. [`Fields::finish`] reports its absence, unless an unknown key
    /// is probably a misspelling of `key`.
    pub fn require(&mut self, key: &'static str) -> Option<Node<'a>> {
        let node = self.take(key);
        if node.is_none() {
            self.missing.push(key);
        }
        node
    }

    /// Like [`Fields::take`], for a key that no hint offers.
    pub fn take_unoffered(&mut self, key: &'static str) -> Option<Node<'a>> {
        let node = self.take(key);
        self.known.retain(|known| *known != key);
        self.unoffered.push(key);
        node
    }

    /// Like [`Fields::require`], for a key that has another spelling.
    pub fn require_either(&mut self, key: &'static str, spelling: &'static str) -> Option<Node<'a>> {
        let other = self.take_unoffered(spelling);
        match (self.take(key), other) {
            (Some(node), Some(other)) => {
                other.fail(format!("`{key}` is given already"));
                Some(node)
            }
            (None, None) => self.require(key),
            (node, other) => node.or(other),
        }
    }

    /// Records keys that belong to another place, so that a mistake can name the place.
    pub fn belong(&mut self, keys: &[&'static str], place: impl Into<Cow<'static, str>>) {
        let place = place.into();
        self.misplaced.extend(keys.iter().map(|key| (*key, place.clone())));
    }

    /// Records the earlier name of a key, so that a mistake can tell how to write the key now.
    pub fn renamed(&mut self, key: &'static str, now: &'static str) {
        self.renamed.push((key, now));
    }

    /// Whether an unknown key is probably a misspelling of `key`.
    #[must_use]
    pub fn misspells(&self, key: &str) -> bool {
        self.is_misspelt(key, self.entries)
    }

    fn is_misspelt(&self, key: &str, entries: &'a [(String, Value)]) -> bool {
        self.unknown(entries).take(MAX_COMPARED).any(|unknown| self.meant(unknown) == Some(key))
    }

    /// Whether `key` is present. Does not take the key.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|(name, _)| name == key)
    }

    /// Reports every key that no reader took, and every missing one.
    pub fn finish(self) {
        self.report_missing();
        for key in self.unknown(self.entries) {
            if self.errors.is_full() {
                return;
            }
            let renamed = self.renamed.iter().find(|(earlier, _)| *earlier == key);
            let hint = match (self.place_of(key), self.meant(key)) {
                _ if let Some((_, now)) = renamed => format!("it is now {now}"),
                (Some(place), _) => format!("it belongs {place}"),
                (None, Some(near)) => format!("did you mean `{near}`?"),
                (None, None) if self.known.is_empty() => "there is nothing to set here".into(),
                (None, None) => format!("expected {}", one_of(&self.known)),
            };
            self.errors.add_key(self.place, key, format!("unknown key {}, {hint}", quoted(key)));
        }
    }

    fn report_missing(&self) {
        // A key that both an override and its rule lack is missing from the rule.
        let (place, entries) = match self.base {
            [] => (self.place, self.entries),
            base => (self.base_place, base),
        };
        for key in &self.missing {
            if !self.is_misspelt(key, entries) {
                self.errors.add(place, format!("`{key}` is missing"));
            }
        }
    }

    fn unknown(&self, entries: &'a [(String, Value)]) -> impl Iterator<Item = &'a str> {
        let taken = |key: &str| self.known.contains(&key) || self.unoffered.contains(&key);
        entries.iter().map(|(key, _)| key.as_str()).filter(move |key| !taken(key))
    }

    fn meant(&self, key: &str) -> Option<&'static str> {
        nearest(key, &self.known)
    }

    fn place_of(&self, key: &str) -> Option<&str> {
        self.misplaced.iter().find(|(known, _)| *known == key).map(|(_, place)| &**place)
    }
}

/// The first entry of each key. Every duplicate key is reported.
fn first_of_each<'a>(
    entries: &'a [(String, Value)],
    place: Place,
    errors: &Errors,
) -> Vec<&'a (String, Value)> {
    let mut seen = KeySet::default();
    let is_first = |(key, _): &&(String, Value)| {
        let is_first = seen.add(key.as_bytes());
        if !is_first {
            errors.add_key(place, key, format!("{} is given twice", quoted(key)));
        }
        is_first
    };
    entries.iter().filter(is_first).collect()
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn an_override_falls_back_to_the_rule_it_changes() {
        let errors = Errors::default();
        let (rule, change) = (parse(br#"{"rpu": 1, "burst": 5}"#), parse(br#"{"rpu": 2, "brust": 1}"#));
        let (rule, change) = (rule.unwrap(), change.unwrap());
        let rule = Node::root(&rule, &errors).fields().unwrap();
        let mut fields = Node::root(&change, &errors).fields().unwrap().over(&rule);
        assert_eq!(fields.take("rpu").unwrap().whole(0..=9), Some(2));
        assert_eq!(fields.take("burst").unwrap().whole(0..=9), Some(5));
        assert!(fields.take("start").is_none());
        fields.finish();
        let errors = errors.into_vec();
        assert_eq!(errors[0].why, "unknown key `brust`, did you mean `burst`?");
        assert_eq!(errors.len(), 1);
    }

    #[test]
    fn a_mistake_about_a_key_has_the_key() {
        let (value, errors) = (parse(br#"{"a": {"x y": 1, "b": 1, "b": 2}}"#).unwrap(), Errors::default());
        let mut outer = Node::root(&value, &errors).fields().unwrap();
        let mut inner = outer.take("a").unwrap().fields().unwrap();
        inner.take("b");
        inner.require("c");
        inner.finish();
        let found: Vec<_> = errors.into_vec().into_iter().map(|error| (error.path, error.key)).collect();
        let key = |key: &str| ("a".to_string(), Some(key.to_string()));
        assert_eq!(found, [key("b"), ("a".into(), None), key("x y")]);
    }

    fn mistakes(json: &str, read: impl FnOnce(&mut Fields)) -> Vec<String> {
        let (value, errors) = (parse(json.as_bytes()).unwrap(), Errors::default());
        let mut fields = Node::root(&value, &errors).fields().unwrap();
        read(&mut fields);
        fields.finish();
        errors.into_vec().into_iter().map(|error| error.why).collect()
    }

    #[test]
    fn a_missing_key_is_reported_once() {
        let read = |fields: &mut Fields| {
            fields.require_either("url", "Url");
            fields.take("rules");
            fields.belong(&["rpu"], "to a rule");
        };
        assert_eq!(mistakes("{}", read), ["`url` is missing"]);
        assert_eq!(mistakes(r#"{"ulr": 1}"#, read), ["unknown key `ulr`, did you mean `url`?"]);
        assert_eq!(mistakes(r#"{"Url": 1}"#, read), [""; 0]);
        assert_eq!(mistakes(r#"{"Url": 1, "url": 1}"#, read), ["`url` is given already"]);
        assert_eq!(mistakes(r#"{"url": 1, "rpu": 1}"#, read), ["unknown key `rpu`, it belongs to a rule"]);
        assert_eq!(mistakes(r#"{"url": 1, "zzzz": 1}"#, read), ["unknown key `zzzz`, expected url or rules"]);
    }

    #[test]
    fn each_duplicate_is_reported_once_among_many_keys() {
        let errors = Errors::default();
        let entry = |number: usize| (format!("k{number}"), Value::Null);
        let mut entries: Vec<_> = (0..100_000).map(entry).collect();
        first_of_each(&entries, Place::default(), &errors);
        assert!(errors.is_empty());
        entries.extend((0..500).chain(0..500).map(entry));
        let place = errors.places.key(Place::default(), "at");
        assert_eq!(first_of_each(&entries, place, &errors).len(), 100_000);
        let reported = errors.into_vec().into_iter().map(|error| error.to_string());
        assert!(reported.eq((0..500).map(|number| format!("at: `k{number}` is given twice"))));
    }
}
