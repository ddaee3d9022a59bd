//! Calls of scripts, mapped to the interface of the stack as a socket layer would map them.

use super::flow::{LOCAL, REMOTE};
use super::host::Host;
use super::syntax::{Argument, Call};
use crate::app::byte;
use crate::link::Bytes;
use stack::tcp::{CongestionAlgorithm, ConnectionId, ListenerId, Options};
use stack::{Closed, Endpoint, Event, Slice};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

/// Port of the side that is connected to.
pub(super) const SERVICE: u16 = 8080;

/// Result of a call: a number, or the name of an error.
pub(super) type Outcome = Result<i64, &'static str>;

/// A socket of the application.
#[derive(Debug)]
struct Socket {
    options: Options,
    /// Whether closing sends a reset.
    has_no_linger: bool,
    listener: Option<ListenerId>,
    connection: Option<ConnectionId>,
}

/// A connection, accepted or not, and what it has received.
#[derive(Debug, Default)]
struct Connection {
    is_connected: bool,
    data: VecDeque<Slice<Bytes>>,
    read: u64,
    written: u64,
    has_finished: bool,
    closed: Option<Closed>,
    /// Whether the application closed its socket.
    is_released: bool,
}

/// The sockets of a script.
#[derive(Debug)]
pub(super) struct Sockets {
    defaults: Options,
    by_number: BTreeMap<i64, Socket>,
    connections: HashMap<ConnectionId, Connection>,
    accepted: VecDeque<(ListenerId, ConnectionId)>,
}

fn error_of(closed: Closed) -> Option<&'static str> {
    match closed {
        Closed::Normally => None,
        Closed::Reset => Some("ECONNRESET"),
        Closed::Refused => Some("ECONNREFUSED"),
        Closed::TimedOut => Some("ETIMEDOUT"),
        Closed::Unreachable => Some("EHOSTUNREACH"),
        Closed::Aborted => Some("ECONNABORTED"),
    }
}

impl Sockets {
    pub(super) fn new(defaults: Options) -> Self {
        let (by_number, connections, accepted) = (BTreeMap::new(), HashMap::new(), VecDeque::new());
        Self { defaults, by_number, connections, accepted }
    }

    /// Takes the stack's events. Data for a closed socket resets its connection, as Linux does.
    pub(super) fn take_events(&mut self, host: &mut Host) {
        while let Some(event) = host.events.pop_front() {
            match event {
                Event::Datagram { .. } | Event::DatagramLost { .. } => {}
                Event::Accepted { connection, listener, .. } => {
                    self.connections
                        .insert(connection, Connection { is_connected: true, ..Connection::default() });
                    self.accepted.push_back((listener, connection));
                }
                Event::Connected { connection } => self.of(connection).is_connected = true,
                Event::Finished { connection } => self.of(connection).has_finished = true,
                Event::Closed { connection, reason } => self.of(connection).closed = Some(reason),
                Event::Data { connection, data } => {
                    if self.of(connection).is_released {
                        host.stack.abort(connection);
                        host.pump();
                    }
                    self.of(connection).data.push_back(data);
                }
                Event::Writable { .. } | Event::Acknowledged { .. } => {}
            }
        }
    }

    fn of(&mut self, connection: ConnectionId) -> &mut Connection {
        self.connections.entry(connection).or_default()
    }

    /// Runs a call. For `connect`, this only starts the attempt.
    pub(super) fn call(&mut self, host: &mut Host, call: &Call) -> Result<Outcome, String> {
        let fd = match call.arguments.first() {
            Some(Argument::Integer(fd)) => *fd,
            _ => 0,
        };
        Ok(match call.name.as_str() {
            "socket" => {
                let socket =
                    Socket { options: self.defaults, has_no_linger: false, listener: None, connection: None };
                self.by_number.insert(call.result, socket);
                Ok(call.result)
            }
            "bind" | "fcntl" => Ok(0),
            "listen" => self.listen(host, fd),
            "accept" => self.accept(fd, call.result),
            "connect" => self.connect(host, fd),
            "write" | "send" => self.write(host, fd, length(call)?, is_urgent(call)),
            "sendto" => self.send_to(host, fd, call)?,
            "read" | "recv" => self.read(host, fd, length(call)?)?,
            "shutdown" => self.shutdown(host, fd, call),
            "close" => self.close(host, fd),
            "setsockopt" => self.set_option(host, fd, call)?,
            "getsockopt" => self.error(fd, call)?,
            name => return Err(format!("unknown call {name}")),
        })
    }

