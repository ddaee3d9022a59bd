//! Commands of memcached's text protocol (doc/protocol.txt), with the errors of memcached 1.6.

use super::line::{MAX_WORDS, Words, signed_32, unsigned, unsigned_32};
use super::links::Command;
use super::meta;
use super::session::{Context, Pending, Reply, State};
use super::stats::{Stats, VERSION};
use super::store::{Delta, DeltaError, MAX_KEY, MAX_VALUE, Mode, Put, Stored, expiry};
use std::borrow::Cow;

const BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad command line format";
const BAD_EXPTIME: &[u8] = b"CLIENT_ERROR invalid exptime argument";
pub(super) const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache";
pub(super) const NO_MEMORY: &[u8] = b"SERVER_ERROR out of memory storing object";
pub(super) const NOT_NUMERIC: &[u8] = b"CLIENT_ERROR cannot increment or decrement non-numeric value";

/// Keys of `get` that wait for room for replies.
#[derive(Debug)]
pub(super) struct Keys {
    line: Vec<u8>,
    at: usize,
    get: Get,
}

/// A form of `get`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Get {
    has_version: bool,
    /// New expiry.
    expires: Option<u32>,
}

/// Writes a line, unless the request has `noreply`.
pub(super) fn reply(is_silent: bool, text: &[u8], context: &mut Context<'_>) {
    if !is_silent {
        context.out.line(text);
    }
}

/// Writes the result of storing.
pub(super) fn stored(is_silent: bool, stored: Stored, context: &mut Context<'_>) {
    let text: &[u8] = match stored {
        Stored::Done(_) => b"STORED",
        Stored::Refused => b"NOT_STORED",
        Stored::Exists => b"EXISTS",
        Stored::NotFound => b"NOT_FOUND",
        Stored::NoMemory => NO_MEMORY,
    };
    reply(is_silent, text, context);
}

/// Executes a line and returns what follows it.
pub(super) fn execute(line: &[u8], context: &mut Context<'_>) -> State {
    let mut all = Words::new(line, 0);
    let name = all.next().unwrap_or_default();
    let is_get = match name {
        b"get" => Some((false, false)),
        b"gets" => Some((true, false)),
        b"gat" => Some((false, true)),
        b"gats" => Some((true, true)),
        _ => None,
    };
    if let Some((has_version, is_touch)) = is_get {
        return get(line, all, has_version, is_touch, context);
    }
    let mut words = [&b""[..]; MAX_WORDS];
    let mut len = 0;
    for (place, word) in words.iter_mut().zip(Words::new(line, 0)) {
        *place = word;
        len += 1;
    }
    let words = &words[..len];
    if context.links.others() > 0
        && let Some(key) = key(words)
        && let Some(to) = context.links.owner(&key)
    {
        context.forward(to, Command::Line(line.into()));
        return State::Line;
    }
    dispatch(words, context)
}

/// The key of a command that its worker executes without a value. Keys of others are looked at later.
fn key<'a>(words: &[&'a [u8]]) -> Option<Cow<'a, [u8]>> {
    match words {
        [b"incr" | b"decr" | b"delete" | b"touch", key, ..] => Some(Cow::Borrowed(key)),
        [name @ (b"mg" | b"md" | b"ma" | b"me"), key, flags @ ..] => Some(meta::key(name, key, flags)),
        _ => None,
    }
}

/// Executes a command other than `get`.
fn dispatch(words: &[&[u8]], context: &mut Context<'_>) -> State {
    let name = words.first().copied().unwrap_or_default();
    if let (b"mg" | b"ms" | b"md" | b"ma" | b"me" | b"mn", [_, kind]) = (name, name) {
        return meta::execute(*kind, words, context);
    }
    let is_silent = words.len() > 1 && words.last() == Some(&&b"noreply"[..]);
    let mode = match name {
        b"set" => Some(Mode::Set),
        b"add" => Some(Mode::Add),
        b"replace" => Some(Mode::Replace),
        b"append" => Some(Mode::Append),
        b"prepend" => Some(Mode::Prepend),
        b"cas" => Some(Mode::Cas),
        _ => None,
    };
    if let Some(mode) = mode {
        return update(mode, words, is_silent, context);
    }
    match (name, words.len()) {
        (b"quit", _) => return State::Closed,
        (b"incr" | b"decr", 3 | 4) => arithmetic(name == b"incr", words, is_silent, context),
        (b"delete", 2..=4) => delete(words, is_silent, context),
        (b"touch", 3 | 4) => touch(words, is_silent, context),
        (b"flush_all", 1..=3) => flush_all(words, is_silent, context),
        (b"verbosity", 2 | 3) => verbosity(words, is_silent, context),
        (b"version", _) => context.out.line(format!("VERSION {VERSION}").as_bytes()),
        (b"stats", 1) => context.write_stats(),
        (b"stats", _) if words[1] == b"reset" => {
            context.store.stats = Stats::default();
            context.forward_all(|| Command::Reset);
            context.out.line(b"RESET");
        }
        _ => context.out.line(b"ERROR"),
    }
    State::Line
}

