//! Huge pages for the peers of a benchmark, and for tests: reserved before and released afterwards. linerate needs
//! none.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command;

const COUNT: &str = "/proc/sys/vm/nr_hugepages";
const MOUNTS: &str = "/proc/mounts";
const FOLDER: &str = "/dev/hugepages";

/// Reserved huge pages on a mounted file system. Drop removes leftover files and restores the previous count.
pub(crate) struct HugePages {
    folder: PathBuf,
    before: BTreeSet<PathBuf>,
    count_before: u64,
    mounted_here: bool,
}

impl HugePages {
    /// Reserves at least `count` pages of 2 MiB. Returns an error without root privileges or sufficient memory.
    pub(crate) fn reserve(count: u64) -> Result<HugePages> {
        let count_before = read_count()?;
        let found = mount_point();
        let ready = count_before >= count && found.is_some();
        if !ready && !command::is_root() {
            bail!("{count} huge pages are needed; run this as root");
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
            bail!("only {reserved} of {count} huge pages could be reserved; free some memory");
        }
        Ok(pages)
    }

    /// Reserves one page more than there are, which are perhaps in use.
    pub(crate) fn reserve_another() -> Result<HugePages> {
        HugePages::reserve(read_count()? + 1)
    }

    /// Removes files of processes killed since [`HugePages::reserve`]; these would keep their pages reserved.
    pub(crate) fn sweep(&self) {
        for file in files(&self.folder).difference(&self.before) {
            // Another process may have removed it; otherwise the next reservation fails.
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
            // Leftover reserved pages are harmless, so no error is reported.
            let _ = write_count(self.count_before);
        }
    }
}

fn read_count() -> Result<u64> {
    let text = fs::read_to_string(COUNT).with_context(|| format!("cannot read {COUNT}"))?;
    text.trim().parse().with_context(|| format!("{COUNT} does not contain a number"))
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
    fs::create_dir_all(FOLDER).with_context(|| format!("cannot create {FOLDER}"))?;
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
