//! A socket of the program: first of the kernel, then one of the service if its address is not one of the kernel.

use crate::groups::{Change, Deferred, MAX_DEFERRED};
use crate::mirror::{self, Mirror};
use crate::options::Options;
use crate::{address, error, real, table, world};
use libc::{c_int, sockaddr, socklen_t};
use service::{Handle, StreamOptions};
use stack::{Address, Endpoint};
use std::io;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

mod active;

pub(crate) use active::Active;
use active::{accept_any, follow};

/// Time limit of the service's answer to a call that does not depend on the network.
const ANSWER: Option<Duration> = Some(Duration::from_secs(5));
/// First ephemeral port, and their number: those that name a worker of the service (RFC 6335 section 6).
const EPHEMERAL: (u16, u16) = (49_152, 16_384);

/// Epoll registration of a descriptor whose open file is going to be replaced.
#[derive(Clone, Copy)]
pub(crate) struct Registration {
    pub(crate) epoll: c_int,
    pub(crate) event: libc::epoll_event,
}

/// State of a socket before it belongs to the service.
#[derive(Default)]
pub(crate) struct Fresh {
    /// Address of bind(2), which is passed to the service with the next call.
    pub(crate) local: Option<Endpoint>,
    pub(crate) registrations: Vec<Registration>,
    /// Multicast options, which are passed on when the side is known that has the socket.
    groups: Vec<Deferred>,
}

/// A TCP or UDP socket of the program.
pub(crate) struct Socket {
    pub(crate) family: c_int,
    pub(crate) is_stream: bool,
    fresh: Mutex<Fresh>,
    active: OnceLock<Active>,
}

impl Socket {
    pub(crate) fn new(family: c_int, is_stream: bool) -> Self {
        Self { family, is_stream, fresh: Mutex::default(), active: OnceLock::new() }
    }

    pub(crate) fn fresh(&self) -> MutexGuard<'_, Fresh> {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The socket of the service, if it is one.
    pub(crate) fn active(&self) -> Option<&Active> {
        self.active.get()
    }

    /// The unspecified address of an IP version.
    fn any(is_v4: bool) -> Endpoint {
        let address = if is_v4 { Address::v4([0; 4]) } else { Address::UNSPECIFIED };
        Endpoint::new(address, 0)
    }

