//! Directories for files of requests: sockets, captures, traces and network namespaces of ports.
//!
//! With `paths` in `[switch]`, files must be below its directories, for every client. Without it, clients with the
//! rights of the switch name any file, and all others files in directories that the configuration uses already, but not
//! in directories below these: below a directory such as `/run`, they belong to other programs.
//!
//! A path is resolved as the kernel would, with links and `..`, before it is compared. What a directory contains may
//! change afterwards: with `paths`, the kernel compares once more when the file is written (Landlock).

use super::error::ApiError;
use super::peer::Peer;
use super::service::ApiService;
use crate::settings::needs;
use crate::settings::topology::PortSettings;
use console::Diagnostic;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Directory of named network namespaces.
const NAMESPACES: &str = "/run/netns";
const REMEDY: &str = "name a file in one of these directories, or add its directory to `paths` in [switch]";

/// The directories that a client may use.
#[derive(Debug)]
pub(super) struct Places {
    directories: Vec<PathBuf>,
    /// Whether files may be in directories below these, too.
    is_deep: bool,
}

impl Places {
    fn new(directories: &[PathBuf], is_deep: bool) -> Self {
        let mut found: Vec<_> = directories.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
        found.sort();
        found.dedup();
        Self { directories: found, is_deep }
    }

    /// Refuses a port with a file outside of the directories.
    pub(super) fn admit(&self, port: &PortSettings) -> Result<(), ApiError> {
        let files = port.files().map(|(key, path)| (key, path.to_owned(), self.has(path)));
        let namespaces = port.kind.namespaces().into_iter().map(|(key, name)| {
            let path = Path::new(NAMESPACES).join(name);
            let is_named = is_below(&path, Path::new(NAMESPACES));
            let is_inside = is_named || self.has(&path);
            (key, path, is_inside)
        });
        match files.chain(namespaces).find(|(.., is_inside)| !is_inside) {
            Some((key, path, _)) => Err(self.refusal(format!("port \"{}\"", port.name), key, &path)),
            None => Ok(()),
        }
    }

    fn has(&self, path: &Path) -> bool {
        self.directories
            .iter()
            .any(|directory| if self.is_deep { is_below(path, directory) } else { is_in(path, directory) })
    }

    fn refusal(&self, place: String, key: &str, path: &Path) -> ApiError {
        let allowed: Vec<_> = self.directories.iter().map(|path| path.display().to_string()).collect();
        let allowed = if allowed.is_empty() { "there are none".to_owned() } else { allowed.join(", ") };
        let reason = format!(
            "`{key}` {} is outside of the directories for files of requests: {allowed}",
            path.display()
        );
        ApiError::Forbidden(Diagnostic::bad(place, reason, REMEDY))
    }
}

/// Whether the file that `path` leads to, or would create, is below `directory`, which has no links.
fn is_below(path: &Path, directory: &Path) -> bool {
    resolved(path).is_ok_and(|path| path != directory && path.starts_with(directory))
}

/// [`is_below`], but in no directory between them.
fn is_in(path: &Path, directory: &Path) -> bool {
    resolved(path).is_ok_and(|path| path.parent() == Some(directory))
}

/// The path without links and `..`. A file that does not exist has the path of its directory. A link to a file that
/// does not exist is an error, because creating the file would create it elsewhere.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => {
            let (parent, name) = (path.parent(), path.file_name());
            let (Some(parent), Some(name)) = (parent, name) else { return Err(error) };
            Ok(fs::canonicalize(parent)?.join(name))
        }
        found => found,
    }
}

impl ApiService {
    /// The directories for a client; `None`: any.
    pub(super) fn places(&self, peer: &Peer) -> Option<Places> {
        let paths = self.topology().switch.confine.paths.clone();
        if !paths.is_empty() {
            return Some(Places::new(&paths, true));
        }
        // Not those of the running topology: a port of root elsewhere opens no directory.
        let topology = self.source().as_ref().map(|source| source.topology.clone());
        let topology = topology.unwrap_or_else(|| self.topology().clone());
        (!peer.is_trusted).then(|| Places::new(&needs::own_directories(&topology, self.control()), false))
    }

    /// Refuses a port that the client may not add, or that the process cannot open.
    pub(super) fn may_add(&self, port: &PortSettings, places: Option<&Places>) -> Result<(), ApiError> {
        places.map_or(Ok(()), |places| places.admit(port))?;
        self.can_open(port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;
    use crate::settings::config;
    use std::os::unix::fs::symlink;

    fn port(text: &str) -> PortSettings {
        let text = format!("[[port]]\nname = \"a\"\n{text}");
        config::parse(&text, &Host::of(&[0], &[0]), None).unwrap().ports.remove(0)
    }

    #[test]
    fn paths_are_compared_after_links_and_parents() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        for name in ["in", "in/deep", "out", "in-side"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        fs::write(root.join("out/file"), "").unwrap();
        symlink(root.join("out"), root.join("in/link")).unwrap();
        symlink(root.join("out/file"), root.join("in/to-file")).unwrap();
        symlink(root.join("out/none"), root.join("in/dangling")).unwrap();
        symlink(root.join("in/deep"), root.join("back")).unwrap();
        let places = Places::new(&[root.join("in"), root.join("nonexistent")], true);
        for good in ["in/new", "in/deep/new", "back/new", "in/link/../in/new", "in/deep/../new"] {
            assert!(places.has(&root.join(good)), "{good}");
        }
        let bad = [
            "out/new",
            "in",
            "in/..",
            "in/../out/new",
            "in/link/new",
            "in/link/file",
            "in/to-file",
            "in/dangling",
            "in-side/new",
            "in/none/new",
        ];
        for bad in bad {
            assert!(!places.has(&root.join(bad)), "{bad}");
        }
        let shallow = Places::new(&[root.join("in")], false);
        let allowed = ["in/new", "in/deep/../new", "in/deep/new", "back/new", "in/link/file", "in"];
        let allowed = allowed.map(|path| shallow.has(&root.join(path)));
        assert_eq!(allowed, [true, true, false, false, false, false]);
    }

    #[test]
    fn a_refused_port_names_its_key_the_file_and_the_directories() {
        let places = Places::new(&["/usr".into()], true);
        let refused = |text: &str| places.admit(&port(text)).unwrap_err().into_diagnostic().to_string();
        let error = refused("socket = \"/tmp/lr-a.sock\"");
        for part in ["port \"a\"", "`socket` /tmp/lr-a.sock", "/usr", "`paths`"] {
            assert!(error.contains(part), "{error}");
        }
        assert!(refused("kind = \"null\"\ntrace = \"/tmp/lr-none.log\"").contains("`trace`"));
        assert!(refused("kind = \"pcap\"\nwrite = \"/tmp/lr-none.pcapng\"").contains("`write`"));
        let tap = "kind = \"tap\"\ninterface = \"x\"\n";
        assert!(refused(&format!("{tap}netns = \"/proc/1/ns/net\"")).contains("`netns`"));
        let free =
            [tap.to_owned(), "kind = \"memif\"\nsocket = \"@lr\"".to_owned(), "kind = \"null\"".to_owned()];
        assert!(free.iter().all(|text| places.admit(&port(text)).is_ok()));
    }
}
