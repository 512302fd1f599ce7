//! The forms of entries in the table: keys, objects, and what a reader accepts as a value.

use diana_base::time::Span;

/// An object of a document, or another value that has a name.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// The name, for example in the schema.
    pub name: &'static str,
    /// The value.
    pub shape: Shape,
}

/// What a reader accepts at a place.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// `true` or `false`.
    Flag,
    /// Only this flag.
    Only(bool),
    /// Text.
    Text,
    /// Exactly this word.
    Exact(&'static str),
    /// Text that matches an expression, and the expression in words.
    Matching(&'static str, &'static str),
    /// Text, or a number or a flag that YAML made of text.
    Scalar,
    /// A whole number.
    Whole(u64, u64),
    /// A whole number, or text with a unit such as `10k`.
    Size(u64, u64),
    /// A time span such as `30s`.
    Span(Span, Span),
    /// A whole percentage such as `20%`.
    Percent(u32, u32),
    /// A number with at most three decimals, but not 0, or text with such a number.
    Decimal(i64, i64),
    /// One of these words, in any case, with space, `_` or `-`.
    Choice(&'static [&'static str]),
    /// One item, or a list with at least so many.
    OneOrMany(&'static Shape, usize),
    /// A list with at least and at most so many items.
    List(&'static Shape, usize, Option<usize>),
    /// An object with names that the user chooses.
    Map(&'static Shape),
    /// An object with known keys.
    Object(&'static Object),
    /// `{env: NAME}`: a variable of the gateway's environment.
    Variable,
    /// Any object.
    AnyObject,
    /// Any list.
    AnyList,
    /// One of several shapes.
    Any(&'static [Shape]),
    /// The definition of this name.
    Def(&'static str),
}

impl Shape {
    /// The object with known keys, if the value may be one.
    #[must_use]
    pub fn object(&self) -> Option<&'static Object> {
        match self {
            Shape::Object(object) => Some(object),
            Shape::Any(shapes) => shapes.iter().find_map(Shape::object),
            _ => None,
        }
    }
}

/// An object with known keys.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    /// The page below `docs/configuration` that explains the keys, and the place in it. A key may
    /// name another one.
    pub(super) page: &'static str,
    /// The keys, in groups that objects share.
    pub(super) groups: &'static [&'static [Key]],
    /// Whether the object changes another one: no key is required, and none has a default.
    pub is_change: bool,
    /// Groups of keys of which exactly one is required.
    pub one_of: &'static [&'static [&'static str]],
    /// Keys of which at least one is required and is not 0.
    pub not_all_zero: &'static [&'static str],
    /// Whether exactly one key is allowed.
    pub is_single: bool,
    /// A key that is required, unless another key has one of these words.
    pub required_unless: Option<Unless>,
}

impl Object {
    pub(super) const fn new(page: &'static str, groups: &'static [&'static [Key]]) -> Object {
        Object {
            page,
            groups,
            is_change: false,
            one_of: &[],
            not_all_zero: &[],
            is_single: false,
            required_unless: None,
        }
    }

    /// The keys.
    pub fn keys(&self) -> impl Iterator<Item = Key> + Clone {
        let Object { page, groups, is_change, .. } = *self;
        groups.iter().copied().flatten().map(move |key| Key {
            page: if key.page.is_empty() { page } else { key.page },
            is_required: key.is_required && !is_change,
            default: key.default.filter(|_| !is_change),
            ..*key
        })
    }
}

/// A key that is required, unless another key has one of these words.
#[derive(Clone, Copy, Debug)]
pub struct Unless {
    /// The key that is required.
    pub required: &'static str,
    /// The other key.
    pub key: &'static str,
    /// The words.
    pub words: &'static [&'static str],
}

/// A key of an object.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The key.
    pub name: &'static str,
    /// What the key does, in a sentence.
    pub about: &'static str,
    /// The shape of the value at the key.
    pub shape: Shape,
    /// Whether every object of this kind has the key.
    pub is_required: bool,
    /// The value without the key.
    pub default: Option<DefaultValue>,
    /// The page below `docs/configuration` that explains the key, and the place in it.
    pub page: &'static str,
    /// Whether mistakes and pages name the key. They do not name spellings of old documents.
    pub is_offered: bool,
}

/// The value that a key has if the document lacks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultValue {
    /// A flag.
    Flag(bool),
    /// A whole number.
    Whole(u64),
    /// Text.
    Text(&'static str),
}

/// A key.
pub(super) const fn key(name: &'static str, about: &'static str, shape: Shape) -> Key {
    Key { name, about, shape, is_required: false, default: None, page: "", is_offered: true }
}

impl Key {
    /// The key, required.
    pub(super) const fn required(self) -> Key {
        Key { is_required: true, ..self }
    }

    /// The key with a word as the default.
    pub(super) const fn or(self, default: &'static str) -> Key {
        Key { default: Some(DefaultValue::Text(default)), ..self }
    }

    /// The key with a number as the default.
    pub(super) const fn or_whole(self, default: u64) -> Key {
        Key { default: Some(DefaultValue::Whole(default)), ..self }
    }

    /// The key with a flag as the default.
    pub(super) const fn or_flag(self, default: bool) -> Key {
        Key { default: Some(DefaultValue::Flag(default)), ..self }
    }

    /// The key, which only old documents have.
    pub(super) const fn unoffered(self) -> Key {
        Key { is_offered: false, ..self }
    }

    /// The key with a page of its own.
    pub(super) const fn on(self, page: &'static str) -> Key {
        Key { page, ..self }
    }
}

/// A part of actors in percent, from 0 to 100, with at most two decimals.
pub(super) const PART: Shape = Shape::Matching(
    r"^\s*0*(100(\.0+)?|[0-9]{1,2}(\.[0-9]{1,2}0*)?)\s*%\s*$",
    "`0%` to `100%`, with at most two decimals",
);

/// The names of units of several letters, in any case.
macro_rules! units {
    () => {
        "[mM][sS]|[sS][eE][cC]([oO][nN][dD])?[sS]?|[mM][iI][nN]([uU][tT][eE])?[sS]?\
         |[hH]([oO][uU][rR][sS]?|[rR][sS]?)|[dD][aA][yY][sS]?"
    };
}

/// A span, such as `500ms`; zero needs no unit.
pub const SPAN: &str = concat!(r"^\s*([0-9]+\s*(", units!(), r"|[sSmhHdD])|0+)\s*$");
/// A unit of time by its name, such as `min`.
pub(super) const UNIT: &str = concat!(r"^\s*(", units!(), r"|[smhd])\s*$");

/// A span in seconds.
pub(super) const fn secs(seconds: u64) -> Span {
    Span::from_secs(seconds)
}
