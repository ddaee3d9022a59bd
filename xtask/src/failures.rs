//! What is kept of a test run's output, so that its end says what failed: a long log is read from its end.
//! Nothing that is printed is held back.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::{Mutex, PoisonError};

/// Most lines that are kept of one test run.
const MOST: usize = 200;

/// The parts of an output that say what failed.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    names: Vec<String>,
    lines: Vec<String>,
    inside: bool,
}

impl Failures {
    /// Takes note of one line.
    fn see(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
            self.names.push(name.to_owned());
        }
        self.inside |= line == "failures:" || line.starts_with("error");
        let ends = line.starts_with("test result:") || line.trim_start().starts_with("Running ");
        if self.inside && self.lines.len() < MOST {
            self.lines.push(line.to_owned());
        }
        self.inside &= !ends;
    }

    /// The names of tests that failed.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// What they said.
    pub(crate) fn text(&self) -> String {
        self.lines.join("\n")
    }
}

/// Passes on everything that comes, line by line, and takes note of it.
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

    #[test]
    fn everything_is_passed_on_and_only_what_failed_is_kept() {
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
