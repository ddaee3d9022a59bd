//! Fuzzing of capture file validation, also replayed by stable tests.

use super::recording::{Collected, Limits, Recording, validate};
use super::window::{CHUNK, Window};
use std::path::Path;

/// Limits that a short file can reach.
const LIMITS: Limits = Limits { packets: 100, short: 20 };

/// Validates `file`, and checks that all packets found are inside it, in time order, and independent of the read chunk
/// size.
///
/// # Panics
/// If a check fails.
pub fn fuzz_recording(file: &[u8]) {
    let (found, validated) = validated(file, CHUNK);
    let mut last = 0;
    for packet in &found.packets {
        assert!(
            packet.offset + u64::from(packet.len) <= found.bytes.len() as u64,
            "a packet outside of its file"
        );
        assert!(packet.time >= last, "time goes back");
        last = packet.time;
    }
    assert!(found.bytes.len() <= file.len(), "more is kept than the file has");
    assert!(found.packets.len() <= LIMITS.packets);
    assert!(found.cut.is_none_or(|at| at < file.len()));
    in_pieces(file, &found, &validated);
    let made = Recording::of(Path::new("any"), file, LIMITS);
    assert_eq!(made.is_ok(), validated.is_empty() && !found.bytes.is_empty());
    if let Ok(recording) = made {
        let region = &recording.map.regions()[0];
        assert!(recording.packets.iter().all(|packet| region.seg(packet.offset, packet.len).is_some()));
    }
}

/// Packets found, and the error text; empty if valid.
fn validated(file: &[u8], chunk: usize) -> (Collected, String) {
    let mut found = Collected::within(LIMITS);
    let validated = validate(&mut Window::new(file, chunk), &mut found);
    (found, validated.err().map(|fault| format!("{fault:?}")).unwrap_or_default())
}

fn in_pieces(file: &[u8], whole: &Collected, expected: &str) {
    for chunk in [1, 13] {
        let (found, validated) = validated(file, chunk);
        assert_eq!(validated, expected, "read {chunk} bytes at a time");
        assert_eq!(
            (&found.packets, &found.bytes, found.cut, found.snapped),
            (&whole.packets, &whole.bytes, whole.cut, whole.snapped)
        );
    }
}