    fn socket(&mut self, fd: i64) -> Result<&mut Socket, &'static str> {
        self.by_number.get_mut(&fd).ok_or("EBADF")
    }

    fn connection(&mut self, fd: i64) -> Result<ConnectionId, &'static str> {
        self.socket(fd)?.connection.ok_or("ENOTCONN")
    }

    fn listen(&mut self, host: &mut Host, fd: i64) -> Outcome {
        let socket = self.socket(fd)?;
        let local = Endpoint::new(host.local, SERVICE);
        socket.listener = Some(host.stack.listen(local, socket.options).map_err(|_| "EADDRINUSE")?);
        Ok(0)
    }

    fn accept(&mut self, fd: i64, new: i64) -> Outcome {
        let (listener, options) = (self.socket(fd)?.listener, self.socket(fd)?.options);
        let at = self.accepted.iter().position(|(of, _)| Some(*of) == listener).ok_or("EAGAIN")?;
        let connection = self.accepted.remove(at).map(|(_, connection)| connection);
        self.by_number.insert(new, Socket { options, has_no_linger: false, listener: None, connection });
        Ok(new)
    }

    fn connect(&mut self, host: &mut Host, fd: i64) -> Outcome {
        let socket = self.socket(fd)?;
        let (local, remote) = (Endpoint::new(host.local, 0), Endpoint::new(host.remote, SERVICE));
        let connection =
            host.stack.connect(local, remote, socket.options, host.now).map_err(|_| "EADDRINUSE")?;
        socket.connection = Some(connection);
        self.connections.insert(connection, Connection::default());
        Err("EINPROGRESS")
    }

    /// Result of a connection attempt so far.
    pub(super) fn connected(&mut self, fd: i64) -> Outcome {
        let connection = self.connection(fd)?;
        match self.of(connection) {
            Connection { closed: Some(reason), .. } => Err(error_of(*reason).unwrap_or("ECONNABORTED")),
            Connection { is_connected: true, .. } => Ok(0),
            _ => Err("EINPROGRESS"),
        }
    }

    /// Local and remote end of the connection of a socket.
    pub(super) fn endpoints(&mut self, host: &Host, fd: i64) -> Option<(Endpoint, Endpoint)> {
        host.stack.endpoints(self.connection(fd).ok()?)
    }

    fn write(&mut self, host: &mut Host, fd: i64, len: u64, is_urgent: bool) -> Outcome {
        let connection = self.connection(fd)?;
        if let Some(reason) = self.of(connection).closed {
            return Err(error_of(reason).unwrap_or("EPIPE"));
        }
        let space = host.stack.send_space(connection) as u64;
        let written = self.of(connection).written;
        let len = if space > 0 { len.min(space) } else { len };
        let chunk: Bytes = (written..written + len).map(|at| byte(LOCAL, at)).collect();
        let data = Slice::new(chunk);
        let sent = if is_urgent {
            host.stack.send_urgent(connection, data)
        } else {
            host.stack.send(connection, data)
        };
        sent.map_err(|error| match error {
            stack::SendError::Full => "EAGAIN",
            stack::SendError::Closed => "EPIPE",
        })?;
        self.of(connection).written += len;
        Ok(len as i64)
    }

    /// `sendto(fd, ..., len, MSG_FASTOPEN, ..., ...)` connects with data in the SYN (RFC 7413).
    fn send_to(&mut self, host: &mut Host, fd: i64, call: &Call) -> Result<Outcome, String> {
        let len = length(call)?;
        let is_fast_open =
            matches!(call.arguments.get(3), Some(Argument::Name(name)) if name.contains("FASTOPEN"));
        if !is_fast_open {
            return Ok(self.write(host, fd, len, false));
        }
        let started = self.socket(fd).map(|socket| socket.options.fast_open = true);
        if let Err(error) = started.and_then(|()| self.connect(host, fd).map(|_| ()))
            && error != "EINPROGRESS"
        {
            return Ok(Err(error));
        }
        Ok(if len == 0 { Err("EINPROGRESS") } else { self.write(host, fd, len, false) })
    }

    fn read(&mut self, host: &mut Host, fd: i64, len: u64) -> Result<Outcome, String> {
        let Ok(connection) = self.connection(fd) else { return Ok(Err("ENOTCONN")) };
        let state = self.of(connection);
        let mut taken = 0;
        while let Some(mut data) = state.data.pop_front() {
            let part = (data.len() as u64).min(len - taken);
            let bytes = data.to_vec();
            for (at, got) in (state.read..state.read + part).zip(&bytes) {
                if *got != byte(REMOTE, at) {
                    return Err(format!("byte {at} of the stream is {got}, not {}", byte(REMOTE, at)));
                }
            }
            (state.read, taken) = (state.read + part, taken + part);
            if part < data.len() as u64 {
                data.narrow(part as usize..data.len());
                state.data.push_front(data);
                break;
            }
        }
        if taken > 0 {
            host.stack.consumed(connection, taken as usize);
            return Ok(Ok(taken as i64));
        }
        Ok(match (state.closed.and_then(error_of), state.has_finished) {
            (Some(error), _) => Err(error),
            (None, true) => Ok(0),
            (None, false) => Err("EAGAIN"),
        })
    }

    fn shutdown(&mut self, host: &mut Host, fd: i64, call: &Call) -> Outcome {
        let connection = self.connection(fd)?;
        if matches!(call.arguments.get(1), Some(Argument::Name(how)) if how != "SHUT_RD") {
            host.stack.close(connection);
        }
        Ok(0)
    }

    /// Closes a socket. Unread data makes it a reset (RFC 2525 section 2.17).
    fn close(&mut self, host: &mut Host, fd: i64) -> Outcome {
        let socket = self.by_number.remove(&fd).ok_or("EBADF")?;
        if let Some(listener) = socket.listener {
            host.stack.unlisten(listener);
        }
        let Some(connection) = socket.connection else { return Ok(0) };
        let state = self.of(connection);
        state.is_released = true;
        if state.closed.is_some() {
            return Ok(0);
        }
        if socket.has_no_linger || !state.data.is_empty() {
            host.stack.abort(connection);
        } else {
            host.stack.close(connection);
        }
        Ok(0)
    }

    /// `getsockopt(fd, SOL_SOCKET, SO_ERROR, [value], [4])`.
    fn error(&mut self, fd: i64, call: &Call) -> Result<Outcome, String> {
        let expected = match call.arguments.get(3) {
            Some(Argument::Array(values)) => values.first().cloned(),
            _ => None,
        };
        let actual = match self.connected(fd) {
            Ok(_) | Err("EINPROGRESS") => Argument::Integer(0),
            Err(error) => Argument::Name(error.into()),
        };
        match expected {
            Some(expected) if expected == actual => Ok(Ok(0)),
            expected => Err(format!("SO_ERROR is {actual:?}, expected {expected:?}")),
        }
    }

    fn set_option(&mut self, host: &mut Host, fd: i64, call: &Call) -> Result<Outcome, String> {
        let Some(Argument::Name(name)) = call.arguments.get(2) else {
            return Err("expected an option".into());
        };
        let Some(value) = call.arguments.get(3) else { return Err("expected a value".into()) };
        let Ok(socket) = self.socket(fd) else { return Ok(Err("EBADF")) };
        if name == "SO_LINGER" {
            socket.has_no_linger =
                matches!(value, Argument::Fields(fields) if fields[0].1 == 1 && fields[1].1 == 0);
            return Ok(Ok(0));
        }
        apply(&mut socket.options, name, value)?;
        if let Some(connection) = socket.connection {
            host.stack.set_options(connection, socket.options);
        }
        Ok(Ok(0))
    }
}

