//! Any file is judged without harm: what the fuzz target runs, and stable tests replay.

use super::recording::{Found, Recording, judge};
use std::path::Path;

/// Judges `file`; every packet it is said to have lies inside, in order of time.
///
/// # Panics
/// When one does not.
pub fn fuzz_recording(file: &[u8]) {
    let mut found = Found::default();
    let judged = judge(file, &mut found);
    let mut last = 0;
    for packet in &found.packets {
        assert!(packet.offset + u64::from(packet.len) <= file.len() as u64, "a packet outside of its file");
        assert!(packet.time >= last, "time goes back");
        last = packet.time;
    }
    assert!(found.cut.is_none_or(|at| at < file.len()));
    let made = Recording::of_bytes(Path::new("any"), file.to_vec());
    assert_eq!(made.is_ok(), judged.is_ok() && !found.packets.is_empty());
    if let Ok(recording) = made {
        let region = &recording.map.regions()[0];
        assert!(recording.packets.iter().all(|packet| region.seg(packet.offset, packet.len).is_some()));
    }
}
