//! What a process that takes the switch over inherits from it, and that process.

use crate::takeover::SocketName;
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::io;
use std::path::PathBuf;
use std::process::Child;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a successor inherits beside ports, and how it is started.
pub(crate) struct Inheritance {
    /// Path from which this process was started.
    pub(crate) program: PathBuf,
    pub(crate) sockets: Vec<(SocketName, OwnedFd)>,
    /// Token of the web page, unless it is in a file.
    pub(crate) web_token: Option<String>,
    successor: Mutex<Successor>,
}

/// The process that takes over. One thread makes the upgrade, and another one may end it: the lock decides whether the
/// successor was ended or has the ports.
#[derive(Debug, Default)]
enum Successor {
    /// There is none.
    #[default]
    None,
    /// It prepares, and is ended if this process ends.
    Prepares(Child),
    /// It has the ports.
    Runs(Child),
    /// It had the ports, and has ended.
    Ended(u32),
    /// There will be none, because this process ends.
    Refused,
}

impl Inheritance {
    pub(crate) fn new(
        program: PathBuf,
        sockets: Vec<(SocketName, OwnedFd)>,
        web_token: Option<String>,
    ) -> Self {
        Self { program, sockets, web_token, successor: Mutex::default() }
    }

    /// Has `child` prepare. Returns whether it may; it has ended otherwise, because this process ends.
    pub(super) fn prepare(&self, child: Child) -> bool {
        let mut successor = self.lock();
        if matches!(*successor, Successor::Refused) {
            drop(successor);
            end(child);
            return false;
        }
        *successor = Successor::Prepares(child);
        true
    }

    /// Decides that the successor gets the ports. Returns `false` if it was ended.
    pub(super) fn commit(&self) -> bool {
        let mut successor = self.lock();
        match std::mem::take(&mut *successor) {
            Successor::Prepares(child) => *successor = Successor::Runs(child),
            other => *successor = other,
        }
        matches!(*successor, Successor::Runs(_))
    }

    /// Ends a successor that has [committed](Self::commit), but was not told so.
    pub(super) fn take_back(&self) {
        let mut successor = self.lock();
        match std::mem::take(&mut *successor) {
            Successor::Runs(child) => end(child),
            other => *successor = other,
        }
    }

    /// Kills a successor that has the ports and has closed its connection, and waits for its end. Not under the lock:
    /// the ports do not run here again.
    pub(super) fn end_running(&self) {
        let mut successor = self.lock();
        match std::mem::take(&mut *successor) {
            Successor::Runs(child) => {
                *successor = Successor::Ended(child.id());
                drop(successor);
                end(child);
            }
            other => *successor = other,
        }
    }

    /// Ends a successor that prepares.
    pub(super) fn end_prepared(&self) {
        self.end_and_become(Successor::None);
    }

    /// Ends a successor that prepares, and lets no other one begin.
    pub(super) fn refuse(&self) {
        self.end_and_become(Successor::Refused);
    }

    /// Ends it under the lock: who learns that it was ended may start the ports at once.
    fn end_and_become(&self, next: Successor) {
        let mut successor = self.lock();
        match std::mem::take(&mut *successor) {
            Successor::Prepares(child) => {
                end(child);
                *successor = next;
            }
            Successor::None => *successor = next,
            decided => *successor = decided,
        }
    }

    /// Whether this process ends, so that there is no successor.
    pub(super) fn is_refused(&self) -> bool {
        matches!(*self.lock(), Successor::Refused)
    }

    /// The process that has taken over, if one has, also if it has ended since.
    pub(crate) fn successor(&self) -> Option<u32> {
        match &*self.lock() {
            Successor::Runs(child) => Some(child.id()),
            Successor::Ended(pid) => Some(*pid),
            _ => None,
        }
    }

    /// The process that had taken over, if it has failed since. Leaves its status to the parent that it gets when this
    /// process ends: systemd, if it is the main process then.
    pub(crate) fn failed_successor(&self) -> Option<u32> {
        match &*self.lock() {
            Successor::Ended(pid) => Some(*pid),
            Successor::Runs(child) => {
                let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
                let status = waitid(WaitId::Pid(Pid::from_child(child)), options).ok().flatten()?;
                (status.exit_status() != Some(0)).then(|| child.id())
            }
            _ => None,
        }
    }

    /// A poisoned lock is valid: the value changes in one step.
    fn lock(&self) -> MutexGuard<'_, Successor> {
        self.successor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn duplicates(&self) -> io::Result<Vec<OwnedFd>> {
        self.sockets.iter().map(|(_, socket)| socket.as_fd().try_clone_to_owned()).collect()
    }
}

/// Fails only if the process has ended.
fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal, kill_process, test_kill_process};
    use std::process::Command;

    /// A process that waits, and whether it exists.
    fn child() -> (Child, impl Fn() -> bool) {
        let child = Command::new("sleep").arg("1000").spawn().unwrap();
        let id = Pid::from_child(&child);
        (child, move || test_kill_process(id).is_ok())
    }

    fn inheritance() -> Inheritance {
        Inheritance::new(PathBuf::new(), Vec::new(), None)
    }

    #[test]
    fn a_process_that_ends_ends_a_successor_that_prepares_and_refuses_the_next() {
        let (inheritance, (first, first_lives), (next, next_lives)) = (inheritance(), child(), child());
        assert!(inheritance.prepare(first) && first_lives());
        inheritance.refuse();
        assert!(!first_lives() && !inheritance.commit() && inheritance.successor().is_none());
        inheritance.end_prepared();
        assert!(!inheritance.prepare(next) && !next_lives() && inheritance.is_refused());
    }

    #[test]
    fn a_successor_that_fails_with_the_ports_is_seen() {
        let failed = || {
            let (inheritance, (next, lives)) = (inheritance(), child());
            let pid = next.id();
            assert!(inheritance.prepare(next) && inheritance.commit());
            (inheritance, lives, pid)
        };
        let (inheritance, lives, pid) = failed();
        inheritance.end_running();
        assert!(!lives() && inheritance.successor() == Some(pid));
        assert_eq!(inheritance.failed_successor(), Some(pid));
        let (inheritance, _, pid) = failed();
        assert_eq!(inheritance.failed_successor(), None);
        kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
        while inheritance.failed_successor() != Some(pid) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_process_that_ends_leaves_a_successor_that_has_the_ports() {
        let (inheritance, (next, lives)) = (inheritance(), child());
        let pid = next.id();
        assert!(inheritance.prepare(next) && inheritance.commit());
        inheritance.refuse();
        inheritance.end_prepared();
        assert!(lives() && inheritance.successor() == Some(pid));
        assert!(inheritance.failed_successor().is_none());
        inheritance.take_back();
        assert!(!lives() && inheritance.successor().is_none());
    }
}
