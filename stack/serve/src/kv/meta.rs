//! Meta commands (doc/protocol.txt, "Meta Commands"): `mg`, `ms`, `md`, `ma`, `me` and `mn`.

use super::cache::{At, OVERHEAD};
use super::line::{signed_32, unsigned, unsigned_32};
use super::output::Output;
use super::session::{Context, Pending, Reply, State};
use super::store::{Delta, DeltaError, MAX_KEY, MAX_VALUE, Mode, Put, Stored, expiry};
use super::text::{self, NO_MEMORY, NOT_NUMERIC, TOO_LARGE, refuse};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use std::borrow::Cow;

/// Maximum number of words of a command.
const MAX_WORDS: usize = 19;
/// Maximum length of an opaque token with its letter, in bytes.
const MAX_OPAQUE: usize = 32;
const BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad command line format";
const BAD_TOKEN: &[u8] = b"CLIENT_ERROR bad token in command line format";
const BAD_FLAG: &[u8] = b"CLIENT_ERROR invalid or duplicate flag";
const LONG_OPAQUE: &[u8] = b"CLIENT_ERROR opaque token too long";

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
struct Flags {
    letters: Letters,
    /// The key, decoded.
    key: Vec<u8>,
    mode: u8,
    /// Seconds of T, N and R.
    expires: u32,
    vivify: u32,
    recache: u32,
    of_client: u32,
    expected: u64,
    version: Option<u64>,
    delta: u64,
    initial: u64,
}

impl Flags {
    /// Parses a key and the words after it.
    fn parse(key: &[u8], words: &[&[u8]], now: u32) -> Result<Self, &'static [u8]> {
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

    fn has(&self, letter: u8) -> bool {
        self.letters.has(letter)
    }
}

fn decode(key: &[u8]) -> Option<Vec<u8>> {
    BASE64.decode(key).ok().filter(|key| !key.is_empty())
}

/// The key of the command `name`, decoded if its flags say so and it can be.
pub(super) fn key<'a>(name: &[u8], key: &'a [u8], flags: &[&[u8]]) -> Cow<'a, [u8]> {
    let is_binary = match name {
        b"me" => flags.first() == Some(&&b"b"[..]),
        _ => flags.iter().any(|flag| flag.first() == Some(&b'b')),
    };
    let decoded = is_binary.then(|| decode(key)).flatten();
    decoded.map_or(Cow::Borrowed(key), Cow::Owned)
}

/// Executes the command `m` and `kind`.
pub(super) fn execute(kind: u8, words: &[&[u8]], context: &mut Context<'_>) -> State {
    if kind == b'n' {
        context.out.line(b"MN");
        return State::Line;
    }
    let result = match words {
        [_] if kind == b'e' => Err(BAD_FORMAT),
        [] | [_] => Err(&b"ERROR"[..]),
        [_, key, ..] if key.len() > MAX_KEY => Err(BAD_FORMAT),
        [_, key, rest @ ..] => match kind {
            b'e' => debug(key, rest, context),
            b's' if rest.is_empty() => Err(BAD_FORMAT),
            _ if words.len() > MAX_WORDS && kind == b'g' => {
                Err(&b"CLIENT_ERROR options flags are too long"[..])
            }
            _ if words.len() > MAX_WORDS => Err(&b"CLIENT_ERROR options flags too long"[..]),
            b'g' => get(key, rest, context),
            b's' => return set(key, rest, context),
            b'd' => delete(key, rest, context),
            _ => arithmetic(key, rest, context),
        },
    };
    if let Err(error) = result {
        context.out.line(error);
    }
    State::Line
}

/// Writes a flag of a reply that repeats the request: the opaque token or the key. Returns `false` for other flags.
fn echo(word: &[u8], key: &[u8], is_binary: bool, out: &mut Output) -> bool {
    match word.first() {
        Some(b'O') => {
            out.push(b" ");
            out.push(word);
        }
        Some(b'k') if is_binary => {
            out.push(b" k");
            out.push(BASE64.encode(key).as_bytes());
            out.push(b" b");
        }
        Some(b'k') => {
            out.push(b" k");
            out.push(key);
        }
        _ => return false,
    }
    true
}

