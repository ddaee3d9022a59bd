//! Test counts: reduced by default, complete with `cargo xtask test --all`.

use std::env;

/// `whole` if the environment variable `LINERATE_TESTS` is `all`, otherwise `part`.
pub(crate) fn pick<T>(whole: T, part: T) -> T {
    if env::var_os("LINERATE_TESTS").is_some_and(|scope| scope == "all") { whole } else { part }
}