/// Validates the keys of a `get` before the first reply, because an invalid one replaces all of them.
fn get(
    line: &[u8],
    mut words: Words<'_>,
    has_version: bool,
    is_touch: bool,
    context: &mut Context<'_>,
) -> State {
    let first = words.clone().next();
    if first.is_none() {
        context.out.line(b"ERROR");
        return State::Line;
    }
    let mut expires = None;
    if is_touch {
        let Some(exptime) = words.next().and_then(signed_32) else {
            context.out.line(BAD_EXPTIME);
            return State::Line;
        };
        expires = Some(expiry(exptime, context.store.now()));
    }
    if words.clone().any(|key| key.len() > MAX_KEY) {
        context.out.line(BAD_FORMAT);
        return State::Line;
    }
    let get = Get { has_version, expires };
    if get.run(&mut words, context) {
        return State::Line;
    }
    State::Keys(Box::new(Keys { line: line.to_vec(), at: words.offset(), get }))
}

impl Get {
    /// Answers keys while there is room. Returns whether all are answered.
    fn run(self, keys: &mut Words<'_>, context: &mut Context<'_>) -> bool {
        while context.has_room() {
            let Some(key) = keys.next() else {
                context.out.line(b"END");
                return true;
            };
            match context.links.owner(key) {
                Some(to) => context.forward(to, Command::Get(key.into(), self)),
                None => self.read(key, context),
            }
        }
        false
    }

    /// Answers a key of this worker.
    pub(super) fn read(self, key: &[u8], context: &mut Context<'_>) {
        let Context { store, out, .. } = context;
        let at = store.find(key);
        match self.expires {
            Some(_) => store.stats.count_touch(at.is_some()),
            None => store.stats.count_get(at.is_some()),
        }
        let Some(at) = at else { return };
        store.bump(at);
        let item = store.item(at);
        item.expires = self.expires.unwrap_or(item.expires);
        out.push(b"VALUE ");
        out.push(key);
        out.push(b" ");
        out.number(item.flags.into());
        out.push(b" ");
        out.number(item.len() as u64);
        if self.has_version {
            out.push(b" ");
            out.number(item.cas);
        }
        out.push(b"\r\n");
        out.value(&item.value);
    }
}

impl Keys {
    /// Continues. Returns what follows when all keys are answered.
    pub(super) fn resume(&mut self, context: &mut Context<'_>) -> Option<State> {
        let mut words = Words::new(&self.line, self.at);
        let is_complete = self.get.run(&mut words, context);
        self.at = words.offset();
        is_complete.then_some(State::Line)
    }
}

/// `set`, `add`, `replace`, `append`, `prepend` and `cas`. A line that memcached refuses without reading a value is
/// refused likewise.
fn update(mode: Mode, words: &[&[u8]], is_silent: bool, context: &mut Context<'_>) -> State {
    let least = if mode == Mode::Cas { 6 } else { 5 };
    if words.len() != least && words.len() != least + 1 {
        context.out.line(b"ERROR");
        return State::Line;
    }
    let Some((put, len)) = parse_put(mode, words, context.store.now()) else {
        reply(is_silent, BAD_FORMAT, context);
        return State::Line;
    };
    if len > MAX_VALUE {
        if mode == Mode::Set {
            // After this command the client expects the new value, so the old one must not remain.
            context.remove(&put.key);
        }
        return refuse(len, is_silent, TOO_LARGE, context);
    }
    let reply = Reply::Text { is_silent };
    State::Value(Box::new(Pending { put, len: len + 2, reply, data: Vec::new() }))
}

