//! Settings that could not be translated: the table, row and column of each, the reason and the remedy.

use super::database::Row;
use super::document::Section;
use super::known;
use console::Diagnostic;

/// One setting that is missing in the result, or differs in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) table: String,
    pub(super) row: String,
    pub(super) column: String,
    pub(super) reason: String,
    pub(super) remedy: String,
}

impl Finding {
    /// A section that is not valid together with the others.
    pub(super) fn of(error: &Diagnostic) -> Self {
        Self {
            table: "section".to_owned(),
            row: error.place.clone(),
            column: "disabled".to_owned(),
            reason: error.reason.clone(),
            remedy: error.remedy.clone(),
        }
    }

    /// The finding as a diagnostic of the command.
    pub(super) fn diagnostic(&self) -> Diagnostic {
        let place = format!("{} {}, {}", self.table, self.row, self.column);
        Diagnostic::failed(place, &self.reason, &self.remedy)
    }
}

/// All findings of a translation.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) list: Vec<Finding>,
}

impl Findings {
    /// Adds a finding, and a comment to the section that it belongs to.
    pub(super) fn add(
        &mut self,
        section: &mut Section,
        (row, column): (&Row, &str),
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let (reason, remedy) = (reason.into(), remedy.into());
        section.comment(&format!("{} {}: {reason}; {remedy}", row.table, column));
        let (table, name) = (row.table.clone(), row.name().to_owned());
        let finding = Finding { table, row: name, column: column.to_owned(), reason, remedy };
        // Several ports can refer to one row.
        if !self.list.contains(&finding) {
            self.list.push(finding);
        }
    }

    /// Adds a finding for each setting of a row that was not read, and a comment with its external identifiers.
    pub(super) fn rest(&mut self, section: &mut Section, row: &Row) {
        // The name is in each finding.
        row.name();
        let external: Vec<_> = row.pairs("external_ids");
        if !external.is_empty() {
            let pairs: Vec<_> = external.iter().map(|(key, value)| format!("{key}={value}")).collect();
            section.comment(&format!("external_ids of {} {}: {}", row.table, row.name(), pairs.join(", ")));
        }
        for (column, value) in row.rest() {
            let Some((reason, remedy)) = known::explain(&row.table, &column, &value) else { continue };
            self.add(section, (row, &column), format!("{reason}{}", shown(&column, &value)), remedy);
        }
    }
}

/// Longest value in a finding.
const LONGEST: usize = 80;

/// A value in a finding, unless it is a secret.
fn shown(column: &str, value: &str) -> String {
    if column == "options:psk" {
        return String::new();
    }
    let printable: String = value.chars().filter(|c| !c.is_control()).collect();
    let short: String = printable.chars().take(LONGEST).collect();
    let end = if short.len() < printable.len() { "..." } else { "" };
    format!(" (it is {short}{end})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_short_and_printable_and_no_secrets() {
        assert_eq!(shown("options:psk", "secret"), "");
        assert_eq!(shown("options:x", "a\u{1b}[1mb"), " (it is a[1mb)");
        assert_eq!(shown("options:x", &"é".repeat(90)), format!(" (it is {}...)", "é".repeat(80)));
    }
}
