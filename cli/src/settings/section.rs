//! Prints ports and bonds added to a running switch as sections of a configuration file. The switch itself never writes to its
//! file.

use crate::settings::bonds::BondSettings;
use crate::settings::topology::PortSettings;
use serde::Serialize;

/// Configuration file with a single port.
#[derive(Serialize)]
struct File<'a> {
    port: [&'a PortSettings; 1],
}

/// Serializes a bond as a `[[bond]]` section.
pub(crate) fn bond(bond: &BondSettings) -> Result<String, toml::ser::Error> {
    #[derive(Serialize)]
    struct File<'a> {
        bond: [&'a BondSettings; 1],
    }
    toml::to_string(&File { bond: [bond] })
}

/// Serializes a port as a `[[port]]` section.
pub(crate) fn port(port: &PortSettings) -> Result<String, toml::ser::Error> {
    toml::to_string(&File { port: [port] })
}
