//! Packages of distributions, from the metadata in `cli/Cargo.toml` (programs and service) and `stack/ffi/Cargo.toml`
//! (C library).

use std::time::Duration;

use anyhow::Result;

use super::{build, stage};
use crate::command::{self, cargo};
use crate::steps::Outcome;

const LIMIT: Duration = Duration::from_mins(10);
/// Packages by the crate that has their metadata, its folder, and the variant of the metadata.
const PACKAGES: [(&str, &str, Option<&str>); 3] = [
    ("linerate", "cli", None),
    ("linerate-ffi", "stack/ffi", None),
    ("linerate-ffi", "stack/ffi", Some("dev")),
];

/// Makes the packages of Debian.
pub(super) fn deb() -> Result<Outcome> {
    let probe = &mut cargo(&["deb", "--version"]);
    if let Some(missing) = command::missing("cargo-deb", probe, "cargo install cargo-deb --locked") {
        return Ok(missing);
    }
    prepare()?;
    super::remove_old(".deb")?;
    for (package, _, variant) in PACKAGES {
        // The linker has removed the debug information, and a crash needs the symbols.
        let words =
            ["deb", "--no-build", "--no-strip", "--profile", "dist", "--package", package, "--output"];
        let mut command = build::subcommand(&words)?;
        command.arg(super::folder()).args(variant.map(|variant| format!("--variant={variant}")));
        // Libraries of several architectures are installed side by side.
        command.args((package == "linerate-ffi").then_some("--multiarch=same"));
        command::run(&command, LIMIT)?;
    }
    Ok(Outcome::Passed)
}

/// Makes the packages of RPM systems.
pub(super) fn rpm() -> Result<Outcome> {
    let probe = &mut cargo(&["generate-rpm", "--version"]);
    let remedy = "cargo install cargo-generate-rpm --locked";
    if let Some(missing) = command::missing("cargo-generate-rpm", probe, remedy) {
        return Ok(missing);
    }
    prepare()?;
    super::remove_old(".rpm")?;
    for (_, folder, variant) in PACKAGES {
        // A program of this machine that finds dependencies would make the result depend on it.
        let words =
            ["generate-rpm", "--auto-req", "builtin", "--profile", "dist", "--package", folder, "--output"];
        let mut command = build::subcommand(&words)?;
        command.arg(super::folder()).args(variant.map(|variant| format!("--variant={variant}")));
        command::run(&command, LIMIT)?;
    }
    Ok(Outcome::Passed)
}

fn prepare() -> Result<()> {
    build::shared()?;
    stage::write()
}
