//! `kind = "vhost-user"`: a back end to which guests connect.

use super::claim::Claim;
use super::kind::{Kind, Loaded, OpenError, is_yes, succeeding, yes};
use super::socket::{Mode, SERVER, SOCKET, SocketSettings};
use super::virtio_user::{self, OFFLOADS};
use crate::settings::access::Access;
use crate::settings::reader::fields::Fields;
use crate::settings::reader::key::Key;
use crate::settings::reader::validation::PortCommon;
use crate::settings::reader::validation::Validation;
use ::port::PortControl;
use ::port::vhost_user::{self as port_kind, Options};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::time::Instant;

/// Settings of a vhost-user port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VhostUser {
    #[serde(flatten)]
    pub(crate) socket: SocketSettings,
    /// Whether checksum and segmentation offloads are offered to guests, in both directions.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub(crate) offloads: bool,
}

impl Default for VhostUser {
    fn default() -> Self {
        Self { socket: SocketSettings::default(), offloads: true }
    }
}

impl Kind for VhostUser {
    const NAME: &'static str = "vhost-user";
    const ABOUT: &'static str = "vhost-user socket for a guest (default)";
    const KEYS: &'static [Key] = &[SOCKET, SERVER, OFFLOADS, Access::MODE, Access::OWNER, Access::GROUP];
    #[cfg(test)]
    const EXAMPLES: &'static [&'static str] = &[
        "socket = \"/tmp/it's \\\\ \\\"a\\\"\"",
        "socket = \"/tmp/lr-a.sock\"\nmode = \"client\"\nmtu = 9000",
        "socket = \"/tmp/lr-a.sock\"\noffloads = false",
        "socket = \"/tmp/lr-a.sock\"\nsocket_mode = \"0660\"\nsocket_owner = \"root\"\nsocket_group = \"root\"",
    ];

    fn read(fields: &mut Fields<'_, '_>) -> Self {
        for key in virtio_user::DRIVER_KEYS {
            let reason = format!("`{key}` is an option of a driver, and this port is a back end");
            let remedy =
                "remove it; the guest negotiates it, and only ports of kind \"virtio-user\" are drivers";
            fields.foreign(key, reason, remedy);
        }
        let socket = SocketSettings::read(fields, Mode::Server);
        Self { socket, offloads: fields.flag("offloads").unwrap_or(true) }
    }

    fn validate(&self, validation: &mut Validation<'_>) {
        self.socket.validate(validation);
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
        let listens = self.socket.mode == Mode::Server;
        let made = port_kind::VhostUser::successor(&self.socket.path, listens, self.options(port));
        Some(succeeding(port.name, made.map(|port| self.recording(port, false))))
    }

    fn open(&self, port: PortCommon<'_>, _: Loaded) -> Result<Box<dyn PortControl>, OpenError> {
        let options = self.options(port);
        let made = match self.socket.mode {
            Mode::Server => port_kind::VhostUser::listen(&self.socket.path, options),
            Mode::Client => port_kind::VhostUser::connect(&self.socket.path, options, Instant::now()),
        };
        self.socket.opened(port.name, made.map(|port| self.recording(port, true)))
    }
}

impl VhostUser {
    /// Keeps the positions of packed rings beside the socket.
    fn recording(&self, port: port_kind::VhostUser, recovers: bool) -> port_kind::VhostUser {
        let Some((socket, _)) = self.socket.file() else { return port };
        let mut path = socket.as_os_str().to_owned();
        path.push(".rings");
        port.keep_positions(Path::new(&path), recovers)
    }

    /// Converts the settings to options of the port crate.
    fn options(&self, port: PortCommon<'_>) -> Options {
        let options = Options { queue_pairs: port.queue_pairs, mtu: port.mtu, ..Default::default() };
        if self.offloads { options } else { options.without_offloads() }
    }
}

impl fmt::Display for VhostUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.socket.fmt(f)?;
        f.write_str(if self.offloads { "" } else { ", without offloads" })
    }
}
