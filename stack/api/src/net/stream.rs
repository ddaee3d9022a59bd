//! Connections.

use super::{End, Ends, Net, address, error, keep};
use crate::list::List;
use host::Buffer;
use stack::tcp::{ConnectionId, Options, State};
use stack::{Closed, ConnectError, Endpoint, SendError, Slice, Stack, Time};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::task::{Poll, ready};
use std::time::Duration;

/// Time after which a released connection whose peer does not close is reset (Linux: `tcp_fin_timeout`).
const FIN_TIMEOUT: Duration = Duration::from_mins(1);
/// Maximum bytes of one buffer for copied data.
const MAX_COPY: usize = 65_536;
/// Data with which a call finds the send buffer full.
static PROBE: [u8; 1] = [0];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Connecting,
    Open,
    Ended(Closed),
}

/// A connection.
#[derive(Debug)]
pub(super) struct Stream<W> {
    connection: ConnectionId,
    remote: SocketAddr,
    phase: Phase,
    /// Whether the peer will send no more.
    has_finished: bool,
    /// Whether the sending side was closed here.
    is_shut: bool,
    /// Whether the program no longer holds it.
    is_released: bool,
    received: List,
    reader: Option<W>,
    writer: Option<W>,
}

impl<W> Stream<W> {
    fn new(connection: ConnectionId, remote: SocketAddr, phase: Phase) -> Self {
        Self {
            connection,
            remote,
            phase,
            has_finished: false,
            is_shut: false,
            is_released: false,
            received: List::default(),
            reader: None,
            writer: None,
        }
    }

    #[inline]
    pub(super) fn is(&self, connection: ConnectionId) -> bool {
        self.connection == connection
    }

    pub(super) fn remote(&self) -> SocketAddr {
        self.remote
    }
}

impl<W> Ends<W> {
    /// Adds an open connection.
    pub(super) fn add_stream(&mut self, connection: ConnectionId, remote: SocketAddr) -> u32 {
        self.insert_stream(Stream::new(connection, remote, Phase::Open))
    }

    fn insert_stream(&mut self, stream: Stream<W>) -> u32 {
        let at = stream.connection.index();
        let end = self.insert(End::Stream(stream));
        self.connections.set(at, end);
        end
    }

    #[inline]
    fn stream_of(&mut self, connection: ConnectionId) -> Option<&mut Stream<W>> {
        let end = self.connections.get(connection.index())?;
        match self.all.get_mut(end as usize) {
            Some(End::Stream(stream)) if stream.is(connection) => Some(stream),
            _ => None,
        }
    }

    /// Data arrived. A released connection is reset, as its data can reach no program (RFC 2525 section 2.17).
    #[inline]
    pub(super) fn received(
        &mut self,
        stack: &mut Stack<Buffer>,
        connection: ConnectionId,
        data: Slice<Buffer>,
    ) {
        let Some(end) = self.of_connection(connection) else { return };
        let Some(End::Stream(stream)) = self.all.get_mut(end as usize) else { return };
        if stream.is_released {
            return stack.abort(connection);
        }
        self.data.push(&mut stream.received, data);
        self.woken.extend(stream.reader.take());
    }

    pub(super) fn writable(&mut self, connection: ConnectionId) {
        let writer = self.stream_of(connection).and_then(|stream| stream.writer.take());
        self.woken.extend(writer);
    }

    pub(super) fn connected(&mut self, connection: ConnectionId) {
        let Some(stream) = self.stream_of(connection) else { return };
        stream.phase = Phase::Open;
        self.writable(connection);
    }

    pub(super) fn finished(&mut self, connection: ConnectionId) {
        let Some(stream) = self.stream_of(connection) else { return };
        stream.has_finished = true;
        let reader = stream.reader.take();
        self.woken.extend(reader);
    }

    pub(super) fn closed(&mut self, connection: ConnectionId, reason: Closed) {
        let Some(end) = self.of_connection(connection) else { return };
        let Ok(stream) = self.stream(end) else { return };
        stream.phase = Phase::Ended(reason);
        let (reader, writer, is_released) = (stream.reader.take(), stream.writer.take(), stream.is_released);
        self.woken.extend(reader);
        self.woken.extend(writer);
        if is_released {
            self.all.remove(end as usize);
        }
    }

