//! What was added to a running switch, as sections of the configuration file: the switch itself never writes there.

use crate::settings::topology::PortSettings;
use serde::Serialize;

/// The file, as far as a port goes.
#[derive(Serialize)]
struct File<'a> {
    port: [&'a PortSettings; 1],
}

/// A port as its `[[port]]` section.
pub(crate) fn port(port: &PortSettings) -> Result<String, toml::ser::Error> {
    toml::to_string(&File { port: [port] })
}
