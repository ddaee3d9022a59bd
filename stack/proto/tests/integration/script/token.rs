//! Tokens of packetdrill's language.

/// A token with its line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub(crate) line: usize,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// A number without a point, as it was written: also a cookie of digits.
    Integer(String),
    /// A time in microseconds.
    Float(u64),
    Word(String),
    /// Text between double quotes.
    Text(String),
    /// Commands between back quotes.
    Commands(String),
    /// `--name`.
    Option(String),
    /// `...`.
    Ellipsis,
    Punctuation(char),
}

/// Splits a script into tokens. Comments are dropped.
pub(crate) fn tokens(script: &str) -> Result<Vec<Token>, (usize, String)> {
    let mut lexer = Lexer { rest: script, line: 1 };
    let mut tokens = Vec::new();
    while let Some(token) = lexer.next()? {
        tokens.push(token);
    }
    Ok(tokens)
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Lexer<'a> {
    fn take(&mut self, len: usize) -> &'a str {
        let (text, rest) = self.rest.split_at(len);
        self.line += text.matches('\n').count();
        self.rest = rest;
        text
    }

    fn take_while(&mut self, test: impl Fn(char) -> bool) -> &'a str {
        let len = self.rest.find(|c| !test(c)).unwrap_or(self.rest.len());
        self.take(len)
    }

    /// Takes up to and including `end`, without `start`.
    fn enclosed(&mut self, start: usize, end: &str) -> Result<&'a str, (usize, String)> {
        self.take(start);
        let len = self.rest.find(end).ok_or((self.line, format!("expected {end}")))?;
        let text = self.take(len);
        self.take(end.len());
        Ok(text)
    }

    fn skip(&mut self) -> Result<(), (usize, String)> {
        loop {
            self.take_while(char::is_whitespace);
            if self.rest.starts_with("//") || self.rest.starts_with('#') {
                self.take_while(|c| c != '\n');
            } else if self.rest.starts_with("/*") {
                self.enclosed(2, "*/")?;
            } else {
                return Ok(());
            }
        }
    }

    fn next(&mut self) -> Result<Option<Token>, (usize, String)> {
        self.skip()?;
        let line = self.line;
        let Some(first) = self.rest.chars().next() else { return Ok(None) };
        let second = self.rest.chars().nth(1).unwrap_or(' ');
        let kind = match first {
            '"' => Kind::Text(self.enclosed(1, "\"")?.into()),
            '`' => Kind::Commands(self.enclosed(1, "`")?.into()),
            '-' if second == '-' => {
                self.take(2);
                Kind::Option(self.take_while(is_word).into())
            }
            '.' if self.rest.starts_with("...") => {
                self.take(3);
                Kind::Ellipsis
            }
            c if c.is_ascii_digit() || (c == '.' && second.is_ascii_digit()) => self.number(line)?,
            c if is_word(c) => Kind::Word(self.take_while(is_word).into()),
            c => {
                self.take(c.len_utf8());
                Kind::Punctuation(c)
            }
        };
        Ok(Some(Token { line, kind }))
    }

    /// A number; digits that continue as a word, such as a cookie, are a word.
    fn number(&mut self, line: usize) -> Result<Kind, (usize, String)> {
        let len = self.rest.find(|c: char| !is_word(c)).unwrap_or(self.rest.len());
        let has_point = self.rest[len..].starts_with('.') && !self.rest[len..].starts_with("...");
        let text = self.take(len);
        if !has_point {
            let is_integer = text.chars().all(|c| c.is_ascii_digit()) || text.starts_with("0x");
            return Ok(if is_integer { Kind::Integer(text.into()) } else { Kind::Word(text.into()) });
        }
        self.take(1);
        let fraction = self.take_while(|c| c.is_ascii_digit());
        micros(text, fraction).map(Kind::Float).ok_or((line, format!("invalid time {text}.{fraction}")))
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Seconds with a fraction, in microseconds.
fn micros(whole: &str, fraction: &str) -> Option<u64> {
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction: u64 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
    Some(whole * 1_000_000 + fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_split_into_tokens() {
        let kinds: Vec<_> = tokens("+.1~+0.25 /* c */ > P. 1:11(10) // x\n 12ab ... --mtu=9").unwrap();
        assert_eq!(kinds[0].kind, Kind::Punctuation('+'));
        assert_eq!((&kinds[1].kind, &kinds[4].kind), (&Kind::Float(100_000), &Kind::Float(250_000)));
        assert_eq!(kinds[6].kind, Kind::Word("P".into()));
        assert_eq!(kinds[kinds.len() - 5].kind, Kind::Word("12ab".into()));
        assert_eq!(
            (kinds.last().unwrap().line, &kinds.last().unwrap().kind),
            (2, &Kind::Integer("9".into()))
        );
        assert!(tokens("\"open").is_err());
    }
}
