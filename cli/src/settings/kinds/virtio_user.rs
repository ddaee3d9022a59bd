//! `kind = "virtio-user"`: a front end that connects to another switch.

use super::claim::Claim;
use super::kind::{Kind, Loaded, OpenError, is_yes, succeeding, yes};
use super::socket::{CLIENT, Mode, SOCKET, SocketSettings};
use crate::settings::access::Access;
use crate::settings::reader::fields::Fields;
use crate::settings::reader::key::{Key, key};
use crate::settings::reader::validation::PortCommon;
use crate::settings::reader::validation::Validation;
use ::port::PortControl;
use ::port::virtio_user::{self as port_kind, MAX_MEMORY, MAX_QUEUE_SIZE, MIN_QUEUE_SIZE, Options, RingKind};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Instant;

const QUEUE_SIZE: RangeInclusive<i128> = MIN_QUEUE_SIZE as i128..=MAX_QUEUE_SIZE as i128;

/// Keys of the virtio driver.
pub(super) const DRIVER_KEYS: [&str; 3] = ["ring", "queue_size", "mergeable"];

/// Offloads of a virtio port.
pub(super) const OFFLOADS: Key =
    key("offloads", "true", "Whether checksum and segmentation offloads are negotiated, in both directions.");

/// Settings of a virtio-user port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VirtioUser {
    #[serde(serialize_with = "write_ring", deserialize_with = "read_ring")]
    pub(crate) ring: RingKind,
    /// Entries per ring.
    pub(crate) queue_size: u16,
    /// Whether a received frame may span buffers.
    pub(crate) mergeable: bool,
    #[serde(flatten)]
    pub(crate) socket: SocketSettings,
    /// Whether checksum and segmentation offloads are negotiated, in both directions.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub(crate) offloads: bool,
}

impl Default for VirtioUser {
    fn default() -> Self {
        let socket = SocketSettings::default();
        Self { ring: RingKind::Split, queue_size: 1024, mergeable: true, socket, offloads: true }
    }
}

/// Serializes a ring kind as its name.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde calls")]
fn write_ring<S: Serializer>(ring: &RingKind, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(ring.name())
}

fn read_ring<'de, D: Deserializer<'de>>(from: D) -> Result<RingKind, D::Error> {
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}

impl Kind for VirtioUser {
    const NAME: &'static str = "virtio-user";
    const ABOUT: &'static str = "Connection to the vhost-user socket of another switch";
    const KEYS: &'static [Key] = &[
        SOCKET,
        CLIENT,
        key("ring", "\"split\"", "Layout of the virtqueues."),
        key("queue_size", "1024", "Entries per virtqueue; a power of two with `ring = \"split\"`."),
        key("mergeable", "true", "Whether a received frame may span several buffers."),
        OFFLOADS,
        Access::MODE,
        Access::OWNER,
        Access::GROUP,
    ];
    #[cfg(test)]
    const EXAMPLES: &'static [&'static str] = &[
        "socket = \"/tmp/lr-up.sock\"",
        "socket = \"/tmp/lr-up.sock\"\nmode = \"server\"\nring = \"packed\"\nqueue_size = 300\nmergeable = false",
        "socket = \"/tmp/lr-up.sock\"\noffloads = false",
        "socket = \"/tmp/lr-up.sock\"\nmode = \"server\"\nsocket_mode = \"0660\"\nsocket_owner = \"root\"\nsocket_group = \"root\"",
    ];

    fn read(fields: &mut Fields<'_, '_>) -> Self {
        let default = Self::default();
        let rings = RingKind::ALL.map(|kind| (kind.name(), kind));
        let ring = fields.choice("ring", &rings).unwrap_or_default();
        let queue_size: u16 =
            fields.number("queue_size", QUEUE_SIZE, "entries").unwrap_or(default.queue_size);
        let split = !fields.is_spoiled("ring") && !ring.is_packed();
        if split && !queue_size.is_power_of_two() {
            let above = queue_size.next_power_of_two();
            let reason = format!("`queue_size` is {queue_size}, and split rings require a power of two");
            let remedy = format!("write {} or {above}, or ring = \"packed\"", above / 2);
            fields.wrong::<()>("queue_size", reason, remedy);
        }
        let mergeable = fields.flag("mergeable").unwrap_or(default.mergeable);
        let socket = SocketSettings::read(fields, Mode::Client);
        let offloads = fields.flag("offloads").unwrap_or(default.offloads);
        Self { ring, queue_size, mergeable, socket, offloads }
    }

    /// Validates the total memory: a virtio-user port allocates its queues at once.
    fn validate(&self, validation: &mut Validation<'_>) {
        self.socket.validate(validation);
        let bytes = self.options(validation.port()).memory();
        SocketSettings::validate_memory(
            validation,
            bytes,
            MAX_MEMORY,
            "lower `queue_pairs`, `queue_size` or `mtu`",
        );
    }

    fn claims(&self) -> Vec<Claim<'_>> {
        self.socket.claims()
    }

    fn access_mut(&mut self) -> Option<&mut Access> {
        self.socket.access_mut()
    }

    fn socket(&self) -> Option<(&Path, bool)> {
        self.socket.file()
    }

    fn place(&self) -> String {
        self.socket.place()
    }

    fn successor(&self, port: PortCommon<'_>) -> Option<Result<Box<dyn PortControl>, OpenError>> {
        Some(succeeding(port.name, port_kind::VirtioUser::successor(&self.socket.path, self.options(port))))
    }

    fn open(&self, port: PortCommon<'_>, _: Loaded) -> Result<Box<dyn PortControl>, OpenError> {
        let options = self.options(port);
        let made = match self.socket.mode {
            Mode::Server => port_kind::VirtioUser::listen(&self.socket.path, options),
            Mode::Client => port_kind::VirtioUser::connect(&self.socket.path, options, Instant::now()),
        };
        self.socket.opened(port.name, made)
    }
}

impl VirtioUser {
    /// Converts the settings to options of the port crate.
    fn options(&self, port: PortCommon<'_>) -> Options {
        Options {
            ring: self.ring,
            queue_size: self.queue_size,
            queue_pairs: port.queue_pairs,
            mergeable: self.mergeable,
            mtu: port.mtu,
            offloads: self.offloads,
        }
    }
}

impl fmt::Display for VirtioUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} rings of {}", self.socket, self.ring, self.queue_size)?;
        f.write_str(if self.offloads { "" } else { ", without offloads" })
    }
}
