//! Words and numbers of a command line, read as memcached reads them.

/// Words of a line that memcached looks at; more are ignored, except for keys of `get`.
pub(super) const MAX_WORDS: usize = 23;

/// Words separated by spaces, with their offsets.
#[derive(Clone, Debug)]
pub(super) struct Words<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Words<'a> {
    /// The words from offset `at`.
    pub(super) fn new(line: &'a [u8], at: usize) -> Self {
        Self { line, at }
    }

    /// Offset behind the last word.
    pub(super) fn offset(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.line.get(self.at..)?;
        let start = self.at + rest.iter().position(|byte| *byte != b' ')?;
        let rest = self.line.get(start..)?;
        let len = memchr::memchr(b' ', rest).unwrap_or(rest.len());
        self.at = start + len;
        rest.get(..len)
    }
}

/// The command in a line: without its end, and up to a zero byte, at which memcached stops reading.
pub(super) fn command(line: &[u8]) -> &[u8] {
    let line = if line.len() > 1 { line.strip_suffix(b"\r").unwrap_or(line) } else { line };
    line.get(..memchr::memchr(0, line).unwrap_or(line.len())).unwrap_or_default()
}

/// A decimal number as `strtoll` reads it: white space, a sign, digits; then the end or white space must follow.
fn number(text: &[u8]) -> Option<i128> {
    let is_space = |byte: u8| byte == b' ' || (b'\t'..=b'\r').contains(&byte);
    let start = text.iter().position(|byte| !is_space(*byte))?;
    let (sign, digits) = match text.get(start..)? {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] | digits => (1, digits),
    };
    let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    if end == 0 || digits.get(end).is_some_and(|byte| !is_space(*byte)) {
        return None;
    }
    let value = digits.get(..end)?.iter().try_fold(0_i128, |value, digit| {
        Some(value * 10 + i128::from(digit - b'0')).filter(|value| *value <= u64::MAX.into())
    })?;
    Some(sign * value)
}

/// An unsigned number of 64 bits. As in memcached, a negative number is its complement, if that is below 2^63.
pub(super) fn unsigned(text: &[u8]) -> Option<u64> {
    let value = number(text)?;
    let wrapped = value as u64;
    (value >= 0 || i64::try_from(wrapped).is_ok()).then_some(wrapped)
}

/// The lower 32 bits of an unsigned number.
pub(super) fn unsigned_32(text: &[u8]) -> Option<u32> {
    unsigned(text).map(|value| value as u32)
}

/// The lower 32 bits of a signed number of 64 bits.
pub(super) fn signed_32(text: &[u8]) -> Option<i32> {
    number(text).and_then(|value| i64::try_from(value).ok()).map(|value| value as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_separated_by_spaces_only() {
        let words: Vec<_> = Words::new(b"  get a\tb  c ", 0).collect();
        assert_eq!(words, [&b"get"[..], b"a\tb", b"c"]);
        assert_eq!(Words::new(b"  ", 0).next(), None);
        assert_eq!(
            (command(b"a b\r"), command(b"\r"), command(b"a\0b\r")),
            (&b"a b"[..], &b"\r"[..], &b"a"[..])
        );
    }

    #[test]
    fn numbers_are_read_as_by_strtoull() {
        assert_eq!(unsigned(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(unsigned(b"18446744073709551616"), None);
        assert_eq!((unsigned(b" +7\r\n"), unsigned(b"7 x"), unsigned(b"7x")), (Some(7), Some(7), None));
        assert_eq!(
            (unsigned(b""), unsigned(b"-"), unsigned(b"-1"), unsigned(b"-0")),
            (None, None, None, Some(0))
        );
        assert_eq!((signed_32(b"-1"), signed_32(b"4294967297"), signed_32(b"a")), (Some(-1), Some(1), None));
        assert_eq!((signed_32(b"9223372036854775808"), unsigned_32(b"4294967295")), (None, Some(u32::MAX)));
    }
}
