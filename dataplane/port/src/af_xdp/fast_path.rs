//! Kernel fast path: pairs of stations, and flows between them, whose frames the XDP programs of `AF_XDP` ports forward
//! without the switch.
//!
//! One set of maps serves all ports of the process. A port has a slot while it is open. Control installs entries, reads
//! their counters and removes them; workers take no part. An entry is bound to epochs: one of everything, one of each
//! port, and one of the connection that it depends on. Each change that could affect the forwarding of an entry must
//! advance one of them ([`FastPath::invalidate`], [`FastPath::end_connection`]), which any thread can do with one
//! store; the program does not use an entry of older epochs. Control must read the epochs ([`FastPath::stamp`]) before
//! it looks up what an entry depends on.

use super::fast_key::{FastKey, decode, encode};
use super::fast_program::{
    ADDRESSES, BYTES, CHECKS_FLAGS, CONNECTION, CONNECTIONS, DEVICE, EDITS, ENTRY, FROM, KEY, LONGEST, Lane,
    PACKETS, PORTS, STAMP, TO, WITH_ADDRESSES, WITH_TTL,
};
use super::sys::{MAPPABLE, Map, MapKind, Mapping};
use crate::PortId;
use rustix::fd::{AsFd, AsRawFd};
use rustix::io::Errno;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use wire::MacAddress;

/// Maximum number of entries.
pub const MAX_ENTRIES: usize = 4096;
/// Maximum number of entries of one ingress port, so that no port can use up the others' share.
pub const MAX_ENTRIES_PER_PORT: usize = 256;
/// Bytes of all epochs.
const EPOCHS: usize = (1 + PORTS + CONNECTIONS) * 8;
/// Maximum number of ports.
const SLOTS: usize = 1024;
/// Keys of frames without an entry that are kept until control reads them; the oldest are replaced.
const CANDIDATES: u32 = 256;

/// Changes of the frames of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edits {
    /// Destination and source address of the frame.
    pub addresses: Option<[MacAddress; 2]>,
    /// Whether the time to live or hop limit is decremented. A packet that would expire stays in user space.
    pub decrements_ttl: bool,
}

/// Where frames of an entry go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Epochs at the time of the look-up.
    pub stamp: u64,
    /// Ingress port.
    pub from: PortId,
    /// Output port.
    pub to: PortId,
    /// Slot of the output port.
    pub slot: u32,
    /// Changes of the frames; none for a pair.
    pub edits: Edits,
    /// Connection that it depends on. TCP segments that begin or end one stay in user space.
    pub connection: Option<ConnectionEpoch>,
}

/// Number of the epoch of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionEpoch(u16);

impl ConnectionEpoch {
    /// All numbers.
    pub fn all() -> impl Iterator<Item = Self> {
        (1..CONNECTIONS as u16).map(Self)
    }

    /// The number, which is not 0.
    pub fn number(self) -> u16 {
        self.0
    }

    /// The epoch with this number.
    pub fn of(number: u16) -> Option<Self> {
        (1..CONNECTIONS as u16).contains(&number).then_some(Self(number))
    }
}

/// Frames that the kernel forwarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FastCounts {
    /// Packets.
    pub packets: u64,
    /// Bytes, without frame checksums.
    pub bytes: u64,
}

/// An open port of the fast path.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    name: String,
    /// Maximum frame length in bytes.
    longest: u32,
}

/// The maps of the fast path, and the ports that use it.
#[derive(Debug)]
pub struct FastPath {
    entries: Map,
    candidates: Map,
    devices: Map,
    epochs: Map,
    mapping: Mapping,
    cpus: usize,
    places: Mutex<Vec<Option<Place>>>,
}

impl FastPath {
    /// The fast path of this process. The first call creates its maps.
    ///
    /// # Errors
    /// If the kernel does not have such maps, or the process may not create them.
    pub fn of_process() -> Result<Arc<Self>, Errno> {
        static OF_PROCESS: OnceLock<Arc<FastPath>> = OnceLock::new();
        if let Some(path) = OF_PROCESS.get() {
            return Ok(path.clone());
        }
        let made = Arc::new(Self::new()?);
        Ok(OF_PROCESS.get_or_init(|| made).clone())
    }

    pub(super) fn new() -> Result<Self, Errno> {
        let cpus = possible_cpus().ok_or(Errno::NOSYS)?;
        let epochs = Map::new(MapKind::Array, (4, EPOCHS), 1, (MAPPABLE, 1))?;
        Ok(Self {
            entries: Map::new(MapKind::PerCpuHash, (KEY, ENTRY), MAX_ENTRIES as u32, (0, cpus))?,
            candidates: Map::new(MapKind::LruHash, (KEY, 8), CANDIDATES, (0, 1))?,
            devices: Map::new(MapKind::Devices, (4, 4), SLOTS as u32, (0, 1))?,
            mapping: Mapping::new(&epochs, 0, EPOCHS)?,
            epochs,
            cpus,
            places: Mutex::default(),
        })
    }