/// The third argument: a number of bytes.
fn length(call: &Call) -> Result<u64, String> {
    match call.arguments.get(2) {
        Some(Argument::Integer(len)) => Ok(*len as u64),
        _ => Err(format!("{}: expected a number of bytes", call.name)),
    }
}

/// Whether the flags of `send` are `MSG_OOB`.
fn is_urgent(call: &Call) -> bool {
    matches!(call.arguments.get(3), Some(Argument::Name(name)) if name == "MSG_OOB")
}

/// Sets one socket option.
fn apply(options: &mut Options, name: &str, value: &Argument) -> Result<(), String> {
    if let (Argument::Name(value), "TCP_CONGESTION") = (value, name) {
        options.congestion = congestion(value)?;
        return Ok(());
    }
    let number = match value {
        Argument::Array(values) => match values.first() {
            Some(Argument::Integer(number)) => *number as u64,
            _ => return Err(format!("{name}: expected [number]")),
        },
        _ => return Err(format!("{name}: expected [number]")),
    };
    let (interval, probes) = options.keep_alive_interval;
    match name {
        "SO_REUSEADDR" => {}
        "TCP_NODELAY" => options.no_delay = number != 0,
        "TCP_CORK" => options.cork = number != 0,
        "SO_KEEPALIVE" => options.keep_alive = (number != 0).then_some(Duration::from_hours(2)),
        "TCP_KEEPIDLE" => options.keep_alive = Some(Duration::from_secs(number)),
        "TCP_KEEPINTVL" => options.keep_alive_interval = (Duration::from_secs(number), probes),
        "TCP_KEEPCNT" => options.keep_alive_interval = (interval, number as u8),
        "TCP_USER_TIMEOUT" => options.user_timeout = Duration::from_millis(number),
        "TCP_MAXSEG" => options.max_segment = number as u16,
        "TCP_FASTOPEN" => options.fast_open = number != 0,
        _ => return Err(format!("unknown socket option {name}")),
    }
    Ok(())
}

/// Congestion algorithm of this name.
pub(super) fn congestion(name: &str) -> Result<CongestionAlgorithm, String> {
    match name {
        "reno" => Ok(CongestionAlgorithm::NewReno),
        "cubic" => Ok(CongestionAlgorithm::Cubic),
        "bbr" => Ok(CongestionAlgorithm::Bbr),
        _ => Err(format!("unknown congestion algorithm {name}")),
    }
}
