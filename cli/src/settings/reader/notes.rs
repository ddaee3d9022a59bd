//! Collects the errors of a configuration, each with its place, reason and remedy.

pub(crate) use super::place::{Place, Section};
use super::shape::{Recorded, Shape};
use console::Diagnostic;
use std::collections::{HashMap, HashSet};
use std::fmt;

/// Maximum length of a name in an error, in characters.
const MAX_SHOWN: usize = 32;

/// Class of an error. The control API has a status for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    /// The value belongs to another object, such as a name or a socket.
    Taken,
    /// The value names an object that does not exist.
    Unknown,
    /// The value is invalid.
    Invalid,
}

/// Collects errors, and the line of every value.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    errors: Vec<Diagnostic>,
    /// The gravest class of all errors.
    cause: Option<Cause>,
    invalid: HashSet<Place>,
    lines: HashMap<Place, usize>,
    titles: HashMap<Section, String>,
    /// Whether a request to a running switch is read, instead of a file.
    request: bool,
    /// Notes, if the reading is recorded.
    recorded: Option<Vec<Recorded>>,
}

impl Findings {
    /// Findings that also record every key that is read.
    pub(crate) fn recording() -> Self {
        Self { recorded: Some(Vec::new()), ..Self::default() }
    }

    /// Findings on a request to a running switch: remedies name no sections of a file.
    pub(crate) fn of_request() -> Self {
        Self { request: true, ..Self::default() }
    }

    /// Whether these are notes on a request.
    pub(crate) fn is_request(&self) -> bool {
        self.request
    }

    /// Remedy for a missing key, with an example of its value.
    pub(crate) fn example(&self, key: &str, value: &str) -> String {
        if self.request {
            format!("add `{key}`, such as {value}")
        } else {
            format!("add a line such as: {key} = {value}")
        }
    }

    /// Remedy for the name of a new object that another object has.
    pub(crate) fn rename(&self) -> &'static str {
        if self.request { "choose another name or remove it first" } else { "rename one of them" }
    }

    /// Number of errors so far.
    pub(crate) fn errors(&self) -> usize {
        self.errors.len()
    }

    /// Records that a key is looked up, or read with a shape.
    pub(crate) fn record(
        &mut self,
        section: Section,
        path: impl FnOnce() -> String,
        shape: impl FnOnce() -> Option<Shape>,
    ) {
        if let Some(recorded) = &mut self.recorded {
            recorded.push(Recorded { section, path: path(), shape: shape() });
        }
    }

    /// Everything that was recorded.
    pub(crate) fn into_recorded(self) -> Vec<Recorded> {
        self.recorded.unwrap_or_default()
    }

    /// Records the line of a value.
    pub(crate) fn written(&mut self, place: Place, line: Option<usize>) {
        if let Some(line) = line {
            self.lines.insert(place, line);
        }
    }

    /// Sets the display name of a section, such as `port "a"`.
    pub(crate) fn call(&mut self, section: Section, title: String) {
        self.titles.insert(section, title);
    }

    /// Line of a value, or of its section if the value is absent.
    pub(crate) fn line(&self, place: Place) -> Option<usize> {
        self.lines.get(&place).or_else(|| self.lines.get(&(place.0, ""))).copied()
    }

    /// Whether a value is already known to be invalid, so that nothing should be derived from it.
    pub(crate) fn is_spoiled(&self, place: Place) -> bool {
        self.invalid.contains(&place)
    }

    /// Marks a value as invalid if its error is reported elsewhere.
    pub(crate) fn mark_invalid(&mut self, place: Place) {
        self.invalid.insert(place);
    }

    /// Reports an invalid value at `place`. Only the first error of a value is reported.
    pub(crate) fn wrong(&mut self, place: Place, reason: impl fmt::Display, remedy: impl Into<String>) {
        self.report(Cause::Invalid, place, reason, remedy);
    }

    /// As [`Self::wrong`], for a value that belongs to another object.
    pub(crate) fn taken(&mut self, place: Place, reason: impl fmt::Display, remedy: impl Into<String>) {
        self.report(Cause::Taken, place, reason, remedy);
    }

    /// As [`Self::wrong`], for the name of an object that does not exist.
    pub(crate) fn unknown(&mut self, place: Place, reason: impl fmt::Display, remedy: impl Into<String>) {
        self.report(Cause::Unknown, place, reason, remedy);
    }

    fn report(&mut self, cause: Cause, place: Place, reason: impl fmt::Display, remedy: impl Into<String>) {
        if self.invalid.insert(place) {
            self.add(cause, place.0, self.line(place), &reason.to_string(), &remedy.into());
        }
    }

    /// An invalid value at a line of its own in `section`: an unknown key, an entry of a list.
    pub(crate) fn wrong_at(
        &mut self,
        section: Section,
        line: Option<usize>,
        reason: impl fmt::Display,
        remedy: impl Into<String>,
    ) {
        self.add(Cause::Invalid, section, line, &reason.to_string(), &remedy.into());
    }

    fn add(&mut self, cause: Cause, section: Section, line: Option<usize>, reason: &str, remedy: &str) {
        let place = self.titles.get(&section).map_or("", String::as_str);
        let error = Diagnostic::bad(printable(place), printable(reason), printable(remedy));
        self.errors.push(Diagnostic { line: line.and_then(|line| line.try_into().ok()), ..error });
        self.cause = self.cause.max(Some(cause));
    }

    /// The gravest class of all errors so far; `None` without errors.
    pub(crate) fn cause(&self) -> Option<Cause> {
        self.cause
    }

    /// Where another value is, as an aside: ` (line 5)`.
    pub(crate) fn aside(&self, place: Place) -> String {
        self.line(place).map(|line| format!(" (line {line})")).unwrap_or_default()
    }

    /// Every error, by line.
    pub(crate) fn finish(mut self) -> Vec<Diagnostic> {
        self.errors.sort_by_key(|error| error.line);
        self.errors
    }
}

/// A name for an error: long ones end in `...`.
pub(crate) fn shortened(name: &str) -> String {
    match name.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_owned(),
    }
}

/// Text that is safe for a terminal: the contents of a file must not control the terminal that `check` prints to.
pub(crate) fn printable(text: &str) -> String {
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(shown).collect()
}
