//! The items of one core and the operations on them, with the rules of memcached for expiry and versions.
//!
//! The module must not parse requests or write replies.

use super::cache::{At, Cache, Item, Marks};
use super::line;
use super::stats::Stats;
use host::Buffer;
use stack::Slice;
use std::borrow::Cow;

/// Maximum length of a key in bytes.
pub(super) const MAX_KEY: usize = 250;
/// Maximum length of a value in bytes.
pub(super) const MAX_VALUE: usize = 1 << 20;
/// Longest expiry in seconds that counts from now; greater numbers are Unix times.
const MAX_RELATIVE: i32 = 60 * 60 * 24 * 30;

/// When an item is stored, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    /// Only if the version is the expected one.
    Cas,
}

/// A value to store.
#[derive(Clone, Debug)]
pub(super) struct Put {
    pub(super) key: Box<[u8]>,
    pub(super) mode: Mode,
    pub(super) flags: u32,
    /// Second of expiry; 0 for never.
    pub(super) expires: u32,
    /// Expected version; 0 for any.
    pub(super) expected: u64,
    /// Version to give the item instead of the next one.
    pub(super) version: Option<u64>,
    /// Whether an older expected version stores the value as a stale one.
    pub(super) may_be_stale: bool,
    pub(super) binary: bool,
    /// Second of expiry with which appending creates a missing item.
    pub(super) vivify: Option<u32>,
}

/// Result of [`Store::put`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// Stored with this version.
    Done(u64),
    /// `NOT_STORED`
    Refused,
    /// Another version exists.
    Exists,
    NotFound,
    NoMemory,
}

/// A change of a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delta {
    pub(super) is_increment: bool,
    pub(super) by: u64,
    /// Expected version; 0 for any.
    pub(super) expected: u64,
    pub(super) version: Option<u64>,
}

/// Reason why a number did not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeltaError {
    NotFound,
    NotNumeric,
    Exists,
    NoMemory,
}

/// The items of one core.
#[derive(Debug)]
pub(super) struct Store {
    cache: Cache,
    /// Version of the last change.
    version: u64,
    /// Number of stores that share keys: the versions of each have another remainder.
    step: u64,
    /// Second of a flush that was requested with a delay.
    flush_at: Option<u32>,
    /// Current second.
    now: u32,
    pub(super) stats: Stats,
}

/// Second of expiry of an `exptime` argument. A negative one is in the past.
pub(super) fn expiry(exptime: i32, now: u32) -> u32 {
    match exptime {
        0 => 0,
        ..0 => 1,
        1..=MAX_RELATIVE => now.saturating_add(exptime.unsigned_abs()),
        _ => exptime.unsigned_abs(),
    }
}

/// The value of an item in memory of its exact size: `parts`, which end with CR and LF. The sum is stored with it, so
/// that sending it needs no pass over its bytes.
fn value(parts: &[&[u8]]) -> Slice<Buffer> {
    stored(Cow::Owned(parts.concat()))
}

/// As [`value`]. Bytes that are owned are not copied.
fn stored(data: Cow<'_, [u8]>) -> Slice<Buffer> {
    Slice::new(Buffer::from(data.into_owned())).summed()
}

impl Store {
    /// An empty store of at most `memory` bytes: number `index` of `count`.
    pub(super) fn new(memory: usize, (index, count): (usize, usize)) -> Self {
        let (version, step) = (index as u64, count as u64);
        Self { cache: Cache::new(memory), version, step, flush_at: None, now: 0, stats: Stats::default() }
    }

    pub(super) fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Current second.
    pub(super) fn now(&self) -> u32 {
        self.now
    }

    /// Sets the time in seconds since 1970, and runs a flush that is due.
    pub(super) fn advance(&mut self, now: u32) {
        self.now = now;
        if self.flush_at.is_some_and(|at| at <= now) {
            self.flush_at = None;
            self.cache.flush();
        }
    }

