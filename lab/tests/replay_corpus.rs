//! What the fuzz target of the generator has found interesting, played again, and scripts by chance.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

use lab::traffic::fuzz::fuzz_traffic;
use proptest::prelude::*;

#[test]
fn meter_and_captures_survive_every_script() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/traffic");
    let files = std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let scripts: Vec<_> = files.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect();
    assert!(!scripts.is_empty(), "there is a corpus");
    for script in scripts {
        fuzz_traffic(&script);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn meter_and_captures_survive_any_script(script in prop::collection::vec(any::<u8>(), 0..600)) {
        fuzz_traffic(&script);
    }

    /// Frames that look like Internet frames, with lengths that may be wrong.
    #[test]
    fn captures_survive_frames_with_any_lengths(
        version in prop_oneof![Just((8_u8, 0_u8, 0x45_u8)), Just((0x86, 0xdd, 0x60))],
        udp: bool, total in 0..700u16, mut rest in prop::collection::vec(any::<u8>(), 60..700),
    ) {
        let mut frame = vec![2; 12];
        frame.extend([version.0, version.1]);
        rest[0] = version.2;
        let (length, protocol) = if version.2 == 0x45 { (2, 9) } else { (4, 6) };
        rest[length..length + 2].copy_from_slice(&total.to_be_bytes());
        rest[protocol] = if udp { 17 } else { 6 };
        if version.2 == 0x45 {
            rest[6..8].fill(0);
        }
        frame.extend(rest);
        fuzz_traffic(&frame);
    }
}
