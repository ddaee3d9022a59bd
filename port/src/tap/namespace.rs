//! Network namespaces: where an interface is made.
//!
//! A thread enters a namespace for the length of one call and returns before that call does, whatever happens in it.
//! What was opened inside stays there and works from anywhere. Never starts a thread, and never leaves one elsewhere
//! than where it was: a thread that cannot go back ends the process, because all it did from then on would be wrong.

use super::error::TapError;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::path::{Path, PathBuf};

/// Where `ip netns` keeps names.
const NAMES: &str = "/run/netns";
/// The namespace of the calling thread.
const OWN: &str = "/proc/thread-self/ns/net";

/// Where the network namespace `netns` is to be found: a name under `/run/netns`, or an absolute path.
pub fn namespace_path(netns: &str) -> PathBuf {
    // An absolute path replaces what it is joined to.
    Path::new(NAMES).join(netns)
}

/// A namespace by its path.
#[derive(Clone, Debug)]
pub(super) struct Namespace {
    path: PathBuf,
}

/// Which namespace a path led to: a name can be given to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity(u64, u64);

impl Namespace {
    /// The one of this name, or at this absolute path.
    pub(super) fn named(name: &str) -> Self {
        Self { path: namespace_path(name) }
    }

    /// Which one it is now; `None` where there is none.
    pub(super) fn identity(&self) -> Option<Identity> {
        let stat = rustix::fs::stat(&self.path).ok()?;
        Some(Identity(stat.st_dev, stat.st_ino))
    }

    /// Runs `act` inside. Returns which namespace that was, too.
    pub(super) fn inside<T>(
        &self,
        act: impl FnOnce() -> Result<T, TapError>,
    ) -> Result<(T, Identity), TapError> {
        let there = open(&self.path).map_err(|errno| TapError::NoNamespace(self.path.clone(), errno))?;
        let stat = rustix::fs::fstat(&there).map_err(|e| TapError::NoNamespace(self.path.clone(), e))?;
        let here = open(Path::new(OWN)).map_err(|errno| TapError::NotEntered(self.path.clone(), errno))?;
        enter(&there).map_err(|errno| TapError::NotEntered(self.path.clone(), errno))?;
        let returns = Return(here);
        let done = act();
        drop(returns);
        Ok((done?, Identity(stat.st_dev, stat.st_ino)))
    }
}

/// Whatever is at the path, opening it must not wait (a pipe would).
fn open(path: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())
}

fn enter(namespace: &OwnedFd) -> rustix::io::Result<()> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
}

/// Takes the thread back to where it was, also when what it did panics.
struct Return(OwnedFd);

impl Drop for Return {
    fn drop(&mut self) {
        if enter(&self.0).is_err() {
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_lies_in_the_usual_folder_and_a_path_where_it_says() {
        assert_eq!(Namespace::named("blue").path, Path::new("/run/netns/blue"));
        assert_eq!(Namespace::named("/proc/1/ns/net").path, Path::new("/proc/1/ns/net"));
    }

    #[test]
    fn what_does_not_exist_is_named_and_nothing_is_run() {
        let error = Namespace::named("/nonexistent/netns").inside(|| -> Result<(), _> { unreachable!() });
        assert!(matches!(error, Err(TapError::NoNamespace(..))), "{error:?}");
        assert_eq!(Namespace::named("/nonexistent/netns").identity(), None);
    }

    #[test]
    fn what_is_no_namespace_is_not_entered() {
        let error = Namespace::named("/dev/null").inside(|| -> Result<(), _> { unreachable!() });
        assert!(matches!(error, Err(TapError::NotEntered(..))), "{error:?}");
    }
}
