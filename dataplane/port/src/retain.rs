//! Packets that outlive their burst.
//!
//! A program that processes packets after their burst was completed (TCP stack, reassembly, scheduler) retains them
//! ([`Burst::retain`]). If the memory belongs to the port (virtio-user, AF_XDP, TAP, memif client), the packet is
//! lent: it stays in place, and its buffers return to their queue when the last handle is dropped, on any thread.
//! Packets in memory of a guest or a peer are copied into pool buffers, so that a slow program never holds a guest's
//! buffers. At most half of a queue's buffers are lent; further packets are copied. The head is always copied.
//!
//! A burst with a lent buffer must be read before its queue's next `rx`: the last handle may be dropped by then, and
//! the buffer refilled.
//!
//! The bytes of a lent packet stay mapped, and its memory allocated, until the last handle is dropped, even after the
//! port has disconnected. If a peer shares that memory (virtio-user, memif client), the peer can write to it for as
//! long as it holds the file: except for the head, two reads may return different bytes. A program must copy the
//! bytes that it validates.

mod lender;

use crate::burst::sum_of;
use crate::{Burst, Offload, PortFault};
pub(crate) use lender::Lender;
use mem::copy::{Kernel, Portable};
use mem::pool::{self, Buffer, Cache, Pool, PoolSpec};
use mem::{GuestMemory, VolatileSlice};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Size of a pool buffer for copied packets.
const DATA: u16 = 2048;

/// Per-thread resources for retaining packets: buffers for heads and for copied packets.
#[derive(Debug)]
pub struct Retainer {
    cache: Cache,
    home: Arc<ReturnList>,
}

/// Return list for buffers, usable from any thread. The last owner, retainer or packet, returns the buffers to the
/// pool.
#[derive(Debug)]
struct ReturnList {
    pool: Arc<Pool>,
    returned: Mutex<Vec<Buffer>>,
}

impl ReturnList {
    fn returned(&self) -> MutexGuard<'_, Vec<Buffer>> {
        self.returned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ReturnList {
    fn drop(&mut self) {
        self.pool.cache().free_all(self.returned().drain(..));
    }
}

impl Retainer {
    /// Creates a retainer with `buffers` buffers of 2 KiB, which limit the data that a program can hold.
    ///
    /// # Errors
    /// [`PortFault::NoMemory`] if they cannot be allocated.
    pub fn new(buffers: u32) -> Result<Self, PortFault> {
        let spec = PoolSpec { buffers, size: DATA, pages: pool::Pages::Ordinary };
        let pool = Pool::new(spec).map_err(|error| PortFault::NoMemory(error.to_string()))?;
        Ok(Self { cache: pool.cache(), home: Arc::new(ReturnList { pool, returned: Mutex::default() }) })
    }

    /// Buffers for `bytes` bytes; `None` if too few are free.
    fn take(&mut self, bytes: usize) -> Option<Vec<Buffer>> {
        self.cache.free_all(self.home.returned().drain(..));
        let wanted = bytes.div_ceil(DATA.into()).max(1);
        let mut buffers = Vec::with_capacity(wanted);
        if self.cache.alloc_bulk(&mut buffers, wanted) < wanted {
            self.cache.free_all(buffers);
            return None;
        }
        for buffer in &mut buffers {
            buffer.reset(0);
        }
        Some(buffers)
    }
}

/// A packet that outlives its burst. Clones share the packet.
#[derive(Clone, Debug)]
pub struct Retained(Arc<RetainedInner>);

#[derive(Debug)]
struct RetainedInner {
    len: usize,
    offload: Offload,
    /// The head, or the whole packet.
    copied: Vec<Buffer>,
    home: Arc<ReturnList>,
    lent: Option<LentPart>,
}

/// The part of a packet that stays in the port's memory.
#[derive(Debug)]
struct LentPart {
    rest: Vec<VolatileSlice>,
    ids: Vec<u16>,
    lender: Lender,
    _map: Arc<GuestMemory>,
}

impl Drop for LentPart {
    fn drop(&mut self) {
        self.lender.give_back(&mut self.ids);
    }
}

impl Drop for RetainedInner {
    fn drop(&mut self) {
        self.home.returned().append(&mut self.copied);
    }
}

impl Retained {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// Offloads left by the source.
    pub fn offload(&self) -> Offload {
        self.0.offload
    }

    /// First bytes, at least as many as the private head had in the burst.
    pub fn head(&self) -> &[u8] {
        self.0.copied.first().map_or(&[], Buffer::data)
    }

    /// Whether the bytes are in memory of the receiving port. If a peer shares that memory, it can write to all bytes
    /// except the head.
    pub fn is_lent(&self) -> bool {
        self.0.lent.is_some()
    }

