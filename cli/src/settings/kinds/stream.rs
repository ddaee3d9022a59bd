//! `kind = "stream"`: frames over a Unix or TCP stream socket, in the format of QEMU's `-netdev stream` and `passt`.

use super::claim::Claim;
use super::kind::{Kind, Loaded, OpenError, succeeding};
use super::socket::{Mode, SERVER};
use crate::settings::access::Access;
use crate::settings::reader::fields::Fields;
use crate::settings::reader::key::{Key, optional};
use crate::settings::reader::validation::PortCommon;
use crate::settings::reader::validation::Validation;
use ::port::PortControl;
use ::port::stream::{self as port_kind, SocketAddress};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Settings of a stream port: either a path or an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stream {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) socket: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<SocketAddr>,
    pub(crate) mode: Mode,
    #[serde(flatten)]
    pub(crate) access: Access,
}

impl Kind for Stream {
    const NAME: &'static str = "stream";
    const ABOUT: &'static str =
        "Frames over a Unix or TCP socket, as used by QEMU's `-netdev stream` and passt";
    const KEYS: &'static [Key] = &[
        optional("socket", "required without `address`", "Absolute path of the Unix socket."),
        optional(
            "address",
            "required without `socket`",
            "IP address and TCP port, such as `127.0.0.1:5555`.",
        ),
        SERVER,
        Access::MODE,
        Access::OWNER,
        Access::GROUP,
    ];
    #[cfg(test)]
    const EXAMPLES: &'static [&'static str] = &[
        "socket = \"/tmp/lr-s.sock\"",
        "address = \"127.0.0.1:5555\"\nmode = \"client\"",
        "address = \"[::1]:5555\"\nmode = \"server\"",
        "socket = \"/tmp/lr-s.sock\"\nsocket_mode = \"0660\"\nsocket_owner = \"root\"\nsocket_group = \"root\"",
    ];

    fn read(fields: &mut Fields<'_, '_>) -> Self {
        let socket = fields.text("socket").map(PathBuf::from);
        let address = fields.address("address");
        let mode = Mode::read(fields).unwrap_or_default();
        Self { socket, address, mode, access: Access::read(fields) }
    }

    fn validate(&self, validation: &mut Validation<'_>) {
        validation.one_queue_pair();
        validation.no_mtu();
        if let Some(path) = &self.socket {
            validation.socket_path("socket", path);
        }
        self.access.validate(validation, self.file().is_some());
        let unsure = validation.is_spoiled("address") || validation.is_spoiled("socket");
        match (&self.socket, &self.address) {
            (None, None) if !unsure => {
                let remedy = "add a line such as: socket = \"/run/linerate/guest-a.sock\", or address = \"127.0.0.1:5555\"";
                validation.wrong("socket", "neither `socket` nor `address` is set", remedy);
            }
            (Some(_), Some(_)) => {
                validation.wrong("address", "both `socket` and `address` are set", "remove one of them");
            }
            _ => {}
        }
    }

    /// Several ports may connect to the same TCP address, but only one may listen on it. A socket path is exclusive
    /// in both modes.
    fn claims(&self) -> Vec<Claim<'_>> {
        let address = self.address.filter(|_| self.mode == Mode::Server);
        let address = address.map(|address| Claim::named("address", "address of TCP", address.to_string()));
        let socket = self.socket.iter().map(|path| Claim::file("socket", path));
        socket.chain(address).collect()
    }

    fn access_mut(&mut self) -> Option<&mut Access> {
        self.file().is_some().then_some(&mut self.access)
    }

    fn socket(&self) -> Option<(&Path, bool)> {
        self.socket.as_deref().map(|path| (path, self.mode == Mode::Server))
    }

    fn place(&self) -> String {
        self.site().to_string()
    }

    fn successor(&self, port: PortCommon<'_>) -> Option<Result<Box<dyn PortControl>, OpenError>> {
        Some(succeeding(port.name, port_kind::Stream::successor(&self.site())))
    }

    fn open(&self, port: PortCommon<'_>, _: Loaded) -> Result<Box<dyn PortControl>, OpenError> {
        let made = match self.mode {
            Mode::Server => port_kind::Stream::listen(&self.site()),
            Mode::Client => port_kind::Stream::connect(&self.site(), Instant::now()),
        };
        let made = made.map_err(|error| OpenError::refused(port.name, &error))?;
        if let Some(path) = self.file() {
            self.access.apply_to_port(path, port.name).map_err(OpenError::Refused)?;
        }
        Ok(Box::new(made))
    }
}

impl Stream {
    /// File of the socket, if the switch creates one.
    fn file(&self) -> Option<&PathBuf> {
        self.socket.as_ref().filter(|_| self.mode == Mode::Server)
    }

    /// Location of the socket. The settings must be valid: exactly one of path and address is set.
    pub(crate) fn site(&self) -> SocketAddress {
        match self.address {
            Some(address) => SocketAddress::Tcp(address),
            None => SocketAddress::Unix(self.socket.clone().unwrap_or_default()),
        }
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.mode, self.site())
    }
}
