//! Names of ports, bridges and mirrors that are valid in a file, and different from each other.

use std::collections::BTreeSet;

/// Maximum length of a name.
const LONGEST: usize = 32;

/// Names that are taken.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeSet<String>);

impl Names {
    /// A name like `wanted` that is valid and not yet taken.
    pub(super) fn take(&mut self, wanted: &str) -> String {
        let is_valid = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let valid = wanted.chars().map(|c| if is_valid(c) { c } else { '-' });
        let valid: String = valid.skip_while(|c| !c.is_ascii_alphanumeric()).take(LONGEST).collect();
        let base = if valid.is_empty() { "unnamed".to_owned() } else { valid };
        let numbered = |number: usize| {
            let end = format!("-{number}");
            format!("{}{end}", base.chars().take(LONGEST - end.len()).collect::<String>())
        };
        let candidates = std::iter::once(base.clone()).chain((2..).map(numbered));
        let free = candidates.into_iter().find(|name| !self.0.contains(name)).unwrap_or_default();
        self.0.insert(free.clone());
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_valid_and_unique() {
        let mut names = Names::default();
        let long = "x".repeat(40);
        let taken = ["br0", "br0", "a b/c", "--", "", &long, &long].map(|name| names.take(name));
        let ends = format!("{}-2", "x".repeat(30));
        assert_eq!(taken, ["br0", "br0-2", "a-b-c", "unnamed", "unnamed-2", &"x".repeat(32), &ends]);
    }
}
