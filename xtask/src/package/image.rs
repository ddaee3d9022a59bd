//! The OCI image: the static program, its configuration and its licences, for a user other than root.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::build;
use super::layout::{self, Entry, Image, directory, file};
use crate::command;
use crate::steps::Outcome;

/// Number of the user and its group, as in `contrib/oci/passwd`.
const USER: u64 = 65532;
const DESCRIPTION: &str =
    "A user-space packet data plane for Linux: virtual switch, TCP/IP stack, traffic generator";
/// Files of the repository, and their paths in the image.
const FILES: [(&str, &str); 5] = [
    ("contrib/oci/group", "etc/group"),
    ("contrib/oci/passwd", "etc/passwd"),
    ("contrib/oci/linerate.toml", "etc/linerate/linerate.toml"),
    ("LICENSE-APACHE", "usr/share/doc/linerate/LICENSE-APACHE"),
    ("LICENSE-MIT", "usr/share/doc/linerate/LICENSE-MIT"),
];

/// Makes the static program and its image.
pub(super) fn make() -> Result<Outcome> {
    if let skipped @ Outcome::Skipped(_) = build::static_program()? {
        return Ok(skipped);
    }
    super::remove_old(".oci.tar")?;
    let image = image(read(&build::static_path())?, build::date()?, &build::commit()?)?;
    let name = format!("linerate-{}-{}.oci.tar", super::VERSION, std::env::consts::ARCH);
    let path = super::folder().join(name);
    fs::write(&path, layout::archive(&image)?).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Outcome::Passed)
}

/// The image with this program.
pub(super) fn image(program: Vec<u8>, date: u64, commit: &str) -> Result<Image> {
    let created = rfc3339(date);
    Ok(Image {
        architecture: architecture()?,
        name: format!("linerate:{}", super::VERSION),
        config: config(&created, commit),
        created,
        date,
        entries: entries(program)?,
    })
}

/// Go's name of this machine's architecture.
fn architecture() -> Result<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => bail!("images are not supported for {other}: expected x86_64 or aarch64"),
    }
}

fn config(created: &str, commit: &str) -> Value {
    json!({
        "User": format!("{USER}:{USER}"),
        "Entrypoint": ["/usr/bin/linerate"],
        "Cmd": ["run", "/etc/linerate/linerate.toml"],
        "Env": ["PATH=/usr/bin", "LINERATE_CONTROL=/run/linerate/control.sock"],
        "WorkingDir": "/",
        "StopSignal": "SIGTERM",
        "Labels": {
            "org.opencontainers.image.title": "linerate",
            "org.opencontainers.image.description": DESCRIPTION,
            "org.opencontainers.image.version": super::VERSION,
            "org.opencontainers.image.revision": commit,
            "org.opencontainers.image.created": created,
            "org.opencontainers.image.licenses": env!("CARGO_PKG_LICENSE"),
        },
    })
}

/// Files of the image, each behind its directory.
fn entries(program: Vec<u8>) -> Result<Vec<Entry>> {
    let mut entries: Vec<Entry> =
        ["etc", "etc/linerate", "run", "tmp", "usr", "usr/bin", "usr/share", "usr/share/doc"]
            .map(directory)
            .into();
    entries.push(directory("usr/share/doc/linerate"));
    for (from, to) in FILES {
        entries.push(file(to, read(&command::root().join(from))?));
    }
    entries.push(Entry { mode: 0o755, ..file("usr/bin/linerate", program) });
    let of_user = ["run/linerate", "run/linerate/guests"].map(directory);
    entries.extend(of_user.map(|entry| Entry { owner: USER, ..entry }));
    entries.iter_mut().filter(|entry| entry.path == "tmp").for_each(|entry| entry.mode = 0o1777);
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(entries)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Seconds since 1970 as a date of RFC 3339.
fn rfc3339(date: u64) -> String {
    humantime::format_rfc3339_seconds(std::time::UNIX_EPOCH + std::time::Duration::from_secs(date))
        .to_string()
}