/// Reports that a value is not stored, and skips it.
pub(super) fn refuse(len: usize, is_silent: bool, text: &[u8], context: &mut Context<'_>) -> State {
    context.store.stats.too_large += u64::from(text == TOO_LARGE);
    reply(is_silent, text, context);
    State::Skip(len + 2)
}

fn parse_put(mode: Mode, words: &[&[u8]], now: u32) -> Option<(Put, usize)> {
    let key = words.get(1).filter(|key| key.len() <= MAX_KEY)?;
    let [flags, exptime, len] = words.get(2..5)? else { return None };
    let expected = if mode == Mode::Cas { unsigned(words.get(5)?)? } else { 0 };
    let put = Put {
        key: (*key).into(),
        mode,
        flags: unsigned_32(flags)?,
        expires: expiry(signed_32(exptime)?, now),
        expected,
        version: None,
        may_be_stale: false,
        binary: false,
        vivify: None,
    };
    Some((put, value_len(len)?))
}

/// Length of a value: not negative, and with CR and LF below 2^31.
pub(super) fn value_len(text: &[u8]) -> Option<usize> {
    signed_32(text).and_then(|len| usize::try_from(len).ok()).filter(|len| *len <= i32::MAX as usize - 2)
}

fn arithmetic(is_increment: bool, words: &[&[u8]], is_silent: bool, context: &mut Context<'_>) {
    if words[1].len() > MAX_KEY {
        return reply(is_silent, BAD_FORMAT, context);
    }
    let Some(by) = unsigned(words[2]) else {
        return reply(is_silent, b"CLIENT_ERROR invalid numeric delta argument", context);
    };
    let result = context.store.add(words[1], Delta { is_increment, by, expected: 0, version: None });
    match result {
        Ok(_) => context.store.stats.count_delta(is_increment, true),
        Err(DeltaError::NotFound) => context.store.stats.count_delta(is_increment, false),
        Err(_) => {}
    }
    match result {
        Ok((_, number)) => reply(is_silent, number.to_string().as_bytes(), context),
        Err(DeltaError::NotFound) => reply(is_silent, b"NOT_FOUND", context),
        Err(DeltaError::NotNumeric) => reply(is_silent, NOT_NUMERIC, context),
        Err(DeltaError::Exists) => reply(is_silent, b"EXISTS", context),
        Err(DeltaError::NoMemory) => reply(is_silent, b"SERVER_ERROR out of memory", context),
    }
}

/// The second argument of `delete` was a time, and may still be 0.
fn delete(words: &[&[u8]], is_silent: bool, context: &mut Context<'_>) {
    let is_valid = match words {
        [_, _] => true,
        [_, _, third] => *third == b"0" || is_silent,
        [_, _, third, _] => *third == b"0" && is_silent,
        _ => false,
    };
    if !is_valid {
        let usage = b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";
        return reply(is_silent, usage, context);
    }
    if words[1].len() > MAX_KEY {
        return reply(is_silent, BAD_FORMAT, context);
    }
    let is_deleted = context.store.delete(words[1]);
    reply(is_silent, if is_deleted { b"DELETED" } else { b"NOT_FOUND" }, context);
}

fn touch(words: &[&[u8]], is_silent: bool, context: &mut Context<'_>) {
    if words[1].len() > MAX_KEY {
        return reply(is_silent, BAD_FORMAT, context);
    }
    let Some(exptime) = signed_32(words[2]) else { return reply(is_silent, BAD_EXPTIME, context) };
    let is_touched = context.store.touch(words[1], expiry(exptime, context.store.now()));
    reply(is_silent, if is_touched { b"TOUCHED" } else { b"NOT_FOUND" }, context);
}

fn flush_all(words: &[&[u8]], is_silent: bool, context: &mut Context<'_>) {
    let now = context.store.now();
    let mut at = now;
    if words.len() > 1 + usize::from(is_silent) {
        let Some(delay) = signed_32(words[1]) else { return reply(is_silent, BAD_EXPTIME, context) };
        at = if delay > 0 { expiry(delay, now) } else { now };
    }
    context.store.stats.cmd_flush += 1;
    context.store.flush(at);
    context.forward_all(|| Command::Flush(at));
    reply(is_silent, b"OK", context);
}

/// The level is validated and has no effect.
fn verbosity(words: &[&[u8]], is_silent: bool, context: &mut Context<'_>) {
    let text = if unsigned_32(words[1]).is_some() { b"OK" } else { BAD_FORMAT };
    reply(is_silent, text, context);
}
