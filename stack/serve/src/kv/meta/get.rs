//! `mg`: values and properties of items, and the right to replace a missing or stale value.

use super::flags::Flags;
use super::{brief, echo, flag, remaining};
use crate::kv::cache::At;
use crate::kv::session::Context;

pub(super) fn get(key: &[u8], words: &[&[u8]], context: &mut Context<'_>) -> Result<(), &'static [u8]> {
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
