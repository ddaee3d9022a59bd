//! Counters of a store, under memcached's names.

use super::store::Store;
use std::fmt::Write;

/// Version that `version` and `stats` report: that of memcached whose answers are given. Clients choose by it which
/// commands and errors they expect.
pub(super) const VERSION: &str = "1.6.18";

/// Counters of commands; `stats reset` clears them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stats {
    pub(super) cmd_set: u64,
    pub(super) cmd_flush: u64,
    pub(super) get_hits: u64,
    pub(super) get_misses: u64,
    pub(super) touch_hits: u64,
    pub(super) touch_misses: u64,
    pub(super) delete_hits: u64,
    pub(super) delete_misses: u64,
    pub(super) incr_hits: u64,
    pub(super) incr_misses: u64,
    pub(super) decr_hits: u64,
    pub(super) decr_misses: u64,
    pub(super) cas_hits: u64,
    pub(super) cas_badval: u64,
    pub(super) cas_misses: u64,
    pub(super) total_items: u64,
    pub(super) too_large: u64,
}

/// Facts of the server that the store does not know.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ServerFacts {
    /// Second at which the server started.
    pub(super) started: u32,
    pub(super) open: u64,
    pub(super) total: u64,
    pub(super) rejected: u64,
    pub(super) received: u64,
    pub(super) sent: u64,
}

impl Stats {
    pub(super) fn count_get(&mut self, is_hit: bool) {
        *(if is_hit { &mut self.get_hits } else { &mut self.get_misses }) += 1;
    }

    pub(super) fn count_touch(&mut self, is_hit: bool) {
        *(if is_hit { &mut self.touch_hits } else { &mut self.touch_misses }) += 1;
    }

    pub(super) fn count_delete(&mut self, is_hit: bool) {
        *(if is_hit { &mut self.delete_hits } else { &mut self.delete_misses }) += 1;
    }

    pub(super) fn count_delta(&mut self, is_increment: bool, is_hit: bool) {
        *(match (is_increment, is_hit) {
            (true, true) => &mut self.incr_hits,
            (true, false) => &mut self.incr_misses,
            (false, true) => &mut self.decr_hits,
            (false, false) => &mut self.decr_misses,
        }) += 1;
    }

    fn named(&self) -> [(&'static str, u64); 17] {
        [
            ("cmd_get", self.get_hits + self.get_misses),
            ("cmd_set", self.cmd_set),
            ("cmd_flush", self.cmd_flush),
            ("cmd_touch", self.touch_hits + self.touch_misses),
            ("get_hits", self.get_hits),
            ("get_misses", self.get_misses),
            ("delete_misses", self.delete_misses),
            ("delete_hits", self.delete_hits),
            ("incr_misses", self.incr_misses),
            ("incr_hits", self.incr_hits),
            ("decr_misses", self.decr_misses),
            ("decr_hits", self.decr_hits),
            ("cas_misses", self.cas_misses),
            ("cas_hits", self.cas_hits),
            ("cas_badval", self.cas_badval),
            ("touch_hits", self.touch_hits),
            ("touch_misses", self.touch_misses),
        ]
    }
}

/// General statistics of one or several stores.
#[derive(Clone, Debug)]
pub(super) struct Totals {
    uptime: u32,
    now: u32,
    /// Sums, by name.
    sums: Vec<(&'static str, u64)>,
}

/// The statistics of one store.
pub(super) fn totals(store: &Store, facts: ServerFacts) -> Totals {
    let (stats, cache, now) = (&store.stats, store.cache(), store.now());
    let of_server = [
        ("curr_connections", facts.open),
        ("total_connections", facts.total),
        ("rejected_connections", facts.rejected),
    ];
    let of_store = [
        ("store_too_large", stats.too_large),
        ("bytes_read", facts.received),
        ("bytes_written", facts.sent),
        ("limit_maxbytes", cache.limit() as u64),
        ("threads", 1),
        ("bytes", cache.bytes() as u64),
        ("curr_items", cache.len() as u64),
        ("total_items", stats.total_items),
        ("evictions", cache.removed.evicted),
        ("reclaimed", cache.removed.reclaimed),
    ];
    let sums = of_server.into_iter().chain(stats.named()).chain(of_store).collect();
    Totals { uptime: now.saturating_sub(facts.started), now, sums }
}

impl Totals {
    /// Adds the statistics of another store.
    pub(super) fn add(&mut self, other: &Self) {
        for ((_, sum), (_, more)) in self.sums.iter_mut().zip(&other.sums) {
            *sum += more;
        }
    }

    /// The reply to `stats`.
    pub(super) fn text(&self) -> Vec<u8> {
        let first = [
            ("pid", std::process::id().into()),
            ("uptime", self.uptime.into()),
            ("time", self.now.into()),
            ("pointer_size", usize::BITS.into()),
        ];
        let all = first.iter().chain(&self.sums);
        let mut text = String::new();
        for (name, value) in all {
            // Writing to a string cannot fail.
            let _ = write!(text, "STAT {name} {value}\r\n");
        }
        (text + &format!("STAT version {VERSION}\r\nEND\r\n")).into_bytes()
    }
}
