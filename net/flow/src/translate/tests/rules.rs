//! Single rules of the specification.
