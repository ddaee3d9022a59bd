//! A driver that fills a ring by hand, and fast-path queues over the same memory.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test uses its own part; a failure here is the test's"
)]

use mem::copy::Portable;
use mem::{DirtyLog, GuestMemory, MemTable};
use port::vhost::Features;
use port::vhost_user::QUEUES;
use port::vhost_user::setup::QueueSetup;
use port::{Burst, BurstStats, PortFault, RxQueue, TxQueue};
use ring::mock::{BUFFERS, Mock, REGION, Shape, USER};
use std::sync::Arc;

pub(crate) const NEXT: u16 = 1;
pub(crate) const WRITE: u16 = 2;
pub(crate) const INDIRECT: u16 = 4;
const AVAIL: u16 = 1 << 7;
const USED: u16 = 1 << 15;
/// Total size of both buffer regions.
pub(crate) const ALL: usize = 2 * REGION as usize;

/// A guest with one ring, which is filled at most once around.
pub(crate) struct Guest {
    pub(crate) mock: Mock,
    pub(crate) memory: Arc<MemTable>,
    pub(crate) features: Features,
    packed: bool,
    /// Log of written pages.
    pub(crate) log: Option<Arc<DirtyLog>>,
    next: u16,
    slots: Vec<u16>,
}

impl Guest {
    pub(crate) fn new(packed: bool, extra: u64) -> Self {
        let indirect = true;
        let mock = Mock::new(Shape { packed, size: 256, in_order: false, event_idx: false, indirect });
        let memory = Arc::new(MemTable::new(GuestMemory::new(mock.map.regions().to_vec()).unwrap()));
        let kind = if packed { Features::RING_PACKED } else { 0 };
        let features = Features(extra | kind | Features::INDIRECT_DESC);
        Self { mock, memory, features, packed, log: None, next: 0, slots: vec![] }
    }

    pub(crate) fn setup(&self) -> QueueSetup {
        QueueSetup {
            memory: self.memory.clone(),
            size: self.mock.layout.size,
            descriptors: self.mock.layout.descriptors,
            driver: self.mock.layout.driver,
            device: self.mock.layout.device,
            base: self.mock.layout.base,
            features: self.features,
            record: None,
            log: self.log.clone(),
            kick: None,
            call: None,
        }
    }

    pub(crate) fn rx(&self) -> Box<dyn RxQueue> {
        (QUEUES.rx)(&self.setup()).unwrap()
    }

    pub(crate) fn tx(&self) -> Box<dyn TxQueue> {
        (QUEUES.tx)(&self.setup()).unwrap()
    }

    /// Size of the virtio-net header.
    pub(crate) fn header(&self) -> usize {
        self.features.header_len()
    }

    /// Writes to the buffers, at offset `at` from the first.
    pub(crate) fn write(&self, at: u64, bytes: &[u8]) {
        // The region that begins behind this offset may hold the rest.
        let (first, rest) = bytes.split_at(bytes.len().min(REGION.saturating_sub(at) as usize));
        for (at, part) in [(at, first), (at + first.len() as u64, rest)] {
            let seg = self.mock.map.by_user(USER + BUFFERS + at, part.len() as u32).unwrap();
            // SAFETY: the mock keeps its map alive, and the segment has the length of the bytes.
            unsafe { seg.copy_in::<Portable>(part) };
        }
    }

    /// Fills both buffer regions.
    pub(crate) fn fill(&self, byte: u8) {
        for at in [BUFFERS, BUFFERS + REGION] {
            let seg = self.mock.map.by_user(USER + at, REGION as u32).unwrap();
            // SAFETY: as in `write`; the segment and the vector have the region's length.
            unsafe { seg.copy_in::<Portable>(&vec![byte; REGION as usize]) };
        }
    }

    /// Content of both buffer regions.
    pub(crate) fn dump(&self) -> Vec<u8> {
        let mut all = vec![0; ALL];
        for (at, to) in [BUFFERS, BUFFERS + REGION].into_iter().zip(all.chunks_mut(REGION as usize)) {
            let seg = self.mock.map.by_user(USER + at, REGION as u32).unwrap();
            // SAFETY: as in `fill`.
            unsafe { seg.copy_out::<Portable>(to) };
        }
        all
    }

    /// Makes a chain of buffers available, each as `(offset from the first buffer, length)`.
    pub(crate) fn offer(&mut self, buffers: &[(u64, u32)], flags: u16) {
        let (head, id) = (self.next, self.slots.len() as u16);
        for (k, &(at, len)) in buffers.iter().enumerate() {
            let next = if k + 1 < buffers.len() { NEXT } else { 0 };
            self.describe(BUFFERS.wrapping_add(at), len, flags | next, id);
        }
        self.finish(head, buffers.len() as u16);
    }