    /// Makes the items that exist at second `at` invalid, now if it is not in the future.
    pub(super) fn flush(&mut self, at: u32) {
        self.flush_at = Some(at);
        if at <= self.now {
            self.version += self.step;
            self.advance(self.now);
        }
    }

    pub(super) fn find(&mut self, key: &[u8]) -> Option<At> {
        self.cache.find(key, self.now)
    }

    /// The item at a position that [`Store::find`] returned, before any other call.
    pub(super) fn item(&mut self, at: At) -> &mut Item {
        self.cache.item(at)
    }

    /// Marks the item as used.
    pub(super) fn bump(&mut self, at: At) {
        self.cache.bump(at, self.now);
    }

    fn next_version(&mut self, version: Option<u64>) -> u64 {
        version.unwrap_or_else(|| {
            self.version += self.step;
            self.version
        })
    }

    /// Stores a value, which ends with CR and LF.
    pub(super) fn put(&mut self, put: &Put, data: Cow<'_, [u8]>) -> Stored {
        self.stats.cmd_set += 1;
        let old = self.find(&put.key);
        let result = match old {
            Some(at) => self.put_over(put, at, data),
            None => self.put_new(put, data),
        };
        match (put.mode, old, result) {
            (Mode::Cas, None, _) => self.stats.cas_misses += 1,
            (Mode::Cas, Some(_), Stored::Done(_)) => self.stats.cas_hits += 1,
            (Mode::Cas, Some(_), Stored::Exists) => self.stats.cas_badval += 1,
            _ => {}
        }
        result
    }

    fn put_new(&mut self, put: &Put, data: Cow<'_, [u8]>) -> Stored {
        match (put.mode, put.vivify) {
            (Mode::Set | Mode::Add, _) => self.link(put, None, put.expires, Marks::default(), stored(data)),
            (Mode::Append | Mode::Prepend, Some(expires)) => {
                self.link(put, None, expires, Marks::default(), stored(data))
            }
            (Mode::Cas, _) => Stored::NotFound,
            _ => Stored::Refused,
        }
    }

    fn put_over(&mut self, put: &Put, at: At, data: Cow<'_, [u8]>) -> Stored {
        let old = self.cache.item(at).clone();
        let matches = put.expected == old.cas;
        let becomes_stale = put.may_be_stale && put.expected != 0 && put.expected < old.cas;
        match put.mode {
            Mode::Add => {
                self.bump(at);
                Stored::Refused
            }
            Mode::Set | Mode::Replace => {
                self.link(put, Some(at), put.expires, Marks::default(), stored(data))
            }
            Mode::Cas if put.expected != 0 && matches => {
                self.link(put, Some(at), put.expires, Marks::default(), stored(data))
            }
            Mode::Cas if becomes_stale => {
                let marks = Marks { stale: true, won: old.marks.won, ..Marks::default() };
                self.link(put, Some(at), old.expires, marks, stored(data))
            }
            Mode::Append | Mode::Prepend if put.expected == 0 || matches => self.join(put, at, &old, &data),
            Mode::Append | Mode::Prepend | Mode::Cas => Stored::Exists,
        }
    }

    /// Appends or prepends. The item keeps its flags and its expiry.
    fn join(&mut self, put: &Put, at: At, old: &Item, data: &[u8]) -> Stored {
        let bytes = old.value.data().bytes().unwrap_or_default();
        let own = bytes.get(..old.len()).unwrap_or_default();
        let added = data.get(..data.len() - 2).unwrap_or_default();
        if own.len() + added.len() > MAX_VALUE {
            return Stored::Refused;
        }
        let parts = if put.mode == Mode::Append { [own, added] } else { [added, own] };
        let joined = value(&[parts[0], parts[1], b"\r\n"]);
        let put = Put { flags: old.flags, ..put.clone() };
        self.link(&put, Some(at), old.expires, Marks::default(), joined)
    }

