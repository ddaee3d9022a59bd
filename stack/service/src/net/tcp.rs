//! TCP.

use super::{Mode, any, set, socket_address};
use crate::entry::StreamOptions;
use crate::{Client, Handle, Reason};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A TCP connection.
#[derive(Clone, Debug)]
pub struct TcpStream(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    handle: Handle,
    mode: Mode,
    options: Mutex<StreamOptions>,
}

impl TcpStream {
    fn new(handle: Handle, options: StreamOptions) -> Self {
        Self(Arc::new(Inner { handle, mode: Mode::default(), options: Mutex::new(options) }))
    }

    /// Connects to a remote end.
    ///
    /// # Errors
    /// If the connection is refused or times out.
    pub fn connect(client: &Client, remote: SocketAddr) -> io::Result<Self> {
        Self::open(client, remote, None)
    }

    /// Connects to a remote end within a time limit.
    ///
    /// # Errors
    /// As [`TcpStream::connect`]; [`io::ErrorKind::TimedOut`].
    pub fn connect_timeout(client: &Client, remote: SocketAddr, timeout: Duration) -> io::Result<Self> {
        Self::open(client, remote, Some(timeout)).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => Reason::TimedOut.into(),
            _ => error,
        })
    }

    fn open(client: &Client, remote: SocketAddr, timeout: Option<Duration>) -> io::Result<Self> {
        let options = StreamOptions::default();
        let handle = client.open_stream(any(remote), remote.into(), options)?;
        handle.wait_open(timeout)?;
        Ok(Self::new(handle, options))
    }

    /// The remote end.
    ///
    /// # Errors
    /// Never, as the socket is connected.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(socket_address(self.0.handle.remote().ok_or(Reason::NotConnected)?))
    }

    /// The local end.
    ///
    /// # Errors
    /// Never.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(socket_address(self.0.handle.local()))
    }

    /// Ends reading, writing or both.
    ///
    /// # Errors
    /// If the connection has ended.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.handle.shutdown(how)
    }

    /// Another handle of the same connection.
    ///
    /// # Errors
    /// Never.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(self.clone())
    }

    /// Sets or clears the time limit of reads.
    ///
    /// # Errors
    /// If it is zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        set(&self.0.mode.read_timeout, timeout)
    }

    /// Sets or clears the time limit of writes.
    ///
    /// # Errors
    /// If it is zero.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        set(&self.0.mode.write_timeout, timeout)
    }

    /// Whether calls return [`io::ErrorKind::WouldBlock`] instead of blocking.
    ///
    /// # Errors
    /// Never.
    pub fn set_nonblocking(&self, is_nonblocking: bool) -> io::Result<()> {
        self.0.mode.set_nonblocking(is_nonblocking);
        Ok(())
    }

    /// Whether small segments are sent at once.
    ///
    /// # Errors
    /// Never.
    pub fn set_nodelay(&self, no_delay: bool) -> io::Result<()> {
        self.change(|options| options.no_delay = no_delay);
        Ok(())
    }

    /// Changes the settings of the connection.
    pub fn change(&self, change: impl FnOnce(&mut StreamOptions)) {
        let mut options = self.0.options.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut options);
        self.0.handle.set_options(*options);
    }

    /// Reads bytes that stay in the stream.
    ///
    /// # Errors
    /// As [`Read::read`].
    pub fn peek(&self, to: &mut [u8]) -> io::Result<usize> {
        self.0.handle.read(to, true, self.0.mode.reads())
    }

    /// Takes the pending error of the connection.
    ///
    /// # Errors
    /// Never.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(self.0.handle.take_error().map(Into::into))
    }

    /// The socket itself.
    pub fn handle(&self) -> &Handle {
        &self.0.handle
    }
}

impl Read for &TcpStream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.0.handle.read(to, false, self.0.mode.reads())
    }
}

impl Write for &TcpStream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.0.handle.write(from, self.0.mode.writes())
    }

    /// Data leaves without a call.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for TcpStream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        (&*self).read(to)
    }
}

impl Write for TcpStream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        (&*self).write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A TCP listener.
#[derive(Clone, Debug)]
pub struct TcpListener(Arc<(Handle, Mode)>);

impl TcpListener {
    /// Listens on an address of the stack.
    ///
    /// # Errors
    /// If the address is in use or not one of the stack.
    pub fn bind(client: &Client, local: SocketAddr) -> io::Result<Self> {
        Self::open(client, local, false)
    }

    /// Listens together with other clients of the same user; the service's accept policy decides which one accepts a
    /// connection.
    ///
    /// # Errors
    /// If the address is not one of the stack, or used by a client that does not share it.
    pub fn bind_shared(client: &Client, local: SocketAddr) -> io::Result<Self> {
        Self::open(client, local, true)
    }

    fn open(client: &Client, local: SocketAddr, shares: bool) -> io::Result<Self> {
        let handle = client.listen(local.into(), shares)?;
        handle.wait_open(None)?;
        Ok(Self(Arc::new((handle, Mode::default()))))
    }

    /// The next connection, and its remote end.
    ///
    /// # Errors
    /// If the service ended.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (handle, mode) = &*self.0;
        let stream = TcpStream::new(handle.accept(mode.reads())?, StreamOptions::default());
        let remote = stream.peer_addr()?;
        Ok((stream, remote))
    }

    /// An iterator over [`TcpListener::accept`].
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming(self)
    }

    /// The local end.
    ///
    /// # Errors
    /// Never.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(socket_address(self.0.0.local()))
    }

    /// Whether [`TcpListener::accept`] returns [`io::ErrorKind::WouldBlock`] instead of blocking.
    ///
    /// # Errors
    /// Never.
    pub fn set_nonblocking(&self, is_nonblocking: bool) -> io::Result<()> {
        self.0.1.set_nonblocking(is_nonblocking);
        Ok(())
    }

    /// Another handle of the same listener.
    ///
    /// # Errors
    /// Never.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(self.clone())
    }
}

/// Connections of a listener, without end.
#[derive(Debug)]
pub struct Incoming<'a>(&'a TcpListener);

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.accept().map(|(stream, _)| stream))
    }
}
