//! Requirements of end-to-end tests. A test that lacks one ends here, and `cargo xtask test` reports it as skipped with
//! the reason, where plain `cargo test` reports a failure.

use std::fmt::Display;
use std::path::PathBuf;

/// How a reason begins. `xtask` finds it in the output.
const SKIPPED: &str = "SKIPPED: ";
const REMEDY: &str = "run `cargo xtask test` as root on Debian, which installs what the tests need";

/// Ends the test.
#[track_caller]
pub fn skip(reason: impl Display) -> ! {
    panic!("{SKIPPED}{reason}; {REMEDY}")
}

/// Requires a program on the search path or among the administrator's programs.
#[track_caller]
pub fn program(name: &str) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    if !std::env::split_paths(&path).chain(more).any(|folder| folder.join(name).is_file()) {
        skip(format_args!("{name} is not installed"));
    }
}

/// Requires root, for `purpose`.
#[track_caller]
pub fn root(purpose: &str) {
    if !rustix::process::geteuid().is_root() {
        skip(format_args!("{purpose} needs root"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "SKIPPED: no-such-program is not installed; run `cargo xtask test`")]
    fn missing_program_skips_the_test() {
        program("sh");
        program("no-such-program");
    }
}
