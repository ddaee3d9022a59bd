//! Keys of a Unix socket: `socket`, `mode` and access, shared by all kinds that use one.

use super::claim::Claim;
use super::kind::OpenError;
use crate::settings::access::Access;
use crate::settings::reader::fields::Fields;
use crate::settings::reader::key::{Key, key, required};
use crate::settings::reader::validation::Validation;
use ::port::memif::is_abstract;
use ::port::{PortControl, Remedy};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};

/// Path of the socket.
pub(super) const SOCKET: Key = required("socket", "Absolute path of the Unix socket.");
/// Mode of a kind that creates the socket by default.
pub(super) const SERVER: Key = mode("\"server\"");
/// Mode of a kind that connects by default.
pub(super) const CLIENT: Key = mode("\"client\"");

const fn mode(default: &'static str) -> Key {
    key("mode", default, "Side that creates the socket: the switch (`server`) or the peer (`client`).")
}

/// Which side creates the socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// The switch creates it and the peer connects.
    #[default]
    Server,
    /// The peer creates it and the switch connects, with retries.
    Client,
}

/// Socket of a port, flattened into the settings of its kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SocketSettings {
    #[serde(rename = "socket")]
    pub(crate) path: PathBuf,
    pub(crate) mode: Mode,
    #[serde(flatten)]
    pub(crate) access: Access,
}

impl SocketSettings {
    /// Reads all keys; `usual` is the default mode.
    pub(crate) fn read(fields: &mut Fields<'_, '_>, usual: Mode) -> Self {
        Self {
            path: PathBuf::from(fields.required("socket", "/run/linerate/guest-a.sock")),
            mode: Mode::read(fields).unwrap_or(usual),
            access: Access::read(fields),
        }
    }

    /// Validates the path and the access.
    pub(crate) fn validate(&self, validation: &mut Validation<'_>) {
        validation.socket_path("socket", &self.path);
        self.access.validate(validation, self.creates_file());
    }

    /// The path and whether the switch creates it; `None` for an abstract socket.
    pub(crate) fn file(&self) -> Option<(&Path, bool)> {
        (!is_abstract(&self.path)).then_some((&*self.path, self.mode == Mode::Server))
    }

    /// Whether the switch creates a file for the socket.
    fn creates_file(&self) -> bool {
        self.mode == Mode::Server && !is_abstract(&self.path)
    }

    /// Access to the socket's file, if the switch creates one.
    pub(crate) fn access_mut(&mut self) -> Option<&mut Access> {
        self.creates_file().then_some(&mut self.access)
    }

    /// Applies the access to the listening socket of the port `name`, which is `made`.
    pub(super) fn opened<P: PortControl + 'static, E: Remedy>(
        &self,
        name: &str,
        made: Result<P, E>,
    ) -> Result<Box<dyn PortControl>, OpenError> {
        let port = made.map_err(|error| OpenError::refused(name, &error))?;
        if self.creates_file() {
            self.access.apply_to_port(&self.path, name).map_err(OpenError::Refused)?;
        }
        Ok(Box::new(port))
    }

    /// Validates the total memory of a port whose rings and buffers are allocated at once.
    pub(super) fn validate_memory(validation: &mut Validation<'_>, bytes: u64, limit: u64, remedy: &str) {
        if bytes > limit {
            let (mib, most) = (bytes >> 20, limit >> 20);
            let reason = format!("its rings and buffers need {mib} MiB, and the maximum is {most} MiB");
            validation.wrong("", reason, remedy);
        }
    }

    /// The path, which only one port may use.
    pub(crate) fn claims(&self) -> Vec<Claim<'_>> {
        vec![Claim::file("socket", &self.path)]
    }

    /// Display name for tables.
    pub(crate) fn place(&self) -> String {
        self.path.display().to_string()
    }
}

impl Mode {
    /// Reads `mode`; `None` if it is not set.
    pub(crate) fn read(fields: &mut Fields<'_, '_>) -> Option<Self> {
        fields.choice("mode", &[("server", Mode::Server), ("client", Mode::Client)])
    }

    /// Mode of the peer.
    pub(crate) fn other(self) -> Self {
        match self {
            Mode::Server => Mode::Client,
            Mode::Client => Mode::Server,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Server => "server",
            Mode::Client => "client",
        })
    }
}

impl fmt::Display for SocketSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.mode, self.path.display())
    }
}
