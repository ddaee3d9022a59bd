//! Flags of meta commands, and keys in base64.

use super::{BAD_FORMAT, LONG_OPAQUE};
use crate::kv::line::{signed_32, unsigned, unsigned_32};
use crate::kv::store::expiry;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use std::borrow::Cow;

/// Maximum length of an opaque token with its letter, in bytes.
const MAX_OPAQUE: usize = 32;
const BAD_TOKEN: &[u8] = b"CLIENT_ERROR bad token in command line format";

/// Letters of the flags that appeared, as bits from `A`.
#[derive(Clone, Copy, Debug, Default)]
struct Letters(u64);

impl Letters {
    /// Adds a letter. Returns `false` if it is none, or appeared before.
    fn add(&mut self, letter: u8) -> bool {
        let Some(bit) = letter.checked_sub(b'A').filter(|bit| *bit < 58).map(|bit| 1 << bit) else {
            return false;
        };
        let is_new = self.0 & bit == 0;
        self.0 |= bit;
        is_new
    }

    fn has(self, letter: u8) -> bool {
        self.0 >> (letter - b'A') & 1 == 1
    }
}

/// Flags of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Flags {
    letters: Letters,
    /// The key, decoded.
    pub(super) key: Vec<u8>,
    pub(super) mode: u8,
    /// Seconds of T, N and R.
    pub(super) expires: u32,
    pub(super) vivify: u32,
    pub(super) recache: u32,
    pub(super) of_client: u32,
    pub(super) expected: u64,
    pub(super) version: Option<u64>,
    pub(super) delta: u64,
    pub(super) initial: u64,
}

impl Flags {
    /// Parses a key and the words after it.
    pub(super) fn parse(key: &[u8], words: &[&[u8]], now: u32) -> Result<Self, &'static [u8]> {
        let mut flags = Self { key: key.to_vec(), delta: 1, ..Self::default() };
        let mut error = None;
        for word in words {
            let Some((letter, token)) = word.split_first() else { continue };
            if !flags.letters.add(*letter) {
                return Err(if letter.is_ascii_alphabetic() {
                    b"CLIENT_ERROR duplicate flag"
                } else {
                    b"CLIENT_ERROR invalid flag"
                });
            }
            // The last error is reported, but a flag that is not known ends the parsing.
            match flags.set(*letter, token, now) {
                Err(b"CLIENT_ERROR invalid flag") => return Err(b"CLIENT_ERROR invalid flag"),
                result => error = result.err().or(error),
            }
        }
        error.map_or(Ok(flags), Err)
    }

    fn set(&mut self, letter: u8, token: &[u8], now: u32) -> Result<(), &'static [u8]> {
        let time = || signed_32(token).map(|exptime| expiry(exptime, now)).ok_or(BAD_TOKEN);
        let number = |error| unsigned(token).ok_or(error);
        match letter {
            b'b' => self.key = decode(&self.key).ok_or(&b"CLIENT_ERROR error decoding key"[..])?,
            b'N' => self.vivify = time()?,
            b'T' => self.expires = time()?,
            b'R' => self.recache = time()?,
            b'F' => self.of_client = unsigned_32(token).ok_or(BAD_FORMAT)?,
            b'C' => self.expected = number(BAD_TOKEN)?,
            b'E' => self.version = Some(number(BAD_TOKEN)?),
            b'J' => self.initial = number(b"CLIENT_ERROR invalid numeric initial value")?,
            b'D' => self.delta = number(b"CLIENT_ERROR invalid numeric delta value")?,
            b'M' => match token {
                [mode] => self.mode = *mode,
                _ => return Err(b"CLIENT_ERROR incorrect length for M token"),
            },
            b'O' if token.len() >= MAX_OPAQUE => return Err(LONG_OPAQUE),
            b'O' | b'P' | b'L' | b'k' | b's' | b't' | b'c' | b'f' | b'v' | b'l' | b'h' | b'u' | b'q'
            | b'x' | b'I' => {}
            _ => return Err(b"CLIENT_ERROR invalid flag"),
        }
        Ok(())
    }

    pub(super) fn has(&self, letter: u8) -> bool {
        self.letters.has(letter)
    }
}

pub(super) fn decode(key: &[u8]) -> Option<Vec<u8>> {
    BASE64.decode(key).ok().filter(|key| !key.is_empty())
}

/// The key of the command `name`, decoded if its flags say so and it can be.
pub(in crate::kv) fn key<'a>(name: &[u8], key: &'a [u8], flags: &[&[u8]]) -> Cow<'a, [u8]> {
    let is_binary = match name {
        b"me" => flags.first() == Some(&&b"b"[..]),
        _ => flags.iter().any(|flag| flag.first() == Some(&b'b')),
    };
    let decoded = is_binary.then(|| decode(key)).flatten();
    decoded.map_or(Cow::Borrowed(key), Cow::Owned)
}
