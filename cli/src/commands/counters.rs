//! Counters of a run as JSON and as text: those that are not zero, by name.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Counters that are not zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct NonZero(BTreeMap<&'static str, u64>);

impl NonZero {
    /// The counters with their names; values of one name are added.
    pub(crate) fn of(counters: impl IntoIterator<Item = (&'static str, u64)>) -> Self {
        let mut sums = BTreeMap::new();
        for (name, value) in counters.into_iter().filter(|(_, value)| *value > 0) {
            *sums.entry(name).or_default() += value;
        }
        Self(sums)
    }

    /// Names and values in the order of the names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(name, value)| (*name, *value))
    }

    /// Appends one line for each counter.
    pub(crate) fn write(&self, text: &mut String) {
        self.iter().for_each(|(name, value)| line(text, name, value, ""));
    }
}

/// Appends the line of a counter, with what follows its value.
pub(crate) fn line(text: &mut String, name: &str, value: u64, rest: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{name:<28} {value:>14}{rest}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_one_name_are_added_and_zeros_are_omitted() {
        let counters = NonZero::of([("b", 2), ("a", 1), ("c", 0), ("b", 3)]);
        assert_eq!(counters.iter().collect::<Vec<_>>(), [("a", 1), ("b", 5)]);
        let mut text = String::new();
        counters.write(&mut text);
        assert_eq!(text, format!("{:<28} {:>14}\n{:<28} {:>14}\n", "a", 1, "b", 5));
        assert_eq!(serde_json::to_string(&counters).unwrap(), r#"{"a":1,"b":5}"#);
    }
}
