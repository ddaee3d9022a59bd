//! Landlock rules: the directories in which files may be created and written, and those of programs.
//!
//! Reading is not restricted, because libraries, `/proc` and `/sys` are read everywhere. A rule holds for the directory
//! that has the path when the rule is made, so a link that is placed there later leads nowhere.

use crate::ConfineError;
use landlock::{
    ABI, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr,
    RulesetError, RulesetStatus,
};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// Rights to write that all supported kernels know: since Linux 6.2 also truncation.
const WRITES: ABI = ABI::V3;
/// Directories with the dynamic linker.
const LINKERS: [&str; 3] = ["/lib", "/lib64", "/usr/lib"];
/// Files and directories of the kernel that every switch writes to: names of threads are in `/proc`.
const KERNEL: [&str; 3] = ["/dev/null", "/dev/net/tun", "/proc/self"];

/// Paths below which a process may write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileRules {
    /// Directories in which files may be created, written and removed.
    pub writable: Vec<PathBuf>,
    /// The program, whose directory may have programs that are executed.
    pub program: Option<PathBuf>,
}

/// Whether rules for files are in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landlock {
    /// There are no rules.
    NotConfigured,
    /// The kernel does not support them.
    NotSupported,
    /// The kernel supports a part of them.
    Partial,
    /// All are in force.
    Enforced,
}

impl Landlock {
    /// Name for reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotConfigured => "off",
            Self::NotSupported => "not supported by the kernel",
            Self::Partial => "in part",
            Self::Enforced => "on",
        }
    }
}

impl FileRules {
    /// Restricts the calling thread, unless these rules are among the digests of what is in force already, to which they
    /// are added: the kernel limits how often a process and its successors can be restricted (16 times).
    pub(crate) fn add(&self, in_force: &mut Vec<u64>) -> Result<Landlock, ConfineError> {
        let is_inherited = |landlock: &Landlock| in_force.contains(&self.digest(*landlock));
        if let Some(inherited) = [Landlock::Enforced, Landlock::Partial].into_iter().find(is_inherited) {
            return Ok(inherited);
        }
        let landlock = self.enforce()?;
        if landlock != Landlock::NotSupported {
            in_force.push(self.digest(landlock));
        }
        Ok(landlock)
    }

    /// Digest of the rules, of which this part is in force.
    fn digest(&self, landlock: Landlock) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.writable, &self.program, landlock.name()).hash(&mut hasher);
        hasher.finish()
    }

    /// Restricts the calling thread, as far as the kernel can. Paths that do not exist are left out.
    fn enforce(&self) -> Result<Landlock, ConfineError> {
        let status = self.restrict().map_err(|error| ConfineError::Files(error.to_string()))?;
        Ok(match status {
            RulesetStatus::FullyEnforced => Landlock::Enforced,
            RulesetStatus::PartiallyEnforced => Landlock::Partial,
            RulesetStatus::NotEnforced => Landlock::NotSupported,
        })
    }

    fn restrict(&self) -> Result<RulesetStatus, RulesetError> {
        let writes = AccessFs::from_write(WRITES);
        let mut rules = Ruleset::default().handle_access(writes | AccessFs::Execute)?.create()?;
        for path in self.writable.iter().map(PathBuf::as_path).chain(KERNEL.map(Path::new)) {
            rules = allow(rules, path, writes)?;
        }
        let home = self.program.as_deref().and_then(Path::parent);
        for path in home.into_iter().chain(LINKERS.map(Path::new)) {
            rules = allow(rules, path, AccessFs::Execute.into())?;
        }
        Ok(rules.restrict_self()?.ruleset)
    }
}

/// Allows `access` below a directory. A file has only the rights that files have.
fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: landlock::BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let Ok(opened) = PathFd::new(path) else { return Ok(rules) };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(WRITES) };
    rules.add_rule(PathBeneath::new(opened, access))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_successor_of_a_successor_is_restricted_once() {
        let rules = FileRules { writable: vec!["/tmp".into()], program: None };
        let restricted = move || {
            let mut in_force = Vec::new();
            let first = rules.add(&mut in_force).unwrap();
            for _ in 0..20 {
                assert_eq!(rules.add(&mut in_force).unwrap(), first);
            }
            let others = FileRules { writable: vec!["/var/tmp".into()], ..rules };
            others.add(&mut in_force).unwrap();
            let layers = if first == Landlock::NotSupported { 0 } else { 2 };
            assert_eq!(in_force.len(), layers);
        };
        std::thread::spawn(restricted).join().unwrap();
    }

    /// On a thread of its own, because rules belong to threads.
    #[test]
    fn files_are_written_below_the_directories_only_also_through_links() {
        let [inside, outside] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let (inside, outside) = (inside.path().to_owned(), outside.path().to_owned());
        std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
        fs::write(outside.join("read"), "text").unwrap();
        let rules = FileRules { writable: vec![inside.clone()], program: Some("/usr/bin/true".into()) };
        let confined = move || {
            let landlock = rules.enforce().unwrap();
            if landlock == Landlock::NotSupported {
                return;
            }
            fs::write(inside.join("new"), "text").unwrap();
            fs::remove_file(inside.join("new")).unwrap();
            for refused in [outside.join("new"), inside.join("link/new"), inside.join("../new")] {
                let error = fs::write(&refused, "text").unwrap_err();
                assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied, "{}", refused.display());
            }
            assert!(fs::remove_file(outside.join("read")).is_err());
            assert_eq!(fs::read_to_string(outside.join("read")).unwrap(), "text");
            let runs = std::process::Command::new("/usr/bin/true").status();
            assert!(runs.unwrap().success());
        };
        std::thread::spawn(confined).join().unwrap();
    }
}
