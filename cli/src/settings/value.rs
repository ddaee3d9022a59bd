//! Values written with a decimal point, in files and in the control API.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A decimal number, never NaN. The reader of a section validates its range.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Decimal(pub(crate) f64);

impl Eq for Decimal {}

impl Decimal {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde calls")]
    pub(crate) fn is_zero(&self) -> bool {
        self.0 == 0.0
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
