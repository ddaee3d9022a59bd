//! Types and ranges with which the reader reads each key, recorded for the reference.

use super::place::Section;
use std::ops::RangeInclusive;

/// Type and allowed values of a key. A key may have several.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    Text,
    /// One of these words.
    Word(Vec<String>),
    Integer(RangeInclusive<i128>),
    Number(RangeInclusive<f64>),
    Flag,
    /// A number with a unit, such as `1ms`.
    Time,
    List(Box<Shape>),
    /// A table with keys of its own.
    Table,
    /// A table with any keys, and values of this shape.
    Map(Box<Shape>),
}

impl Shape {
    /// A list of values of shape `entry`.
    pub(crate) fn list(entry: Shape) -> Self {
        Self::List(Box::new(entry))
    }
}

/// A key that was read: its section, its path inside the section, and a shape.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recorded {
    pub(crate) section: Section,
    pub(crate) path: String,
    /// `None`: the key was looked up.
    pub(crate) shape: Option<Shape>,
}
