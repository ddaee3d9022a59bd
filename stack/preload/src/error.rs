//! Results of calls as C returns them.

use libc::c_int;
use std::io;

/// Number of an error of the service.
pub(crate) fn number(error: &io::Error) -> c_int {
    use io::ErrorKind;
    if let Some(number) = error.raw_os_error() {
        return number;
    }
    match error.kind() {
        ErrorKind::WouldBlock => libc::EAGAIN,
        ErrorKind::ConnectionReset => libc::ECONNRESET,
        ErrorKind::ConnectionRefused => libc::ECONNREFUSED,
        ErrorKind::ConnectionAborted => libc::ECONNABORTED,
        ErrorKind::TimedOut => libc::ETIMEDOUT,
        ErrorKind::HostUnreachable => libc::EHOSTUNREACH,
        ErrorKind::NetworkUnreachable => libc::ENETUNREACH,
        ErrorKind::AddrInUse => libc::EADDRINUSE,
        ErrorKind::AddrNotAvailable => libc::EADDRNOTAVAIL,
        ErrorKind::NotConnected => libc::ENOTCONN,
        ErrorKind::BrokenPipe => libc::EPIPE,
        ErrorKind::InvalidInput => libc::EINVAL,
        ErrorKind::OutOfMemory => libc::ENFILE,
        _ => libc::EIO,
    }
}

/// Sets `errno`.
pub(crate) fn set(number: c_int) {
    // SAFETY: the address of this thread's `errno`.
    unsafe { *libc::__errno_location() = number };
}

/// The value, or -1 with `errno`.
pub(crate) fn result<T: TryInto<R>, R: From<i8>>(done: io::Result<T>) -> R {
    match done.map(TryInto::try_into) {
        Ok(Ok(value)) => value,
        Ok(Err(_)) => {
            set(libc::EOVERFLOW);
            R::from(-1)
        }
        Err(error) => {
            set(number(&error));
            R::from(-1)
        }
    }
}

/// An error by its number.
pub(crate) fn os<T>(number: c_int) -> io::Result<T> {
    Err(io::Error::from_raw_os_error(number))
}
