//! Connections to peers: accepts on a listening socket, or connects repeatedly.
//!
//! After each peer and each failure, connections pause with exponential back-off, which resets once a peer stays
//! connected, so that a broken or hostile peer cannot keep the control thread busy. Connections meanwhile wait in the
//! listen backlog. Never blocks, never reads a clock.

use super::SocketAddress;
use super::listener::{ListenError, Listener};
use super::sys::{self, Attempt};
use crate::backoff::Backoff;
use crate::{PortFault, PortState};
use rustix::event::epoll::{self, EventFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::SocketType;
use std::time::{Duration, Instant};

/// Timeout of a TCP connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Where connections come from.
#[derive(Debug)]
enum Origin {
    Address(SocketAddress),
    /// One connection, until it is used, and its name for display.
    Given(Option<OwnedFd>, String),
}

/// Listener or connector with back-off, or a single connection.
#[derive(Debug)]
pub(crate) struct Connector {
    origin: Origin,
    epoll: OwnedFd,
    listener: Option<ListenSocket>,
    /// TCP connection in progress.
    dialing: Option<OwnedFd>,
    backoff: Backoff,
    resume: Option<Instant>,
    refused: Option<Errno>,
}

/// Listening socket.
#[derive(Debug)]
enum ListenSocket {
    Unix(Listener),
    Tcp(OwnedFd),
}

impl AsFd for ListenSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            ListenSocket::Unix(listener) => listener.as_fd(),
            ListenSocket::Tcp(socket) => socket.as_fd(),
        }
    }
}

impl ListenSocket {
    fn at(site: &SocketAddress) -> Result<Self, ListenError> {
        match site {
            SocketAddress::Unix(path) => Listener::bind(path).map(ListenSocket::Unix),
            SocketAddress::Packets(path) => Listener::of(path, SocketType::SEQPACKET).map(ListenSocket::Unix),
            SocketAddress::Tcp(address) => {
                sys::listen_tcp(address).map(ListenSocket::Tcp).map_err(|errno| match errno {
                    Errno::ADDRINUSE => ListenError::Taken(*address),
                    Errno::ADDRNOTAVAIL => ListenError::NotHere(*address),
                    Errno::ACCESS => ListenError::Privileged(*address),
                    errno => ListenError::Address(*address, errno),
                })
            }
        }
    }

    fn accept(&self) -> Result<Option<OwnedFd>, Errno> {
        match self {
            ListenSocket::Unix(listener) => sys::accept(listener.as_fd()),
            ListenSocket::Tcp(socket) => sys::accept_tcp(socket.as_fd()),
        }
    }
}

impl Connector {
    /// Accepts peers on a socket at `site`.
    pub(crate) fn listen(site: &SocketAddress) -> Result<Self, ListenError> {
        let listener = ListenSocket::at(site)?;
        let failed = |errno| ListenError::at(site, errno);
        let mut connector = Self::new(Origin::Address(site.clone())).map_err(failed)?;
        connector.watch(listener.as_fd()).map_err(failed)?;
        connector.listener = Some(listener);
        Ok(connector)
    }

    /// Connects to a listener at `site`, which may start later.
    pub(crate) fn connect(site: &SocketAddress, now: Instant) -> Result<Self, ListenError> {
        let connector = Self::new(Origin::Address(site.clone()));
        let connector = connector.map_err(|errno| ListenError::at(site, errno))?;
        Ok(Self { resume: Some(now), ..connector })
    }

    /// Uses the connected non-blocking `socket`, and no other one after it. `place` is its name for display.
    pub(crate) fn over(socket: OwnedFd, place: String, now: Instant) -> Result<Self, Errno> {
        Ok(Self { resume: Some(now), ..Self::new(Origin::Given(Some(socket), place))? })
    }

    /// Neither listens nor connects, until a socket of another process is passed to [`Connector::listen_on`].
    pub(crate) fn idle(site: &SocketAddress) -> Result<Self, ListenError> {
        Self::new(Origin::Address(site.clone())).map_err(|errno| ListenError::at(site, errno))
    }

