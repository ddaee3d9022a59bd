//! What a worker that hangs between its steps costs the others, for the rings that workers share.

use super::{RingTx, TxRing};
use crate::{Burst, BurstStats, Capabilities, DropReason, Offload, PortFault, Slots, TxQueue};
use mem::copy::Portable;

/// Entries of each ring.
pub(crate) const SIZE: u16 = 4;

/// Two handles of a ring with places for [`SIZE`] frames. One reserves and hangs, the other goes on. `visible` says how many
/// frames were posted.
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
}

/// A queue without memory of its own, which takes so many packets.
struct Plain {
    room: usize,
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
        Ok(n)
    }

    fn notify(&mut self) {}

    fn fork(&mut self) -> Box<dyn TxQueue> {
        Box::new(Plain { room: 0, taken: vec![] })
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }
}

#[test]
fn a_queue_without_memory_of_its_own_sends_from_private_memory() {
    let (mut queue, mut slots, mut stats) =
        (Plain { room: 70, taken: vec![] }, Slots::new(), BurstStats::default());
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
