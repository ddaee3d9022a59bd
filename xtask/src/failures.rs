//! Summary at the end of a test run: failed tests with their output, and tests skipped because of missing requirements.
//! All output is also passed on immediately.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::{Mutex, PoisonError};

/// Maximum number of lines kept per test run.
const MAX_LINES: usize = 200;

/// Failures found in the output of a test run.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    names: Vec<String>,
    /// Names of skipped tests with the reason.
    skipped: Vec<(String, String)>,
    /// The failed test whose output is currently read.
    current: Option<String>,
    /// Number of test programs that reported failed tests, and of those that failed for any reason according to cargo.
    reported: usize,
    programs: usize,
    lines: Vec<String>,
    inside: bool,
}

impl Failures {
    /// Parses one line.
    fn see(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
            self.names.push(name.to_owned());
        }
        self.see_skipped(line);
        self.inside |= line == "failures:" || line.starts_with("error");
        let ends = line.starts_with("test result:") || line.trim_start().starts_with("Running ");
        if self.inside && self.lines.len() < MAX_LINES {
            self.lines.push(line.to_owned());
        }
        self.inside &= !ends;
    }

    /// Parses the lines written by `tests/src/need.rs`.
    fn see_skipped(&mut self, line: &str) {
        self.reported += usize::from(line.starts_with("test result: FAILED"));
        self.programs += usize::from(line.starts_with("error: test failed"));
        if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            self.current = Some(name.to_owned());
        }
        if let Some(reason) = line.strip_prefix("SKIPPED: ")
            && let Some(name) = self.current.take()
        {
            self.names.retain(|failed| *failed != name);
            self.skipped.push((name, reason.to_owned()));
        }
    }

    /// Names of the failed tests.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The skipped tests with their reasons, one per line, if nothing else failed.
    pub(crate) fn only_skipped(&self) -> Option<String> {
        // Cargo names each program that failed; the end-to-end tests are run without it.
        let is_all = self.names.is_empty() && self.reported >= self.programs && !self.skipped.is_empty();
        let line = |(name, reason): &(String, String)| format!("  {name}: {reason}");
        is_all.then(|| self.skipped.iter().map(line).collect::<Vec<_>>().join("\n"))
    }

    /// Output of the failed tests.
    pub(crate) fn text(&self) -> String {
        self.lines.join("\n")
    }
}

/// Passes on the output line by line and parses it.
pub(crate) fn pass_on(
    from: impl Read,
    mut to: impl Write,
    failures: &Mutex<Failures>,
) -> std::io::Result<()> {
    for line in BufReader::new(from).split(b'\n') {
        let line = line?;
        to.write_all(&line)?;
        to.write_all(b"\n")?;
        let text = String::from_utf8_lossy(&line);
        failures.lock().unwrap_or_else(PoisonError::into_inner).see(text.trim_end());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "     Running unittests src/lib.rs (target/debug/deps/a-1)

running 2 tests
test one ... ok
test two ... FAILED

failures:

---- two stdout ----
thread 'two' panicked at src/lib.rs:7:9:
assertion failed: false

failures:
    two

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

     Running tests/b.rs (target/debug/deps/b-1)
test three ... ok
";

    fn seen(output: &str) -> Failures {
        let failures = Mutex::default();
        pass_on(output.as_bytes(), std::io::sink(), &failures).unwrap();
        failures.into_inner().unwrap()
    }

    #[test]
    fn missing_requirements_skip_tests_unless_others_fail() {
        let lacks = "test a::one ... FAILED\n\nfailures:\n\n---- a::one stdout ----\n\nthread 'a::one' panicked at \
                     x.rs:1:1:\nSKIPPED: passt is not installed; install it\n\nfailures:\n    a::one\n\n\
                     test result: FAILED. 1 passed; 1 failed\n\nerror: test failed, to rerun pass `--test e2e`\n";
        assert_eq!(seen(lacks).only_skipped().unwrap(), "  a::one: passt is not installed; install it");
        assert!(seen(&format!("{lacks}{OUTPUT}")).only_skipped().is_none(), "another one fails");
        let crashed = format!("{lacks}error: test failed, to rerun pass `--lib`\n");
        assert!(seen(&crashed).only_skipped().is_none(), "a program crashed");
        assert!(seen("test one ... ok\n").only_skipped().is_none());
    }

    #[test]
    fn output_is_passed_on_and_failures_are_kept() {
        let (failures, mut shown) = (Mutex::default(), Vec::new());
        pass_on(OUTPUT.as_bytes(), &mut shown, &failures).unwrap();
        let failures = failures.into_inner().unwrap();
        assert_eq!(shown, OUTPUT.as_bytes());
        assert_eq!(failures.names(), ["two"]);
        let text = failures.text();
        assert!(text.contains("panicked at src/lib.rs:7:9:") && !text.contains("one ... ok"), "{text}");
        assert!(!text.contains("Running"), "{text}");
    }
}
