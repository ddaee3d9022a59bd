//! Resources of this machine that a port uses exclusively: files and named resources.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A resource that only one port may use.
#[derive(Clone, Debug)]
pub(crate) struct Claim<'a> {
    /// Key of the resource in the port's section.
    pub(crate) key: &'static str,
    /// Display name.
    pub(crate) shown: String,
    resource: Resource<'a>,
}

#[derive(Clone, Debug)]
enum Resource<'a> {
    /// A file, by any of its paths.
    File(Place<'a>),
    /// Another resource: its type and its full name.
    Named(&'static str, Cow<'a, str>),
}

impl<'a> Claim<'a> {
    /// The file at `path`.
    pub(crate) fn file(key: &'static str, path: &'a Path) -> Self {
        Self { key, shown: path.display().to_string(), resource: Resource::File(Place::of(path)) }
    }

    /// A resource of type `what` (an interface, a network address) named `name` on this machine.
    pub(crate) fn named(key: &'static str, what: &'static str, name: impl Into<Cow<'a, str>>) -> Self {
        let name = name.into();
        Self { key, shown: name.to_string(), resource: Resource::Named(what, name) }
    }

    /// Whether both are the same resource, regardless of the key.
    pub(crate) fn is(&self, other: &Claim<'_>) -> bool {
        match (&self.resource, &other.resource) {
            (Resource::File(one), Resource::File(other)) => one.is(other),
            (Resource::Named(sort, name), Resource::Named(other, its)) => sort == other && name == its,
            _ => false,
        }
    }
}

/// A file, looked up at most once, because each port's files are compared with those of all others.
#[derive(Clone, Debug)]
struct Place<'a> {
    path: &'a Path,
    name: Option<&'a OsStr>,
    folder: OnceCell<Option<PathBuf>>,
    identity: OnceCell<Option<(u64, u64)>>,
}

impl<'a> Place<'a> {
    fn of(path: &'a Path) -> Self {
        Self { path, name: path.file_name(), folder: OnceCell::new(), identity: OnceCell::new() }
    }

    fn folder(&self) -> Option<&Path> {
        self.folder.get_or_init(|| folder(self.path)).as_deref()
    }

    fn identity(&self) -> Option<(u64, u64)> {
        *self.identity.get_or_init(|| identity(self.path))
    }

    /// Whether two paths refer to the same file.
    fn is(&self, other: &Place<'_>) -> bool {
        let same_name = self.name == other.name && self.folder() == other.folder();
        same_name || self.identity().is_some() && self.identity() == other.identity()
    }
}

/// Device and inode of the file at a path, following links; `None` if it does not exist.
fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// The directory of a path, canonicalised if it exists.
fn folder(path: &Path) -> Option<PathBuf> {
    let parent = path.parent()?;
    Some(std::fs::canonicalize(parent).unwrap_or_else(|_| parent.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_the_same_by_any_path_and_a_name_is_the_same_only_among_its_sort() {
        let file = |path: &'static str| Claim::file("socket", Path::new(path));
        assert!(file("/tmp/x").is(&file("/tmp/../tmp/./x")));
        assert!(!file("/tmp/x").is(&file("/tmp/y")));
        let interface = Claim::named("interface", "interface", "blue/vm0");
        assert!(interface.is(&Claim::named("peer", "interface", "blue/vm0")));
        assert!(!interface.is(&Claim::named("interface", "interface", "vm0")));
        assert!(!interface.is(&Claim::named("interface", "address", "blue/vm0")));
        assert!(!interface.is(&file("blue/vm0")));
    }

    #[test]
    fn a_file_is_the_same_by_its_links() {
        let dir = tempfile::tempdir().unwrap();
        let [real, soft, hard, other] = ["real", "soft", "hard", "other"].map(|name| dir.path().join(name));
        for path in [&real, &other] {
            std::fs::write(path, "").unwrap();
        }
        std::os::unix::fs::symlink(&real, &soft).unwrap();
        std::fs::hard_link(&real, &hard).unwrap();
        let same_file = |one: &Path, other: &Path| Place::of(one).is(&Place::of(other));
        assert!(same_file(&real, &soft) && same_file(&hard, &soft) && !same_file(&other, &soft));
    }
}
