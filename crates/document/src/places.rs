//! The places of values in a document. A place is a number; its path is built only for a mistake.

use diana_base::exclusive::Exclusive;
use diana_base::format::quoted;
use std::borrow::Cow;
use std::fmt::Write;

/// An index into [`Places`]; the default is the document itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place(usize);

/// All places that a reader has visited. The first one is 1.
#[derive(Debug, Default)]
pub(super) struct Places(Exclusive<Vec<(Place, Step)>>);

#[derive(Debug)]
enum Step {
    Key(Cow<'static, str>),
    Item(usize),
}

impl Places {
    fn add(&self, from: Place, step: Step) -> Place {
        let add = |places: &mut Vec<(Place, Step)>| {
            places.push((from, step));
            Place(places.len())
        };
        self.0.with(add).unwrap_or_default()
    }

    /// The place of `key` in the object at `from`.
    pub(super) fn key(&self, from: Place, key: impl Into<Cow<'static, str>>) -> Place {
        self.add(from, Step::Key(key.into()))
    }

    /// The place of an item in the list at `from`.
    pub(super) fn item(&self, from: Place, index: usize) -> Place {
        self.add(from, Step::Item(index))
    }

    /// A path such as `limits[0].rules[1].unit`. A key that a dot would make ambiguous is written
    /// `a["b c"]`. The path of the document itself is empty.
    pub(super) fn path(&self, place: Place) -> String {
        self.0.with(|places| path(places, place)).unwrap_or_default()
    }
}

fn path(places: &[(Place, Step)], mut place: Place) -> String {
    let (mut steps, mut path) = (Vec::new(), String::new());
    while let Some((from, step)) = place.0.checked_sub(1).and_then(|index| places.get(index)) {
        steps.push(step);
        place = *from;
    }
    for step in steps.iter().rev() {
        let _ = match step {
            Step::Item(index) => write!(path, "[{index}]"),
            Step::Key(key) if !is_plain(key) => write!(path, "[{}]", quoted(key).replace('`', "\"")),
            Step::Key(key) if path.is_empty() => path.write_str(key),
            Step::Key(key) => write!(path, ".{key}"),
        };
    }
    path
}

fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_can_be_read_back() {
        let (places, root) = (Places::default(), Place::default());
        assert_eq!(places.path(root), "");
        let a = places.key(root, "a");
        assert_eq!(places.path(a), "a");
        assert_eq!(places.path(places.key(a, "b-c")), "a.b-c");
        assert_eq!(places.path(places.key(a, "b.c".to_string())), "a[\"b.c\"]");
        assert_eq!(places.path(places.key(places.item(root, 7), "")), "[7][\"\"]");
        assert_eq!(places.path(places.item(places.item(a, 0), 10)), "a[0][10]");
    }
}
