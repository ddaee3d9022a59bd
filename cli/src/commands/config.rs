//! `linerate apply`, `linerate config`, and `--save` of commands that change a running switch.
//!
//! The switch knows its file and what has changed since it was read; this program, with the rights of its user, writes
//! the file.

use crate::api::client::{Client, quote};
use crate::api::config::{Applied, Configuration};
use crate::args::config::{ApplyArgs, ConfigCommand};
use crate::settings::changes::{Change, KeyChange};
use crate::settings::config;
use console::{Diagnostic, Output, table};
use serde::Serialize;
use serde_json::Value;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// `linerate apply FILE`
pub(crate) fn apply(args: &ApplyArgs, client: &Client) -> anyhow::Result<()> {
    let file = std::path::absolute(&args.config).unwrap_or_else(|_| args.config.clone());
    let text = config::text(&args.config)?;
    let applied = send(client, &file, text, ("dry_run", args.diff))?;
    print(&applied, args.show.output)
}

/// Prints what was changed.
pub(super) fn print(applied: &Applied, output: Output) -> anyhow::Result<()> {
    for error in &applied.held {
        console::warn(&format!("linerate: {error}"));
    }
    console::print(applied, output, |applied| match applied.changes.as_slice() {
        [] => "no differences".to_owned(),
        changes => list(changes),
    })
}

/// Sends a file, with `option` if that is set.
fn send(client: &Client, file: &Path, text: String, option: (&str, bool)) -> Result<Applied, Diagnostic> {
    let (option, is_set) = option;
    let path = format!("/v1/config?file={}&{option}={is_set}", quote(&file.display().to_string()));
    client.patient().post_text(&path, text)
}

fn list(changes: &[Change]) -> String {
    let row = |change: &Change| {
        let keys: Vec<_> = change.keys.iter().map(key).collect();
        vec![change.action.name().to_owned(), change.object.clone(), keys.join(", ")]
    };
    table(&["ACTION", "OBJECT", "KEYS"], changes.iter().map(row))
}

fn key(change: &KeyChange) -> String {
    let value = |value: &Value| match value {
        Value::Null => "default".to_owned(),
        Value::Array(_) | Value::Object(_) => "...".to_owned(),
        value => value.to_string(),
    };
    format!("{} {} -> {}", change.key, value(&change.old), value(&change.new))
}

/// `linerate config ...`
pub(crate) fn run(client: &Client, command: &ConfigCommand) -> anyhow::Result<()> {
    match command {
        ConfigCommand::Show(args) => {
            let running: Configuration = client.get("/v1/config")?;
            console::print(&running, args.output, |running| running.text.trim_end().to_owned())
        }
        ConfigCommand::Save(args) => {
            let saved = write(client)?;
            console::print(&saved, args.output, |saved| {
                let file = saved.file.display();
                if saved.written { format!("wrote {file}") } else { format!("{file} has no differences") }
            })
        }
    }
}

/// Result of `config save`.
#[derive(Serialize)]
struct Saved {
    file: PathBuf,
    /// Whether the file differed from the running configuration.
    written: bool,
}

/// Writes the running configuration to the file of the switch, after a change.
pub(super) fn save(client: &Client) -> anyhow::Result<()> {
    let saved = write(client)?;
    console::note(&format!("wrote {}", saved.file.display()));
    Ok(())
}

/// Writes the running configuration to the file of the switch, and tells it.
fn write(client: &Client) -> anyhow::Result<Saved> {
    let Configuration { file, text, loaded } = client.get("/v1/config")?;
    if config::text(&file)? != loaded {
        let remedy = "apply it with `linerate apply`, or compare it with `linerate config show`";
        let reason = "the file was changed after the switch has read it";
        return Err(Diagnostic::bad(file.display(), reason, remedy).into());
    }
    let written = text != loaded;
    if written {
        replace(&file, &text).map_err(|e| {
            let remedy = "run as a user that may write it, or write the output of `linerate config show`";
            Diagnostic::failed(file.display(), e, remedy)
        })?;
        send(client, &file, text, ("saved", true))?;
    }
    Ok(Saved { file, written })
}

/// Replaces a file at once, also if the machine stops meanwhile. Its permissions stay.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    // The target of a link is replaced, not the link.
    let file = file.canonicalize()?;
    let folder = file.parent().unwrap_or(Path::new("/"));
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    new.write_all(text.as_bytes())?;
    let before = std::fs::metadata(&file)?;
    new.as_file().set_permissions(before.permissions())?;
    let (user, group) = (before.uid(), before.gid());
    std::os::unix::fs::fchown(new.as_file(), Some(user), Some(group))?;
    new.as_file().sync_all()?;
    new.persist(&file)?;
    std::fs::File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_replaced_file_keeps_its_permissions_and_links_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("a.toml"), dir.path().join("link.toml"));
        std::fs::write(&file, "old").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        replace(&link, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new");
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
