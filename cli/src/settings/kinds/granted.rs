//! A port that an application obtained from this switch (`[[grant]]`). It is made by a request with a connection, and
//! never read from a file.

use super::kind::{Kind, Loaded, OpenError};
use crate::settings::reader::fields::Fields;
use crate::settings::reader::key::Key;
use crate::settings::reader::validation::{PortCommon, Validation};
use ::port::PortControl;
use ::port::vhost_user::{Options, PlugError, VhostUser};
use console::Diagnostic;
use rustix::fd::OwnedFd;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Instant;

/// The process that asked for a port, as the kernel reports it (`SO_PEERCRED`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    pub(crate) pid: i32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// Settings of a granted port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Granted {
    #[serde(flatten)]
    pub(crate) holder: Holder,
    /// Number of the grant since the start of the switch.
    pub(crate) grant: u64,
    /// Position of its `[[grant]]` section in the file, from 0.
    pub(crate) section: usize,
    /// Maximum memory that the holder may share, in bytes.
    pub(crate) memory: u64,
}

impl Granted {
    /// Creates the port on the connection to its holder.
    pub(crate) fn over(
        &self,
        port: PortCommon<'_>,
        socket: OwnedFd,
    ) -> Result<Box<dyn PortControl>, PlugError> {
        let options = Options { queue_pairs: port.queue_pairs, memory: self.memory, ..Options::default() };
        Ok(Box::new(VhostUser::over(socket, self.place(), options, Instant::now())?))
    }
}

impl Kind for Granted {
    const NAME: &'static str = "granted";
    const ABOUT: &'static str = "Port of an application";
    const KEYS: &'static [Key] = &[];
    #[cfg(test)]
    const EXAMPLES: &'static [&'static str] = &[];

    fn read(_: &mut Fields<'_, '_>) -> Self {
        Self::default()
    }

    fn validate(&self, _: &mut Validation<'_>) {}

    fn place(&self) -> String {
        self.holder.to_string()
    }

    fn open(&self, port: PortCommon<'_>, _: Loaded) -> Result<Box<dyn PortControl>, OpenError> {
        let (place, remedy) = (format!("port \"{}\"", port.name), "ask for it with kind = \"grant\"");
        Err(OpenError::Refused(Diagnostic::bad(place, "only an application obtains such a port", remedy)))
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} of user {}", self.pid, self.uid)
    }
}

impl fmt::Display for Granted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "to {}, group {}", self.holder, self.holder.gid)
    }
}
