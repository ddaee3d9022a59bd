//! Prints what was added to a running switch as sections of a configuration file. The switch never writes to its file.

use crate::settings::bonds::BondSettings;
use crate::settings::mirror::MirrorSettings;
use crate::settings::topology::{PortSettings, StaticEntry};
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

/// Serializes a mirror as a `[[mirror]]` section.
pub(crate) fn mirror(mirror: &MirrorSettings) -> Result<String, toml::ser::Error> {
    #[derive(Serialize)]
    struct File<'a> {
        mirror: [&'a MirrorSettings; 1],
    }
    toml::to_string(&File { mirror: [mirror] })
}

/// Serializes a static entry as a `[[bridge.static]]` section, which belongs below that of its bridge.
pub(crate) fn static_entry(entry: &StaticEntry) -> Result<String, toml::ser::Error> {
    toml::to_string(entry).map(|keys| format!("[[bridge.static]]\n{keys}"))
}
