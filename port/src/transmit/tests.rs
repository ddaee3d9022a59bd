//! What a worker that hangs between its steps costs the others, for the rings that workers share.

use super::{RingTx, TxRing};
use crate::{Burst, Capabilities, Slots, Tally, TxQueue};
use mem::copy::Portable;

/// Entries of each ring.
pub(crate) const SIZE: u16 = 4;

/// Two handles of a ring with places for [`SIZE`] frames. One reserves and hangs, the other goes on. `visible` says how many
/// frames were posted.
pub(crate) fn hang<R: TxRing>(ring: R, visible: impl Fn(&mut R) -> usize) {
    let mut hung = RingTx::<R, Portable>::new(ring, None, Capabilities::NONE);
    let mut other = hung.another();
    let (mut burst, mut slots, mut tally) = (Burst::new(), Slots::new(), Tally::default());
    burst.begin(0);
    assert!(burst.push_own(&[7; 60]));
    assert_eq!(hung.reserve(&[60], &mut slots, &mut tally), Ok(1));
    let sent: usize = (0..100).map(|_| other.tx(&burst, &[0], &mut tally).unwrap()).sum();
    assert_eq!((sent, other.with_ring(&visible)), (3, Some(0)), "all wait for the oldest ticket");
    assert_eq!((other.open_tickets(), other.room(60)), (usize::from(SIZE), 0));
    slots.write_packet::<Portable>(0, &burst, 0);
    hung.commit(&mut slots, &mut tally).unwrap();
    assert_eq!((other.open_tickets(), other.with_ring(&visible), tally.packets), (0, Some(SIZE.into()), 4));
    assert_eq!((tally.bytes, slots.len()), (240, 0));
}
