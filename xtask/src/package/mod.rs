//! `cargo xtask package`: packages of Debian and of RPM systems, the static program, an OCI image and the SBOM, all in
//! `target/package`. Neither root nor a daemon is needed.

mod build;
mod image;
mod layout;
mod native;
mod reproduce;
mod sbom;
mod stage;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use crate::steps::{Outcome, Step};
use crate::{command, suite};

/// What is made, and whether it is compared.
#[derive(Args, Clone, Debug)]
pub(crate) struct PackageArguments {
    /// What to make
    #[arg(value_enum, default_value_t = Kind::All)]
    kind: Kind,
    /// Make it also from a clone of the commit in another directory, and compare the bytes
    #[arg(long)]
    check: bool,
    /// Fail if the tool of a kind is missing, also with `all`
    #[arg(long)]
    strict: bool,
}

impl PackageArguments {
    /// Whether a kind whose tool is missing is an error.
    fn is_strict(&self) -> bool {
        self.strict || self.kind != Kind::All
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Packages of Debian (cargo-deb)
    Deb,
    /// Packages of RPM systems (cargo-generate-rpm)
    Rpm,
    /// OCI image with the static program, as one file
    Oci,
    /// Program without shared libraries
    Static,
    /// Software bill of materials of each program and library (cargo-cyclonedx)
    Sbom,
    /// All of these
    All,
}

/// Runs `cargo xtask package`. With `all` and without `--strict`, a kind whose tool is missing is skipped.
pub(crate) fn run(arguments: &PackageArguments) -> Result<()> {
    let kind = arguments.kind;
    if arguments.check {
        reproduce::requires_no_changes()?;
    }
    let chosen = |step: &(Kind, Step)| kind == Kind::All || kind == step.0;
    let mut steps: Vec<Step> = kinds().into_iter().filter(chosen).map(|(_, step)| step).collect();
    steps.push(Step::new("sums", || write_sums().map(|()| Outcome::Passed)));
    if arguments.check {
        let name = kind.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        steps.push(Step::new("comparison", move || reproduce::compare(&name)));
    }
    create_folder()?;
    crate::steps::run(&steps, arguments.is_strict())
}

fn kinds() -> Vec<(Kind, Step)> {
    vec![
        (Kind::Static, Step::new("static", build::static_program)),
        (Kind::Oci, Step::new("oci", image::make)),
        (Kind::Deb, Step::new("deb", native::deb)),
        (Kind::Rpm, Step::new("rpm", native::rpm)),
        (Kind::Sbom, Step::new("sbom", sbom::make)),
    ]
}

/// A step of `cargo xtask test --all`: the static program runs, and the image has it.
pub(crate) fn test_image() -> Result<Outcome> {
    create_folder()?;
    image::make()
}

/// Name of the tests that install packages, and its continuations by the kind of packages.
pub(crate) const TEST: &str = "packages::every::";
const TESTS: [(Make, &str); 2] = [(native::deb, "packages_of_debian"), (native::rpm, "packages_of_rpm")];
/// Makes packages of one kind.
type Make = fn() -> Result<Outcome>;

/// A step of `cargo xtask test --all`: the packages of distributions are made, and installed by tests of the program
/// with the end-to-end tests.
pub(crate) fn test_distributions(program: &Path) -> Result<Outcome> {
    create_folder()?;
    let mut outcome = Outcome::Passed;
    for (make, name) in TESTS {
        let made = match make()? {
            Outcome::Passed => install(program, name)?,
            skipped @ Outcome::Skipped(_) => skipped,
        };
        if matches!(made, Outcome::Skipped(_)) {
            outcome = made;
        }
    }
    Ok(outcome)
}

/// Runs the test that installs packages of one kind.
fn install(program: &Path, name: &str) -> Result<Outcome> {
    let mut test = suite::end_to_end(program, &format!("{TEST}{name}"), true);
    test.env("LINERATE_PACKAGES", folder());
    command::run_tests(&test, TEST_LIMIT)
}

fn create_folder() -> Result<()> {
    fs::create_dir_all(folder()).with_context(|| format!("cannot create {}", folder().display()))
}

/// Removes results of other versions, whose names end with `ending`.
fn remove_old(ending: &str) -> Result<()> {
    let entries = fs::read_dir(folder()).context("cannot read the folder of the results")?;
    let is_old = |path: &PathBuf| path.to_string_lossy().ends_with(ending);
    for path in entries.flatten().map(|entry| entry.path()).filter(is_old) {
        fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(())
}

/// Directory of the results.
fn folder() -> PathBuf {
    command::target().join("package")
}

/// Version of the workspace.
const VERSION: &str = env!("CARGO_PKG_VERSION");
const TEST_LIMIT: Duration = Duration::from_mins(5);
/// File with the sums of all others.
const SUMS: &str = "SHA256SUMS";

/// Writes the file that `sha256sum --check` reads.
fn write_sums() -> Result<()> {
    let lines = sums(&folder())?;
    let path = folder().join(SUMS);
    fs::write(&path, lines.join("")).with_context(|| format!("cannot write {}", path.display()))?;
    print!("{}:\n{}", path.display(), lines.join(""));
    Ok(())
}

/// A line for each result in `folder`, in order of their names.
fn sums(folder: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.is_file() && !path.ends_with(SUMS));
    files.sort();
    files.iter().map(|path| sum(path)).collect()
}

fn sum(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(format!("{}  {name}\n", layout::digest(&bytes)))
}
