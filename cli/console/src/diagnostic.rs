//! Errors with a place, a reason and a remedy, and their exit codes.

use std::fmt::Display;

/// Exit code: failed at run time.
pub const FAILED: u8 = 1;
/// Exit code: bad input, nothing was changed.
pub const BAD_INPUT: u8 = 2;

/// An error: the place in the input, the reason, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {reason}\n    remedy: {remedy}{}", self.rest())]
pub struct Diagnostic {
    /// The argument, key or file that is wrong.
    pub place: String,
    /// Why it is wrong.
    pub reason: String,
    /// What to do instead.
    pub remedy: String,
    /// Further reasons with their remedies.
    pub more: Vec<(String, String)>,
    /// [`FAILED`] or [`BAD_INPUT`].
    pub code: u8,
}

impl Diagnostic {
    /// The input is wrong.
    pub fn bad(place: impl Display, reason: impl Display, remedy: impl Display) -> Self {
        Self::new(BAD_INPUT, &place, &reason, &remedy)
    }

    /// The input is right and it did not work.
    pub fn failed(place: impl Display, reason: impl Display, remedy: impl Display) -> Self {
        Self::new(FAILED, &place, &reason, &remedy)
    }

    /// Several in one: the first with its place, and the others behind it with theirs.
    pub fn all(troubles: Vec<Self>) -> Self {
        let mut troubles = troubles.into_iter();
        let mut first = troubles.next().unwrap_or_else(|| Self::failed("", "", ""));
        for Self { place, reason, remedy, more, .. } in troubles {
            first.more.push((format!("{place}: {reason}"), remedy));
            first.more.extend(more);
        }
        first
    }

    fn new(code: u8, place: &dyn Display, reason: &dyn Display, remedy: &dyn Display) -> Self {
        let (place, reason, remedy) = (place.to_string(), reason.to_string(), remedy.to_string());
        Self { place, reason, remedy, more: Vec::new(), code }
    }

    fn rest(&self) -> String {
        let each = self.more.iter().map(|(reason, remedy)| format!("\n  and {reason}\n    remedy: {remedy}"));
        each.collect()
    }
}

/// The exit code for an error and the text to print; no text if the reader of standard output has left, which is no error.
pub fn verdict(program: &str, error: &anyhow::Error) -> (u8, Option<String>) {
    let broken_pipe = |io: &std::io::Error| io.kind() == std::io::ErrorKind::BrokenPipe;
    if let Some(error) = error.downcast_ref::<Diagnostic>() {
        (error.code, Some(format!("{program}: {error}")))
    } else if error.downcast_ref().is_some_and(broken_pipe) {
        (0, None)
    } else {
        (FAILED, Some(format!("{program}: {error:#}")))
    }
}
