//! `ms`: storing of values.

use super::flags::Flags;
use super::{BAD_FORMAT, echo, flag};
use crate::kv::line::Words;
use crate::kv::session::{Context, Pending, Reply, State};
use crate::kv::store::{MAX_VALUE, Mode, Put, Stored};
use crate::kv::text::{self, NO_MEMORY, TOO_LARGE, refuse};

/// The reply to `ms`.
#[derive(Debug)]
pub(in crate::kv) struct SetReply {
    is_quiet: bool,
    /// Flags of the request, separated by spaces.
    words: Vec<u8>,
}

pub(super) fn set(key: &[u8], words: &[&[u8]], context: &mut Context<'_>) -> State {
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
    pub(in crate::kv) fn write(&self, stored: Stored, put: &Put, len: usize, context: &mut Context<'_>) {
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
        for word in Words::new(&self.words, 0) {
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
