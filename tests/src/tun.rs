//! A TAP interface held by an end-to-end test, which exchanges frames with the kernel of a namespace.

use std::io::{Error, ErrorKind};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};

use crate::netns::Netns;

/// Size of the virtio-net header in front of each frame, for interfaces with one.
pub const HEADER: usize = 10;
const MAX_FRAME: usize = 1 << 17;

/// An interface; deleted on drop.
#[derive(Debug)]
pub struct Tun(OwnedFd);

impl Tun {
    /// Creates interface `name` in `netns`; with `header`, each frame has a virtio-net header.
    pub fn new(netns: &Netns, name: &str, header: bool) -> Tun {
        let name = name.to_owned();
        let tun = netns.enter(move || open(&name, header));
        Tun(tun.unwrap_or_else(|error| panic!("no TAP interface: {error}")))
    }

    /// Writes one frame to the kernel.
    pub fn send(&self, bytes: &[u8]) {
        let written = rustix::io::write(&self.0, bytes);
        assert_eq!(written, Ok(bytes.len()), "the kernel refused {} bytes", bytes.len());
    }

    /// The next frame sent by the kernel. Returns `None` after `timeout`.
    pub fn receive(&self, timeout: Duration) -> Option<Vec<u8>> {
        let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(timeout.subsec_nanos()) };
        let mut waits = [PollFd::new(&self.0, PollFlags::IN)];
        poll(&mut waits, Some(&wait)).unwrap_or_else(|error| panic!("poll: {error}"));
        let mut bytes = vec![0; MAX_FRAME];
        match rustix::io::read(&self.0, &mut bytes) {
            Ok(n) => {
                bytes.truncate(n);
                Some(bytes)
            }
            Err(error) if Error::from(error).kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("read: {error}"),
        }
    }
}

fn open(name: &str, header: bool) -> std::io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let tun = rustix::fs::open("/dev/net/tun", flags, Mode::empty())?;
    // SAFETY: a structure of integers and integer arrays, for which zero is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    let kind = libc::IFF_TAP | libc::IFF_NO_PI | if header { libc::IFF_VNET_HDR } else { 0 };
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(kind).map_err(Error::other)?;
    // SAFETY: the request is a complete `ifreq` that outlives the call.
    if unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } < 0 {
        return Err(Error::last_os_error());
    }
    Ok(tun)
}
