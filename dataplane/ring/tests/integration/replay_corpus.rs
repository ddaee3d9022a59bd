//! Replays the corpora of the ring fuzz targets.

#![allow(unreachable_pub, reason = "the bodies are shared with the fuzz targets, where they are public")]

#[path = "../../../../fuzz/src/device.rs"]
mod device;
#[path = "../../../../fuzz/src/driver.rs"]
mod driver;
#[path = "../../../../fuzz/src/race.rs"]
mod race;

use ring::device::{Packed, Split};

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files = std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{target} has a corpus");
    // Under Miri a script takes seconds, so only every eighth one runs.
    paths.iter().step_by(if cfg!(miri) { 8 } else { 1 }).map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn split_rings_survive_every_script() {
    for script in corpus("split_device") {
        device::play::<Split>(false, &script);
    }
}

#[test]
fn packed_rings_survive_every_script() {
    for script in corpus("packed_device") {
        device::play::<Packed>(true, &script);
    }
}

#[test]
#[cfg_attr(miri, ignore = "the driver's stores race with the device's loads, and their sizes differ")]
fn split_rings_survive_being_rewritten_meanwhile() {
    for script in corpus("split_race") {
        race::play::<Split>(false, &script);
    }
}

#[test]
#[cfg_attr(miri, ignore = "the driver's stores race with the device's loads, and their sizes differ")]
fn packed_rings_survive_being_rewritten_meanwhile() {
    for script in corpus("packed_race") {
        race::play::<Packed>(true, &script);
    }
}
