//! Effect on other workers of a worker that hangs between reserve and commit, for shared rings.

use super::{RingTx, TxRing};
use crate::{Burst, BurstStats, Capabilities, DropReason, Offload, PortFault, Segmentation, Slots, TxQueue};
use mem::copy::Portable;

/// Entries of each ring.
pub(crate) const SIZE: u16 = 4;

/// Creates two handles of a ring with room for [`SIZE`] frames. One reserves and hangs, the other continues.
/// `visible` returns the number of posted frames.
pub(crate) fn hang<R: TxRing>(ring: R, visible: impl Fn(&mut R) -> usize) {
    let mut hung = RingTx::<R, Portable>::new(ring, None, Capabilities::NONE);
    let mut other = hung.another();
    let (mut burst, mut slots, mut stats) = (Burst::new(), Slots::new(), BurstStats::default());
    burst.begin(0);
    assert!(burst.push_own(&[7; 60]));
    assert_eq!(hung.reserve(&[60], &mut slots, &mut stats), Ok(1));
    let sent: usize = (0..100).map(|_| other.tx(&burst, &[0], &mut stats).unwrap()).sum();
    assert_eq!((sent, other.with_ring(&visible)), (3, Some(0)), "all wait for the oldest ticket");
    assert_eq!((other.open_tickets(), other.room(60)), (usize::from(SIZE), 0));
    slots.write_packet::<Portable>(0, &burst, 0);
    hung.commit(&mut slots, &mut stats).unwrap();
    assert_eq!((other.open_tickets(), other.with_ring(&visible), stats.packets), (0, Some(SIZE.into()), 4));
    assert_eq!((stats.bytes, slots.len()), (240, 0));
    assert_eq!(other.depth(), Some(SIZE.into()), "the peer has taken none");
}

/// A queue without reservable memory that takes `room` packets.
#[derive(Default)]
struct Plain {
    room: usize,
    /// Whether it fails when it is full.
    fails: bool,
    capabilities: Capabilities,
    taken: Vec<(Vec<u8>, Offload)>,
}

impl TxQueue for Plain {
    fn tx(&mut self, burst: &Burst, indices: &[u8], stats: &mut BurstStats) -> Result<usize, PortFault> {
        let n = indices.len().min(self.room);
        for &pick in &indices[..n] {
            let mut bytes = vec![0; burst.frame_len(pick.into())];
            burst.frame(pick.into()).copy_to::<Portable>(&mut bytes);
            stats.packets += 1;
            stats.bytes += bytes.len() as u64;
            self.taken.push((bytes, burst.offload(pick.into())));
        }
        self.room -= n;
        if self.fails && self.room == 0 { Err(PortFault::MemoryLost) } else { Ok(n) }
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn notify(&mut self) {}

    fn fork(&mut self) -> Box<dyn TxQueue> {
        Box::new(Plain::default())
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }
}

#[test]
fn queue_without_own_memory_sends_from_private_memory() {
    let mut queue = Plain { room: 70, capabilities: Capabilities::ALL, ..Plain::default() };
    let (mut slots, mut stats) = (Slots::new(), BurstStats::default());
    let frame = |k: usize| -> Vec<u8> { (0..60 + 997 * k).map(|i| (i + k) as u8).collect() };
    let (mut next, mut wanted) = (0, vec![]);
    while next < 80 {
        let lengths: Vec<u32> = (next..80).map(|k| frame(k).len() as u32).collect();
        let done = queue.reserve(&lengths, &mut slots, &mut stats).unwrap();
        assert!(done > 0 && done == slots.len());
        for k in 0..done {
            let (bytes, offload) = (frame(next + k), Offload::with_checksum(34, 16));
            let offload = if k % 3 == 0 { offload } else { Offload::NONE };
            let (head, rest) = bytes.split_at(42);
            slots.write::<Portable>(k, offload, &[head, &[], rest]);
            wanted.push((bytes, offload));
        }
        queue.commit(&mut slots, &mut stats).unwrap();
        next += done;
    }
    wanted.truncate(70);
    assert!(queue.taken == wanted);
    assert_eq!((stats.packets, stats.drops[DropReason::QueueFull as usize]), (70, 10));
}

/// A UDP datagram of `len` bytes with the pseudo-header sum in its checksum field.
fn datagram(len: usize) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0, 1, 0, 2, 0, 26, 0x12, 0x34]);
    frame.extend((42..len).map(|i| i as u8));
    frame
}

#[test]
fn missing_offloads_are_completed_in_software_or_counted() {
    let (mut queue, mut slots, mut stats) =
        (Plain { room: 9, ..Plain::default() }, Slots::new(), BurstStats::default());
    let (frame, sum) = (datagram(101), Offload::with_checksum(34, 6));
    assert_eq!(queue.reserve(&[101; 4], &mut slots, &mut stats), Ok(4));
    let (head, rest) = frame.split_at(42);
    slots.write::<Portable>(0, Offload::NONE, &[head, rest]);
    slots.write::<Portable>(1, sum.with_segments(Segmentation::Udp, 64, false), &[head, rest]);
    slots.write::<Portable>(2, sum, &[head, rest]);
    slots.write::<Portable>(3, Offload::with_checksum(34, 66), &[head, rest]);
    queue.commit(&mut slots, &mut stats).unwrap();
    let mut finished = frame.clone();
    finished[40..42].copy_from_slice(&wire::checksum::Sum::of(&frame[34..]).finish_nonzero());
    assert!(queue.taken == [(frame, Offload::NONE), (finished, Offload::NONE)]);
    assert_eq!((stats.packets, stats.lost, stats.drops[DropReason::BadOffload as usize]), (2, 2, 2));
}

#[test]
fn frames_refused_by_a_failing_queue_are_counted() {
    let mut queue = Plain { room: 2, fails: true, ..Plain::default() };
    let (mut slots, mut stats) = (Slots::new(), BurstStats::default());
    assert_eq!(queue.reserve(&[60; 7], &mut slots, &mut stats), Ok(7));
    (0..7).for_each(|k| slots.write::<Portable>(k, Offload::NONE, &[&[7; 60]]));
    assert_eq!(queue.commit(&mut slots, &mut stats), Err(PortFault::MemoryLost));
    assert_eq!((stats.packets, stats.lost, stats.drops[DropReason::PortFault as usize]), (2, 5, 5));
}