    /// Segments, in order. Valid for as long as this handle.
    pub fn segs(&self) -> impl Iterator<Item = VolatileSlice> {
        let rest = self.0.lent.iter().flat_map(|lent| lent.rest.iter().copied());
        self.0.copied.iter().map(Buffer::seg).chain(rest)
    }

    /// Copies the packet into private memory, up to the length of `to`. Returns the number of bytes copied.
    pub fn copy_to(&self, to: &mut [u8]) -> usize {
        self.copy_behind::<Portable>(0, to)
    }

    /// Copies the bytes after the first `skip` into private memory, up to the length of `to`. Returns the number of
    /// bytes copied.
    pub fn copy_behind<K: Kernel>(&self, mut skip: usize, to: &mut [u8]) -> usize {
        let mut at = 0;
        for seg in self.segs() {
            let piece = seg.split_at(skip).1.split_at(to.len() - at).0;
            skip = skip.saturating_sub(seg.len());
            // SAFETY: the handle keeps the memory of its segments mapped; the slice has the piece's length.
            unsafe { piece.copy_out::<K>(&mut to[at..at + piece.len()]) };
            at += piece.len();
        }
        at
    }

    /// Unfolded sum of the 16-bit words of the bytes `range`, in native byte order.
    pub fn sum(&self, range: Range<usize>) -> u64 {
        // SAFETY: the handle keeps the memory of its segments mapped.
        unsafe { sum_of(self.segs(), range) }
    }
}

impl Burst {
    /// Retains packet `i`, whose head is loaded, beyond this burst. Returns `None` if `retainer` has too few buffers.
    /// The packet stays in the burst; its buffers in the port's own memory are not returned with it
    /// ([`Burst::buf_ids`]).
    pub fn retain<K: Kernel>(&mut self, i: usize, retainer: &mut Retainer) -> Option<Retained> {
        if let Some(lent) = self.lend(i) {
            return self.retain_lent(i, lent, retainer);
        }
        let mut copied = retainer.take(self.frame_len(i))?;
        self.frame(i).copy_into::<K>(&mut copied);
        Some(self.retained(i, copied, None, retainer))
    }

    /// Retains packet `i` as [`Burst::retain`] does, but only if it stays in the port's memory; returns `None`
    /// otherwise.
    pub fn retain_in_place(&mut self, i: usize, retainer: &mut Retainer) -> Option<Retained> {
        let lent = self.lend(i)?;
        self.retain_lent(i, lent, retainer)
    }

    fn retain_lent(&self, i: usize, lent: LentPart, retainer: &mut Retainer) -> Option<Retained> {
        let head = self.head(i);
        let mut copied = retainer.take(head.len())?;
        copied[0].append(head.len())?.copy_from_slice(head);
        Some(self.retained(i, copied, Some(lent), retainer))
    }

    fn retained(&self, i: usize, copied: Vec<Buffer>, lent: Option<LentPart>, by: &Retainer) -> Retained {
        let (len, offload) = (self.frame_len(i), self.offload(i));
        Retained(Arc::new(RetainedInner { len, offload, copied, home: by.home.clone(), lent }))
    }

