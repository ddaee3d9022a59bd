//! Text that knows its place, and its division into words.
//!
//! A word is a key, and possibly a value: `key`, `key=value`, `key:value` or `key(value)`. Words are separated by
//! commas and white space outside of parentheses and quotation marks, as ovs-ofctl(8) describes.

use super::error::{Reason, TextError};

/// A part of the parsed text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    /// Text.
    pub text: &'a str,
    /// Bytes before it.
    pub at: usize,
}

/// A key with its value, which is empty if absent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<'a> {
    /// Name.
    pub key: Piece<'a>,
    /// Value.
    pub value: Piece<'a>,
}

/// The words of a piece.
#[derive(Debug)]
pub(super) struct Words<'a>(Piece<'a>);

const BETWEEN: &[char] = &[',', ' ', '\t', '\r', '\n'];
const KEY_ENDS: &[char] = &[':', '=', '(', ',', ' ', '\t', '\r', '\n'];

impl<'a> Piece<'a> {
    /// A whole text.
    pub(super) fn whole(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The text before and after byte `at`.
    pub(super) fn cut(self, at: usize) -> (Self, Self) {
        let (left, right) = self.text.split_at(at);
        (Self { text: left, at: self.at }, Self { text: right, at: self.at + at })
    }

    /// The text after byte `from`.
    pub(super) fn after(self, from: usize) -> Self {
        self.cut(from).1
    }

    /// The text before and after the first `separator`.
    pub(super) fn split(self, separator: &str) -> Option<(Self, Self)> {
        let at = self.text.find(separator)?;
        Some((self.cut(at).0, self.after(at + separator.len())))
    }

    /// The text before the first `separator` or all, and after it or nothing.
    pub(super) fn split_or_all(self, separator: &str) -> (Self, Option<Self>) {
        self.split(separator).map_or((self, None), |(left, right)| (left, Some(right)))
    }

    /// The text before the first `separator` outside of parentheses and quotation marks, and after it if there is one.
    ///
    /// # Errors
    /// If parentheses or quotation marks are not balanced.
    pub(super) fn item(self, separator: char) -> Result<(Self, Option<Self>), TextError> {
        let (left, right) = self.cut(scan(self, &[separator])?);
        Ok((left.trim(), right.text.starts_with(separator).then(|| right.after(separator.len_utf8()))))
    }

    /// Whether it is a name in quotation marks.
    pub(super) fn is_quoted(self) -> bool {
        self.text.starts_with('"')
    }

    /// Without white space around it.
    pub(super) fn trim(self) -> Self {
        let start = self.text.len() - self.text.trim_start().len();
        let (text, at) = (self.text.trim(), self.at + start);
        Self { text, at }
    }

    /// Whether it is `name`, in any case.
    pub(super) fn is(self, name: &str) -> bool {
        self.text.eq_ignore_ascii_case(name)
    }

    /// The number, decimal or with 0x.
    ///
    /// # Errors
    /// If it is malformed or above `max`.
    pub(super) fn number(self, max: u128) -> Result<u128, TextError> {
        let number = parse_number(self.text).filter(|number| *number <= max);
        number.ok_or_else(|| self.error(Reason::Number(max)))
    }

    /// The number, of the width of the result.
    ///
    /// # Errors
    /// If it is malformed or out of range.
    pub(super) fn integer<T: TryFrom<u128> + Bounded>(self) -> Result<T, TextError> {
        let max = T::MAX.into();
        T::try_from(self.number(max)?).map_err(|_| self.error(Reason::Number(max)))
    }

    /// Bytes in hexadecimal digits, separated by nothing or dots.
    ///
    /// # Errors
    /// If a character is not a digit, or one is left over.
    pub(super) fn hex_bytes(self) -> Result<Box<[u8]>, TextError> {
        let digits: Option<Vec<u8>> = self
            .text
            .chars()
            .filter(|c| *c != '.' && *c != ' ')
            .map(|c| c.to_digit(16).map(|digit| digit as u8))
            .collect();
        let pairs = digits.filter(|digits| digits.len() % 2 == 0);
        let pairs = pairs.ok_or_else(|| self.error(Reason::Expected("pairs of hexadecimal digits")))?;
        Ok(pairs.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
    }

    /// The words in it.
    pub(super) fn words(self) -> Words<'a> {
        Words(self)
    }

    /// The only word in it.
    ///
    /// # Errors
    /// If there is none, or a second one.
    pub(super) fn only_word(self) -> Result<Word<'a>, TextError> {
        let mut words = self.words();
        let word = words.next().unwrap_or_else(|| Err(self.error(Reason::Missing("a value"))))?;
        if words.next().is_some() { Err(self.error(Reason::Expected("one word"))) } else { Ok(word) }
    }
}

/// Integers of the model, with their maximum.
pub(super) trait Bounded {
    /// Maximum.
    const MAX: Self;
    /// As the widest integer.
    fn into(self) -> u128;
}

macro_rules! bounded {
    ($($kind:ty)*) => {$(
        impl Bounded for $kind {
            const MAX: Self = <$kind>::MAX;
            fn into(self) -> u128 {
                self as u128
            }
        }
    )*};
}
bounded! { u8 u16 u32 u64 u128 }

