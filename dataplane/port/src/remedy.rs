//! Remedies of errors.

use std::borrow::Cow;

/// An error whose text is the reason alone, with the remedy apart.
pub trait Remedy: std::error::Error {
    /// Returns the action that resolves the error; `None` if none is known.
    fn remedy(&self) -> Option<Cow<'static, str>>;

    /// `reason; remedy`, for single-line output.
    fn in_one_line(&self) -> String {
        self.remedy().map_or_else(|| self.to_string(), |remedy| format!("{self}; {remedy}"))
    }
}
