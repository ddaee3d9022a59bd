//! Meta commands (doc/protocol.txt, "Meta Commands"): `mg`, `ms`, `md`, `ma`, `me` and `mn`.

use super::cache::OVERHEAD;
use super::output::Output;
use super::session::{Context, State};
use super::store::MAX_KEY;
use arithmetic::arithmetic;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use flags::{Flags, decode};
use get::get;
use set::set;

mod arithmetic;
mod flags;
mod get;
mod set;

pub(super) use flags::key;
pub(super) use set::SetReply;

/// Maximum number of words of a command.
const MAX_WORDS: usize = 19;
const BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad command line format";
const BAD_FLAG: &[u8] = b"CLIENT_ERROR invalid or duplicate flag";
const LONG_OPAQUE: &[u8] = b"CLIENT_ERROR opaque token too long";

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
