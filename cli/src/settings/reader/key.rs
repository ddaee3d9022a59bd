//! Definition of a key: its name, its default, and what it sets. The type and the allowed values are those with which
//! the reader reads it ([`super::shape`]).

/// A key of a section. A key of a table inside a section is named `table.key`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) default: DefaultValue,
    /// Effect of the key, in one sentence.
    pub(crate) about: &'static str,
}

/// Effect of leaving a key out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DefaultValue {
    /// An error.
    Required,
    /// The same as this value, in TOML.
    Toml(&'static str),
    /// A behaviour that no value describes.
    Text(&'static str),
}

/// A key that must be present.
pub(crate) const fn required(name: &'static str, about: &'static str) -> Key {
    Key { name, default: DefaultValue::Required, about }
}

/// A key with a default value, in TOML.
pub(crate) const fn key(name: &'static str, default: &'static str, about: &'static str) -> Key {
    Key { name, default: DefaultValue::Toml(default), about }
}

/// A key that may be absent; `otherwise` is the behaviour then.
pub(crate) const fn optional(name: &'static str, otherwise: &'static str, about: &'static str) -> Key {
    Key { name, default: DefaultValue::Text(otherwise), about }
}
