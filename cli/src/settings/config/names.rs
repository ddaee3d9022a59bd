//! Names of ports, bonds, bridges, mirrors and the switch.

use crate::settings::reader::notes::{Findings, Place, Section, shortened};

/// Maximum length of a name.
const MAX_NAME: usize = 32;

/// Validates a name, which is used in commands, tables and URLs.
pub(super) fn validate(place: Place, name: &str, notes: &mut Findings) {
    let Some(violation) = name_violation(name) else { return };
    // The title of a port or bridge contains its name.
    let shown = match place.0 {
        Section::Switch => format!("`name` \"{}\"", shortened(name)),
        _ => "`name`".to_owned(),
    };
    let remedy = format!(
        "write 1 to {MAX_NAME} letters, digits, dots, dashes or underscores, and begin with a letter or digit"
    );
    notes.wrong(place, format!("{shown} {violation}"), remedy);
}

/// Why `name` is invalid, if it is.
fn name_violation(name: &str) -> Option<String> {
    let other = name.chars().find(|c| !(c.is_ascii_alphanumeric() || "._-".contains(*c)));
    match (name.chars().next(), name.chars().count(), other) {
        (None, ..) => Some("is empty".to_owned()),
        (_, length, _) if length > MAX_NAME => {
            Some(format!("has {length} characters; the maximum is {MAX_NAME}"))
        }
        (.., Some(other)) => Some(format!("contains {other:?}")),
        (Some(first), ..) if !first.is_ascii_alphanumeric() => Some(format!("begins with {first:?}")),
        _ => None,
    }
}