/// Writes a reply of a code and the flags that repeat the request.
fn brief(code: &[u8], flags: &Flags, words: &[&[u8]], out: &mut Output) {
    out.push(code);
    for word in words {
        echo(word, &flags.key, flags.has(b'b'), out);
    }
    out.push(b"\r\n");
}

fn flag(letter: u8, value: u64, out: &mut Output) {
    out.push(&[b' ', letter]);
    out.number(value);
}

/// Remaining seconds of an item; -1 for unlimited.
fn remaining(expires: u32, now: u32, out: &mut Output) {
    match expires {
        0 => out.push(b" t-1"),
        _ => flag(b't', expires.saturating_sub(now).into(), out),
    }
}

fn get(key: &[u8], words: &[&[u8]], context: &mut Context<'_>) -> Result<(), &'static [u8]> {
    let now = context.store.now();
    let flags = Flags::parse(key, words, now)?;
    let Context { store, out, .. } = context;
    let found = store.find(&flags.key);
    store.stats.count_get(found.is_some());
    let at = match found {
        None if flags.has(b'N') => store.create(&flags.key, 0, flags.has(b'b'), b""),
        found => found,
    };
    let Some(at) = at else {
        if !flags.has(b'q') {
            brief(b"EN", &flags, words, out);
        }
        return Ok(());
    };
    let is_created = found.is_none();
    // A matching version means that the client has the value.
    let has_value = flags.has(b'v') && !(flags.has(b'C') && store.item(at).cas == flags.expected);
    if has_value {
        out.push(b"VA ");
        out.number(store.item(at).len() as u64);
    } else {
        out.push(b"HD");
    }
    let mut has_won = is_created;
    for word in words {
        has_won |= get_flag(word, at, &flags, is_created, context);
    }
    finish_get(at, has_won, has_value, context);
    if !flags.has(b'u') {
        context.store.bump(at);
    }
    Ok(())
}

/// Applies and writes one flag of `mg`. Returns whether the client has won the right to replace the value.
fn get_flag(word: &[u8], at: At, flags: &Flags, is_created: bool, context: &mut Context<'_>) -> bool {
    let Context { store, out, .. } = context;
    let (now, item) = (store.now(), store.item(at));
    match word.first().copied().unwrap_or_default() {
        b'T' => item.expires = flags.expires,
        b'N' if is_created => item.expires = flags.vivify,
        b'R' => return !item.marks.won && !is_created && item.expires != 0 && item.expires < flags.recache,
        b's' => flag(b's', item.len() as u64, out),
        b't' => remaining(item.expires, now, out),
        b'c' => flag(b'c', item.cas, out),
        b'f' => flag(b'f', item.flags.into(), out),
        b'l' => flag(b'l', now.saturating_sub(item.used).into(), out),
        b'h' => flag(b'h', item.marks.fetched.into(), out),
        _ => {
            echo(word, &flags.key, item.marks.binary, out);
        }
    }
    false
}

/// Writes what follows the flags that were requested.
fn finish_get(at: At, has_won: bool, has_value: bool, context: &mut Context<'_>) {
    let Context { store, out, .. } = context;
    let item = store.item(at);
    let has_won = has_won || (item.marks.stale && !item.marks.won);
    if item.marks.won {
        out.push(b" Z");
    }
    if item.marks.stale {
        out.push(b" X");
    }
    if has_won {
        out.push(b" W");
        item.marks.won = true;
    }
    out.push(b"\r\n");
    if has_value {
        out.value(&item.value);
    }
}

/// The reply to `ms`.
#[derive(Debug)]
pub(super) struct SetReply {
    is_quiet: bool,
    /// Flags of the request, separated by spaces.
    words: Vec<u8>,
}

fn set(key: &[u8], words: &[&[u8]], context: &mut Context<'_>) -> State {
    let Some(len) = words.first().and_then(|len| text::value_len(len)) else {
        context.out.line(BAD_FORMAT);
        return State::Line;
    };
    let words = words.get(1..).unwrap_or_default();
    let put = Flags::parse(key, words, context.store.now()).and_then(|flags| Ok((put(&flags)?, flags)));
    match put {
        Err(error) => refuse(len, false, error, context),
        Ok((put, _)) if len > MAX_VALUE => {
            context.remove(&put.key);
            refuse(len, false, TOO_LARGE, context)
        }
        Ok((put, flags)) => {
            let reply = Reply::Meta(SetReply { is_quiet: flags.has(b'q'), words: words.join(&b' ') });
            State::Value(Box::new(Pending { put, len: len + 2, reply, data: Vec::new() }))
        }
    }
}

fn put(flags: &Flags) -> Result<Put, &'static [u8]> {
    let has_version = flags.has(b'C');
    let mode = match flags.mode {
        0 | b'S' | b'R' if has_version => Mode::Cas,
        0 | b'S' => Mode::Set,
        b'E' => Mode::Add,
        b'A' => Mode::Append,
        b'P' => Mode::Prepend,
        b'R' => Mode::Replace,
        _ => return Err(b"CLIENT_ERROR invalid mode for ms M token"),
    };
    Ok(Put {
        key: flags.key.clone().into(),
        mode,
        flags: flags.of_client,
        expires: flags.expires,
        expected: flags.expected,
        version: flags.version,
        may_be_stale: flags.has(b'I') && mode == Mode::Cas,
        binary: flags.has(b'b'),
        vivify: flags.has(b'N').then_some(flags.vivify),
    })
}

