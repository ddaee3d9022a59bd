//! How much an end-to-end test repeats: `cargo xtask test` samples the rings, sizes and attacks of a test, and
//! `cargo xtask test --all` runs all of them.

use std::env;

/// Environment variable that `cargo xtask test --all` sets to `all`.
pub const VARIABLE: &str = "LINERATE_TESTS";

/// Whether tests run over all their cases.
pub fn is_all() -> bool {
    env::var_os(VARIABLE).is_some_and(|scope| scope == "all")
}

/// `whole` with `--all`, otherwise `part`.
pub fn pick<T>(whole: T, part: T) -> T {
    if is_all() { whole } else { part }
}

/// All of `cases` with `--all`, otherwise the first one.
pub fn first<T>(cases: &[T]) -> &[T] {
    pick(cases, &cases[..cases.len().min(1)])
}

/// All of `cases` with `--all`, otherwise the last one.
pub fn last<T>(cases: &[T]) -> &[T] {
    pick(cases, &cases[cases.len().saturating_sub(1)..])
}

/// All of `cases` with `--all`, otherwise the first and the last one.
pub fn sample<T: Copy>(cases: &[T]) -> Vec<T> {
    match cases {
        [first, _, .., last] if !is_all() => vec![*first, *last],
        _ => cases.to_vec(),
    }
}
