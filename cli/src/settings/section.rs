//! Prints what was added to a running switch as sections of a configuration file. The switch never writes to its file.

use crate::settings::topology::StaticEntry;
use serde::Serialize;
use std::collections::BTreeMap;
use toml::ser::Error;

/// Serializes settings as the section `[[name]]`.
pub(crate) fn of(name: &str, settings: &impl Serialize) -> Result<String, Error> {
    toml::to_string(&BTreeMap::from([(name, [settings])]))
}

/// Serializes a static entry as a `[[bridge.static]]` section, which belongs below that of its bridge.
pub(crate) fn static_entry(entry: &StaticEntry) -> Result<String, Error> {
    toml::to_string(&BTreeMap::from([("bridge", BTreeMap::from([("static", [entry])]))]))
}