    /// The program no longer holds a connection. It is reset if `reset` is set or received data was not taken, and
    /// closed otherwise.
    pub(super) fn release_stream(&mut self, stack: &mut Stack<Buffer>, end: u32, reset: bool, now: Time) {
        let Some(End::Stream(stream)) = self.all.get_mut(end as usize) else { return };
        let must_reset = reset || !stream.received.is_empty();
        while self.data.pop(&mut stream.received).is_some() {}
        (stream.is_released, stream.reader, stream.writer) = (true, None, None);
        let connection = stream.connection;
        if let Phase::Ended(_) = stream.phase {
            self.all.remove(end as usize);
        } else if must_reset {
            stack.abort(connection);
        } else {
            stack.close(connection);
            self.released.push_back((now.after(FIN_TIMEOUT), connection));
        }
    }

    /// Resets released connections whose peer has acknowledged everything and does not close. Others end by
    /// acknowledgements or by the user timeout.
    pub(super) fn expire(&mut self, stack: &mut Stack<Buffer>, now: Time) {
        while let Some((_, connection)) = self.released.pop_front_if(|(at, _)| *at <= now) {
            match stack.connection(connection).map(|info| info.state) {
                Some(State::FinWait2) => stack.abort(connection),
                Some(_) => self.released.push_back((now.after(FIN_TIMEOUT), connection)),
                None => {}
            }
        }
    }
}

impl<W: Clone> Net<W> {
    pub(crate) fn connect(&mut self, remote: SocketAddr, options: Options) -> Result<u32, ErrorKind> {
        let now = self.host.now();
        let opened = self.host.stack().connect(Endpoint::default(), remote.into(), options, now);
        let connection = opened.map_err(|error| match error {
            ConnectError::NoRoute => ErrorKind::NetworkUnreachable,
            ConnectError::InUse => ErrorKind::AddrInUse,
            ConnectError::TooMany => ErrorKind::QuotaExceeded,
        })?;
        Ok(self.ends.insert_stream(Stream::new(connection, remote, Phase::Connecting)))
    }

    pub(crate) fn poll_connect(&mut self, end: u32, waiter: &W) -> Poll<Result<(), ErrorKind>> {
        let stream = self.ends.stream(end)?;
        match stream.phase {
            Phase::Open => Poll::Ready(Ok(())),
            Phase::Ended(reason) => Poll::Ready(Err(error(reason))),
            Phase::Connecting => {
                keep(&mut stream.writer, waiter);
                Poll::Pending
            }
        }
    }

    /// Waits for received data. Returns `false` at the end of the stream.
    #[inline]
    fn poll_readable(&mut self, end: u32, waiter: &W) -> Poll<Result<bool, ErrorKind>> {
        let stream = self.ends.stream(end)?;
        if !stream.received.is_empty() {
            return Poll::Ready(Ok(true));
        }
        match stream.phase {
            _ if stream.has_finished => Poll::Ready(Ok(false)),
            Phase::Ended(Closed::Normally) => Poll::Ready(Ok(false)),
            Phase::Ended(reason) => Poll::Ready(Err(error(reason))),
            Phase::Connecting | Phase::Open => {
                keep(&mut stream.reader, waiter);
                Poll::Pending
            }
        }
    }

    /// Takes the next piece of received data, as it arrived; `None` at the end of the stream.
    #[inline]
    pub(crate) fn poll_pop(
        &mut self,
        end: u32,
        waiter: &W,
    ) -> Poll<Result<Option<Slice<Buffer>>, ErrorKind>> {
        if !ready!(self.poll_readable(end, waiter))? {
            return Poll::Ready(Ok(None));
        }
        let Self { host, ends, .. } = self;
        let Some(End::Stream(stream)) = ends.all.get_mut(end as usize) else { return Poll::Ready(Ok(None)) };
        let data = ends.data.pop(&mut stream.received);
        host.stack().consumed(stream.connection, data.as_ref().map_or(0, Slice::len));
        Poll::Ready(Ok(data))
    }

    /// Passes pieces of received data to `take`, which returns how many bytes it took, until it takes less than a piece
    /// or no data is left. Returns the number of bytes; 0 is the end of the stream.
    pub(crate) fn poll_read(
        &mut self,
        end: u32,
        waiter: &W,
        mut take: impl FnMut(&Slice<Buffer>) -> usize,
    ) -> Poll<Result<usize, ErrorKind>> {
        ready!(self.poll_readable(end, waiter))?;
        let Self { host, ends, .. } = self;
        let Some(End::Stream(stream)) = ends.all.get_mut(end as usize) else { return Poll::Ready(Ok(0)) };
        let mut total = 0;
        while let Some(first) = stream.received.first().and_then(|at| ends.data.get_mut(at)) {
            let n = take(first);
            total += n;
            if n < first.len() {
                first.narrow(n..first.len());
                break;
            }
            ends.data.pop(&mut stream.received);
        }
        host.stack().consumed(stream.connection, total);
        Poll::Ready(Ok(total))
    }

