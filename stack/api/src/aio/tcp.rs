//! Listeners and streams of TCP.

use super::Handle;
use super::runtime::Shared;
use futures_io::{AsyncRead, AsyncWrite};
use host::Buffer;
use stack::Slice;
use stack::tcp::Options;
use std::future::poll_fn;
use std::io::{Error, IoSlice, Result};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// An end of the network, which is released when it is dropped.
#[derive(Debug)]
pub(super) struct Owned {
    pub(super) shared: Rc<Shared>,
    pub(super) end: u32,
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.shared.net(|net| net.release(self.end));
    }
}

/// Accepts connections. Dropping it stops, and resets connections that were not accepted.
#[derive(Debug)]
pub struct TcpListener(Owned);

impl TcpListener {
    /// Listens with the default settings of the stack. The unspecified address stands for all addresses of its version.
    ///
    /// # Errors
    /// If the port is in use, or the address is not one of the host.
    pub fn bind(net: &Handle, local: SocketAddr) -> Result<Self> {
        let options = net.with_host(|host| host.stack().config().tcp);
        Self::bind_with(net, local, options)
    }

    /// [`TcpListener::bind`] with settings for its connections.
    ///
    /// # Errors
    /// If the port is in use, or the address is not one of the host.
    pub fn bind_with(net: &Handle, local: SocketAddr, options: Options) -> Result<Self> {
        let end = net.shared.net(|net| net.listen(local, options))?;
        Ok(Self(Owned { shared: net.shared.clone(), end }))
    }

    /// Waits for a connection. Returns it with its peer.
    ///
    /// # Errors
    /// None today.
    pub async fn accept(&self) -> Result<(TcpStream, SocketAddr)> {
        poll_fn(|context| self.poll_accept(context)).await
    }

    /// [`TcpListener::accept`] for futures that are written by hand.
    pub fn poll_accept(&self, context: &mut Context<'_>) -> Poll<Result<(TcpStream, SocketAddr)>> {
        let Owned { shared, end } = &self.0;
        let accepted = shared.net(|net| net.poll_accept(*end, context.waker()));
        let stream = |end| TcpStream(Owned { shared: shared.clone(), end });
        accepted.map_ok(|(end, remote)| (stream(end), remote)).map_err(Error::from)
    }

    /// Address and port.
    ///
    /// # Errors
    /// None today.
    pub fn local_addr(&self) -> Result<SocketAddr> {
        Ok(self.0.shared.net(|net| net.listening(self.0.end))?)
    }
}

/// A connection. Dropping it closes it; if received data was not read, it is reset.
#[derive(Debug)]
pub struct TcpStream(Owned);

impl TcpStream {
    /// Opens a connection with the default settings of the stack. Dropping the future ends the attempt.
    ///
    /// # Errors
    /// If there is no route, or the peer refuses or does not answer.
    pub async fn connect(net: &Handle, remote: SocketAddr) -> Result<Self> {
        let options = net.with_host(|host| host.stack().config().tcp);
        let end = net.shared.net(|net| net.connect(remote, options))?;
        let stream = Self(Owned { shared: net.shared.clone(), end });
        poll_fn(|context| stream.0.shared.net(|net| net.poll_connect(end, context.waker()))).await?;
        Ok(stream)
    }

    /// Takes the next piece of received data, as it arrived, without copying it; `None` after the peer's last byte.
    ///
    /// # Errors
    /// If the connection ended otherwise than by the peer closing it.
    pub async fn read_slice(&self) -> Result<Option<Slice<Buffer>>> {
        let Owned { shared, end } = &self.0;
        Ok(poll_fn(|context| shared.net(|net| net.poll_pop(*end, context.waker()))).await?)
    }

