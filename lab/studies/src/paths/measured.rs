//! What was measured of the same comparison: medians of `cargo xtask bench peers`, with date, command and processor.
//!
//! They stand beside simulated figures and enter none of them. Those that come along are `lab/studies/measured/peers.toml`; a user's own
//! are what `cargo xtask bench peers -o json` printed.

use serde::{Deserialize, Serialize};

use super::virtqueue::RingKind;

const OURS: &str = include_str!("../../measured/peers.toml");

/// Ratios that were measured together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// What printed them
    pub command: String,
    /// When
    #[serde(default)]
    pub date: String,
    /// On what; empty where nobody said
    #[serde(default)]
    pub processor: String,
    /// What to mind
    #[serde(default)]
    pub note: String,
    /// One for each ring and size
    #[serde(rename = "ratio")]
    pub ratios: Vec<MeasuredRatio>,
}

/// linerate over testpmd.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredRatio {
    /// Which rings
    pub ring: RingKind,
    /// Bytes of a frame
    pub bytes: u64,
    /// How many rounds gave a ratio
    pub rounds: u64,
    /// Their median
    pub median: f64,
    /// The smallest and the largest, where they were kept
    #[serde(default)]
    pub low: Option<f64>,
    /// See `low`
    #[serde(default)]
    pub high: Option<f64>,
}

/// Why a file of measured ratios is of no use.
#[derive(Debug, thiserror::Error)]
pub enum MeasuredError {
    /// Not what the command prints
    #[error(
        "the file is not what `cargo xtask bench peers -o json` prints, so nothing can stand beside the simulation: {0}"
    )]
    Unreadable(#[from] serde_json::Error),
    /// No row of it was simulated
    #[error(
        "the file has no ratio beside testpmd on split or packed-vec rings, so nothing can stand beside the simulation"
    )]
    Nothing,
    /// A number that cannot be
    #[error("the file has a ratio of {0}, which cannot be")]
    Impossible(f64),
}

/// One row of what the command prints.
#[derive(Deserialize)]
struct Printed {
    ring: String,
    bytes: u64,
    peer: String,
    rounds: u64,
    ratio: Option<f64>,
}

impl Measured {
    /// Those that come along.
    pub fn ours() -> Option<Measured> {
        toml::from_str(OURS).ok()
    }

    /// From what `cargo xtask bench peers -o json` printed.
    pub fn parse(bytes: &[u8]) -> Result<Measured, MeasuredError> {
        let printed: Vec<Printed> = serde_json::from_slice(bytes)?;
        let ratios: Vec<MeasuredRatio> = printed.iter().filter_map(Printed::ratio).collect();
        if let Some(wrong) = ratios.iter().find(|ratio| !(ratio.median.is_finite() && ratio.median > 0.0)) {
            return Err(MeasuredError::Impossible(wrong.median));
        }
        if ratios.is_empty() {
            return Err(MeasuredError::Nothing);
        }
        let command = "cargo xtask bench peers -o json".to_owned();
        Ok(Measured { command, date: String::new(), processor: String::new(), note: String::new(), ratios })
    }

    /// The ratio of a ring and a size.
    pub fn ratio(&self, ring: RingKind, bytes: u64) -> Option<&MeasuredRatio> {
        self.ratios.iter().find(|ratio| ratio.ring == ring && ratio.bytes == bytes)
    }
}

impl Printed {
    fn ratio(&self) -> Option<MeasuredRatio> {
        let ring = match (self.ring.as_str(), self.peer.as_str()) {
            ("split", "testpmd") => RingKind::Split,
            ("packed-vec", "testpmd") => RingKind::Packed,
            _ => return None,
        };
        let (bytes, rounds) = (self.bytes, self.rounds);
        self.ratio.map(|median| MeasuredRatio { ring, bytes, rounds, median, low: None, high: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_along_has_every_case_and_says_where_it_is_from() {
        let ours = Measured::ours().expect("the file that comes along");
        assert!(!ours.date.is_empty() && !ours.processor.is_empty() && ours.command.contains("bench peers"));
        for (ring, bytes) in super::super::study::CASES {
            assert!(ours.ratio(ring, bytes).is_some(), "{ring:?} {bytes}");
        }
    }

    #[test]
    fn what_the_command_prints_is_read_and_other_peers_are_left_out() {
        let text = r#"[{"ring":"split","bytes":64,"peer":"testpmd","rounds":5,"ratio":1.25,"met":true},
            {"ring":"split","bytes":64,"peer":"ovs","rounds":5,"ratio":3.0},
            {"ring":"packed-vec","bytes":64,"peer":"testpmd","rounds":0,"ratio":null}]"#;
        let measured = Measured::parse(text.as_bytes()).expect("rows of the command");
        assert_eq!(measured.ratios.len(), 1);
        assert_eq!(measured.ratio(RingKind::Split, 64).map(|ratio| ratio.median), Some(1.25));
        assert!(matches!(Measured::parse(b"[]"), Err(MeasuredError::Nothing)));
        assert!(matches!(Measured::parse(b"{}"), Err(MeasuredError::Unreadable(_))));
    }
}
