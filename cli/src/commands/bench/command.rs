//! Commands given by the user, with placeholders.

use console::Diagnostic;

/// Placeholders and their values.
pub(super) type Placeholders<'a> = [(&'static str, Option<&'a str>)];

/// The command with its placeholders replaced. Returns an error if it uses one without a value.
pub(super) fn fill(flag: &str, command: &str, places: &Placeholders<'_>) -> Result<String, Diagnostic> {
    let mut filled = command.to_owned();
    for (name, value) in places {
        let place = format!("{{{name}}}");
        if !filled.contains(&place) {
            continue;
        }
        let Some(value) = value else {
            let reason = format!("the command uses {place}, which this topology does not have");
            return Err(Diagnostic::bad(flag, reason, "remove it, or choose another --topology"));
        };
        filled = filled.replace(&place, &quoted(value));
    }
    if filled.trim().is_empty() {
        return Err(Diagnostic::bad(
            flag,
            "the command is empty",
            "write the command, or leave the flag out",
        ));
    }
    Ok(filled)
}

/// Whether the command contains this placeholder.
pub(super) fn names(command: &str, place: &str) -> bool {
    command.contains(&format!("{{{place}}}"))
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_become_words_of_a_shell() {
        let places = [("a", Some("/tmp/a b'c")), ("cpu", Some("3")), ("b", None)];
        assert_eq!(
            fill("--x", "sw {a} {cpu} {a}", &places).unwrap(),
            "sw '/tmp/a b'\\''c' 3 '/tmp/a b'\\''c'"
        );
        let told = fill("--x", "sw {b}", &places).unwrap_err();
        assert_eq!((told.code, told.place.as_str()), (console::BAD_INPUT, "--x"));
        assert!(fill("--x", "  ", &places).is_err() && names("sw {c}", "c") && !names("sw c", "c"));
    }
}