    /// A poisoned lock is valid: the list changes in one step.
    fn places(&self) -> MutexGuard<'_, Vec<Option<Place>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn epoch(&self, port: Option<PortId>) -> Option<&AtomicU64> {
        self.mapping.counter(port.map_or(0, |port| 1 + usize::from(port.0)))
    }

    /// Ends the use of all entries from and to `port`, or of all entries. Does not block.
    pub fn invalidate(&self, port: Option<PortId>) {
        if let Some(epoch) = self.epoch(port) {
            // Pairs with the Acquire in `stamp`: a reader of the new epoch sees the change before it.
            epoch.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Ends the use of the entries that depend on a connection. Does not block.
    pub fn end_connection(&self, connection: ConnectionEpoch) {
        if let Some(epoch) = self.connection(Some(connection)) {
            // Pairs with the Acquire in `stamp`.
            epoch.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn connection(&self, connection: Option<ConnectionEpoch>) -> Option<&AtomicU64> {
        self.mapping.counter(1 + PORTS + connection.map_or(0, |ConnectionEpoch(n)| usize::from(n)))
    }

    /// The epochs that an entry between two ports depends on. Must be read before anything else that it depends on.
    pub fn stamp(&self, from: PortId, to: PortId, connection: Option<ConnectionEpoch>) -> u64 {
        let epochs = [None, Some(from), Some(to)].map(|port| self.epoch(port));
        let read = |sum: u64, epoch: &AtomicU64| sum.wrapping_add(epoch.load(Ordering::Acquire));
        epochs.into_iter().chain([self.connection(connection)]).flatten().fold(0, read)
    }

    /// Slot of the open port of this name.
    pub fn slot(&self, name: &str) -> Option<u32> {
        let is_it = |place: &Option<Place>| place.as_ref().is_some_and(|place| place.name == name);
        self.places().iter().position(is_it).map(|slot| slot as u32)
    }

    /// Name of the open port in a slot.
    pub fn name(&self, slot: u32) -> Option<String> {
        self.places().get(slot as usize)?.as_ref().map(|place| place.name.clone())
    }

    /// Adds the port `name`, with interface `index` of this thread's namespace, which takes frames of up to `longest`
    /// bytes.
    pub(super) fn open(self: Arc<Self>, name: &str, index: u32, longest: u32) -> Result<FastPort, Errno> {
        let slot = {
            let mut places = self.places();
            let free = places.iter().position(Option::is_none).unwrap_or(places.len());
            if free >= SLOTS {
                return Err(Errno::NOSPC);
            }
            let len = places.len().max(free + 1);
            places.resize(len, None);
            places[free] = Some(Place { name: name.to_owned(), longest });
            free as u32
        };
        let port = FastPort { path: self, slot };
        port.path.devices.update(&slot.to_ne_bytes(), &mut index.to_ne_bytes())?;
        Ok(port)
    }

    /// Installs an entry. Its counters begin at zero, also if it is installed already.
    ///
    /// # Errors
    /// If there are too many entries, or the output port is closed.
    pub fn install(&self, key: &FastKey, target: &Target) -> Result<(), Errno> {
        let place = self.places().get(target.slot as usize).cloned().flatten().ok_or(Errno::NODEV)?;
        let entry = entry(target, place.longest);
        self.entries.update(&encode(key), &mut entry.repeat(self.cpus))
    }

    /// Counters of an entry; `None` if it is not installed.
    pub fn counts(&self, key: &FastKey) -> Option<FastCounts> {
        let mut values = vec![0; ENTRY * self.cpus];
        self.entries.look_up(&encode(key), &mut values).ok()?;
        Some(sum(&values))
    }

    /// Removes an entry and returns its last counters; `None` if it is not installed.
    pub fn remove(&self, key: &FastKey) -> Option<FastCounts> {
        let mut values = vec![0; ENTRY * self.cpus];
        self.entries.take(&encode(key), &mut values).ok()?;
        Some(sum(&values))
    }

    /// Takes the keys of some of the frames that had no entry.
    pub fn take_candidates(&self) -> Vec<FastKey> {
        let mut found = Vec::new();
        let mut key = [0; KEY];
        while found.len() < CANDIDATES as usize && self.candidates.first_key(&mut key).is_ok() {
            // The kernel may have replaced it meanwhile.
            let _ = self.candidates.delete(&key);
            found.push(decode(&key));
        }
        found
    }

    /// The maps for the program of the port in `slot`.
    pub(super) fn lane(&self, slot: u32) -> Lane {
        let raw = |map: &Map| map.as_fd().as_raw_fd();
        Lane {
            entries: raw(&self.entries),
            candidates: raw(&self.candidates),
            devices: raw(&self.devices),
            epochs: raw(&self.epochs),
            slot,
        }
    }
}

/// An open port's share of the fast path; returned on drop.
#[derive(Debug)]
pub(super) struct FastPort {
    path: Arc<FastPath>,
    slot: u32,
}

impl FastPort {
    /// The maps for the program of this port.
    pub(super) fn lane(&self) -> Lane {
        self.path.lane(self.slot)
    }
}

impl Drop for FastPort {
    fn drop(&mut self) {
        // The slot may soon be that of another interface.
        self.path.invalidate(None);
        // Fails if the kernel has removed the interface already.
        let _ = self.path.devices.delete(&self.slot.to_ne_bytes());
        if let Some(place) = self.path.places().get_mut(self.slot as usize) {
            *place = None;
        }
    }
}

fn entry(target: &Target, longest: u32) -> [u8; ENTRY] {
    let mut entry = [0; ENTRY];
    let mut put = |at: u8, value: &[u8]| {
        entry[usize::from(at)..][..value.len()].copy_from_slice(value);
    };
    put(STAMP, &target.stamp.to_ne_bytes());
    let epoch = |port: PortId| u32::from(port.0) * 8;
    put(FROM, &epoch(target.from).to_ne_bytes());
    put(TO, &epoch(target.to).to_ne_bytes());
    put(DEVICE, &target.slot.to_ne_bytes());
    put(LONGEST, &longest.to_ne_bytes());
    let connection = target.connection.map_or(0, |connection| u32::from(connection.0) * 8);
    put(CONNECTION, &connection.to_ne_bytes());
    let Edits { addresses, decrements_ttl } = target.edits;
    let bits = [
        (addresses.is_some(), WITH_ADDRESSES),
        (decrements_ttl, WITH_TTL),
        (target.connection.is_some(), CHECKS_FLAGS),
    ];
    put(EDITS, &bits.iter().filter(|(is, _)| *is).map(|(_, bit)| bit).sum::<u32>().to_ne_bytes());
    put(ADDRESSES, addresses.map(|both| both.map(MacAddress::octets)).unwrap_or_default().as_flattened());
    entry
}

/// Sum of the counters of all CPUs.
fn sum(values: &[u8]) -> FastCounts {
    let read = |value: &[u8], at: u8| {
        let word = value.get(usize::from(at)..).and_then(<[u8]>::first_chunk);
        word.map_or(0, |word| u64::from_ne_bytes(*word))
    };
    values.chunks(ENTRY).fold(FastCounts::default(), |sum, value| FastCounts {
        packets: sum.packets + read(value, PACKETS),
        bytes: sum.bytes + read(value, BYTES),
    })
}

/// Number of CPUs for which the kernel has values, from a list such as `0-3`
/// (Documentation/admin-guide/cputopology.rst).
fn possible_cpus() -> Option<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").ok()?;
    let last = text.trim().rsplit(['-', ',']).next()?;
    last.parse::<usize>().ok().map(|last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_all_cpus_are_added() {
        let (edits, connection) = (Edits::default(), None);
        let target = Target { stamp: 9, from: PortId(1), to: PortId(65_535), slot: 3, edits, connection };
        let mut two = entry(&target, 1514).repeat(2);
        two[usize::from(PACKETS)] = 1;
        two[ENTRY + usize::from(PACKETS)] = 2;
        two[ENTRY + usize::from(BYTES)] = 60;
        assert_eq!(sum(&two), FastCounts { packets: 3, bytes: 60 });
        assert_eq!(two[usize::from(TO)..][..4], (65_535_u32 * 8).to_ne_bytes());
    }

    #[test]
    fn epochs_of_ports_and_of_everything_change_stamps() {
        let path = match FastPath::new() {
            Err(Errno::PERM) => {
                panic!("SKIPPED: this process may not create BPF maps; run the tests as root")
            }
            path => path.unwrap(),
        };
        let stamp = |from, to| path.stamp(PortId(from), PortId(to), None);
        let before = [stamp(1, 2), stamp(2, 3), stamp(3, 65_535)];
        path.invalidate(Some(PortId(1)));
        assert_eq!([stamp(1, 2), stamp(2, 3)], [before[0] + 1, before[1]]);
        path.invalidate(None);
        path.invalidate(Some(PortId(65_535)));
        assert_eq!([stamp(2, 3), stamp(3, 65_535)], [before[1] + 1, before[2] + 2]);
        let [one, other] = [1, 4095].map(ConnectionEpoch::of);
        let of = |connection| path.stamp(PortId(1), PortId(2), connection);
        let before = [of(None), of(one), of(other)];
        path.end_connection(other.unwrap());
        assert_eq!([of(None), of(one), of(other)], [before[0], before[1], before[2] + 1]);
        assert_eq!([0, 4096].map(ConnectionEpoch::of), [None, None]);
    }
}
