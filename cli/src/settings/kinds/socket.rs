//! `socket`, `mode` and the access to the socket: what every kind has whose other end is reached over a Unix socket.

use super::claim::Claim;
use super::kind::OpenError;
use crate::settings::access::Access;
use crate::settings::reader::fields::Fields;
use crate::settings::reader::validation::Validation;
use ::port::memif::is_abstract;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// Which side creates the socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// The switch creates it and the other side connects.
    #[default]
    Server,
    /// The other side creates it and the switch connects, again and again.
    Client,
}

/// The socket of a port. A kind holds it flattened into its settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SocketSettings {
    #[serde(rename = "socket")]
    pub(crate) path: PathBuf,
    pub(crate) mode: Mode,
    #[serde(flatten)]
    pub(crate) access: Access,
}

impl SocketSettings {
    /// Reads all keys; `usual` is the mode of a port that names none.
    pub(crate) fn read(fields: &mut Fields<'_, '_>, usual: Mode) -> Self {
        Self {
            path: PathBuf::from(fields.required("socket", "/run/linerate/guest-a.sock")),
            mode: Mode::read(fields).unwrap_or(usual),
            access: Access::read(fields),
        }
    }

    /// A path where a socket can be made or found.
    pub(crate) fn validate(&self, validation: &mut Validation<'_>) {
        validation.socket_path("socket", &self.path);
        self.access.validate(validation, self.creates_file());
    }

    /// Whether the switch creates a file for the socket.
    fn creates_file(&self) -> bool {
        self.mode == Mode::Server && !is_abstract(&self.path)
    }

    /// The access to the socket's file, if the switch creates one.
    pub(crate) fn access_mut(&mut self) -> Option<&mut Access> {
        self.creates_file().then_some(&mut self.access)
    }

    /// Applies the access to the socket of the port called `name`, which listens on it.
    pub(crate) fn grant(&self, name: &str) -> Result<(), OpenError> {
        if !self.creates_file() {
            return Ok(());
        }
        self.access.apply(&self.path, name).map_err(OpenError::Refused)
    }

    /// The path is one port's.
    pub(crate) fn claims(&self) -> Vec<Claim<'_>> {
        vec![Claim::file("socket", &self.path)]
    }

    /// What people see of it in a table.
    pub(crate) fn place(&self) -> String {
        self.path.display().to_string()
    }
}

impl Mode {
    /// Reads `mode`, if it is written.
    pub(crate) fn read(fields: &mut Fields<'_, '_>) -> Option<Self> {
        fields.choice("mode", &[("server", Mode::Server), ("client", Mode::Client)])
    }

    /// The side that the other end takes.
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
