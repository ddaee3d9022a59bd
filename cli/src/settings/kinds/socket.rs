//! `socket` and `mode`: what every kind has whose other end is reached over a Unix socket.

use super::claim::Claim;
use crate::settings::reader::fields::Fields;
use crate::settings::reader::validation::Validation;
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
}

impl SocketSettings {
    /// Reads both keys; `usual` is the mode of a port that names none.
    pub(crate) fn read(fields: &mut Fields<'_, '_>, usual: Mode) -> Self {
        Self {
            path: PathBuf::from(fields.required("socket", "/run/linerate/guest-a.sock")),
            mode: Mode::read(fields).unwrap_or(usual),
        }
    }

    /// A path where a socket can be made or found.
    pub(crate) fn validate(&self, validation: &mut Validation<'_>) {
        validation.socket_path("socket", &self.path);
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
