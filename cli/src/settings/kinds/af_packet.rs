//! `kind = "af_packet"`: any network interface, over packet sockets.

use super::claim::Claim;
use super::interface::{INTERFACE, InterfaceSettings, NETNS};
use super::kind::{Kind, Loaded, OpenError};
use crate::settings::reader::fields::Fields;
use crate::settings::reader::key::{Key, key};
use crate::settings::reader::validation::PortCommon;
use crate::settings::reader::validation::Validation;
use ::port::PortControl;
use ::port::af_packet::{self as port_kind, BLOCKS, MAX_BLOCKS, MIN_BLOCKS, Options};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;

const RANGE: RangeInclusive<i128> = MIN_BLOCKS as i128..=MAX_BLOCKS as i128;

/// Settings of an `AF_PACKET` port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AfPacket {
    #[serde(flatten)]
    pub(crate) interface: InterfaceSettings,
    /// Number of 128 KiB receive blocks per queue.
    pub(crate) blocks: u16,
}

impl Kind for AfPacket {
    const NAME: &'static str = "af_packet";
    const ABOUT: &'static str = "Kernel interface over a packet socket, for interfaces without XDP support";
    const KEYS: &'static [Key] = &[
        INTERFACE,
        NETNS,
        key(
            "blocks",
            "64",
            "Number of receive blocks of 128 KiB per queue. At a low rate each holds the frames of a millisecond.",
        ),
    ];
    #[cfg(test)]
    const EXAMPLES: &'static [&'static str] = &[
        "interface = \"lr-eth0\"",
        "interface = \"lr-eth0\"\nnetns = \"/proc/self/ns/net\"\nblocks = 128\nqueue_pairs = 2",
    ];

    fn read(fields: &mut Fields<'_, '_>) -> Self {
        Self {
            interface: InterfaceSettings::read(fields),
            blocks: fields.number("blocks", RANGE, "blocks of 128 KiB").unwrap_or(BLOCKS),
        }
    }

    fn validate(&self, validation: &mut Validation<'_>) {
        self.interface.validate(validation);
        validation.no_mtu();
    }

    fn claims(&self) -> Vec<Claim<'_>> {
        self.interface.claims()
    }

    fn place(&self) -> String {
        self.interface.place()
    }

    fn namespaces(&self) -> Vec<(&'static str, &str)> {
        self.interface.namespaces()
    }

    fn successor(&self, port: PortCommon<'_>) -> Option<Result<Box<dyn PortControl>, OpenError>> {
        let made = port_kind::successor(self.options(port));
        Some(made.map_err(|error| OpenError::refused(port.name, &error)))
    }

    fn open(&self, port: PortCommon<'_>, _: Loaded) -> Result<Box<dyn PortControl>, OpenError> {
        port_kind::open(self.options(port)).map_err(|error| OpenError::refused(port.name, &error))
    }
}

impl AfPacket {
    /// Converts the settings to options of the port crate.
    fn options(&self, port: PortCommon<'_>) -> Options {
        Options { place: self.interface.there(), queue_pairs: port.queue_pairs, blocks: self.blocks }
    }
}

impl fmt::Display for AfPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.interface.fmt(f)
    }
}
