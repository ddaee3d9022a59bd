//! `ma`: arithmetic on values that are decimal numbers.

use super::flags::Flags;
use super::{brief, echo, flag, general, remaining};
use crate::kv::cache::At;
use crate::kv::session::Context;
use crate::kv::store::{Delta, DeltaError};
use crate::kv::text::NOT_NUMERIC;

pub(super) fn arithmetic(
    key: &[u8],
    words: &[&[u8]],
    context: &mut Context<'_>,
) -> Result<(), &'static [u8]> {
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
