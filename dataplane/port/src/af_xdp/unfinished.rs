//! Detection of partial checksums, which the sending kernel left to its interface.
//!
//! A frame from a local sender (a container, over a veth pair) arrives with a partial TCP, UDP or SCTP checksum, and
//! an `AF_XDP` socket does not receive the kernel's mark for it. It is detectable: the field holds the sum of the
//! pseudo header alone (zero for SCTP), whereas a complete checksum is the complement of the sum of everything. Both
//! values coincide for one intact packet in 65536; recomputing it yields the same checksum. A frame *damaged* after
//! its checksum was completed is mistaken for a partial one equally rarely, and the damage then goes undetected. The
//! check is therefore disabled for frames from a wire.

use crate::Offload;
use wire::Layers;
use wire::checksum::{Sum, protocol};

/// Offloads still needed by a frame of `len` bytes that starts with `head`.
pub(super) fn work(head: &[u8], len: usize) -> Offload {
    find(head, len).unwrap_or(Offload::NONE)
}

fn find(head: &[u8], len: usize) -> Option<Offload> {
    let layers = Layers::of(head).filter(|layers| !layers.is_fragment)?;
    let offset = match layers.protocol {
        protocol::TCP => 16,
        protocol::UDP => 6,
        protocol::SCTP => 8,
        _ => return None,
    };
    let at = layers.transport + offset;
    let field = head.get(at..at + 2)?;
    let unfinished = if layers.protocol == protocol::SCTP {
        head.get(at..at + 4)? == [0; 4]
    } else {
        let transport = u32::try_from(len.checked_sub(layers.transport)?).ok()?;
        field == Sum::pseudo(layers.addresses(head), layers.protocol, transport).partial()
    };
    // A packet has at most 64 KiB, so offsets in its headers fit in 16 bits.
    unfinished.then(|| Offload::with_checksum(layers.transport as u16, offset as u16))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A frame with a TCP or UDP packet. `field` computes the checksum field from the sum of the pseudo header and
    /// the sum of everything.
    fn frame(version: u8, protocol: u8, payload: &[u8], field: fn(Sum, Sum) -> [u8; 2]) -> Vec<u8> {
        let header = if protocol == 6 { 20 } else { 8 };
        let len = header + payload.len();
        let mut frame = vec![2; 12];
        let addresses: Vec<u8> = (1..if version == 4 { 9 } else { 33 }).collect();
        if version == 4 {
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((20 + len as u16).to_be_bytes());
            frame.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
        } else {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((len as u16).to_be_bytes());
            frame.extend([protocol, 64]);
        }
        frame.extend(&addresses);
        let transport = frame.len();
        frame.extend(vec![0x11; header]);
        frame.extend(payload);
        let at = transport + if protocol == 6 { 16 } else { 6 };
        frame[at..at + 2].fill(0);
        let pseudo = Sum::pseudo(&addresses, protocol, len as u32);
        let mut all = pseudo;
        all.add(&frame[transport..]);
        frame[at..at + 2].copy_from_slice(&field(pseudo, all));
        frame
    }

    #[test]
    fn partial_checksum_is_detected() {
        for (version, protocol, expected) in
            [(4, 6, (34, 16)), (4, 17, (34, 6)), (6, 6, (54, 16)), (6, 17, (54, 6))]
        {
            let frame = frame(version, protocol, b"payload", |pseudo, _| pseudo.partial());
            assert_eq!(work(&frame, frame.len()).checksum(), Some(expected), "IPv{version}, {protocol}");
        }
    }

    #[test]
    fn complete_checksum_needs_no_work() {
        for (version, protocol) in [(4, 6), (4, 17), (6, 6), (6, 17)] {
            let frame = frame(version, protocol, b"payload", |_, all| all.finish_nonzero());
            assert_eq!(work(&frame, frame.len()), Offload::NONE, "IPv{version}, {protocol}");
        }
        let none = frame(4, 17, b"no checksum", |_, _| [0, 0]);
        assert_eq!(work(&none, none.len()), Offload::NONE);
    }

    #[test]
    fn fragments_and_non_ip_frames_need_no_work() {
        let mut fragment = frame(4, 17, b"payload", |pseudo, _| pseudo.partial());
        fragment[20] = 0x20;
        assert_eq!(work(&fragment, fragment.len()), Offload::NONE);
        assert_eq!(work(&[2; 60], 60), Offload::NONE);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(head in prop::collection::vec(any::<u8>(), 0..128), len in 0_usize..70_000) {
            if let Some((start, offset)) = work(&head, len).checksum() {
                prop_assert!(start + offset + 2 <= head.len());
            }
        }

        #[test]
        fn truncated_frame_yields_none_or_the_same(cut in 0_usize..54) {
            let frame = frame(4, 6, &[7; 20], |pseudo, _| pseudo.partial());
            let found = work(&frame[..cut.min(frame.len())], frame.len());
            prop_assert!(found == Offload::NONE || cut >= 52);
        }
    }
}
