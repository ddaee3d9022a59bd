//! Human-readable numbers.

/// Nanoseconds in the largest unit of which there is at least one: `1.02 us`.
pub fn nanoseconds(value: u64) -> String {
    let value = value as f64;
    match value {
        ..1e3 => format!("{value} ns"),
        ..1e6 => format!("{:.2} us", value / 1e3),
        ..1e9 => format!("{:.2} ms", value / 1e6),
        _ => format!("{:.2} s", value / 1e9),
    }
}

/// A count with a metric prefix and three significant digits: 999, 1.23 k, 45.6 M.
pub fn count(value: u64) -> String {
    if value < 1000 { value.to_string() } else { scaled(value as f64) }
}

/// A quantity with a metric prefix.
pub fn scaled(value: f64) -> String {
    const PREFIXES: [&str; 5] = ["", " k", " M", " G", " T"];
    let mut rest = value;
    let mut step = 0;
    // A value that would be rounded to 1000 takes the next prefix.
    while rest >= 999.5 && step + 1 < PREFIXES.len() {
        rest /= 1000.0;
        step += 1;
    }
    let digits = match rest {
        _ if step == 0 && rest.fract() == 0.0 => 0,
        _ if rest >= 99.95 => 0,
        _ if rest >= 9.995 => 1,
        _ => 2,
    };
    format!("{rest:.digits$}{}", PREFIXES[step])
}

/// Bytes with a binary prefix: 512 B, 64.00 KiB, 1.00 GiB.
pub fn bytes(value: u64) -> String {
    const PREFIXES: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let step = (value.max(1).ilog2() / 10).min(4);
    match step {
        0 => format!("{value} B"),
        _ => format!("{:.2} {}", value as f64 / (1_u64 << (10 * step)) as f64, PREFIXES[step as usize]),
    }
}

/// A share in percent; a dash if `whole` is zero.
pub fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".to_owned(),
        _ => format!("{:.1}", part as f64 * 100.0 / whole as f64),
    }
}

/// The ratio of two numbers; a dash if the second is zero.
pub fn ratio(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".to_owned(),
        _ => format!("{:.1}", part as f64 / whole as f64),
    }
}

/// A duration in its two largest units.
pub fn duration(nanoseconds: u64) -> String {
    let seconds = nanoseconds / 1_000_000_000;
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, _) => format!("{:.1} s", nanoseconds as f64 / 1e9),
        (0, 0, m, s) => format!("{m} min {s} s"),
        (0, h, m, _) => format!("{h} h {m} min"),
        (d, h, ..) => format!("{d} d {h} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_keep_three_figures() {
        let found: Vec<String> = [0, 999, 1000, 12_345, 999_400, 999_600, 45_600_000].map(count).into();
        assert_eq!(found, ["0", "999", "1.00 k", "12.3 k", "999 k", "1.00 M", "45.6 M"]);
    }

    #[test]
    fn bytes_use_binary_prefixes() {
        let found: Vec<String> = [0, 1023, 1024, 1 << 30].map(bytes).into();
        assert_eq!(found, ["0 B", "1023 B", "1.00 KiB", "1.00 GiB"]);
    }

    #[test]
    fn ratio_to_zero_is_printed_as_a_dash() {
        assert_eq!(
            (percent(1, 0), percent(1, 8), ratio(3, 0), ratio(3, 2)),
            ("-".into(), "12.5".into(), "-".into(), "1.5".into())
        );
    }

    #[test]
    fn time_spans_show_their_two_largest_units() {
        let at = |seconds: u64| duration(seconds * 1_000_000_000);
        assert_eq!([at(5), at(65), at(3660), at(90_000)], ["5.0 s", "1 min 5 s", "1 h 1 min", "1 d 1 h"]);
    }
}