/// A leading zero is refused: ovs-ofctl reads such a number as octal.
fn parse_number(text: &str) -> Option<u128> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let octal = radix == 10 && digits.len() > 1 && digits.starts_with('0');
    let valid = !octal && digits.chars().all(|c| c.is_digit(radix));
    valid.then(|| u128::from_str_radix(digits, radix).ok()).flatten()
}

impl<'a> Words<'a> {
    /// The text that is not yet divided.
    pub(super) fn rest(&self) -> Piece<'a> {
        self.0
    }

    fn word(&mut self) -> Result<Word<'a>, TextError> {
        let end = self.0.text.find(KEY_ENDS).unwrap_or(self.0.text.len());
        let (key, rest) = self.0.cut(end);
        if key.text.contains('"') {
            return Err(key.error(Reason::Expected("a key before a name in quotation marks")));
        }
        match rest.text.chars().next() {
            Some(':' | '=') => self.value(key, rest.after(1), BETWEEN),
            Some('(') => self.value(key, rest.after(1), &[')']),
            _ => {
                self.0 = rest;
                Ok(Word { key, value: rest.cut(0).0 })
            }
        }
    }

    /// Takes the value up to an `end`, and skips the closing parenthesis if that is the end.
    fn value(&mut self, key: Piece<'a>, rest: Piece<'a>, ends: &[char]) -> Result<Word<'a>, TextError> {
        let (value, mut rest) = rest.cut(scan(rest, ends)?);
        if ends == [')'] {
            if rest.text.is_empty() {
                return Err(key.error(Reason::Unbalanced));
            }
            rest = rest.after(1);
            if !rest.text.is_empty() && !rest.text.starts_with(BETWEEN) {
                return Err(rest.error(Reason::Trailing));
            }
        }
        self.0 = rest;
        Ok(Word { key, value })
    }
}

/// Length of the text up to one of `ends` outside of parentheses and quotation marks, or of all.
fn scan(piece: Piece, ends: &[char]) -> Result<usize, TextError> {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for (at, c) in piece.text.char_indices() {
        if quoted {
            quoted = c != '"' || escaped;
            escaped = c == '\\' && !escaped;
            continue;
        }
        if depth == 0 && ends.contains(&c) {
            return Ok(at);
        }
        match c {
            '"' => quoted = true,
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1).ok_or_else(|| piece.error(Reason::Unbalanced))?,
            _ => {}
        }
    }
    if depth > 0 || quoted { Err(piece.error(Reason::Unbalanced)) } else { Ok(piece.text.len()) }
}

impl<'a> Iterator for Words<'a> {
    type Item = Result<Word<'a>, TextError>;

    /// After an error, no word follows.
    fn next(&mut self) -> Option<Self::Item> {
        let skipped = self.0.text.len() - self.0.text.trim_start_matches(BETWEEN).len();
        self.0 = self.0.after(skipped);
        if self.0.text.is_empty() {
            return None;
        }
        let word = self.word();
        if word.is_err() {
            self.0 = self.0.after(self.0.text.len());
        }
        Some(word)
    }
}

impl Word<'_> {
    /// The value as a number of the width of the result.
    ///
    /// # Errors
    /// If it is absent, malformed or out of range.
    pub(super) fn integer<T: TryFrom<u128> + Bounded>(self) -> Result<T, TextError> {
        self.required()?.value.integer()
    }

    /// # Errors
    /// If the word has a value.
    pub(super) fn alone(self) -> Result<(), TextError> {
        let is_alone = self.value.text.is_empty();
        if is_alone { Ok(()) } else { Err(self.value.error(Reason::Expected("no value after this word"))) }
    }

    /// The same word.
    ///
    /// # Errors
    /// If it has no value.
    pub(super) fn required(self) -> Result<Self, TextError> {
        if self.value.text.is_empty() { Err(self.key.error(Reason::Missing("a value"))) } else { Ok(self) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Result<Vec<(&str, &str)>, TextError> {
        let words = Piece::whole(text).words();
        words.map(|word| word.map(|word| (word.key.text, word.value.text))).collect()
    }

    #[test]
    fn words_are_divided_outside_of_parentheses_and_quotation_marks() {
        let text = " ip, in_port=\"a,b (\" ct(zone=1,exec(load(1->ct_mark))),output:1\tdrop";
        let expected = [
            ("ip", ""),
            ("in_port", "\"a,b (\""),
            ("ct", "zone=1,exec(load(1->ct_mark))"),
            ("output", "1"),
            ("drop", ""),
        ];
        assert_eq!(words(text).unwrap(), expected);
    }

    #[test]
    fn unbalanced_text_is_refused_with_its_place() {
        for text in ["a(b", "a=(b", "a=b)", "a=\"b", "a(b)c"] {
            assert!(words(text).is_err(), "{text}");
        }
        let error = words("ip,ct(").unwrap_err();
        assert_eq!((error.range, error.reason), (3..5, Reason::Unbalanced));
    }

    #[test]
    fn numbers_are_decimal_or_hexadecimal() {
        let number = |text| Piece::whole(text).integer::<u16>().ok();
        assert_eq!([number("0"), number("65535"), number("0xff")], [Some(0), Some(65535), Some(255)]);
        for text in
            ["", "65536", "010", "-1", "+1", "0x", "1 ", "0x+1", "0xfffffffffffffffffffffffffffffffff"]
        {
            assert_eq!(number(text), None, "{text}");
        }
        assert_eq!(*Piece::whole("41.4243").hex_bytes().unwrap(), [0x41, 0x42, 0x43]);
    }
}
