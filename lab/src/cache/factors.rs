//! Placeholder while the list is written.