    /// Waits for room in the send buffer. Returns the number of bytes that it takes.
    #[inline]
    fn poll_writable(&mut self, end: u32, waiter: &W) -> Poll<Result<usize, ErrorKind>> {
        let Self { host, ends, .. } = self;
        let stream = ends.stream(end)?;
        match stream.phase {
            Phase::Ended(reason) => return Poll::Ready(Err(error(reason))),
            _ if stream.is_shut => return Poll::Ready(Err(ErrorKind::BrokenPipe)),
            Phase::Connecting => {
                keep(&mut stream.writer, waiter);
                return Poll::Pending;
            }
            Phase::Open => {}
        }
        let space = host.stack().send_space(stream.connection);
        if space > 0 {
            return Poll::Ready(Ok(space));
        }
        // The stack reports space only to a connection that has found its buffer full.
        let refused = host.stack().send(stream.connection, Slice::new(Buffer::from(&PROBE[..])));
        debug_assert!(refused.is_err());
        if refused == Err(SendError::Closed) {
            return Poll::Ready(Err(ErrorKind::BrokenPipe));
        }
        keep(&mut stream.writer, waiter);
        Poll::Pending
    }

    #[inline]
    fn send(&mut self, end: u32, data: Slice<Buffer>) -> Result<(), ErrorKind> {
        let Self { host, ends, .. } = self;
        let connection = ends.stream(end)?.connection;
        host.stack().send(connection, data).map_err(|_| ErrorKind::BrokenPipe)
    }

    /// Sends data without copying it. Sent bytes are removed from `data`, which is `None` when this is ready.
    #[inline]
    pub(crate) fn poll_push(
        &mut self,
        end: u32,
        data: &mut Option<Slice<Buffer>>,
        waiter: &W,
    ) -> Poll<Result<(), ErrorKind>> {
        while let Some(mut first) = data.take_if(|data| !data.is_empty()) {
            let space = match self.poll_writable(end, waiter) {
                Poll::Ready(Ok(space)) => space,
                other => {
                    *data = Some(first);
                    return other.map_ok(|_| ());
                }
            };
            if space < first.len() {
                let mut rest = first.clone();
                rest.narrow(space..first.len());
                *data = Some(rest);
                first.narrow(0..space);
            }
            self.send(end, first)?;
        }
        Poll::Ready(Ok(()))
    }

    /// Copies as many bytes as the send buffer takes. Returns their number.
    pub(crate) fn poll_write<'a>(
        &mut self,
        end: u32,
        pieces: impl Iterator<Item = &'a [u8]>,
        waiter: &W,
    ) -> Poll<Result<usize, ErrorKind>> {
        let mut space = ready!(self.poll_writable(end, waiter))?;
        let mut total = 0;
        for piece in pieces {
            for chunk in piece[..piece.len().min(space)].chunks(MAX_COPY) {
                let data = self.copy(chunk);
                self.send(end, data)?;
                (total, space) = (total + chunk.len(), space - chunk.len());
            }
        }
        Poll::Ready(Ok(total))
    }

    /// Closes the sending side after all data that was sent.
    pub(crate) fn shut(&mut self, end: u32) -> Result<(), ErrorKind> {
        let Self { host, ends, .. } = self;
        let stream = ends.stream(end)?;
        stream.is_shut = true;
        host.stack().close(stream.connection);
        Ok(())
    }

    /// Resets a connection and releases it.
    pub(crate) fn abort(&mut self, end: u32) {
        let now = self.host.now();
        self.ends.release_stream(self.host.stack(), end, true, now);
    }

    /// Changes the settings of a connection.
    pub(crate) fn configure(&mut self, end: u32, change: impl FnOnce(&mut Options)) -> Result<(), ErrorKind> {
        let connection = self.ends.stream(end)?.connection;
        let mut options = self.host.stack().options(connection).ok_or(ErrorKind::NotConnected)?;
        change(&mut options);
        self.host.stack().set_options(connection, options);
        Ok(())
    }

    /// Local and remote end of a connection.
    pub(crate) fn addresses(&mut self, end: u32) -> Result<(SocketAddr, SocketAddr), ErrorKind> {
        let connection = self.ends.stream(end)?.connection;
        let ends = self.host.stack().endpoints(connection).ok_or(ErrorKind::NotConnected)?;
        Ok((address(ends.0), address(ends.1)))
    }
}
