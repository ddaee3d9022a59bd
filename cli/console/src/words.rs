//! Lists as text.

/// Quoted words as a list: "a", "b" or "c". Empty for no words.
pub fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// Numbers as a list: 1, 2, 3.
pub fn numbers(numbers: &[usize]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_commas_and_a_conjunction() {
        assert_eq!((one_of(&[]), one_of(&["a"])), (String::new(), "\"a\"".to_owned()));
        assert_eq!(one_of(&["a", "b", "c"]), "\"a\", \"b\" or \"c\"");
        assert_eq!((numbers(&[]), numbers(&[1, 22])), (String::new(), "1, 22".to_owned()));
    }
}
