//! What commands say about the configuration file after a change: it is written if asked for (`--save`); otherwise a
//! notice says that it was not.

use super::config;
use crate::api::client::Client;
use crate::args::config::SaveArgs;

const UNCHANGED: &str = "the configuration file was not changed (see `linerate config save`)";

/// Text below that of an added object: the section that keeps it. `place`: where in the file, if that matters.
pub(super) fn section(save: SaveArgs, noun: &str, place: &str, section: &str) -> String {
    if save.save {
        return String::new();
    }
    format!("\n{UNCHANGED}; to keep this {noun}, add to it{place}:\n\n{section}")
}

/// After an object was added, whose section was printed.
pub(super) fn added(client: &Client, save: SaveArgs) -> anyhow::Result<()> {
    if save.save { config::save(client) } else { Ok(()) }
}

/// After a change without a section of its own.
pub(super) fn changed(client: &Client, save: SaveArgs) -> anyhow::Result<()> {
    if !save.save {
        not_written();
    }
    added(client, save)
}

/// After an object was removed.
pub(super) fn removed(client: &Client, save: SaveArgs, noun: &str) -> anyhow::Result<()> {
    if !save.save {
        console::note(&format!("{UNCHANGED}: a {noun} with a section there returns at the next start"));
    }
    added(client, save)
}

/// After a change that no file expresses.
pub(super) fn not_written() {
    console::note(UNCHANGED);
}
