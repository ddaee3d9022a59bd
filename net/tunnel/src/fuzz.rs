//! Fuzz target of received tunnel packets, also replayed by ordinary tests.

use crate::path_mtu::Report;
use crate::{Kind, open};

/// Opens a packet as each kind of tunnel, and reads it as a report of a router. The first byte says by how much the
/// packet is longer than the bytes that follow.
///
/// # Panics
/// If an offset exceeds the packet.
pub fn fuzz_open(input: &[u8]) {
    let Some((more, packet)) = input.split_first() else { return };
    for ethertype in [[0x08, 0x00], [0x86, 0xdd]] {
        Report::read(&[&[2; 12], &ethertype[..], packet].concat());
    }
    let len = packet.len() + usize::from(*more);
    for kind in Kind::ALL {
        let Ok(opened) = open(kind, packet, len) else { continue };
        assert!((20..=packet.len()).contains(&opened.inner), "{kind}: {opened:?}");
        let options = opened.options.clone();
        assert!(
            options.is_empty() || (20..=opened.inner).contains(&options.start) && options.end == opened.inner
        );
        assert!(opened.key.is_none_or(|key| key.checked_shr(kind.key_bits()).unwrap_or(0) == 0));
        assert!(opened.check.is_none_or(|check| check.range.end <= len && check.range.start < opened.inner));
    }
}