impl SetReply {
    /// Writes the result of storing `len` bytes.
    pub(super) fn write(&self, stored: Stored, put: &Put, len: usize, context: &mut Context<'_>) {
        let Context { store, out, .. } = context;
        let (code, cas) = match stored {
            Stored::Done(_) if self.is_quiet => return,
            Stored::Done(cas) => (b"HD", cas),
            Stored::Refused => (b"NS", 0),
            Stored::Exists => (b"EX", 0),
            Stored::NotFound => (b"NF", 0),
            Stored::NoMemory => return out.line(NO_MEMORY),
        };
        out.push(code);
        for word in super::line::Words::new(&self.words, 0) {
            match word.first() {
                Some(b'c') => flag(b'c', cas, out),
                Some(b's') => {
                    let len = store.find(&put.key).map_or(len, |at| store.item(at).len());
                    flag(b's', len as u64, out);
                }
                _ => {
                    echo(word, &put.key, put.binary, out);
                }
            }
        }
        out.push(b"\r\n");
    }
}

fn delete(key: &[u8], words: &[&[u8]], context: &mut Context<'_>) -> Result<(), &'static [u8]> {
    let flags = Flags::parse(key, words, context.store.now()).map_err(general)?;
    let Context { store, out, .. } = context;
    let code: &[u8] = match store.find(&flags.key) {
        None => {
            store.stats.count_delete(false);
            b"NF"
        }
        Some(at) if flags.has(b'C') && store.item(at).cas != flags.expected => {
            store.stats.count_delete(false);
            b"EX"
        }
        Some(at) if flags.has(b'I') || flags.has(b'x') => {
            if flags.has(b'I') && flags.has(b'T') {
                store.item(at).expires = flags.expires;
            }
            store.invalidate(&flags.key, at, flags.has(b'I'), flags.has(b'x'), flags.version);
            b"HD"
        }
        Some(_) => {
            store.delete(&flags.key);
            b"HD"
        }
    };
    if !(flags.has(b'q') && code == b"HD") {
        brief(code, &flags, words, out);
    }
    Ok(())
}

/// `md` and `ma` report every error of their flags by one text, except for the opaque token.
fn general(error: &'static [u8]) -> &'static [u8] {
    if error == LONG_OPAQUE { error } else { BAD_FLAG }
}

fn arithmetic(key: &[u8], words: &[&[u8]], context: &mut Context<'_>) -> Result<(), &'static [u8]> {
    let flags = Flags::parse(key, words, context.store.now()).map_err(general)?;
    let is_increment = match flags.mode {
        0 | b'I' | b'+' => true,
        b'D' | b'-' => false,
        _ => return Err(b"CLIENT_ERROR invalid mode for ma M token"),
    };
    let Context { store, out, .. } = context;
    let delta = Delta { is_increment, by: flags.delta, expected: flags.expected, version: flags.version };
    let result = store.add(&flags.key, delta);
    match result {
        Ok((at, number)) => {
            store.stats.count_delta(is_increment, true);
            // Its text is written nowhere in quiet mode, but its flags apply.
            let is_quiet = flags.has(b'q');
            changed((at, number), &flags, words, (false, is_quiet), context);
        }
        Err(DeltaError::NotFound) if flags.has(b'N') => {
            let text = flags.initial.to_string();
            let at = store.create(&flags.key, 0, flags.has(b'b'), text.as_bytes());
            let at = at.ok_or(&b"SERVER_ERROR Out of memory allocating new item"[..])?;
            changed((at, flags.initial), &flags, words, (true, false), context);
        }
        Err(DeltaError::NotFound) => {
            store.stats.count_delta(is_increment, false);
            brief(b"NF", &flags, words, out);
        }
        Err(DeltaError::Exists) => brief(b"EX", &flags, words, out),
        Err(DeltaError::NotNumeric) => return Err(NOT_NUMERIC),
        Err(DeltaError::NoMemory) => return Err(b"SERVER_ERROR out of memory"),
    }
    Ok(())
}

/// Applies the flags of `ma` to a number that was changed or created, and writes the reply unless it is quiet.
fn changed(
    (at, number): (At, u64),
    flags: &Flags,
    words: &[&[u8]],
    (is_created, is_quiet): (bool, bool),
    context: &mut Context<'_>,
) {
    let Context { store, out, .. } = context;
    let (now, text) = (store.now(), number.to_string());
    match (is_quiet, flags.has(b'v')) {
        (true, _) => {}
        (false, true) => out.push(format!("VA {}", text.len()).as_bytes()),
        (false, false) => out.push(b"HD"),
    }
    for word in words {
        let item = store.item(at);
        match word.first() {
            Some(b'T') => item.expires = flags.expires,
            Some(b'N') if is_created => item.expires = flags.vivify,
            _ if is_quiet => {}
            Some(b't') => remaining(item.expires, now, out),
            Some(b'c') => flag(b'c', item.cas, out),
            _ => {
                echo(word, &flags.key, flags.has(b'b'), out);
            }
        }
    }
    if !is_quiet {
        out.push(b"\r\n");
        if flags.has(b'v') {
            out.line(text.as_bytes());
        }
    }
}

/// `me`: what is known of an item. Its class is always 1, and its size is what it is charged.
fn debug(key: &[u8], words: &[&[u8]], context: &mut Context<'_>) -> Result<(), &'static [u8]> {
    let key = if words.first() == Some(&&b"b"[..]) { decode(key).ok_or(BAD_FORMAT)? } else { key.to_vec() };
    let Context { store, out, .. } = context;
    let Some(at) = store.find(&key) else {
        out.line(b"EN");
        return Ok(());
    };
    let (now, item) = (store.now(), store.item(at).clone());
    out.push(b"ME ");
    if item.marks.binary {
        out.push(BASE64.encode(&key).as_bytes());
    } else {
        out.push(&key);
    }
    let age = if item.expires == 0 { -1 } else { i64::from(now) - i64::from(item.expires) };
    let fetched = if item.marks.fetched { "yes" } else { "no" };
    let (accessed, size) = (now.saturating_sub(item.used), key.len() + item.value.len() + OVERHEAD);
    let text = format!(" exp={age} la={accessed} cas={} fetch={fetched} cls=1 size={size}", item.cas);
    out.line(text.as_bytes());
    Ok(())
}
