//! Errors as people see them: a place, a reason, a remedy; and the exit code that goes with them.

use crate::config::ConfigErrors;
use std::fmt::Display;

/// Exit code: failed at run time.
pub(crate) const FAILED: u8 = 1;
/// Exit code: bad input, nothing was changed.
pub(crate) const BAD_INPUT: u8 = 2;

/// One error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {reason}\n    remedy: {remedy}{}", self.rest())]
pub(crate) struct CliError {
    pub(crate) place: String,
    pub(crate) reason: String,
    pub(crate) remedy: String,
    /// Further reasons with their remedies.
    pub(crate) more: Vec<(String, String)>,
    pub(crate) code: u8,
}

impl CliError {
    /// The input is wrong.
    pub(crate) fn bad(place: impl Display, reason: impl Display, remedy: impl Display) -> Self {
        Self::new(BAD_INPUT, &place, &reason, &remedy)
    }

    /// The input is right and it did not work.
    pub(crate) fn failed(place: impl Display, reason: impl Display, remedy: impl Display) -> Self {
        Self::new(FAILED, &place, &reason, &remedy)
    }

    /// Several in one: the first with its place, and the others behind it with theirs.
    pub(crate) fn all(troubles: Vec<Self>) -> Self {
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

/// The exit code for an error, and what to print; `None`: the reader of our output has left, which is no error.
pub(crate) fn verdict(error: &anyhow::Error) -> (u8, Option<String>) {
    let broken_pipe = |io: &std::io::Error| io.kind() == std::io::ErrorKind::BrokenPipe;
    if let Some(error) = error.downcast_ref::<CliError>() {
        (error.code, Some(format!("linerate: {error}")))
    } else if let Some(errors) = error.downcast_ref::<ConfigErrors>() {
        (BAD_INPUT, Some(errors.to_string()))
    } else if error.downcast_ref().is_some_and(broken_pipe) {
        (0, None)
    } else {
        (FAILED, Some(format!("linerate: {error:#}")))
    }
}
