//! Replays the corpora of the frame and message fuzz targets.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]
#![allow(unreachable_pub, reason = "the bodies are shared with the fuzz targets, where they are public")]

#[path = "../../../fuzz/src/frames.rs"]
mod frames;

#[path = "../../../fuzz/src/neighbors.rs"]
mod neighbors;

#[test]
fn views_and_edits_survive_every_frame() {
    replay("wire", frames::play);
}

#[test]
fn views_survive_every_message_of_arp_neighbor_discovery_and_dhcp() {
    replay("neighbors", neighbors::play);
}

fn replay(target: &str, play: fn(&[u8])) {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files = std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let bytes: Vec<_> = files.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect();
    assert!(!bytes.is_empty(), "there is a corpus");
    for bytes in bytes {
        play(&bytes);
    }
}
