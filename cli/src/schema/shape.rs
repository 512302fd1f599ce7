//! What a reader accepts at a place of a document.

use diana_base::time::Span;
use serde_json::Value;

/// What a reader accepts at a place.
#[derive(Clone, Debug)]
pub enum Shape {
    /// `true` or `false`.
    Flag,
    /// Only this flag.
    Only(bool),
    /// Text.
    Text,
    /// Text that matches an expression, which editors show.
    Matching(&'static str),
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
    /// One of these words, in any case, with space, `_` or `-`.
    Choice(Vec<&'static str>),
    /// One item, or a list with at least so many.
    OneOrMany(Box<Shape>, usize),
    /// A list with at least and at most so many items.
    List(Box<Shape>, usize, Option<usize>),
    /// An object with names that the user chooses.
    Map(Box<Shape>),
    /// An object with known keys.
    Object(Object),
    /// Any object.
    AnyObject,
    /// Any list.
    AnyList,
    /// One of several shapes.
    Any(Vec<Shape>),
    /// The definition of this name.
    Def(&'static str),
}

/// An object with known keys.
#[derive(Clone, Debug, Default)]
pub struct Object {
    /// The keys.
    pub keys: Vec<Key>,
    /// Groups of keys of which exactly one is required.
    pub one_of: Vec<Vec<&'static str>>,
    /// Keys of which at least one is required and is not 0.
    pub not_all_zero: Vec<&'static str>,
    /// Whether exactly one key is allowed.
    pub is_single: bool,
    /// A key that is required, unless another key has one of these words.
    pub required_unless: Option<Unless>,
}

/// A key that is required, unless another key has one of these words.
#[derive(Clone, Debug)]
pub struct Unless {
    /// The key that is required.
    pub required: &'static str,
    /// The other key.
    pub key: &'static str,
    /// The words.
    pub words: Vec<&'static str>,
}

/// A key of an object.
#[derive(Clone, Debug)]
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
    pub default: Option<Value>,
}

/// An object with these keys.
pub fn object(keys: Vec<Key>) -> Shape {
    Shape::Object(Object { keys, ..Object::default() })
}

/// A key.
pub fn key(name: &'static str, about: &'static str, shape: Shape) -> Key {
    Key { name, about, shape, is_required: false, default: None }
}

impl Key {
    /// The key, required.
    pub fn required(self) -> Key {
        Key { is_required: true, ..self }
    }

    /// The key with this default.
    pub fn or(self, default: impl Into<Value>) -> Key {
        Key { default: Some(default.into()), ..self }
    }
}

/// One item, or a list of them.
pub fn one_or_many(item: Shape) -> Shape {
    Shape::OneOrMany(Box::new(item), 1)
}

/// One item, or a list of them, which may be empty.
pub fn one_or_any(item: Shape) -> Shape {
    Shape::OneOrMany(Box::new(item), 0)
}

/// A list.
pub fn list(item: Shape) -> Shape {
    Shape::List(Box::new(item), 0, None)
}

/// An object with names that the user chooses.
pub fn map(value: Shape) -> Shape {
    Shape::Map(Box::new(value))
}

/// One of these words.
pub fn choice(words: &[&'static str]) -> Shape {
    Shape::Choice(words.to_vec())
}

/// A span in seconds.
pub const fn secs(seconds: u64) -> Span {
    Span::from_secs(seconds)
}
