//! Errors with a place, a reason and a remedy, and their exit codes.

use serde::{Deserialize, Serialize};
use std::fmt::{self, Display};

/// Exit code: failed at run time.
pub const FAILED: u8 = 1;
/// Exit code: invalid input, nothing was changed.
pub const BAD_INPUT: u8 = 2;

/// Exit codes of a command, with their meanings.
pub const EXIT_CODES: [(u8, &str); 3] = [
    (0, "Success; also if a measurement found loss, or the reader of standard output has closed it."),
    (
        FAILED,
        "Failure at run time, such as no running switch; a cause that `doctor` found; also a second SIGINT or SIGTERM.",
    ),
    (BAD_INPUT, "Invalid input: a wrong key or option, an unknown object. Nothing was changed."),
];

/// An error of a command, a configuration file or a request: where, why, and what to do.
///
/// The same fields are the error body of the control API and the entries of `check -o json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Diagnostic {
    /// The file, for an error in a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub file: Option<Box<str>>,
    /// The line in the file, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The argument, section or object; empty for an error of a whole file.
    pub place: String,
    /// Why it is an error.
    pub reason: String,
    /// Remedy.
    pub remedy: String,
    /// Further errors of the same input.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<Diagnostic>, no_recursion))]
    pub more: Box<[Diagnostic]>,
    /// [`FAILED`] or [`BAD_INPUT`].
    #[serde(skip)]
    pub code: u8,
}

impl Diagnostic {
    /// The input is invalid.
    pub fn bad(place: impl Display, reason: impl Display, remedy: impl Display) -> Self {
        Self::new(BAD_INPUT, &place, &reason, &remedy)
    }

    /// The input is valid and the operation failed.
    pub fn failed(place: impl Display, reason: impl Display, remedy: impl Display) -> Self {
        Self::new(FAILED, &place, &reason, &remedy)
    }

    /// A signal ended `command` before its last measurement.
    pub fn interrupted(command: impl Display) -> Self {
        Self::failed(command, "ended by a signal; the result is partial", "run it again")
    }

    /// Converts the error to invalid input.
    #[must_use]
    pub fn as_bad_input(self) -> Self {
        Self { code: BAD_INPUT, ..self }
    }

    /// `place: reason`.
    pub fn headline(&self) -> String {
        if self.place.is_empty() { self.reason.clone() } else { format!("{}: {}", self.place, self.reason) }
    }

    /// `reason; remedy`, for single-line output.
    pub fn in_one_line(&self) -> String {
        format!("{}; {}", self.reason, self.remedy)
    }

    /// Combines `errors` into one, with the exit code of the first.
    pub fn all(errors: Vec<Self>) -> Self {
        let mut errors = errors.into_iter();
        let mut first = errors.next().unwrap_or_else(|| Self::failed("", "", ""));
        first.more = std::mem::take(&mut first.more).into_iter().chain(errors).collect();
        first
    }

    /// Splits the error into single errors.
    pub fn into_each(mut self) -> Vec<Self> {
        let more = std::mem::take(&mut self.more);
        std::iter::once(self).chain(more.into_iter().flat_map(Self::into_each)).collect()
    }

    fn new(code: u8, place: &dyn Display, reason: &dyn Display, remedy: &dyn Display) -> Self {
        let (place, reason, remedy) = (place.to_string(), reason.to_string(), remedy.to_string());
        Self { file: None, line: None, place, reason, remedy, more: Box::default(), code }
    }
}

impl std::error::Error for Diagnostic {}

impl Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => write!(f, "{file}:{line}: ")?,
            (Some(file), None) => write!(f, "{file}: ")?,
            (None, _) => {}
        }
        write!(f, "{}\n    remedy: {}", self.headline(), self.remedy)?;
        self.more.iter().try_for_each(|other| write!(f, "\n{other}"))
    }
}

/// Returns the exit code of an error and the text to print. A closed standard output is not an error: exit code 0
/// without text.
pub fn verdict(program: &str, error: &anyhow::Error) -> (u8, Option<String>) {
    let broken_pipe = |io: &std::io::Error| io.kind() == std::io::ErrorKind::BrokenPipe;
    if let Some(error) = error.downcast_ref::<Diagnostic>() {
        // An error in a file begins with the file name, as editors and other programs expect.
        let text = |each: Diagnostic| match each.file {
            Some(_) => each.to_string(),
            None => format!("{program}: {each}"),
        };
        let each: Vec<String> = error.clone().into_each().into_iter().map(text).collect();
        (error.code, Some(each.join("\n")))
    } else if error.downcast_ref().is_some_and(broken_pipe) {
        (0, None)
    } else {
        (FAILED, Some(format!("{program}: {error:#}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_is_printed_with_its_own_place_and_remedy() {
        let at =
            |line| Diagnostic { file: Some("x.toml".into()), line, ..Diagnostic::bad("port 0", "a", "b") };
        let all = Diagnostic::all(vec![at(Some(7)), Diagnostic { place: String::new(), ..at(None) }]);
        assert_eq!(all.to_string(), "x.toml:7: port 0: a\n    remedy: b\nx.toml: a\n    remedy: b");
        assert_eq!(all.into_each().len(), 2);
    }

    #[test]
    fn a_file_comes_before_the_program() {
        let bad = Diagnostic::bad("--cpu 9", "a", "b");
        let in_file = Diagnostic { file: Some("x.toml".into()), line: Some(7), ..bad.clone() };
        let text = |error: Diagnostic| verdict("linerate", &error.into()).1.unwrap_or_default();
        assert!(text(bad).starts_with("linerate: --cpu 9: a\n"));
        assert!(text(in_file).starts_with("x.toml:7: --cpu 9: a\n"));
    }

    #[test]
    fn each_error_of_a_command_line_begins_with_the_program() {
        let errors = vec![Diagnostic::bad("--cpu 9", "a", "b"), Diagnostic::bad("--port x", "c", "d")];
        let (code, text) = verdict("linerate", &Diagnostic::all(errors).into());
        let expected = "linerate: --cpu 9: a\n    remedy: b\nlinerate: --port x: c\n    remedy: d";
        assert_eq!((code, text.as_deref()), (BAD_INPUT, Some(expected)));
    }

    #[test]
    fn fields_survive_json() {
        let error = Diagnostic::all(vec![Diagnostic::bad("p", "a", "b"), Diagnostic::bad("q", "c", "d")]);
        let json = serde_json::to_value(&error).unwrap();
        let more = serde_json::json!([{ "place": "q", "reason": "c", "remedy": "d" }]);
        assert_eq!(json, serde_json::json!({ "place": "p", "reason": "a", "remedy": "b", "more": more }));
        let back: Diagnostic = serde_json::from_value(json).unwrap();
        assert_eq!(back.more[0].place, "q");
    }
}