    fn link(
        &mut self,
        put: &Put,
        old: Option<At>,
        expires: u32,
        marks: Marks,
        value: Slice<Buffer>,
    ) -> Stored {
        let cas = self.next_version(put.version);
        let marks = Marks { binary: put.binary, ..marks };
        let item = Item { value, cas, flags: put.flags, expires, used: self.now, marks };
        if !self.cache.insert(&put.key, old, item, self.now) {
            return Stored::NoMemory;
        }
        self.stats.total_items += 1;
        Stored::Done(cas)
    }

    /// Creates an item with this text as its value, for commands that do so if there is none. Returns `None` if there
    /// is no memory for it.
    pub(super) fn create(&mut self, key: &[u8], expires: u32, binary: bool, text: &[u8]) -> Option<At> {
        let value = value(&[text, b"\r\n"]);
        let cas = self.next_version(None);
        let marks = Marks { binary, ..Marks::default() };
        let item = Item { value, cas, flags: 0, expires, used: self.now, marks };
        self.stats.total_items += 1;
        // The position must be looked up, and an item that is already expired is not found.
        let stored = self.cache.insert(key, None, Item { expires: 0, ..item }, self.now);
        let at = self.find(key).filter(|_| stored)?;
        self.item(at).expires = expires;
        Some(at)
    }

    /// Changes the number in an item. Returns its position and the new number. A value that becomes shorter keeps its
    /// length with spaces at its end, as in memcached.
    pub(super) fn add(&mut self, key: &[u8], delta: Delta) -> Result<(At, u64), DeltaError> {
        let at = self.find(key).ok_or(DeltaError::NotFound)?;
        let item = self.cache.item(at).clone();
        if item.len() == 0 {
            return Err(DeltaError::NotNumeric);
        }
        if delta.expected != 0 && delta.expected != item.cas {
            return Err(DeltaError::Exists);
        }
        let number = item.value.data().bytes().and_then(line::unsigned).ok_or(DeltaError::NotNumeric)?;
        let (up, down) = (number.wrapping_add(delta.by), number.saturating_sub(delta.by));
        let number = if delta.is_increment { up } else { down };
        let text = format!("{number:<len$}\r\n", len = item.len());
        let (cas, used) = (self.next_version(delta.version), self.now);
        let item = Item { value: value(&[text.as_bytes()]), cas, used, ..item };
        let stored = self.cache.insert(key, Some(at), item, self.now);
        let at = self.find(key).filter(|_| stored).ok_or(DeltaError::NoMemory)?;
        Ok((at, number))
    }

    /// Removes an item. Returns whether there was one.
    pub(super) fn delete(&mut self, key: &[u8]) -> bool {
        let at = self.find(key);
        if let Some(at) = at {
            self.cache.remove(at);
        }
        self.stats.count_delete(at.is_some());
        at.is_some()
    }

    /// Sets the expiry of an item. Returns whether there is one.
    pub(super) fn touch(&mut self, key: &[u8], expires: u32) -> bool {
        let at = self.find(key);
        if let Some(at) = at {
            self.item(at).expires = expires;
            self.bump(at);
        }
        self.stats.count_touch(at.is_some());
        at.is_some()
    }

    /// Gives an item a new version and marks it as stale, empties it, or both.
    pub(super) fn invalidate(
        &mut self,
        key: &[u8],
        at: At,
        is_stale: bool,
        is_emptied: bool,
        version: Option<u64>,
    ) {
        let cas = self.next_version(version);
        let item = self.item(at);
        item.cas = cas;
        if is_stale {
            item.marks.stale = true;
            item.marks.won = false;
        }
        if is_emptied {
            let item = Item { value: value(&[b"\r\n"]), flags: 0, ..item.clone() };
            // A shorter value always fits.
            self.cache.insert(key, Some(at), item, self.now);
        }
    }
}