    /// Replaces the kernel's socket by these sockets of the service.
    fn activate(&self, fd: RawFd, handles: Vec<Handle>, is_listener: bool) -> io::Result<&Active> {
        let mut fresh = self.fresh();
        let mut options = Options::of(fd, self.family);
        if let Some(handle) = handles.first().filter(|_| !is_listener) {
            for deferred in std::mem::take(&mut fresh.groups) {
                change_group(handle, &mut options, deferred.change()?)?;
            }
            self.adjust(handle, &options);
        }
        let mirror = Arc::new(Mirror::over(fd, is_listener)?);
        follow(&mirror, &handles);
        for Registration { epoll, mut event } in fresh.registrations.drain(..) {
            if event.events & libc::EPOLLET as u32 != 0 {
                mirror.announce_edges();
            }
            // SAFETY: the event is a local value. An epoll instance that was closed is no error.
            unsafe { real::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event) };
        }
        drop(fresh);
        let is_reported = std::sync::atomic::AtomicBool::new(false);
        Ok(self.active.get_or_init(|| Active {
            mirror,
            handles,
            is_listener,
            options: options.into(),
            is_reported,
        }))
    }

    /// bind(2). Returns `None` if the kernel has the address.
    pub(crate) fn bind(&self, fd: RawFd, mut local: Endpoint) -> io::Result<Option<()>> {
        if !world::is_ours(local) {
            return self.stay(fd);
        }
        if self.active().is_some() || self.fresh().local.is_some() {
            return error::os(libc::EINVAL);
        }
        if self.is_stream {
            if local.port == 0 {
                local.port = random_port();
            }
            self.fresh().local = Some(local);
            return Ok(Some(()));
        }
        match open_udp(local) {
            Ok(handle) => self.activate(fd, vec![handle], false).map(|_| Some(())),
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => self.stay(fd),
            Err(error) => Err(error),
        }
    }

    /// The kernel has the socket: passes on what was deferred.
    fn stay<T>(&self, fd: RawFd) -> io::Result<Option<T>> {
        for Deferred { level, name, value } in std::mem::take(&mut self.fresh().groups) {
            // SAFETY: the value has this length.
            let done =
                unsafe { real::setsockopt(fd, level, name, value.as_ptr().cast(), value.len() as socklen_t) };
            if done < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(None)
    }

    /// Passes settings of a connection or UDP socket to the service.
    pub(crate) fn adjust(&self, handle: &Handle, options: &Options) {
        if self.is_stream {
            handle.set_options(options.stream);
        } else {
            handle.set_datagram_options(options.datagram);
        }
    }

    /// A multicast option of a UDP socket. Returns `None` if the kernel has the socket.
    pub(crate) fn set_group(&self, option: Deferred) -> io::Result<Option<()>> {
        if let Some(active) = self.active() {
            let mut options = active.options();
            return change_group(active.handle()?, &mut options, option.change()?).map(Some);
        }
        if !world::has_service() {
            return Ok(None);
        }
        let groups = &mut self.fresh().groups;
        if groups.len() >= MAX_DEFERRED {
            return error::os(libc::ENOBUFS);
        }
        groups.push(option);
        Ok(Some(()))
    }

    /// listen(2). Returns `None` if the kernel has the address; it is bound then.
    pub(crate) fn listen(&self, fd: RawFd) -> io::Result<Option<()>> {
        if self.active().is_some() {
            return Ok(Some(()));
        }
        let Some(local) = self.fresh().local else { return Ok(None) };
        let options = Options::of(fd, self.family);
        let both =
            self.family == libc::AF_INET6 && local.address == Address::UNSPECIFIED && !options.is_v6_only;
        let v4 = both.then(|| Endpoint::new(Address::v4([0; 4]), local.port));
        let mut handles = Vec::new();
        for end in [Some(local), v4].into_iter().flatten() {
            let handle = world::client()?.listen(end, options.shares_port)?;
            match handle.wait_open(ANSWER) {
                Ok(()) => handles.push(handle),
                Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                    return bind_kernel(fd, local, self.family).map(|()| None);
                }
                Err(error) => return Err(error),
            }
        }
        self.activate(fd, handles, true).map(|_| Some(()))
    }

    /// accept4(2).
    pub(crate) fn accept(&self, active: &Active, flags: c_int) -> io::Result<(RawFd, Endpoint)> {
        if !active.is_listener {
            return error::os(libc::EINVAL);
        }
        let handle = accept_any(active)?;
        let remote = handle.remote().unwrap_or_default();
        let (mirror, end) = Mirror::pair()?;
        let (mirror, handles) = (Arc::new(mirror), vec![handle]);
        follow(&mirror, &handles);
        let options = active.options().clone();
        if options.stream != StreamOptions::default() {
            for handle in &handles {
                handle.set_options(options.stream);
            }
        }
        let socket = Self::new(self.family, true);
        let is_reported = std::sync::atomic::AtomicBool::new(true);
        let of_stream = Active { mirror, handles, is_listener: false, options: options.into(), is_reported };
        // A new socket has none yet.
        let _ = socket.active.set(of_stream);
        let fd = mirror::release(end, flags)?;
        if table::insert(fd, Arc::new(socket)) { Ok((fd, remote)) } else { error::os(libc::EMFILE) }
    }

    /// connect(2). Returns `None` if the kernel reaches the address.
    pub(crate) fn connect(&self, fd: RawFd, remote: Endpoint) -> io::Result<Option<()>> {
        if let Some(active) = self.active() {
            return if self.is_stream {
                Self::connect_again(active).map(Some)
            } else {
                active.handle()?.udp_connect(remote, ANSWER).map(Some)
            };
        }
        if !world::is_ours(remote) || remote.address.is_unspecified() {
            return self.stay(fd);
        }
        let local = self.fresh().local.unwrap_or(Self::any(remote.address.is_v4()));
        if !self.is_stream {
            let handle = open_udp(local)?;
            return match handle.udp_connect(remote, ANSWER) {
                Ok(()) => self.activate(fd, vec![handle], false).map(|_| Some(())),
                Err(error) if error.kind() == io::ErrorKind::NetworkUnreachable => self.stay(fd),
                Err(error) => Err(error),
            };
        }
        let handle = world::client()?.open_stream(local, remote, Options::of(fd, self.family).stream)?;
        match handle.wait_started(ANSWER) {
            Err(error) if error.kind() == io::ErrorKind::NetworkUnreachable => return Ok(None),
            started => started?,
        }
        let active = self.activate(fd, vec![handle], false)?;
        let done = active.writing(0, |timeout| active.handle()?.wait_open(timeout));
        active.is_reported.store(done.is_ok(), std::sync::atomic::Ordering::Relaxed);
        match done {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => error::os(libc::EINPROGRESS),
            done => done.map(Some),
        }
    }

    /// connect(2) of a socket that is connecting or connected.
    fn connect_again(active: &Active) -> io::Result<()> {
        if active.is_reported.load(std::sync::atomic::Ordering::Relaxed) || active.is_listener {
            return error::os(libc::EISCONN);
        }
        match active.handle()?.wait_open(Some(Duration::ZERO)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => error::os(libc::EALREADY),
            done => {
                active.is_reported.store(true, std::sync::atomic::Ordering::Relaxed);
                done
            }
        }
    }

    /// The socket of the service for a datagram to `remote`. Returns `None` if it is one of the kernel.
    pub(crate) fn for_datagram(&self, fd: RawFd, remote: Option<Endpoint>) -> io::Result<Option<&Active>> {
        if self.active().is_some() || self.is_stream {
            return Ok(self.active());
        }
        let Some(remote) = remote else { return Ok(None) };
        if !world::is_ours(remote) {
            return self.stay(fd);
        }
        let handle = open_udp(Self::any(remote.address.is_v4()))?;
        self.activate(fd, vec![handle], false).map(Some)
    }

    /// Local end, as getsockname(2) reports it. Returns `None` if the kernel knows it.
    pub(crate) fn local(&self) -> Option<Endpoint> {
        match self.active() {
            Some(active) => active.handles.first().map(Handle::local),
            None => self.fresh().local,
        }
    }
}

