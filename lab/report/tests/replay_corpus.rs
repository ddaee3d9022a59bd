//! Replays the corpora of the generator and report fuzz targets, and random scripts.
#![expect(clippy::unwrap_used, reason = "a failure here is the test's")]

#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;

use corpus::corpus;
use generator::fuzz::fuzz_traffic;
use proptest::prelude::*;
use report::fuzz::fuzz_report;

#[test]
fn meter_and_captures_survive_every_script() {
    for script in &corpus("traffic") {
        fuzz_traffic(script);
    }
}

#[test]
fn every_file_of_results_is_drawn_or_refused() {
    for file in &corpus("report") {
        fuzz_report(file);
    }
}

/// Replaces one number of a result file by another value.
#[test]
fn files_of_results_with_other_numbers_are_drawn_or_refused() {
    let odd = ["0", "-1", "null", "1e308", "-1e308", "5e-324", "18446744073709551615", "\"<script>\"", "[]"];
    for file in corpus("report") {
        let Ok(text) = String::from_utf8(file) else { continue };
        let is_number = |at: &usize| text[..*at].ends_with(':');
        let places = text.match_indices(|c: char| c.is_ascii_digit()).map(|(at, _)| at).filter(is_number);
        // Only every seventh number, to limit the run time.
        for (n, at) in places.step_by(7).take(200).enumerate() {
            let end = text[at..].find([',', '}', ']']).map_or(text.len(), |length| at + length);
            fuzz_report(format!("{}{}{}", &text[..at], odd[n % odd.len()], &text[end..]).as_bytes());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn meter_and_captures_survive_any_script(script in prop::collection::vec(any::<u8>(), 0..600)) {
        fuzz_traffic(&script);
    }

    /// Frames that resemble IP frames, with lengths that may be wrong.
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
