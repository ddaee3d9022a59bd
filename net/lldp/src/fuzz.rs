//! Arbitrary bytes as an LLDPDU.
//!
//! Invariants: nothing panics, a decoded LLDPDU that fits into a frame is decoded to the same one after it was encoded,
//! and a port keeps at most [`MAX_NEIGHBORS`] neighbours.

use crate::{Agent, GROUP, Lldpdu, MAX_FRAME, MAX_NEIGHBORS};
use std::time::Duration;
use wire::{EtherType, MacAddress};

/// `script` is the part of a frame behind the header. It is received several times with other identifiers.
///
/// # Panics
/// If an invariant is violated.
pub fn fuzz_frame(script: &[u8]) {
    let header = [&GROUP.octets()[..], &[2; 6], &EtherType::LLDP.0.to_be_bytes()].concat();
    let mut frame = [&header[..], script].concat();
    if let Ok(lldpdu) = Lldpdu::decode(&frame) {
        let again = lldpdu.encode(MacAddress::from_u64(2));
        // Texts that were not valid are longer than before.
        if again.len() <= MAX_FRAME {
            let again = Lldpdu::decode(&again).unwrap_or_else(|error| panic!("{lldpdu:?}: {error}"));
            let third = Lldpdu::decode(&again.encode(MacAddress::from_u64(2)));
            assert_eq!(third, Ok(again));
        }
    }
    let mut agent = Agent::new(MacAddress::from_u64(2));
    agent.add_port(1, Lldpdu::default());
    agent.set_link(1, true, Duration::ZERO);
    for seconds in 0..2 * MAX_NEIGHBORS as u64 {
        // The first byte of the chassis identifier.
        frame.get_mut(17).into_iter().for_each(|byte| *byte = byte.wrapping_add(1));
        agent.receive(1, &frame, Duration::from_secs(seconds));
        agent.tick(Duration::from_secs(seconds));
        assert!(agent.neighbors().count() <= MAX_NEIGHBORS);
        assert!(agent.take_frames().len() <= 1);
    }
}
