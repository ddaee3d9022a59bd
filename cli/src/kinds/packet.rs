//! `kind = "packet"`: any interface, over packet sockets.

use super::{Claim, InterfaceSettings, Kind, Loaded};
use crate::config::{Fields, Judging};
use crate::plant::PlantError;
use crate::topology::PortSettings;
use ::port::PortControl;
use ::port::packet::{self as room, BLOCKS, MAX_BLOCKS, MIN_BLOCKS, Options};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;

const RANGE: RangeInclusive<i128> = MIN_BLOCKS as i128..=MAX_BLOCKS as i128;

/// What a port over packet sockets has of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Packet {
    #[serde(flatten)]
    pub(crate) interface: InterfaceSettings,
    /// Blocks of 128 KiB that each queue receives into.
    pub(crate) blocks: u16,
}

impl Kind for Packet {
    const NAME: &'static str = "packet";
    const ABOUT: &'static str =
        "It is any interface of the kernel, over packet sockets, for where XDP cannot be had";
    const KEYS: &'static [&'static str] = &["interface", "netns", "blocks"];
    #[cfg(test)]
    const EXAMPLES: &'static [&'static str] = &[
        "interface = \"lr-eth0\"",
        "interface = \"lr-eth0\"\nnetns = \"/proc/self/ns/net\"\nblocks = 64\nqueue_pairs = 2",
    ];

    fn read(fields: &mut Fields<'_, '_>) -> Self {
        Self {
            interface: InterfaceSettings::read(fields),
            blocks: fields.number("blocks", RANGE, "blocks of 128 KiB").unwrap_or(BLOCKS),
        }
    }

    fn judge(&self, judging: &mut Judging<'_>) {
        self.interface.judge(judging);
        judging.no_mtu();
    }

    fn claims(&self) -> Vec<Claim<'_>> {
        self.interface.claims()
    }

    fn place(&self) -> String {
        self.interface.place()
    }

    fn plug(&self, port: &PortSettings, _: Loaded) -> Result<Box<dyn PortControl>, PlantError> {
        let (place, queue_pairs, blocks) = (self.interface.there(), port.queue_pairs, self.blocks);
        room::open(Options { place, queue_pairs, blocks }).map_err(PlantError::said)
    }
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.interface.fmt(f)
    }
}
