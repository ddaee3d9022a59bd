//! Network namespaces: a port's interface may be in another namespace than the switch.
//!
//! A socket permanently belongs to the namespace in which it was created, and requests through it refer to that
//! namespace. A thread therefore enters a namespace only to create sockets and attach programs, and returns before it
//! does anything else. `Namespace::within` is the only entry point and always restores the thread's namespace. Must
//! not be called on a worker.

use crate::Remedy;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

/// Directory of the names created by `ip netns add`.
const NAMES: &str = "/run/netns";

/// Name of a network namespace, as configured.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Namespace(String);

/// Identity of the namespace that a name refers to. It changes if the name is reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity(u64, u64);

/// A namespace cannot be used. The calling thread stays in its namespace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamespaceError {
    /// The file does not exist.
    #[error("there is no network namespace {0}: {1}")]
    Missing(PathBuf, Errno),
    /// The file exists, but cannot be entered.
    #[error("the network namespace {0} cannot be entered: {1}")]
    Closed(PathBuf, Errno),
    /// The thread's own namespace cannot be opened, so it could not be restored.
    #[error("the switch's own network namespace cannot be opened: {0}")]
    NoWayBack(Errno),
}

impl Remedy for NamespaceError {
    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some(match self {
            Self::Missing(..) => "make it first (`ip netns add`), or correct `netns`".into(),
            Self::Closed(..) => "it must be one, and the switch needs CAP_SYS_ADMIN".into(),
            Self::NoWayBack(..) => "/proc must be mounted".into(),
        })
    }
}

impl Namespace {
    /// A name known to `ip netns`, or the absolute path of a namespace file.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// Name as configured.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Path of the namespace file.
    pub fn path(&self) -> PathBuf {
        // `join` with an absolute path returns that path.
        PathBuf::from(NAMES).join(&self.0)
    }

    /// Whether the name still refers to the namespace with this identity. Also true if the kernel cannot say, for
    /// example without memory: an interface is not given up for that.
    pub(crate) fn is(&self, identity: Identity) -> bool {
        match rustix::fs::stat(self.path()) {
            Ok(stat) => Identity(stat.st_dev, stat.st_ino) == identity,
            Err(errno) => !matches!(errno, Errno::NOENT | Errno::NOTDIR),
        }
    }

    /// Runs `work` in this namespace and returns to the previous one. Also returns the identity of the namespace,
    /// because the name may have been reused since.
    ///
    /// # Errors
    /// [`NamespaceError`] if the namespace cannot be entered; `work` is not run then.
    pub(crate) fn within<T>(&self, work: impl FnOnce() -> T) -> Result<(T, Identity), NamespaceError> {
        // Non-blocking, because the path may be that of another file type, such as a pipe.
        let (path, flags) = (self.path(), OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC);
        let there = rustix::fs::open(&path, flags, Mode::empty())
            .map_err(|why| NamespaceError::Missing(path.clone(), why))?;
        let stat = rustix::fs::fstat(&there).map_err(|why| NamespaceError::Missing(path.clone(), why))?;
        let back = rustix::fs::open("/proc/thread-self/ns/net", flags, Mode::empty())
            .map_err(NamespaceError::NoWayBack)?;
        enter(there.as_fd()).map_err(|why| NamespaceError::Closed(path, why))?;
        let _guard = RestoreNamespace(back);
        Ok((work(), Identity(stat.st_dev, stat.st_ino)))
    }
}

/// Runs `work` in `namespace` and returns the namespace's identity; without a namespace runs it in the current one.
pub(crate) fn within<T>(
    namespace: Option<&Namespace>,
    work: impl FnOnce() -> T,
) -> Result<(T, Option<Identity>), NamespaceError> {
    match namespace {
        Some(namespace) => namespace.within(work).map(|(done, identity)| (done, Some(identity))),
        None => Ok((work(), None)),
    }
}

/// Returns the thread to its previous namespace on drop, also on unwinding.
struct RestoreNamespace(OwnedFd);

impl Drop for RestoreNamespace {
    fn drop(&mut self) {
        // A thread that was allowed to leave its namespace may return by an open descriptor, if there is memory. If
        // that fails nevertheless, all later work would affect the wrong interfaces, so the process aborts.
        for _ in 0..RETRIES {
            match enter(self.0.as_fd()) {
                Ok(()) => return,
                Err(Errno::NOMEM) => std::thread::sleep(RETRY_PAUSE),
                Err(_) => break,
            }
        }
        std::process::abort();
    }
}

/// Attempts to return to a namespace while the kernel has no memory, and the pause between two.
const RETRIES: u32 = 100;
const RETRY_PAUSE: Duration = Duration::from_millis(10);

fn enter(namespace: BorrowedFd<'_>) -> Result<(), Errno> {
    move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_name_maps_to_run_netns_and_a_path_is_used_as_is() {
        assert_eq!(Namespace::new("blue").path(), PathBuf::from("/run/netns/blue"));
        assert_eq!(Namespace::new("/proc/1/ns/net").path(), PathBuf::from("/proc/1/ns/net"));
    }

    #[test]
    fn missing_namespace_is_reported_by_name() {
        let error = Namespace::new("no-such-namespace").within(|| ()).unwrap_err().in_one_line();
        assert!(error.contains("/run/netns/no-such-namespace") && error.contains("ip netns add"), "{error}");
    }

    #[test]
    fn file_that_is_not_a_namespace_is_rejected() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let namespace = Namespace::new(file.path().to_str().unwrap());
        let error = namespace.within(|| unreachable!("it was not entered")).unwrap_err();
        assert!(matches!(error, NamespaceError::Closed(..)), "{error}");
    }

    #[test]
    fn identity_is_that_of_the_entered_namespace() {
        let own = Namespace::new("/proc/self/ns/net");
        match own.within(|| 7) {
            Ok((done, identity)) => assert!(done == 7 && own.is(identity)),
            // Entering even the current namespace requires privileges.
            Err(error) => assert!(matches!(error, NamespaceError::Closed(..)), "{error}"),
        }
        let identity = Identity(0, 0);
        assert!(!Namespace::new("no-such-namespace").is(identity) && !own.is(identity));
    }

    #[test]
    fn no_namespace_runs_in_the_current_one() {
        assert_eq!(within(None, || 7), Ok((7, None)));
    }
}
