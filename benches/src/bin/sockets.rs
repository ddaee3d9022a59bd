//! Echo over the kernel's TCP, as the peer of `linerate serve echo` and `linerate load echo`: one thread, epoll, which
//! polls instead of sleeping as a user-space stack does.
//!
//! `sockets serve ADDRESS:PORT BYTES` returns one reply per request until killed. `sockets load ADDRESS:PORT BYTES
//! CONNECTIONS SECONDS [PER_CONNECTION]` keeps one request on its way per connection, closes a connection after
//! `PER_CONNECTION` requests and opens another one, and prints rate and latency as `linerate load -o json` does.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use measure::Histogram;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};

/// Time before the measurement.
const WARM_UP: Duration = Duration::from_millis(500);
const LISTENER: u64 = u64::MAX;

/// A connection that is being opened, with a request on its way, or whose request is being received.
struct Exchange {
    stream: TcpStream,
    is_connecting: bool,
    received: usize,
    sent_at: Instant,
    requests: u64,
}

impl Exchange {
    fn new(stream: TcpStream, is_connecting: bool) -> Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self { stream, is_connecting, received: 0, sent_at: Instant::now(), requests: 0 })
    }

    /// Reads what is there. Returns `false` at the end of the stream or after a reset.
    fn read(&mut self, bytes: &mut [u8]) -> bool {
        match self.stream.read(bytes) {
            Ok(0) => false,
            Ok(n) => {
                self.received += n;
                true
            }
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        }
    }

    fn send(&mut self, bytes: &[u8]) -> bool {
        (self.received, self.sent_at) = (0, Instant::now());
        // One message is on its way per connection, so it always fits the send buffer.
        self.stream.write(bytes).is_ok_and(|n| n == bytes.len())
    }
}

/// The connections of a thread and their events.
struct Poll {
    epoll: rustix::fd::OwnedFd,
    exchanges: HashMap<u64, Exchange>,
    events: Vec<epoll::Event>,
}

impl Poll {
    fn new() -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, exchanges: HashMap::new(), events: Vec::with_capacity(64) })
    }

    /// Adds a socket. One that is being connected is reported once it is.
    fn add(&mut self, stream: TcpStream, is_connecting: bool) -> Result<()> {
        let key = stream.as_raw_fd() as u64;
        let flags = if is_connecting { epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
        epoll::add(&self.epoll, &stream, epoll::EventData::new_u64(key), flags)?;
        self.exchanges.insert(key, Exchange::new(stream, is_connecting)?);
        Ok(())
    }

    /// Sends the first request of a socket that was connected.
    fn start(&mut self, key: u64, request: &[u8]) -> Result<()> {
        let Some(exchange) = self.exchanges.get_mut(&key) else { return Ok(()) };
        exchange.is_connecting = false;
        if let Some(error) = exchange.stream.take_error()? {
            return Err(error).context("cannot connect");
        }
        let data = epoll::EventData::new_u64(key);
        epoll::modify(&self.epoll, &exchange.stream, data, epoll::EventFlags::IN)?;
        if exchange.send(request) { Ok(()) } else { bail!("a request was not sent") }
    }

    /// Sockets with an event, without waiting.
    fn ready(&mut self) -> Result<Vec<u64>> {
        self.events.clear();
        let none = rustix::event::Timespec::default();
        epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&none))?;
        Ok(self.events.iter().map(|event| event.data.u64()).collect())
    }
}

fn serve(at: SocketAddr, bytes: usize) -> Result<()> {
    let listener = TcpListener::bind(at).with_context(|| format!("cannot listen at {at}"))?;
    listener.set_nonblocking(true)?;
    let mut poll = Poll::new()?;
    epoll::add(&poll.epoll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut buffer = vec![7; bytes.max(2048)];
    loop {
        for key in poll.ready()? {
            if key == LISTENER {
                while let Ok((stream, _)) = listener.accept() {
                    poll.add(stream, false)?;
                }
                continue;
            }
            let Some(exchange) = poll.exchanges.get_mut(&key) else { continue };
            let is_open =
                exchange.read(&mut buffer) && (exchange.received < bytes || exchange.send(&buffer[..bytes]));
            if !is_open {
                poll.exchanges.remove(&key);
            }
        }
    }
}

/// Action of a client.
struct Plan {
    to: SocketAddr,
    bytes: usize,
    connections: u64,
    duration: Duration,
    per_connection: u64,
}

impl Plan {
    /// Starts a connection without waiting for it, as the other client does.
    fn open(&self, poll: &mut Poll) -> Result<()> {
        let family = if self.to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        match connect(&socket, &self.to) {
            Ok(()) | Err(Errno::INPROGRESS) => poll.add(socket.into(), true),
            Err(error) => Err(error).with_context(|| format!("cannot connect to {}", self.to)),
        }
    }

    fn run(&self) -> Result<(f64, Histogram)> {
        let (mut poll, request, mut buffer) =
            (Poll::new()?, vec![7; self.bytes], vec![0; self.bytes.max(2048)]);
        for _ in 0..self.connections {
            self.open(&mut poll)?;
        }
        let (mut histogram, begin) = (Histogram::default(), Instant::now() + WARM_UP);
        let mut replies = 0_u64;
        while begin.elapsed() < self.duration {
            for key in poll.ready()? {
                let Some(exchange) = poll.exchanges.get_mut(&key) else { continue };
                if exchange.is_connecting {
                    poll.start(key, &request)?;
                    continue;
                }
                if !exchange.read(&mut buffer) {
                    bail!("the server closed a connection");
                }
                if exchange.received < self.bytes {
                    continue;
                }
                if Instant::now() > begin {
                    replies += 1;
                    histogram.record(exchange.sent_at.elapsed().as_nanos() as u64);
                }
                exchange.requests += 1;
                if exchange.requests == self.per_connection {
                    poll.exchanges.remove(&key);
                    self.open(&mut poll)?;
                } else if !exchange.send(&request) {
                    bail!("a request was not sent");
                }
            }
        }
        Ok((replies as f64 / begin.elapsed().as_secs_f64(), histogram))
    }
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| words.get(at).map_or(Ok(default), |word| word.parse());
    let (Some(mode), Some(at)) = (words.first(), words.get(1)) else {
        bail!("usage: sockets serve|load ADDRESS:PORT BYTES [CONNECTIONS SECONDS [PER_CONNECTION]]");
    };
    let (at, bytes) = (at.parse()?, number(2, 64)? as usize);
    if mode == "serve" {
        return serve(at, bytes);
    }
    let duration = Duration::from_secs(number(4, 3)?);
    let plan =
        Plan { to: at, bytes, connections: number(3, 1)?, duration, per_connection: number(5, u64::MAX)? };
    let (rate, histogram) = plan.run()?;
    let report = serde_json::json!({
        "rounds": [{ "replies_per_second": rate }],
        "latency_ns": histogram.summary(),
    });
    println!("{report}");
    Ok(())
}
