//! Frames as keys, and changes of frames.
//!
//! [`parse`] reads the fields of a frame, and [`Rewriter`] executes actions on a private copy of its head. Neither
//! allocates. A received head is never changed: the result is a [`port::Edit`] that belongs to one output.

mod layout;
mod parse;
mod rewrite;

pub use layout::Layout;
pub use parse::parse;
pub use rewrite::{Refusal, Rewriter};
