//! The service of this process, and which addresses it has.

use crate::{error, table};
use service::{Client, SOCKET_VARIABLE};
use stack::Endpoint;
use std::io;
use std::path::Path;
use std::sync::OnceLock;

static CLIENT: OnceLock<Option<Client>> = OnceLock::new();

/// The client of the service, connected at the first call.
///
/// # Errors
/// `ENETDOWN` if there is no service.
pub(crate) fn client() -> io::Result<&'static Client> {
    let client = CLIENT.get_or_init(|| {
        let path = std::env::var_os(SOCKET_VARIABLE).unwrap_or_default();
        // SAFETY: the function only stores a flag.
        unsafe { libc::pthread_atfork(None, None, Some(table::forget)) };
        let connected = without_signals(|| Client::connect(Path::new(&path)));
        if let Err(error) = &connected {
            eprintln!(
                "linerate: no service at {SOCKET_VARIABLE}={}: {error}; start one with `linerate serve sockets`",
                path.display()
            );
        }
        connected.ok()
    });
    client.as_ref().map_or_else(|| error::os(libc::ENETDOWN), Ok)
}

/// Whether an address can be one of the service. Loopback addresses stay with the kernel.
pub(crate) fn is_ours(end: Endpoint) -> bool {
    !end.address.is_loopback() && has_service()
}

/// Whether sockets of this process may be ones of the service.
pub(crate) fn has_service() -> bool {
    !table::is_child() && std::env::var_os(SOCKET_VARIABLE).is_some()
}

/// Calls `start` with all signals blocked, so that a thread that it starts runs no handler of the program.
fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: both sets are local values, which the calls write.
    let last = unsafe {
        let (mut all, mut last): (libc::sigset_t, libc::sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut last);
        last
    };
    let started = start();
    // SAFETY: the set is that of the first call.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const last, std::ptr::null_mut()) };
    started
}
