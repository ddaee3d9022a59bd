//! Tokens of clients of the API over TCP: a file with a line for each client, `NAME ACCESS TOKEN`, where `ACCESS` is
//! `read` or `write`. Empty lines and those that begin with `#` are ignored.

use crate::tls::{FileError, Fresh};
use crate::web::token::{self, Token, TokenError};
use console::Diagnostic;
use crypto::hmac;
use crypto::rand::SystemRandom;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum size of a file: far above 64 lines.
const LARGEST: u64 = 64 << 10;
/// Maximum number of clients: each is compared with the token of a request.
const MOST: usize = 64;

/// What a client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// One client.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    name: String,
    access: Access,
    token: Token,
}

/// Why a file has no tokens.
#[derive(Debug, thiserror::Error)]
pub(super) enum TokensError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{path}: {error}", path = .0.display(), error = .1)]
    Unsafe(PathBuf, TokenError),
    #[error("{path}: line {line} is not NAME, `read` or `write`, and a token of 32 to 256 letters, digits, - and _", path = .0.display(), line = .1)]
    Line(PathBuf, usize),
    #[error("{path}: it has no tokens, or more than {MOST}", path = .0.display())]
    Number(PathBuf),
    #[error("no random number: {0}")]
    Random(crypto::error::Unspecified),
}

/// The tokens of a file, read again when it has changed.
#[derive(Debug)]
pub(super) struct Tokens {
    path: PathBuf,
    /// Tokens are compared by their codes with this key, in the same time for every wrong token.
    key: hmac::Key,
    read: Fresh<Arc<Vec<(Entry, hmac::Tag)>>>,
}

impl Tokens {
    /// Reads the file at `path`.
    pub(super) fn open(path: &Path) -> Result<Self, TokensError> {
        let key =
            hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).map_err(TokensError::Random)?;
        let tokens = Self { path: path.to_owned(), key, read: Fresh::new(vec![path.to_owned()]) };
        tokens.entries().map(|_| tokens)
    }

    /// Name and access of the client that has `token`. A file that has become invalid has none.
    pub(super) fn find(&self, token: &str) -> Option<(String, Access)> {
        let entries = self.entries().inspect_err(|error| tracing::warn!(%error, "no token is valid")).ok()?;
        let is_own = |tag: &hmac::Tag| hmac::verify(&self.key, token.as_bytes(), tag.as_ref()).is_ok();
        let found = entries.iter().find(|(_, tag)| is_own(tag));
        found.map(|(entry, _)| (entry.name.clone(), entry.access))
    }

    fn entries(&self) -> Result<Arc<Vec<(Entry, hmac::Tag)>>, TokensError> {
        self.read.current(|| {
            let text = token::private_text(&self.path, LARGEST);
            let text = text.map_err(|error| TokensError::Unsafe(self.path.clone(), error))?;
            let signed = |entry: Entry| {
                let tag = hmac::sign(&self.key, entry.token.text().as_bytes());
                (entry, tag)
            };
            Ok(Arc::new(parse(&self.path, &text)?.into_iter().map(signed).collect()))
        })
    }
}

fn parse(path: &Path, text: &str) -> Result<Vec<Entry>, TokensError> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let entries =
        lines.map(|(number, line)| entry(line).ok_or_else(|| TokensError::Line(path.to_owned(), number)));
    let entries = entries.collect::<Result<Vec<_>, _>>()?;
    let is_valid = (1..=MOST).contains(&entries.len());
    if is_valid { Ok(entries) } else { Err(TokensError::Number(path.to_owned())) }
}

fn entry(line: &str) -> Option<Entry> {
    let mut words = line.split_ascii_whitespace();
    let (name, access, token) = (words.next()?, words.next()?, words.next()?);
    let access = match access {
        "read" => Access::Read,
        "write" => Access::Write,
        _ => return None,
    };
    let name = Some(name).filter(|name| name.len() <= 64 && name.chars().all(|c| c.is_ascii_graphic()))?;
    let entry = Entry { name: name.to_owned(), access, token: Token::parse(token)? };
    words.next().is_none().then_some(entry)
}

/// The error of a start.
pub(super) fn failed(error: &TokensError) -> Diagnostic {
    let remedy = "write lines such as `operator write TOKEN`, with tokens of `openssl rand -hex 32`, and chmod o= the file";
    Diagnostic::bad("api", error, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    const A: &str = "0123456789abcdef0123456789abcdef";
    const B: &str = "fedcba9876543210fedcba9876543210";

    fn write(path: &Path, text: &str, mode: u32) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_token_has_the_name_and_access_of_its_line_until_the_file_changes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        write(&path, &format!("# comment\n\noperator write {A}\n  grafana\tread {B}\n"), 0o640);
        let tokens = Tokens::open(&path).unwrap();
        assert_eq!(tokens.find(A), Some(("operator".to_owned(), Access::Write)));
        assert_eq!(tokens.find(B), Some(("grafana".to_owned(), Access::Read)));
        for wrong in ["", &A[1..], &format!("{A} "), "operator"] {
            assert_eq!(tokens.find(wrong), None, "{wrong}");
        }
        write(&path, &format!("other write {B}\n# longer\n"), 0o640);
        assert_eq!((tokens.find(A), tokens.find(B)), (None, Some(("other".to_owned(), Access::Write))));
        write(&path, "broken", 0o640);
        assert_eq!(tokens.find(B), None);
    }

    #[test]
    fn files_of_others_and_bad_lines_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        let refused = |text: &str, mode| {
            write(&path, text, mode);
            Tokens::open(&path).unwrap_err().to_string()
        };
        assert!(refused(&format!("a write {A}\n"), 0o644).contains("every user of this machine"));
        assert!(refused("", 0o600).contains("has no tokens"));
        let lines = ["a write", "a execute TOKEN", "a write short", "write TOKEN", "a read TOKEN x"];
        for line in lines.map(|line| line.replace("TOKEN", A)) {
            assert!(refused(&format!("ok read {B}\n{line}\n"), 0o600).contains("line 2"), "{line}");
        }
        let many = format!("a read {A}\n").repeat(MOST + 1);
        assert!(refused(&many, 0o600).contains("more than 64"));
        assert!(!format!("{:?}", parse(&path, &format!("a read {A}"))).contains(A));
    }
}