    /// Removes the buffers of packet `i` after its head from those returned with the burst. Returns `None` if they
    /// belong to another party, if there are none, or if too many are lent.
    fn lend(&mut self, i: usize) -> Option<LentPart> {
        let (map, lender) = self.lender()?;
        let rest: Vec<VolatileSlice> = self.frame(i).rest().collect();
        let mut ids = rest.iter().map(|seg| lender.buffer(*seg)).collect::<Option<Vec<u16>>>()?;
        ids.dedup();
        if ids.is_empty() || !self.holds(&ids) || !lender.lend(ids.len()) {
            return None;
        }
        self.take_out(&ids);
        Some(LentPart { rest, ids, lender, _map: map })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BufId;
    use crate::arena::Arena;

    const SLOTS: usize = 8;
    const LEN: usize = 1000;

    /// Content of frame `k`, in slot `k` of an arena.
    fn bytes(k: usize) -> Vec<u8> {
        (0..LEN).map(|i| (i * 7 + k) as u8).collect()
    }

    /// A burst with the frames of all slots. `own`: the lender, if the arena lends them.
    fn burst(arena: &Arena, own: Option<&Lender>) -> Burst {
        let mut burst = Burst::new();
        burst.begin(0);
        match own {
            Some(lender) => burst.pin_own(arena.map(), lender),
            None => burst.pin(arena.map()),
        }
        for k in 0..SLOTS {
            let seg = arena.slot(k).split_at(LEN).0;
            // SAFETY: the arena is alive; the lengths are equal.
            unsafe { seg.copy_in::<Portable>(&bytes(k)) };
            burst.push(BufId { id: k as u16, slots: 1 }, seg);
        }
        burst.load_heads::<Portable>();
        burst
    }

    fn read(packet: &Retained) -> Vec<u8> {
        let mut bytes = vec![0; packet.len()];
        assert_eq!(packet.copy_to(&mut bytes), packet.len());
        bytes
    }

    fn ids(burst: &Burst) -> Vec<u16> {
        burst.buf_ids().iter().map(|buf_id| buf_id.id).collect()
    }

    #[test]
    fn own_buffers_are_lent_up_to_half_and_return_with_the_last_handle() {
        let (arena, mut retainer) = (Arena::new(SLOTS, 2048).unwrap(), Retainer::new(64).unwrap());
        let lender = arena.lender();
        let mut burst = burst(&arena, Some(&lender));
        let kept: Vec<_> = (1..7).map(|k| burst.retain::<Portable>(k, &mut retainer).unwrap()).collect();
        assert_eq!(
            kept.iter().map(Retained::is_lent).collect::<Vec<_>>(),
            [true, true, true, true, false, false]
        );
        assert_eq!(ids(&burst), [0, 5, 6, 7], "a buffer that is lent does not go back with its burst");
        kept.iter().enumerate().for_each(|(k, packet)| assert_eq!(read(packet), bytes(k + 1)));
        assert!(!burst.retain::<Portable>(1, &mut retainer).unwrap().is_lent(), "its buffer is lent already");
        let (again, mut back) = (kept[1].clone(), vec![]);
        assert!(!lender.collect(|_| panic!("none came back")));
        std::thread::spawn(move || drop(kept)).join().unwrap();
        assert!(lender.collect(|id| back.push(id)));
        assert_eq!((back.as_slice(), read(&again)), ([1, 3, 4].as_slice(), bytes(2)));
        drop(again);
        assert!(lender.collect(|id| back.push(id)));
        assert_eq!((back.last(), lender.is_lending()), (Some(&2), false));
    }

    #[test]
    fn foreign_memory_is_copied_and_returned_at_once() {
        let (arena, mut retainer) = (Arena::new(SLOTS, 2048).unwrap(), Retainer::new(64).unwrap());
        let mut burst = burst(&arena, None);
        let packet = burst.retain::<Portable>(3, &mut retainer).unwrap();
        assert_eq!((packet.is_lent(), ids(&burst).len()), (false, SLOTS));
        // SAFETY: the arena is alive; the lengths are equal.
        unsafe { arena.slot(3).split_at(LEN).0.copy_in::<Portable>(&[0; LEN]) };
        assert_eq!((read(&packet), &packet.head()[..128]), (bytes(3), &bytes(3)[..128]));
    }

    #[test]
    fn retained_packet_outlives_its_retainer_without_leak() {
        let (arena, mut retainer) = (Arena::new(SLOTS, 2048).unwrap(), Retainer::new(64).unwrap());
        let pool = retainer.home.pool.clone();
        let packet = burst(&arena, None).retain::<Portable>(3, &mut retainer).unwrap();
        drop(retainer);
        assert_eq!(read(&packet), bytes(3));
        drop(packet);
        let (mut cache, mut all) = (pool.cache(), vec![]);
        assert_eq!(cache.alloc_bulk(&mut all, 64), 64, "every buffer has come back");
        cache.free_all(all);
    }

    #[test]
    fn retained_packets_are_limited() {
        let (arena, mut retainer) = (Arena::new(SLOTS, 2048).unwrap(), Retainer::new(2).unwrap());
        let lender = arena.lender();
        let mut burst = burst(&arena, Some(&lender));
        let kept = [0, 1].map(|k| burst.retain::<Portable>(k, &mut retainer).unwrap());
        assert!(burst.retain::<Portable>(2, &mut retainer).is_none());
        drop(kept);
        let mut back = vec![];
        lender.collect(|id| back.push(id));
        assert_eq!(back, [2, 0, 1], "what could not be retained is given back with the rest");
        assert!(burst.retain::<Portable>(3, &mut retainer).is_some());
    }

    #[test]
    fn long_packet_is_copied_into_several_buffers() {
        let (arena, mut retainer) = (Arena::new(1, 9216).unwrap(), Retainer::new(8).unwrap());
        let whole: Vec<u8> = (0..9000).map(|i| (i % 251) as u8).collect();
        let seg = arena.slot(0).split_at(whole.len()).0;
        // SAFETY: the arena is alive; the lengths are equal.
        unsafe { seg.copy_in::<Portable>(&whole) };
        let mut burst = Burst::new();
        burst.begin(0);
        burst.pin(arena.map());
        burst.push_chain(BufId::default(), &[seg.split_at(50).0, seg.split_at(50).1]);
        burst.load_heads::<Portable>();
        assert_eq!(read(&burst.retain::<Portable>(0, &mut retainer).unwrap()), whole);
    }
}
