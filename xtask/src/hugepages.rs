//! Huge pages for the peers of a bench, which need them where linerate does not: made before, and given back after.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command;

const COUNT: &str = "/proc/sys/vm/nr_hugepages";
const MOUNTS: &str = "/proc/mounts";
const FOLDER: &str = "/dev/hugepages";

/// Reserved huge pages on a mounted file system; dropping it removes what was left there and restores the count.
pub(crate) struct HugePages {
    folder: PathBuf,
    before: BTreeSet<PathBuf>,
    count_before: u64,
    mounted_here: bool,
}

impl HugePages {
    /// Reserves at least `count` pages of 2 MiB; an error where that needs root, or the memory is not there.
    pub(crate) fn reserve(count: u64) -> Result<HugePages> {
        let count_before = read_count()?;
        let found = mount_point();
        let ready = count_before >= count && found.is_some();
        if !ready && !command::is_root() {
            bail!("the peers need {count} huge pages: run this as root");
        }
        let mounted_here = found.is_none();
        let folder = found.map_or_else(mount, Ok)?;
        let before = files(&folder);
        let pages = HugePages { folder, before, count_before, mounted_here };
        if count_before < count {
            write_count(count)?;
        }
        let reserved = read_count()?;
        if reserved < count {
            bail!("only {reserved} of {count} huge pages could be reserved: free some memory");
        }
        Ok(pages)
    }

    /// Removes the files that processes killed since [`HugePages::reserve`] left, which hold their pages for ever.
    pub(crate) fn sweep(&self) {
        for file in files(&self.folder).difference(&self.before) {
            // Another process may have removed it; the next reservation notices.
            let _ = fs::remove_file(file);
        }
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        self.sweep();
        if self.mounted_here {
            command::succeeds(Command::new("umount").arg(&self.folder));
        }
        if read_count().is_ok_and(|count| count > self.count_before) {
            // The machine works as well with the pages still reserved, so no error is reported.
            let _ = write_count(self.count_before);
        }
    }
}

fn read_count() -> Result<u64> {
    let text = fs::read_to_string(COUNT).with_context(|| format!("cannot read {COUNT}"))?;
    text.trim().parse().with_context(|| format!("{COUNT} holds no number"))
}

fn write_count(count: u64) -> Result<()> {
    fs::write(COUNT, count.to_string()).with_context(|| format!("cannot write {COUNT}"))
}

fn mount_point() -> Option<PathBuf> {
    let mounts = fs::read_to_string(MOUNTS).ok()?;
    mount_point_of(&mounts)
}

fn mount_point_of(mounts: &str) -> Option<PathBuf> {
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mut huge = fields.filter(|fields| fields.get(2) == Some(&"hugetlbfs"));
    huge.find_map(|fields| fields.get(1).map(PathBuf::from))
}

fn mount() -> Result<PathBuf> {
    fs::create_dir_all(FOLDER).with_context(|| format!("cannot make {FOLDER}"))?;
    command::output(Command::new("mount").args(["-t", "hugetlbfs", "none", FOLDER]))?;
    Ok(PathBuf::from(FOLDER))
}

fn files(folder: &Path) -> BTreeSet<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hugetlbfs_mount_is_found() {
        let mounts = "proc /proc proc rw 0 0\nnone /dev/hugepages hugetlbfs rw 0 0\n";
        assert_eq!(mount_point_of(mounts), Some(PathBuf::from("/dev/hugepages")));
        assert_eq!(mount_point_of("proc /proc proc rw 0 0\n"), None);
    }
}