    /// Accepts peers on a listening socket of another process, whose file it is responsible for from now on.
    pub(crate) fn listen_on(&mut self, socket: OwnedFd) -> Result<(), Errno> {
        self.watch(socket.as_fd())?;
        self.listener = Some(match &self.origin {
            Origin::Address(SocketAddress::Unix(path) | SocketAddress::Packets(path)) => {
                ListenSocket::Unix(Listener::over(socket, path))
            }
            _ => ListenSocket::Tcp(socket),
        });
        Ok(())
    }

    /// The listening socket, if there is one.
    pub(crate) fn listener(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().map(AsFd::as_fd)
    }

    /// Connects at `at`.
    pub(crate) fn connect_at(&mut self, at: Instant) {
        self.resume = Some(at);
    }

    /// Like [`Connector::close`], but leaves the socket's file to another process.
    pub(crate) fn release(&mut self) {
        if let Some(ListenSocket::Unix(listener)) = &mut self.listener {
            listener.leave_file();
        }
        self.close();
    }

    fn new(origin: Origin) -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let (listener, dialing, resume, refused) = (None, None, None, None);
        Ok(Self { origin, epoll, listener, dialing, backoff: Backoff::default(), resume, refused })
    }

    /// Address for display.
    pub(crate) fn place(&self) -> String {
        match &self.origin {
            Origin::Address(site) => site.to_string(),
            Origin::Given(_, place) => place.clone(),
        }
    }

    /// Whether there is only one connection.
    pub(crate) fn is_single(&self) -> bool {
        matches!(self.origin, Origin::Given(..))
    }

    /// Time at which the pause or the connection attempt ends.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.resume
    }

    /// State of a port to report: while it waits, with the error of the last connection attempt.
    pub(crate) fn explain(&self, state: &PortState) -> PortState {
        match (state, self.refused) {
            (PortState::Waiting(_), Some(errno)) => {
                PortState::Waiting(Some(PortFault::Unreachable(errno.to_string())))
            }
            _ => state.clone(),
        }
    }

    /// Makes the connector readable when `fd` is, until `fd` is closed.
    pub(crate) fn watch(&self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(0), EventFlags::IN)
    }

    /// Makes the connector readable when `fd` is writable, until [`Connector::forget`].
    pub(crate) fn watch_room(&self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(0), EventFlags::OUT)
    }

    /// Removes `fd` from the watched descriptors.
    pub(crate) fn forget(&self, fd: BorrowedFd<'_>) {
        // Fails harmlessly if `fd` is not watched.
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// After the pause, listens again or connects. Returns a new connection, if any.
    pub(crate) fn try_connect(&mut self, now: Instant) -> Option<OwnedFd> {
        if let Some(socket) = self.dialing.take() {
            self.forget(socket.as_fd());
            return self.wait_for(sys::connect_result(socket), now);
        }
        if self.resume.is_none_or(|at| now < at) {
            return None;
        }
        self.resume = None;
        if let Some(listener) = &self.listener {
            if self.watch(listener.as_fd()).is_err() {
                self.rest(now);
            }
            return None;
        }
        let dialed = match &mut self.origin {
            Origin::Address(site) => sys::start_connect(site),
            Origin::Given(socket, _) => return socket.take(),
        };
        if matches!(dialed, Ok(Attempt::Waiting(_))) {
            self.resume = Some(now + CONNECT_TIMEOUT);
        }
        self.wait_for(dialed, now)
    }

    /// Returns the connection if it is established; else watches it until the timeout.
    fn wait_for(&mut self, dialed: Result<Attempt, Errno>, now: Instant) -> Option<OwnedFd> {
        let refused = match dialed {
            Ok(Attempt::Connected(socket)) => {
                (self.resume, self.refused) = (None, None);
                return Some(socket);
            }
            Ok(Attempt::Waiting(_)) if self.resume.is_none_or(|at| now >= at) => Errno::TIMEDOUT,
            Ok(Attempt::Waiting(socket)) => match self.watch_room(socket.as_fd()) {
                Ok(()) => {
                    self.dialing = Some(socket);
                    return None;
                }
                Err(errno) => errno,
            },
            Err(errno) => errno,
        };
        self.rest(now);
        self.refused = Some(refused);
        None
    }

    /// Accepts a connection. If `inside` is true, another peer is connected, and the new connection is closed at once.
    pub(crate) fn accept(&mut self, inside: bool, now: Instant) -> Option<OwnedFd> {
        if self.resume.is_some() {
            return None;
        }
        let accepted = self.listener.as_ref()?.accept();
        // If file descriptors are exhausted, the listener would stay readable, so it pauses.
        let socket = accepted.unwrap_or_else(|_| {
            self.rest(now);
            None
        });
        socket.filter(|_| !inside)
    }

    /// Pauses before the next attempt; the pause doubles each time. There is none after a single connection.
    pub(crate) fn rest(&mut self, now: Instant) {
        if self.is_single() {
            return;
        }
        if let Some(listener) = &self.listener {
            self.forget(listener.as_fd());
        }
        self.resume = Some(self.backoff.begin(now));
    }

    /// Pauses after a peer that was connected since `since` has left.
    pub(crate) fn part(&mut self, since: Option<Instant>, now: Instant) {
        self.backoff.ended(since, now);
        self.rest(now);
    }

    /// Resets the back-off after a peer has proven functional.
    pub(crate) fn succeeded(&mut self) {
        self.backoff.shorten();
    }

    /// Stops listening and connecting permanently.
    pub(crate) fn close(&mut self) {
        (self.listener, self.dialing, self.resume) = (None, None, None);
        if let Origin::Given(socket, _) = &mut self.origin {
            *socket = None;
        }
    }
}