    /// [`Guest::offer`] through an indirect table at `table`, which must be aligned to eight bytes.
    pub(crate) fn offer_indirect(&mut self, table: u64, buffers: &[(u64, u32)], flags: u16) {
        let (head, id) = (self.next, self.slots.len() as u16);
        let place = USER + BUFFERS + table;
        for (k, &(at, len)) in buffers.iter().enumerate() {
            let next = if k + 1 < buffers.len() && !self.packed { NEXT } else { 0 };
            let k = k as u16;
            if self.packed {
                self.mock.packed_descriptor(place, k, BUFFERS + at, len, 0, flags);
            } else {
                self.mock.split_descriptor(place, k, BUFFERS + at, len, flags | next, k + 1);
            }
        }
        self.describe(BUFFERS + table, buffers.len() as u32 * 16, INDIRECT | flags & WRITE, id);
        self.finish(head, 1);
    }

    /// Writes one descriptor to the next slot.
    fn describe(&mut self, address: u64, len: u32, flags: u16, id: u16) {
        let (table, at) = (self.mock.layout.descriptors, self.next);
        assert!(at < self.mock.layout.size, "the ring goes round once at most");
        if self.packed {
            self.mock.packed_descriptor(table, at, address, len, id, flags | AVAIL);
        } else {
            self.mock.split_descriptor(table, at, address, len, flags, at + 1);
        }
        self.next += 1;
    }

    fn finish(&mut self, head: u16, slots: u16) {
        if !self.packed {
            let slot = self.slots.len() as u16;
            self.mock.offer(slot, head);
            self.mock.available_index(slot + 1);
        }
        self.slots.push(slots);
    }

    /// Used chains in order of use: index in the order of offering, and bytes written.
    pub(crate) fn used(&self) -> Vec<(usize, u32)> {
        if self.packed { self.used_packed() } else { self.used_split() }
    }

    fn used_split(&self) -> Vec<(usize, u32)> {
        let heads: Vec<u16> =
            self.slots.iter().scan(0, |at, n| Some(std::mem::replace(at, *at + n))).collect();
        let element = |k: u16| {
            // The used ring starts four bytes past a multiple of eight, so an element is read in halves.
            let at = self.mock.layout.device + 4 + u64::from(k) * 8;
            let half = |at: u64| u32::from(self.mock.peek16(at)) | u32::from(self.mock.peek16(at + 2)) << 16;
            (heads.iter().position(|&h| u32::from(h) == half(at)).unwrap(), half(at + 4))
        };
        (0..self.mock.used_index()).map(element).collect()
    }

    fn used_packed(&self) -> Vec<(usize, u32)> {
        let (mut at, mut used) = (0, vec![]);
        while at < u64::from(self.mock.layout.size) {
            let word = self.mock.peek64(self.mock.layout.descriptors + at * 16 + 8);
            let (len, id, flags) = (word as u32, (word >> 32) as u16, (word >> 48) as u16);
            if flags & (AVAIL | USED) != AVAIL | USED {
                break;
            }
            used.push((usize::from(id), len));
            at += u64::from(self.slots[usize::from(id)]);
        }
        used
    }
}

/// Receives one burst and loads its heads.
pub(crate) fn receive(rx: &mut dyn RxQueue) -> Result<(Burst, BurstStats), PortFault> {
    let (mut burst, mut stats) = (Burst::new(), BurstStats::default());
    burst.begin(0);
    rx.rx(&mut burst, &mut stats)?;
    burst.load_heads::<Portable>();
    Ok((burst, stats))
}

/// Sends every packet of a burst.
pub(crate) fn send(tx: &mut dyn TxQueue, burst: &Burst) -> Result<(usize, BurstStats), PortFault> {
    let (indices, mut stats): (Vec<u8>, _) = ((0..burst.len() as u8).collect(), BurstStats::default());
    tx.tx(burst, &indices, &mut stats).map(|done| (done, stats))
}

/// A burst of `frames`, sent by a separate guest, whose other memory is filled with 0x5e.
pub(crate) fn burst_of(frames: &[Vec<u8>]) -> Burst {
    let mut guest = Guest::new(false, Features::VERSION_1);
    guest.fill(0x5e);
    let mut at = 0;
    for frame in frames {
        guest.write(at + 12, frame);
        guest.offer(&[(at, 12 + frame.len() as u32)], 0);
        at += (12 + frame.len() as u64).next_multiple_of(64) + 64;
    }
    let (burst, stats) = receive(guest.rx().as_mut()).unwrap();
    assert_eq!((burst.len(), stats.lost), (frames.len(), 0));
    burst
}

/// Complete packet `i` of a burst.
pub(crate) fn read(burst: &Burst, i: usize) -> Vec<u8> {
    let mut bytes = vec![0; burst.frame_len(i)];
    assert_eq!(burst.frame(i).copy_to::<Portable>(&mut bytes), bytes.len());
    bytes
}

/// A frame of `len` bytes, different for each seed.
pub(crate) fn frame(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + seed * 31 + i / 251) as u8).collect()
}

/// Both ring types: split and packed.
pub(crate) const KINDS: [bool; 2] = [false, true];

/// Number of notifications of `rx` since the last call: the counter of its eventfd.
pub(crate) fn notifications(rx: &dyn RxQueue) -> u64 {
    let mut count = [0; 8];
    rustix::io::read(rx.kick_fd().unwrap(), &mut count).map_or(0, |_| u64::from_ne_bytes(count))
}
