//! Replays the corpora of the ring fuzz targets.

#![allow(unreachable_pub, reason = "the bodies are shared with the fuzz targets, where they are public")]

#[path = "../../../../fuzz/src/corpus.rs"]
mod corpus;
#[path = "../../../../fuzz/src/device.rs"]
mod device;
#[path = "../../../../fuzz/src/driver.rs"]
mod driver;
#[path = "../../../../fuzz/src/race.rs"]
mod race;

use self::corpus::corpus;
use ring::device::{Packed, Split};

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
fn split_rings_survive_concurrent_rewrites() {
    for script in corpus("split_race") {
        race::play::<Split>(false, &script);
    }
}

#[test]
#[cfg_attr(miri, ignore = "the driver's stores race with the device's loads, and their sizes differ")]
fn packed_rings_survive_concurrent_rewrites() {
    for script in corpus("packed_race") {
        race::play::<Packed>(true, &script);
    }
}
