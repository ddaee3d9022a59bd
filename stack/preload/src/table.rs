//! The program's descriptors that are sockets of the service, or may become ones.
//!
//! A bitmap answers for all other descriptors without a lock.

use crate::socket::Socket;
use libc::c_int;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

/// Descriptors above this number stay with the kernel.
const MAX: usize = 1 << 20;

static KNOWN: [AtomicU64; MAX / 64] = [const { AtomicU64::new(0) }; MAX / 64];
static SOCKETS: LazyLock<RwLock<HashMap<c_int, Arc<Socket>>>> = LazyLock::new(RwLock::default);
/// Set in a child of fork(2), which has no thread of the client: its descriptors are those of the kernel.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

fn bit(fd: c_int) -> Option<(&'static AtomicU64, u64)> {
    let fd = usize::try_from(fd).ok()?;
    Some((KNOWN.get(fd / 64)?, 1 << (fd % 64)))
}

/// The socket of a descriptor.
pub(crate) fn find(fd: c_int) -> Option<Arc<Socket>> {
    let (word, bit) = bit(fd)?;
    // The lock orders the table; a set bit only says that it is worth to look.
    if word.load(Ordering::Relaxed) & bit == 0 || IS_CHILD.load(Ordering::Relaxed) {
        return None;
    }
    SOCKETS.read().unwrap_or_else(PoisonError::into_inner).get(&fd).cloned()
}

/// The socket of a descriptor, if the service has it.
pub(crate) fn active(fd: c_int) -> Option<Arc<Socket>> {
    find(fd).filter(|socket| socket.active().is_some())
}

/// Adds a descriptor. Returns `false` if its number is too large.
pub(crate) fn insert(fd: c_int, socket: Arc<Socket>) -> bool {
    let Some((word, bit)) = bit(fd) else { return false };
    let last = SOCKETS.write().unwrap_or_else(PoisonError::into_inner).insert(fd, socket);
    word.fetch_or(bit, Ordering::Relaxed);
    drop(last);
    true
}

/// Removes a descriptor that is being closed. The last one of a socket closes it.
pub(crate) fn remove(fd: c_int) -> Option<Arc<Socket>> {
    let (word, bit) = bit(fd)?;
    if word.load(Ordering::Relaxed) & bit == 0 || IS_CHILD.load(Ordering::Relaxed) {
        return None;
    }
    word.fetch_and(!bit, Ordering::Relaxed);
    SOCKETS.write().unwrap_or_else(PoisonError::into_inner).remove(&fd)
}

/// Removes a range of descriptors.
pub(crate) fn remove_range(first: u32, last: u32) {
    let inside = |fd: &c_int| (first..=last).contains(&fd.cast_unsigned());
    let all: Vec<_> = {
        let sockets = SOCKETS.read().unwrap_or_else(PoisonError::into_inner);
        sockets.keys().copied().filter(inside).collect()
    };
    for fd in all {
        drop(remove(fd));
    }
}

/// Called in a child of fork(2).
pub(crate) extern "C" fn forget() {
    IS_CHILD.store(true, Ordering::Relaxed);
}

/// Whether this process is a child of the one that has the sockets.
pub(crate) fn is_child() -> bool {
    IS_CHILD.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket() -> Arc<Socket> {
        Arc::new(Socket::new(libc::AF_INET, true))
    }

    /// The first descriptor beyond the table.
    fn end() -> c_int {
        MAX.try_into().unwrap()
    }

    #[test]
    fn descriptors_are_found_until_they_are_removed() {
        // Numbers that no test program has.
        let (first, second, last) = (900_000, 900_001, end() - 1);
        let shared = socket();
        assert!(insert(first, shared.clone()) && insert(second, shared.clone()) && insert(last, socket()));
        assert!(find(first).is_some_and(|found| Arc::ptr_eq(&found, &shared)));
        drop(remove(first));
        assert!(find(first).is_none() && remove(first).is_none());
        assert!(find(second).is_some_and(|found| Arc::ptr_eq(&found, &shared)));
        remove_range(second as u32, u32::MAX);
        assert!(find(second).is_none() && find(last).is_none());
        assert_eq!(Arc::strong_count(&shared), 1);
    }

    #[test]
    fn numbers_outside_the_table_stay_with_the_kernel() {
        for fd in [-1, c_int::MIN, end(), c_int::MAX] {
            assert!(!insert(fd, socket()));
            assert!(find(fd).is_none() && remove(fd).is_none());
        }
    }
}
