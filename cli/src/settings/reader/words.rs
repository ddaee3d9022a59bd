//! Suggestions for unknown names.

use super::notes::Findings;
use console::words::one_of;

/// Remedy for the name of a port or a bridge (`kind`) that does not exist.
pub(crate) fn exists<'a>(
    kind: &str,
    names: impl Iterator<Item = &'a str>,
    wanted: &str,
    notes: &Findings,
) -> String {
    let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    let near = names.iter().find(|name| alike(wanted, name));
    match near {
        Some(name) => format!("did you mean \"{name}\"?"),
        None if notes.is_request() => format!("see `linerate {kind}s show`"),
        None if names.is_empty() => format!("add a [[{kind}]] section with this name"),
        None => format!("name {}, or add a [[{kind}]] section with this name", one_of(&names)),
    }
}

/// Suggestion for an unknown word.
pub(crate) fn nearest(word: &str, known: &[&str]) -> String {
    let word = word.to_lowercase();
    let scored = known.iter().map(|name| (strsim::damerau_levenshtein(&word, name), name));
    match scored.min() {
        Some((_, name)) if alike(&word, name) => format!("did you mean `{name}`?"),
        _ => {
            let mut each = known.to_vec();
            // Several kinds may use the same key.
            each.sort_by_key(|name| known.iter().position(|other| other == name));
            each.dedup();
            format!("remove it; valid keys: {}", each.join(", "))
        }
    }
}

/// Whether `word` may be a misspelling of `name`.
pub(crate) fn alike(word: &str, name: &str) -> bool {
    let distance = strsim::damerau_levenshtein(&word.to_lowercase(), name);
    distance <= 1 + name.len() / 3 && 2 * distance <= name.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelled_word_is_answered_with_the_nearest_valid_one() {
        assert_eq!(nearest("sokcet", &["name", "socket"]), "did you mean `socket`?");
        assert_eq!(nearest("colour", &["name", "socket"]), "remove it; valid keys: name, socket");
    }
}
