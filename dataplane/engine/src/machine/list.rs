//! The kernel's list format, such as `0-3,8` (Documentation/admin-guide/cputopology.rst). Rejects numbers above any
//! CPU's, so that a list cannot request excessive memory.

/// Numbers of CPUs and nodes are below this.
const LIMIT: usize = 65_536;

/// Parses a list into unique numbers in ascending order. The error describes the invalid part.
pub fn parse(text: &str) -> Result<Vec<usize>, String> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(format!("the range {first}-{last} runs backwards"));
        }
        numbers.extend(first..=last);
        if numbers.len() > LIMIT {
            return Err(format!("it lists more than {LIMIT} numbers"));
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

fn number(text: &str) -> Result<usize, String> {
    let read = text.trim().parse::<usize>().ok().filter(|number| *number < LIMIT);
    read.ok_or_else(|| format!("\"{}\" is not a CPU's or node's number", text.trim().escape_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parses_ranges_and_numbers_without_duplicates() {
        assert_eq!(parse("0-3,8\n"), Ok(vec![0, 1, 2, 3, 8]));
        assert_eq!(parse("8, 0-1,1"), Ok(vec![0, 1, 8]));
        assert_eq!(parse("\n"), Ok(vec![]));
    }

    #[test]
    fn invalid_list_is_rejected_with_a_reason() {
        assert_eq!(parse("0-x").unwrap_err(), "\"x\" is not a CPU's or node's number");
        assert_eq!(parse("3-1").unwrap_err(), "the range 3-1 runs backwards");
        assert!(parse("0-4294967295").unwrap_err().contains("4294967295"));
        assert!(parse(&"0-65535,".repeat(1000)).unwrap_err().contains("more than"));
    }

    proptest! {
        #[test]
        fn any_text_parses_or_is_rejected(text in ".{0,64}") {
            if let Ok(numbers) = parse(&text) {
                prop_assert!(numbers.is_sorted());
            }
        }
    }
}