impl AsFd for Connector {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{SocketAddr, TcpListener};

    /// Polls until a peer connects, with a timeout.
    fn accepted(connector: &mut Connector) -> OwnedFd {
        let start = Instant::now();
        loop {
            let now = Instant::now();
            if let Some(socket) = connector.try_connect(now).or_else(|| connector.accept(false, now)) {
                return socket;
            }
            assert!(start.elapsed() < Duration::from_secs(20), "no peer connected");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn loopback() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    #[test]
    fn tcp_connection_completes_in_the_background() {
        let (listener, address) = loopback();
        let mut connector = Connector::connect(&SocketAddress::Tcp(address), Instant::now()).unwrap();
        let _socket = accepted(&mut connector);
        listener.accept().unwrap();
        assert_eq!((connector.deadline(), connector.refused), (None, None));
    }

    #[test]
    fn refused_connection_is_retried_and_its_error_kept() {
        let (listener, address) = loopback();
        drop(listener);
        let mut now = Instant::now();
        let mut connector = Connector::connect(&SocketAddress::Tcp(address), now).unwrap();
        while connector.refused.is_none() {
            assert!(connector.try_connect(now).is_none());
        }
        assert_eq!(connector.refused, Some(Errno::CONNREFUSED));
        let listener = TcpListener::bind(address).unwrap();
        now = connector.deadline().unwrap();
        let socket = connector.try_connect(now);
        let _socket = socket.unwrap_or_else(|| accepted(&mut connector));
        listener.accept().unwrap();
        assert_eq!(connector.refused, None);
    }

    #[test]
    fn listener_accepts_one_peer_and_closes_others() {
        let (listener, address) = loopback();
        assert!(matches!(Connector::listen(&SocketAddress::Tcp(address)), Err(ListenError::Taken(_))));
        drop(listener);
        let mut connector = Connector::listen(&SocketAddress::Tcp(address)).unwrap();
        let _first = std::net::TcpStream::connect(address).unwrap();
        let _inside = accepted(&mut connector);
        let mut second = std::net::TcpStream::connect(address).unwrap();
        assert!(connector.accept(true, Instant::now()).is_none());
        assert_eq!(std::io::Read::read(&mut second, &mut [0]).unwrap(), 0, "a clear end");
    }

    #[test]
    fn remote_listen_address_is_rejected() {
        // A documentation network (RFC 5737).
        let address: SocketAddr = "203.0.113.77:5555".parse().unwrap();
        assert!(matches!(Connector::listen(&SocketAddress::Tcp(address)), Err(ListenError::NotHere(_))));
    }
}
