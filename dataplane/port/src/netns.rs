//! Network namespaces: a port's interface may live in another one than the switch.
//!
//! A socket belongs to the namespace in which it was made, for ever, and so does every question that is asked by it.
//! So a thread enters a namespace for the moment in which sockets are made and programs are attached, and goes back
//! before anything else happens: `Namespace::within` is the only way in, and it ends in the namespace in which it
//! began. Never called on a worker.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::path::PathBuf;

/// Where `ip netns add` puts names.
const NAMES: &str = "/run/netns";

/// A network namespace, as a user names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Namespace(String);

/// Which namespace a name led to: a name can be given to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity(u64, u64);

/// Why a namespace cannot be worked in. The thread is where it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamespaceError {
    /// There is no such file.
    #[error("there is no network namespace {0}: {1}; make it first (`ip netns add`), or correct `netns`")]
    Missing(PathBuf, Errno),
    /// The file is there and cannot be entered.
    #[error(
        "the network namespace {0} cannot be entered: {1}; it must be one, and the switch needs CAP_SYS_ADMIN"
    )]
    Closed(PathBuf, Errno),
    /// This thread's own namespace cannot be named, so there would be no way back.
    #[error("the switch's own network namespace cannot be opened: {0}; /proc must be mounted")]
    NoWayBack(Errno),
}

impl Namespace {
    /// A name that `ip netns` knows, or the absolute path of a namespace's file.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// As it was named.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// The file that stands for it.
    pub fn path(&self) -> PathBuf {
        // An absolute path replaces what it is joined to.
        PathBuf::from(NAMES).join(&self.0)
    }

    /// Which namespace the name leads to now; `None`: to none.
    pub(crate) fn identity(&self) -> Option<Identity> {
        let stat = rustix::fs::stat(self.path()).ok()?;
        Some(Identity(stat.st_dev, stat.st_ino))
    }

    /// Does `work` in this namespace, and comes back. Says which one that was, too: the name may lead elsewhere by now.
    ///
    /// # Errors
    /// [`NamespaceError`] where the namespace cannot be entered; then nothing was done.
    pub(crate) fn within<T>(&self, work: impl FnOnce() -> T) -> Result<(T, Identity), NamespaceError> {
        // Whatever is at the path, opening it must not wait, as a pipe's would.
        let (path, flags) = (self.path(), OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC);
        let there = rustix::fs::open(&path, flags, Mode::empty())
            .map_err(|why| NamespaceError::Missing(path.clone(), why))?;
        let stat = rustix::fs::fstat(&there).map_err(|why| NamespaceError::Missing(path.clone(), why))?;
        let back = rustix::fs::open("/proc/thread-self/ns/net", flags, Mode::empty())
            .map_err(NamespaceError::NoWayBack)?;
        enter(there.as_fd()).map_err(|why| NamespaceError::Closed(path, why))?;
        let _guard = Back(back);
        Ok((work(), Identity(stat.st_dev, stat.st_ino)))
    }
}

/// Does `work` in `namespace` and says which one that was, or does it right here where there is none.
pub(crate) fn within<T>(
    namespace: Option<&Namespace>,
    work: impl FnOnce() -> T,
) -> Result<(T, Option<Identity>), NamespaceError> {
    match namespace {
        Some(namespace) => namespace.within(work).map(|(done, identity)| (done, Some(identity))),
        None => Ok((work(), None)),
    }
}

/// Takes the thread back to where it came from, whatever happens inside.
struct Back(OwnedFd);

impl Drop for Back {
    fn drop(&mut self) {
        // A thread that may leave its namespace may come back to it by an open descriptor. Were it not so, everything
        // that the thread does from here on would happen to the wrong interfaces, and nothing is better than that.
        if enter(self.0.as_fd()).is_err() {
            std::process::abort();
        }
    }
}

fn enter(namespace: BorrowedFd<'_>) -> Result<(), Errno> {
    move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_up_where_ip_puts_it_and_a_path_is_taken_as_it_is() {
        assert_eq!(Namespace::new("blue").path(), PathBuf::from("/run/netns/blue"));
        assert_eq!(Namespace::new("/proc/1/ns/net").path(), PathBuf::from("/proc/1/ns/net"));
    }

    #[test]
    fn a_namespace_that_is_not_there_is_named() {
        let error = Namespace::new("no-such-namespace").within(|| ()).unwrap_err().to_string();
        assert!(error.contains("/run/netns/no-such-namespace") && error.contains("ip netns add"), "{error}");
    }

    #[test]
    fn a_file_that_is_no_namespace_is_refused_and_nothing_is_done() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let namespace = Namespace::new(file.path().to_str().unwrap());
        let error = namespace.within(|| unreachable!("it was not entered")).unwrap_err();
        assert!(matches!(error, NamespaceError::Closed(..)), "{error}");
    }

    #[test]
    fn which_namespace_it_was_is_told_by_what_was_entered() {
        let own = Namespace::new("/proc/self/ns/net");
        match own.within(|| 7) {
            Ok((done, identity)) => assert_eq!((done, Some(identity)), (7, own.identity())),
            // Even to enter the namespace that it is in, a thread needs rights.
            Err(error) => assert!(matches!(error, NamespaceError::Closed(..)), "{error}"),
        }
        assert_eq!(Namespace::new("no-such-namespace").identity(), None);
    }

    #[test]
    fn without_a_namespace_work_is_done_right_here() {
        assert_eq!(within(None, || 7), Ok((7, None)));
    }
}
