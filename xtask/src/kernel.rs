//! The kernel of the guests in end-to-end tests: extracted from its Debian package to a directory in `target`, and not
//! installed on the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::command;
use crate::packages::apt_get;
use crate::steps::Outcome;

const META: &str = "linux-image-cloud-amd64";
const LIMIT: Duration = Duration::from_mins(10);

/// Directory to which the package is extracted.
pub(crate) fn folder() -> PathBuf {
    command::target().join("guest-kernel")
}

/// Downloads and extracts the kernel and its modules to [`folder`] if they are missing.
pub(crate) fn ensure() -> Result<Outcome> {
    let folder = folder();
    if let Some(image) = image(&folder) {
        println!("{} is there", image.display());
        return Ok(Outcome::Passed);
    }
    let download =
        tempfile::tempdir_in(fs_parent(&folder)?).context("cannot create a temporary directory in target")?;
    let package = fetch(download.path())?;
    let unpacked = download.path().join("unpacked");
    let mut unpack = Command::new("dpkg-deb");
    unpack.arg("--extract").arg(package).arg(&unpacked);
    command::run(&unpack, LIMIT)?;
    image(&unpacked).with_context(|| format!("{META} contains no kernel"))?;
    // Renamed last, so that a partially extracted kernel never has its final name.
    fs::rename(&unpacked, &folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(Outcome::Passed)
}

fn fs_parent(folder: &Path) -> Result<&Path> {
    let parent = folder.parent().unwrap_or(folder);
    fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    Ok(parent)
}

fn image(folder: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(folder.join("boot")).ok()?.flatten().map(|entry| entry.path());
    let mut files = files.filter(|path| path.file_name().is_some_and(is_kernel));
    files.next()
}

fn is_kernel(name: &std::ffi::OsStr) -> bool {
    name.to_string_lossy().starts_with("vmlinuz-")
}

/// Downloads the package on which the meta package depends. Returns its path.
fn fetch(folder: &Path) -> Result<PathBuf> {
    if !command::exists("apt-get") {
        bail!("this is not a Debian system; extract a Debian kernel to {}", self::folder().display());
    }
    let package = match concrete() {
        Ok(package) => package,
        Err(_) if command::is_root() => {
            command::run(&apt_get(&["update", "--quiet"]), LIMIT)?;
            concrete()?
        }
        Err(error) => return Err(error.context("run as root: apt-get update")),
    };
    let mut download = apt_get(&["download", &package]);
    download.current_dir(folder);
    if let Err(error) = command::run(&download, LIMIT) {
        // The package lists may be outdated.
        if !command::is_root() {
            return Err(error.context("run as root: apt-get update"));
        }
        command::run(&apt_get(&["update", "--quiet"]), LIMIT)?;
        command::run(&download, LIMIT)?;
    }
    let files = fs::read_dir(folder).context("cannot list the download")?.flatten().map(|entry| entry.path());
    let mut packages = files.filter(|path| path.extension().is_some_and(|extension| extension == "deb"));
    packages.next().with_context(|| format!("apt-get downloaded no {package}"))
}

/// The package of the newest kernel.
fn concrete() -> Result<String> {
    let listing = command::output(Command::new("apt-cache").args(["depends", META]))?;
    dependency(&listing).with_context(|| format!("apt-cache lists no kernel for {META}"))
}

fn dependency(listing: &str) -> Option<String> {
    let names = listing.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    names.map(str::trim).find(|name| name.starts_with("linux-image-")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_package_is_the_dependency_of_the_meta_package() {
        let listing = "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-9-cloud-amd64\n";
        assert_eq!(dependency(listing).unwrap(), "linux-image-6.1.0-9-cloud-amd64");
        assert_eq!(dependency("linux-image-cloud-amd64\n"), None);
    }
}
