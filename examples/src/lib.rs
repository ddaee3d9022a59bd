//! This crate has no library code; the examples are the files in its root directory.