    /// Sends data without copying it; complete when the send buffer has taken all of it. If the future is dropped, a
    /// part may have been sent.
    ///
    /// # Errors
    /// If the connection ended, or its sending side was closed.
    pub async fn write_slice(&self, data: Slice<Buffer>) -> Result<()> {
        let (Owned { shared, end }, mut data) = (&self.0, Some(data));
        Ok(poll_fn(|context| shared.net(|net| net.poll_push(*end, &mut data, context.waker()))).await?)
    }

    /// Closes the sending side after all written data. Reading continues.
    ///
    /// # Errors
    /// None today; a connection that ended is closed.
    pub fn shutdown_write(&self) -> Result<()> {
        Ok(self.0.shared.net(|net| net.shut(self.0.end))?)
    }

    /// Resets the connection.
    pub fn abort(self) {
        self.0.shared.net(|net| net.abort(self.0.end));
    }

    /// Changes the settings of the connection. Those of the handshake have no effect any more.
    ///
    /// # Errors
    /// [`std::io::ErrorKind::NotConnected`] if the connection ended.
    pub fn configure(&self, change: impl FnOnce(&mut Options)) -> Result<()> {
        Ok(self.0.shared.net(|net| net.configure(self.0.end, change))?)
    }

    /// Whether small segments are sent at once (no Nagle algorithm).
    ///
    /// # Errors
    /// [`std::io::ErrorKind::NotConnected`] if the connection ended.
    pub fn set_nodelay(&self, on: bool) -> Result<()> {
        self.configure(|options| options.no_delay = on)
    }

    /// Local address and port.
    ///
    /// # Errors
    /// [`std::io::ErrorKind::NotConnected`] if the connection ended.
    pub fn local_addr(&self) -> Result<SocketAddr> {
        Ok(self.0.shared.net(|net| net.addresses(self.0.end))?.0)
    }

    /// The peer.
    ///
    /// # Errors
    /// [`std::io::ErrorKind::NotConnected`] if the connection ended.
    pub fn peer_addr(&self) -> Result<SocketAddr> {
        Ok(self.0.shared.net(|net| net.addresses(self.0.end))?.1)
    }

    /// Passes pieces of received data to `take` ([`crate::net::Net::poll_read`]).
    pub(super) fn poll_take(
        &self,
        context: &mut Context<'_>,
        take: impl FnMut(&Slice<Buffer>) -> usize,
    ) -> Poll<Result<usize>> {
        let Owned { shared, end } = &self.0;
        shared.net(|net| net.poll_read(*end, context.waker(), take)).map_err(Error::from)
    }

    pub(super) fn poll_copy<'a>(
        &self,
        context: &mut Context<'_>,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> Poll<Result<usize>> {
        let Owned { shared, end } = &self.0;
        shared.net(|net| net.poll_write(*end, pieces, context.waker())).map_err(Error::from)
    }

    /// Closes the sending side, if the connection still exists.
    pub(super) fn poll_shut(&self) -> Poll<Result<()>> {
        Poll::Ready(self.shutdown_write())
    }
}

impl AsyncRead for &TcpStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, to: &mut [u8]) -> Poll<Result<usize>> {
        if to.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let mut filled = 0;
        self.poll_take(context, |data| {
            let n = data.len().min(to.len() - filled);
            data.copy_to(0, &mut to[filled..filled + n]);
            filled += n;
            n
        })
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, to: &mut [u8]) -> Poll<Result<usize>> {
        Pin::new(&mut &*self).poll_read(context, to)
    }
}

impl AsyncWrite for &TcpStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, from: &[u8]) -> Poll<Result<usize>> {
        self.poll_copy(context, std::iter::once(from))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        self.poll_copy(context, from.iter().map(|piece| &**piece))
    }

    /// Written data needs no flush: it leaves with the next round.
    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Result<()>> {
        self.poll_shut()
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, from: &[u8]) -> Poll<Result<usize>> {
        Pin::new(&mut &*self).poll_write(context, from)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut &*self).poll_write_vectored(context, from)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut &*self).poll_flush(context)
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut &*self).poll_close(context)
    }
}
