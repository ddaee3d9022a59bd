//! Control operations on the station table: open and close ports, pin, flush and list.
//!
//! These block on the lock, but hold it only for some microseconds at a time, so that learning continues in between.

use super::{Fdb, Key};
use crate::bucket::Entry;
use crate::config::{BridgeConfig, MacMoves};
use crate::share::ShareCount;
use port::PortId;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use wire::MacAddress;

/// Buckets purged per lock acquisition.
const PURGE_SLICE: u32 = 1024;

impl Fdb {
    /// Enables learning on `port`, up to `limit` stations.
    pub(crate) fn open(&self, port: PortId, limit: u32, trusted: bool) {
        let _writer = self.lock();
        self.shares[port.0 as usize].open(limit, trusted);
    }

    /// Sets the ageing time and the rule for moves. A worker may use the old ones until its next burst.
    pub(crate) fn configure(&self, config: &BridgeConfig) {
        self.ageing.store(config.ageing_seconds, Ordering::Relaxed);
        self.guarded.store(config.mac_moves == MacMoves::Guarded, Ordering::Relaxed);
    }

    /// Sets how many stations are learned on `port`.
    pub(crate) fn limit(&self, port: PortId, limit: u32) {
        let _writer = self.lock();
        self.shares[port.0 as usize].set_limit(limit);
    }

    /// Disables learning on `port` and removes all its stations, including static entries.
    pub(crate) fn close(&self, port: PortId) {
        self.open(port, 0, false);
        self.lock().reserved.retain(|_, owner| *owner != port);
        // A station displaced concurrently can be missed by one pass.
        while !self.shares[port.0 as usize].is_empty() {
            self.purge(|entry| entry.port == port);
        }
    }

    /// Allows stations of a stopped port to move. They remain known at that port until then.
    pub(crate) fn release(&self, port: PortId, second: u32) {
        if let Some(share) = self.shares.get(port.0 as usize) {
            share.release(second);
        }
    }

    /// Reserves `macs` for `port` in all VLANs: other ports cannot learn them. Returns an error with the first address
    /// that another port owns or has as a static entry; nothing is reserved then.
    pub(crate) fn reserve_all(&self, macs: &[MacAddress], port: PortId) -> Result<(), (MacAddress, PortId)> {
        if macs.is_empty() {
            return Ok(());
        }
        let pinned = self.stations(0).into_iter().filter(|entry| entry.pinned && entry.port != port);
        let pinned: HashMap<_, _> = pinned.map(|entry| (entry.key.mac(), entry.port)).collect();
        let mut writer = self.lock();
        let other = |mac: &MacAddress| writer.reserved.get(mac).or_else(|| pinned.get(mac)).copied();
        let taken = macs.iter().find_map(|mac| Some((*mac, other(mac).filter(|owner| *owner != port)?)));
        if let Some(taken) = taken {
            return Err(taken);
        }
        writer.reserved.extend(macs.iter().map(|mac| (*mac, port)));
        Ok(())
    }

    /// The port that `mac` is reserved for.
    pub(crate) fn owner(&self, mac: MacAddress) -> Option<PortId> {
        self.lock().reserved.get(&mac).copied()
    }

    /// Removes `macs` learned on other ports, and pins them to `port` in these VLANs. Returns `false` if the table is
    /// full.
    pub(crate) fn own(&self, macs: &[MacAddress], vlans: &[u16], port: PortId) -> bool {
        if !macs.is_empty() {
            self.flush(|entry| entry.port != port && macs.contains(&entry.key.mac()));
        }
        let mut keys = macs.iter().flat_map(|mac| vlans.iter().map(|vlan| Key::new(*mac, *vlan)));
        keys.all(|key| self.pin(key, port))
    }

    /// Removes all learned stations selected by `doomed`; returns their number. Stations learned concurrently may
    /// remain.
    pub(crate) fn flush(&self, doomed: impl Fn(&Entry) -> bool) -> usize {
        let mut flushed = 0;
        for _ in 0..4 {
            let displaced = self.table.displaced();
            flushed += self.purge(|entry| !entry.pinned && doomed(entry));
            if self.table.displaced() == displaced {
                break;
            }
        }
        flushed
    }

    /// One pass over the table. Returns the number of removed stations.
    fn purge(&self, doomed: impl Fn(&Entry) -> bool) -> usize {
        let (buckets, mut purged) = (self.table.buckets(), 0);
        for start in (0..buckets).step_by(PURGE_SLICE as usize) {
            let mut writer = self.lock();
            for bucket in start..buckets.min(start.saturating_add(PURGE_SLICE)) {
                purged += self.remove_if(&mut writer, bucket, &doomed);
            }
        }
        purged
    }

    /// Adds or replaces the static entry of `key` at `port`. Returns `false` if the table is full.
    pub(crate) fn pin(&self, key: Key, port: PortId) -> bool {
        let mut writer = self.lock();
        let entry = Entry { key, port, stamp: 0, pinned: true };
        match self.table.look_up(key, self.table.places(key)) {
            Some(old) => {
                self.overwrite(&mut writer, old, entry);
                true
            }
            None => self.add(&mut writer, entry),
        }
    }

    /// Removes a static entry. Returns `false` if it does not exist.
    pub(crate) fn unpin(&self, key: Key) -> bool {
        self.forget(key, |entry| entry.pinned)
    }

    /// Removes a station, learned or static, if `doomed` selects it. Returns `false` if there is none.
    pub(crate) fn forget(&self, key: Key, doomed: impl Fn(&Entry) -> bool) -> bool {
        let mut writer = self.lock();
        let found = self.table.look_up(key, self.table.places(key));
        let Some(old) = found.filter(|hit| doomed(&hit.entry)) else { return false };
        self.remove(&mut writer, old);
        true
    }

    /// All stations that have not aged, sorted by address. Exact if no station is displaced concurrently; after three
    /// such attempts it holds the lock, which defers learning.
    pub(crate) fn stations(&self, second: u32) -> Vec<Entry> {
        for _ in 0..3 {
            let displaced = self.table.displaced();
            let found = self.collect(second);
            if self.table.displaced() == displaced {
                return found;
            }
        }
        let _writer = self.lock();
        self.collect(second)
    }

    fn collect(&self, second: u32) -> Vec<Entry> {
        let all = (0..self.table.buckets()).flat_map(|bucket| self.table.snapshot(bucket));
        let mut found: Vec<Entry> = all.flatten().filter(|entry| !self.aged(entry, second)).collect();
        found.sort_unstable_by_key(|entry| (entry.key.mac(), entry.key.vlan()));
        found.dedup_by_key(|entry| entry.key);
        found
    }

    /// Number of stations in the table, and of static entries among them.
    pub(crate) fn len(&self) -> (usize, usize) {
        let writer = self.lock();
        (writer.stations, writer.pinned)
    }

    /// Limits and counts of a port.
    pub(crate) fn share(&self, port: PortId) -> ShareCount {
        self.shares[port.0 as usize].read()
    }

    /// Size of the table, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.table.bytes()
    }
}
