//! The token that opens the page: random for each start of the switch, or read from a file.

use console::Diagnostic;
use rustix::rand::{GetRandomFlags, getrandom};
use std::fmt::{self, Write};
use std::fs::File;
use std::io::{self, Read};
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use thiserror::Error;

/// Bytes of a random token: 256 bits.
const RANDOM: usize = 32;
/// Characters of a token in a file. 32 hexadecimal digits have 128 bits.
const LENGTH: RangeInclusive<usize> = 32..=256;
/// Permissions of users that are neither owner nor in the group of a file.
const OTHERS: u32 = 0o007;
/// Writes a file with a token.
const REMEDY: &str = "write it with (umask 077; openssl rand -hex 32 > FILE)";

/// The token. It is not printed by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(String);

/// Why a file has no token.
#[derive(Debug, Error)]
pub(crate) enum TokenError {
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error("every user of this machine has access to it")]
    Public,
    #[error("it does not contain 32 to 256 characters of A to Z, a to z, 0 to 9, - and _ in one line")]
    Malformed,
}

impl TokenError {
    fn remedy(&self) -> &'static str {
        match self {
            Self::Read(_) => "name a file that exists and that the user of the switch may read",
            Self::Public => "remove the permissions of others with `chmod o= FILE`",
            Self::Malformed => REMEDY,
        }
    }

    /// The error of the file at `path`.
    pub(crate) fn of(&self, path: &Path) -> Diagnostic {
        Diagnostic::failed(format!("token of the web page {}", path.display()), self, self.remedy())
    }
}

impl Token {
    /// A random token from the kernel.
    pub(crate) fn random() -> io::Result<Self> {
        let mut bytes = [0; RANDOM];
        // A request of at most 256 bytes is never answered in part (getrandom(2)).
        getrandom(&mut bytes[..], GetRandomFlags::empty())?;
        Ok(Self(hexadecimal(&bytes)))
    }

    /// The token in a file.
    pub(crate) fn read(path: &Path) -> Result<Self, TokenError> {
        // One byte more than a token with a newline, so that longer files are recognised.
        let text = private_text(path, *LENGTH.end() as u64 + 2)?;
        Self::parse(text.strip_suffix('\n').unwrap_or(&text)).ok_or(TokenError::Malformed)
    }

    /// A token, if the text is one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let is_valid = LENGTH.contains(&text.len()) && text.bytes().all(is_allowed);
        is_valid.then(|| Self(text.to_owned()))
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// At most `most` bytes of a file to which users other than its owner and group have no access.
pub(crate) fn private_text(path: &Path, most: u64) -> Result<String, TokenError> {
    let file = File::open(path)?;
    if file.metadata()?.mode() & OTHERS != 0 {
        return Err(TokenError::Public);
    }
    let mut text = String::new();
    file.take(most).read_to_string(&mut text)?;
    Ok(text)
}

/// Bytes as hexadecimal digits.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    const GOOD: &str = "0123456789abcdef0123456789ABCDE_";

    fn read(text: &str, mode: u32) -> Result<Token, TokenError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        Token::read(&path)
    }

    #[test]
    fn random_tokens_differ_and_have_256_bits() {
        let [a, b] = [Token::random().unwrap(), Token::random().unwrap()];
        assert_ne!(a, b);
        assert_eq!(a.text().len(), 64);
        assert_eq!(Token::parse(a.text()), Some(a));
    }

    #[test]
    fn a_file_has_one_line_that_others_cannot_read() {
        for text in [GOOD.to_owned(), format!("{GOOD}\n"), "x".repeat(256) + "\n"] {
            assert_eq!(read(&text, 0o640).unwrap().text(), text.trim_end());
        }
        assert!(matches!(read(GOOD, 0o604), Err(TokenError::Public)));
        let bad =
            [String::new(), GOOD[1..].to_owned(), "x".repeat(257), format!("{GOOD} "), format!("{GOOD}\n\n")];
        for text in bad {
            assert!(matches!(read(&text, 0o600), Err(TokenError::Malformed)), "{text:?}");
        }
        assert!(matches!(Token::read(Path::new("/nonexistent/token")), Err(TokenError::Read(_))));
    }

    #[test]
    fn debug_output_has_no_token() {
        assert_eq!(format!("{:?}", Token::parse(GOOD).unwrap()), "Token(..)");
    }
}
