//! Prints ports added to a running switch as sections of a configuration file. The switch itself never writes to its
//! file.

use crate::settings::topology::PortSettings;
use serde::Serialize;

/// Configuration file with a single port.
#[derive(Serialize)]
struct File<'a> {
    port: [&'a PortSettings; 1],
}

/// Serializes a port as a `[[port]]` section.
pub(crate) fn port(port: &PortSettings) -> Result<String, toml::ser::Error> {
    toml::to_string(&File { port: [port] })
}
