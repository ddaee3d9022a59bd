//! Measured results of the same comparison: medians of `cargo xtask bench peers`, with date, command and processor.
//!
//! They are shown beside simulated values and enter none of them. The bundled ones are in
//! `lab/studies/measured/peers.toml`; a user's own are the output of `cargo xtask bench peers -o json`.

use serde::{Deserialize, Serialize};

use super::virtqueue::RingKind;

const OURS: &str = include_str!("../../measured/peers.toml");

/// Ratios measured together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Command that printed them
    pub command: String,
    /// Date of the measurement
    #[serde(default)]
    pub date: String,
    /// Processor; empty if not recorded
    #[serde(default)]
    pub processor: String,
    /// Remarks
    #[serde(default)]
    pub note: String,
    /// One ratio per ring and size
    #[serde(rename = "ratio")]
    pub ratios: Vec<MeasuredRatio>,
}

/// Rate of linerate divided by that of testpmd.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredRatio {
    /// Ring kind
    pub ring: RingKind,
    /// Frame size in bytes
    pub bytes: u64,
    /// Number of rounds with a ratio
    pub rounds: u64,
    /// Median of the ratios
    pub median: f64,
    /// Smallest ratio, if recorded
    #[serde(default)]
    pub low: Option<f64>,
    /// Largest ratio, if recorded
    #[serde(default)]
    pub high: Option<f64>,
}

/// Error of a file of measured ratios.
#[derive(Debug, thiserror::Error)]
pub enum MeasuredError {
    /// Not the output of the command
    #[error("the file is not output of `cargo xtask bench peers -o json`: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// No row matches a simulated case
    #[error(
        "the file has no ratio to testpmd on split or packed-inorder rings: nothing to compare with the simulation"
    )]
    Nothing,
    /// Invalid ratio
    #[error("invalid ratio {0} in the file: expected a number above zero")]
    Impossible(f64),
}

/// The command's output.
#[derive(Deserialize)]
struct Printed {
    ratios: Vec<PrintedRatio>,
}

/// The ratio of two switches in a column of their readings.
#[derive(Deserialize)]
struct PrintedRatio {
    theirs: PrintedSubject,
    of: String,
    rounds: u64,
    ratio: f64,
}

#[derive(Deserialize)]
struct PrintedSubject {
    ring: String,
    size: String,
    switch: String,
}

impl Measured {
    /// Returns the bundled results.
    pub fn ours() -> Option<Measured> {
        toml::from_str(OURS).ok()
    }

    /// Parses the output of `cargo xtask bench peers -o json`.
    pub fn parse(bytes: &[u8]) -> Result<Measured, MeasuredError> {
        let printed: Printed = serde_json::from_slice(bytes)?;
        let ratios: Vec<MeasuredRatio> = printed.ratios.iter().filter_map(PrintedRatio::ratio).collect();
        if let Some(wrong) = ratios.iter().find(|ratio| !(ratio.median.is_finite() && ratio.median > 0.0)) {
            return Err(MeasuredError::Impossible(wrong.median));
        }
        if ratios.is_empty() {
            return Err(MeasuredError::Nothing);
        }
        let command = "cargo xtask bench peers -o json".to_owned();
        Ok(Measured { command, date: String::new(), processor: String::new(), note: String::new(), ratios })
    }

    /// Returns the ratio of a ring and a size, at the nearest distance of the CPUs that the command measured.
    pub fn ratio(&self, ring: RingKind, bytes: u64) -> Option<&MeasuredRatio> {
        self.ratios.iter().find(|ratio| ratio.ring == ring && ratio.bytes == bytes)
    }
}

impl PrintedRatio {
    fn ratio(&self) -> Option<MeasuredRatio> {
        let ring = match (self.theirs.ring.as_str(), self.theirs.switch.as_str(), self.of.as_str()) {
            ("split", "testpmd", "mpps") => RingKind::Split,
            ("packed-inorder", "testpmd", "mpps") => RingKind::Packed,
            _ => return None,
        };
        let (bytes, rounds, median) = (self.theirs.size.parse().ok()?, self.rounds, self.ratio);
        Some(MeasuredRatio { ring, bytes, rounds, median, low: None, high: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_measurements_have_every_case_and_a_source() {
        let ours = Measured::ours().expect("the file that comes along");
        assert!(!ours.date.is_empty() && !ours.processor.is_empty() && ours.command.contains("bench peers"));
        for (ring, bytes) in super::super::study::CASES {
            assert!(ours.ratio(ring, bytes).is_some(), "{ring:?} {bytes}");
        }
    }

    #[test]
    fn the_output_of_the_command_is_read_and_other_peers_are_ignored() {
        let row = |switch: &str, of: &str, ratio: f64| {
            format!(
                r#"{{"ours":{{"ring":"split","size":"64","switch":"linerate"}},"of":"{of}","distance":"near",
                "theirs":{{"ring":"split","size":"64","switch":"{switch}"}},"rounds":5,"ratio":{ratio},"met":true}}"#
            )
        };
        let rows =
            [row("testpmd", "cycles_per_packet", 0.3), row("ovs", "mpps", 3.0), row("testpmd", "mpps", 1.25)];
        let text = format!(r#"{{"subjects":[],"ratios":[{}]}}"#, rows.join(","));
        let measured = Measured::parse(text.as_bytes()).expect("rows of the command");
        assert_eq!(measured.ratios.len(), 1);
        assert_eq!(measured.ratio(RingKind::Split, 64).map(|ratio| ratio.median), Some(1.25));
        assert!(matches!(Measured::parse(br#"{"ratios":[]}"#), Err(MeasuredError::Nothing)));
        assert!(matches!(Measured::parse(b"{}"), Err(MeasuredError::Unreadable(_))));
    }
}
