//! Socket options of sockets of the service.

use crate::{error, real};
use libc::{c_int, socklen_t, timeval};
use service::StreamOptions;
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

/// Settings of a socket.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) stream: StreamOptions,
    pub(crate) receive_timeout: Option<Duration>,
    pub(crate) send_timeout: Option<Duration>,
    pub(crate) is_v6_only: bool,
    pub(crate) shares_port: bool,
    /// Idle time before keep-alive probes, which `SO_KEEPALIVE` switches on.
    keep_idle: Option<Duration>,
}

/// Buffer size that is reported: that of the kernel's TCP by default.
const BUFFER: c_int = 212_992;

/// Option that joins a group of either IP version (RFC 3678 section 5.1); `libc` has no name for it.
const MCAST_JOIN_GROUP: c_int = 42;

fn kernel_option<T: Default>(fd: RawFd, level: c_int, name: c_int) -> T {
    let (mut value, mut len) = (T::default(), size_of::<T>() as socklen_t);
    // SAFETY: the kernel writes at most `len` bytes to the value, an integer or a plain structure.
    unsafe { real::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut len) };
    value
}

fn timeout(fd: RawFd, name: c_int) -> Option<Duration> {
    let [seconds, micros]: [i64; 2] = kernel_option(fd, libc::SOL_SOCKET, name);
    duration(seconds, micros)
}

fn duration(seconds: i64, micros: i64) -> Option<Duration> {
    let time = Duration::from_secs(seconds.max(0) as u64) + Duration::from_micros(micros.max(0) as u64);
    (time > Duration::ZERO).then_some(time)
}

impl Options {
    /// The settings that the program gave the kernel's socket before it became one of the service.
    pub(crate) fn of(fd: RawFd) -> Self {
        let integer = |level, name| kernel_option::<c_int>(fd, level, name);
        let is_set = |level, name| integer(level, name) != 0;
        let keep_idle = Duration::from_secs(integer(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE).max(1) as u64);
        let user_timeout = integer(libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT);
        let stream = StreamOptions {
            no_delay: is_set(libc::IPPROTO_TCP, libc::TCP_NODELAY),
            cork: is_set(libc::IPPROTO_TCP, libc::TCP_CORK),
            keep_alive: is_set(libc::SOL_SOCKET, libc::SO_KEEPALIVE).then_some(keep_idle),
            user_timeout: (user_timeout > 0).then(|| Duration::from_millis(user_timeout as u64)),
        };
        Self {
            stream,
            receive_timeout: timeout(fd, libc::SO_RCVTIMEO),
            send_timeout: timeout(fd, libc::SO_SNDTIMEO),
            is_v6_only: is_set(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY),
            shares_port: is_set(libc::SOL_SOCKET, libc::SO_REUSEPORT),
            keep_idle: Some(keep_idle),
        }
    }

    /// Changes an option. Those that have no effect here are accepted. Returns whether the stream's settings changed.
    pub(crate) fn set(&mut self, level: c_int, name: c_int, value: &[u8]) -> io::Result<bool> {
        let number = match value.first_chunk::<4>() {
            Some(bytes) => c_int::from_ne_bytes(*bytes),
            None => value.first().copied().map_or(0, c_int::from),
        };
        let last = self.stream;
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_RCVTIMEO) => self.receive_timeout = time(value)?,
            (libc::SOL_SOCKET, libc::SO_SNDTIMEO) => self.send_timeout = time(value)?,
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => {
                let idle = self.keep_idle.unwrap_or(Duration::from_hours(2));
                self.stream.keep_alive = (number != 0).then_some(idle);
            }
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => {
                let idle = Duration::from_secs(number.max(1) as u64);
                self.keep_idle = Some(idle);
                self.stream.keep_alive = self.stream.keep_alive.map(|_| idle);
            }
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => self.stream.no_delay = number != 0,
            (libc::IPPROTO_TCP, libc::TCP_CORK) => self.stream.cork = number != 0,
            (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => {
                self.stream.user_timeout = (number > 0).then(|| Duration::from_millis(number as u64));
            }
            // A membership that had no effect would leave the program waiting for datagrams.
            (libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP | MCAST_JOIN_GROUP)
            | (libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP | MCAST_JOIN_GROUP) => {
                return error::os(libc::ENOPROTOOPT);
            }
            _ => {}
        }
        Ok(self.stream != last)
    }

    /// An integer option. Returns `None` if it is not known.
    pub(crate) fn get(&self, level: c_int, name: c_int) -> Option<c_int> {
        Some(match (level, name) {
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => self.stream.keep_alive.is_some().into(),
            (libc::SOL_SOCKET, libc::SO_SNDBUF | libc::SO_RCVBUF) => BUFFER,
            (libc::SOL_SOCKET, libc::SO_REUSEADDR) => 1,
            (libc::SOL_SOCKET, libc::SO_REUSEPORT) => self.shares_port.into(),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => self.stream.no_delay.into(),
            (libc::IPPROTO_TCP, libc::TCP_CORK) => self.stream.cork.into(),
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => 1448,
            (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => {
                self.stream.user_timeout.map_or(0, |time| time.as_millis() as c_int)
            }
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => {
                self.keep_idle.map_or(7200, |time| time.as_secs() as c_int)
            }
            (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => self.is_v6_only.into(),
            _ => return None,
        })
    }
}

fn time(value: &[u8]) -> io::Result<Option<Duration>> {
    let (Some(seconds), Some(micros)) =
        (value.first_chunk::<8>(), value.get(8..).and_then(<[u8]>::first_chunk::<8>))
    else {
        return error::os(libc::EINVAL);
    };
    const { assert!(size_of::<timeval>() == 16) };
    Ok(duration(i64::from_ne_bytes(*seconds), i64::from_ne_bytes(*micros)))
}