fn open_udp(local: Endpoint) -> io::Result<Handle> {
    let handle = world::client()?.open_udp(local)?;
    handle.wait_open(ANSWER)?;
    Ok(handle)
}

/// Joins or leaves a group, or changes the source of datagrams to groups.
fn change_group(handle: &Handle, options: &mut Options, change: Change) -> io::Result<()> {
    let done = match change {
        Change::Join(group, local) => handle.join_group(group, local, ANSWER),
        Change::Leave(group, local) => handle.leave_group(group, local, ANSWER),
        Change::Source(source) => {
            options.datagram.group_source = source;
            handle.set_datagram_options(options.datagram);
            Ok(())
        }
    };
    done.map_err(|error| match error.kind() {
        // The number of the kernel for its limit of memberships, and for no interface.
        io::ErrorKind::OutOfMemory => io::Error::from_raw_os_error(libc::ENOBUFS),
        io::ErrorKind::NetworkUnreachable => io::Error::from_raw_os_error(libc::ENODEV),
        _ => error,
    })
}

/// Binds the kernel's socket.
fn bind_kernel(fd: RawFd, local: Endpoint, family: c_int) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid address of any family; both calls stay within it.
    let done = unsafe {
        let mut storage: libc::sockaddr_storage = std::mem::zeroed();
        let mut len = size_of::<libc::sockaddr_storage>() as socklen_t;
        let to = (&raw mut storage).cast::<sockaddr>();
        address::write(local, family, to, &raw mut len);
        real::bind(fd, to, len)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn random_port() -> u16 {
    use std::hash::{BuildHasher, RandomState};
    let random = RandomState::new().hash_one(EPHEMERAL);
    EPHEMERAL.0 + (random % u64::from(EPHEMERAL.1)) as u16
}

/// socket(2) of the kernel, remembered if it is one of TCP or UDP.
pub(crate) fn open(fd: RawFd, family: c_int, kind: c_int, protocol: c_int) {
    let kind = kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
    let is_stream = kind == libc::SOCK_STREAM && (protocol == 0 || protocol == libc::IPPROTO_TCP);
    let is_datagram = kind == libc::SOCK_DGRAM && (protocol == 0 || protocol == libc::IPPROTO_UDP);
    let is_ip = family == libc::AF_INET || family == libc::AF_INET6;
    if fd >= 0 && is_ip && (is_stream || is_datagram) && !table::is_child() {
        table::insert(fd, Arc::new(Socket::new(family, is_stream)));
    }
}

/// Duplicate of a descriptor by the C library, as that of the same socket.
pub(crate) fn duplicated(from: RawFd, to: RawFd) {
    match table::find(from) {
        Some(socket) if to >= 0 && from != to => drop(table::insert(to, socket)),
        _ => {}
    }
}
