//! Port security settings: reading, defaults and display. `config` validates them against other sections, and
//! `bridge` enforces them.
//!
//! Nothing here processes packets.

use crate::settings::reader::fields::Fields;
use bridge::AllowedSource;
use serde::{Deserialize, Serialize};
use std::fmt;
use wire::MacAddress;

/// Range of `max_macs`: the largest address table.
const MAX_MACS: std::ops::RangeInclusive<i128> = 1..=16_777_216;

/// Keys of a `[[port]]` section that restrict its peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Security {
    /// Whether the network behind the port is trusted, such as an uplink.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) trusted: bool,
    /// Allowed source MAC addresses; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) macs: Vec<MacAddress>,
    /// Whether addresses are learned on the port.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub(crate) learn: bool,
    /// Maximum number of addresses learned on the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_macs: Option<u32>,
    /// Allowed IP source addresses; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sources: Vec<AllowedSource>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde calls")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde calls")]
fn is_true(flag: &bool) -> bool {
    *flag
}

fn yes() -> bool {
    true
}

impl Default for Security {
    fn default() -> Self {
        Self { trusted: false, macs: Vec::new(), learn: true, max_macs: None, sources: Vec::new() }
    }
}

impl Security {
    /// Reads the security keys of a port.
    pub(crate) fn read(fields: &mut Fields<'_, '_>) -> Self {
        Self {
            trusted: fields.flag("trusted").unwrap_or(false),
            macs: macs(fields),
            learn: fields.flag("learn").unwrap_or(true),
            max_macs: fields.number("max_macs", MAX_MACS, "addresses"),
            sources: sources(fields),
        }
    }
}

fn macs(fields: &mut Fields<'_, '_>) -> Vec<MacAddress> {
    let station = |text: &str| {
        let mac: Option<MacAddress> = text.parse().ok();
        mac.filter(|mac| !mac.is_group() && !mac.is_zero())
            .ok_or_else(|| format!("`macs` lists \"{text}\", which is not a unicast address"))
    };
    fields.list("macs", station, "[\"52:54:00:00:00:01\"]")
}

fn sources(fields: &mut Fields<'_, '_>) -> Vec<AllowedSource> {
    let source = |text: &str| text.parse().map_err(|e: bridge::ParseSourceError| format!("`sources`: {e}"));
    fields.list("sources", source, "[\"10.0.0.5\", \"10.1.0.0/24\", \"fd00::5\", \"dhcp\"]")
}

impl fmt::Display for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn listed<T: ToString>(list: &[T]) -> String {
            list.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        }
        if let Some(most) = self.max_macs {
            write!(f, ", at most {most} addresses")?;
        }
        if !self.macs.is_empty() {
            write!(f, ", only from {}", listed(&self.macs))?;
        }
        if !self.sources.is_empty() {
            write!(f, ", IP sources {}", listed(&self.sources))?;
        }
        f.write_str(if self.learn { "" } else { ", no learning" })?;
        f.write_str(if self.trusted { ", trusted" } else { "" })
    }
}
