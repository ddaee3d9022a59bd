//! Socket options of sockets of the service.

use crate::{error, real};
use libc::{c_int, socklen_t, timeval};
use service::{DatagramOptions, StreamOptions};
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

/// Settings of a socket.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) stream: StreamOptions,
    pub(crate) datagram: DatagramOptions,
    pub(crate) receive_timeout: Option<Duration>,
    pub(crate) send_timeout: Option<Duration>,
    pub(crate) is_v6_only: bool,
    pub(crate) shares_port: bool,
    /// Idle time before keep-alive probes, which `SO_KEEPALIVE` switches on.
    keep_idle: Option<Duration>,
}

/// Buffer size that is reported: that of the kernel's TCP by default.
const BUFFER: c_int = 212_992;

/// Hop limit of the kernel by default.
const DEFAULT_HOPS: u8 = 64;

/// Level of the options of an IP version.
const fn level_of(family: c_int) -> c_int {
    if family == libc::AF_INET { libc::IPPROTO_IP } else { libc::IPPROTO_IPV6 }
}

/// Options with the hop limits of datagrams to hosts and to groups.
const fn hop_options(family: c_int) -> [c_int; 2] {
    if family == libc::AF_INET {
        [libc::IP_TTL, libc::IP_MULTICAST_TTL]
    } else {
        [libc::IPV6_UNICAST_HOPS, libc::IPV6_MULTICAST_HOPS]
    }
}

/// A hop limit, at least `least`; -1 selects the default.
fn hop_limit(number: c_int, least: u8, default: u8) -> io::Result<u8> {
    match u8::try_from(number) {
        Ok(limit) if limit >= least => Ok(limit),
        _ if number == -1 => Ok(default),
        _ => error::os(libc::EINVAL),
    }
}

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
    pub(crate) fn of(fd: RawFd, family: c_int) -> Self {
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
        let hops = |name| u8::try_from(integer(level_of(family), name)).unwrap_or(DEFAULT_HOPS);
        let [hop_limit, group_hop_limit] = hop_options(family).map(hops);
        Self {
            stream,
            datagram: DatagramOptions { hop_limit, group_hop_limit, ..DatagramOptions::default() },
            receive_timeout: timeout(fd, libc::SO_RCVTIMEO),
            send_timeout: timeout(fd, libc::SO_SNDTIMEO),
            is_v6_only: is_set(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY),
            shares_port: is_set(libc::SOL_SOCKET, libc::SO_REUSEPORT),
            keep_idle: Some(keep_idle),
        }
    }

    /// Changes an option. Those that have no effect here are accepted. Returns whether settings changed that the
    /// service has.
    pub(crate) fn set(&mut self, level: c_int, name: c_int, value: &[u8]) -> io::Result<bool> {
        let number = match value.first_chunk::<4>() {
            Some(bytes) => c_int::from_ne_bytes(*bytes),
            None => value.first().copied().map_or(0, c_int::from),
        };
        let last = (self.stream, self.datagram);
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
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => {
                self.datagram.hop_limit = hop_limit(number, 1, DEFAULT_HOPS)?;
            }
            (libc::IPPROTO_IP, libc::IP_MULTICAST_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS) => {
                self.datagram.group_hop_limit = hop_limit(number, 0, 1)?;
            }
            _ => {}
        }
        Ok((self.stream, self.datagram) != last)
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
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => {
                self.datagram.hop_limit.into()
            }
            (libc::IPPROTO_IP, libc::IP_MULTICAST_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS) => {
                self.datagram.group_hop_limit.into()
            }
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failure here is the test's")]
mod tests {
    use super::*;
    use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, SOL_SOCKET};

    fn set(options: &mut Options, level: c_int, name: c_int, number: c_int) -> Result<bool, Option<i32>> {
        options.set(level, name, &number.to_ne_bytes()).map_err(|error| error.raw_os_error())
    }

    #[test]
    fn settings_of_the_service_are_reported_as_changed() {
        let mut options = Options::default();
        for (level, name, number) in [
            (IPPROTO_TCP, libc::TCP_NODELAY, 1),
            (IPPROTO_TCP, libc::TCP_CORK, 1),
            (IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 1500),
            (SOL_SOCKET, libc::SO_KEEPALIVE, 1),
            (IPPROTO_TCP, libc::TCP_KEEPIDLE, 30),
            (IPPROTO_IP, libc::IP_TTL, 9),
            (IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS, 5),
        ] {
            assert_eq!(set(&mut options, level, name, number), Ok(true), "{level} {name}");
            assert_eq!(set(&mut options, level, name, number), Ok(false), "{level} {name}");
            assert_eq!(options.get(level, name), Some(number), "{level} {name}");
        }
        assert_eq!(options.stream.keep_alive, Some(Duration::from_secs(30)));
        assert_eq!(set(&mut options, SOL_SOCKET, libc::SO_RCVBUF, 1 << 20), Ok(false), "it has no effect");
        assert_eq!(options.get(SOL_SOCKET, 9999), None);
    }

    #[test]
    fn hop_limits_have_defaults_and_bounds() {
        let mut options = Options::default();
        let (ttl, of_groups) = ((IPPROTO_IP, libc::IP_TTL), (IPPROTO_IP, libc::IP_MULTICAST_TTL));
        for (level, name, number, result, value) in [
            (ttl.0, ttl.1, 0, Err(Some(libc::EINVAL)), 64),
            (ttl.0, ttl.1, 256, Err(Some(libc::EINVAL)), 64),
            (ttl.0, ttl.1, 255, Ok(true), 255),
            (ttl.0, ttl.1, -1, Ok(true), 64),
            (of_groups.0, of_groups.1, 0, Ok(true), 0),
            (of_groups.0, of_groups.1, -1, Ok(true), 1),
        ] {
            assert_eq!(set(&mut options, level, name, number), result, "{number}");
            assert_eq!(options.get(level, name), Some(value), "{number}");
        }
        // The option may have one byte.
        assert!(options.set(of_groups.0, of_groups.1, &[7]).is_ok());
        assert_eq!(options.datagram.group_hop_limit, 7);
    }

    #[test]
    fn time_limits_are_read_in_microseconds() {
        let mut options = Options::default();
        let value = [3_i64, 500_000].map(i64::to_ne_bytes).concat();
        options.set(SOL_SOCKET, libc::SO_RCVTIMEO, &value).unwrap();
        assert_eq!(options.receive_timeout, Some(Duration::from_millis(3500)));
        options.set(SOL_SOCKET, libc::SO_RCVTIMEO, &[0; 16]).unwrap();
        assert_eq!(options.receive_timeout, None);
        let short = options.set(SOL_SOCKET, libc::SO_SNDTIMEO, &value[..15]);
        assert_eq!(short.map_err(|error| error.raw_os_error()), Err(Some(libc::EINVAL)));
    }
}
