//! The file that a switch was started from, or that was applied last.

use crate::host::Host;
use crate::settings::config::{self, requests::Refused};
use crate::settings::topology::{PortSettings, Topology};
use console::Diagnostic;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The file of a switch.
#[derive(Clone)]
pub(crate) struct Source {
    /// Absolute path.
    pub(crate) file: PathBuf,
    pub(crate) text: String,
    pub(crate) overrides: Overrides,
    /// The configuration that `text` describes.
    pub(crate) topology: Topology,
}

/// Settings of the command line, which override those of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overrides {
    /// The control socket.
    pub(crate) control: Option<PathBuf>,
    /// The address of the web page.
    pub(crate) web: Option<SocketAddr>,
}

impl Overrides {
    /// Reads a file for a switch that runs the ports `running`.
    pub(crate) fn parse(&self, text: &str, running: &[PortSettings]) -> Result<Topology, Vec<Diagnostic>> {
        let wanted = config::parse_beside(text, &Host::here(), self.control.as_deref(), running)?;
        Ok(self.over(wanted))
    }

    /// [`Overrides::parse`] for a text that a request has made.
    pub(crate) fn parse_change(&self, text: &str, running: &[PortSettings]) -> Result<Topology, Refused> {
        let wanted = config::parse_change(text, &Host::here(), self.control.as_deref(), running)?;
        Ok(self.over(wanted))
    }

    /// Reads a text that this switch has run before. Files and interfaces that it names may be gone since.
    pub(crate) fn parse_past(&self, text: &str) -> Topology {
        self.over(config::parse_past(text, &Host::here(), self.control.as_deref()))
    }

    fn over(&self, mut topology: Topology) -> Topology {
        topology.switch.web = self.web.or(topology.switch.web);
        topology
    }
}
