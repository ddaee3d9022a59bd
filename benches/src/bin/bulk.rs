//! One TCP stream, as fast as the receiver permits.
//!
//! `bulk sink ADDRESS:PORT` receives over the kernel's TCP until killed, and `bulk send ADDRESS:PORT SECONDS` sends
//! over it. `bulk port SOCKET RING OFFLOADS ADDRESS/PREFIX ADDRESS:PORT SECONDS` sends over our stack on a virtio-user
//! port, from the first address to the second one, with offloads if `OFFLOADS` is `true`. Senders print the rate of the
//! bytes that their stack accepted, which exceeds those delivered by at most one send buffer.

use anyhow::{Context, Result, bail};
use engine::{LocalPort, Polling};
use host::{App, Buffer, Host, Options};
use port::virtio_user::{self, RingKind, VirtioUser};
use stack::ip::InterfaceConfig;
use stack::tcp::ConnectionId;
use stack::{Cidr, Endpoint, Event, Slice, Stack, Time};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use wire::MacAddress;

/// Time before the measurement.
const WARM_UP: Duration = Duration::from_secs(1);
/// Time in which the connection must be established.
const LIMIT: Duration = Duration::from_secs(20);
/// Bytes of one call, those of iip.
const PIECE: usize = 63_488;

/// Receives on each connection in turn.
fn sink(at: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(at).with_context(|| format!("cannot listen at {at}"))?;
    let mut buffer = vec![0; 4 * PIECE];
    loop {
        let (mut stream, _) = listener.accept()?;
        while stream.read(&mut buffer).is_ok_and(|n| n > 0) {}
    }
}

/// Bits per second of a function that returns the bytes it has sent.
fn rate(duration: Duration, mut send: impl FnMut() -> Result<u64>) -> Result<f64> {
    let mut measure = |time: Duration| -> Result<(u64, f64)> {
        let (begin, mut bytes) = (Instant::now(), 0);
        while begin.elapsed() < time {
            bytes += send()?;
        }
        Ok((bytes, begin.elapsed().as_secs_f64()))
    };
    measure(WARM_UP)?;
    let (bytes, seconds) = measure(duration)?;
    Ok(bytes as f64 * 8.0 / seconds)
}

fn send(to: SocketAddr, duration: Duration) -> Result<f64> {
    let mut stream = TcpStream::connect(to).with_context(|| format!("cannot connect to {to}"))?;
    let piece = vec![7; PIECE];
    rate(duration, || Ok(stream.write(&piece)? as u64))
}

/// Keeps the send buffer full.
struct Sender {
    piece: Slice<Buffer>,
    connection: Option<ConnectionId>,
    sent: u64,
    is_closed: bool,
}

impl Sender {
    fn fill(&mut self, stack: &mut Stack<Buffer>, to: ConnectionId) {
        while stack.send(to, self.piece.clone()).is_ok() {
            self.sent += PIECE as u64;
        }
    }
}

impl App for Sender {
    fn event(&mut self, stack: &mut Stack<Buffer>, event: Event<Buffer>, _now: Time) {
        match event {
            Event::Connected { connection } => {
                self.connection = Some(connection);
                self.fill(stack, connection);
            }
            Event::Writable { connection } => self.fill(stack, connection),
            Event::Closed { .. } => self.is_closed = true,
            _ => {}
        }
    }
}

/// A host with a virtio-user port that carries packets.
fn host(socket: &Path, ring: RingKind, offloads: bool, own: Cidr) -> Result<Host> {
    let mut host = Host::new(Options { polling: Polling::Busy, ..Options::new()? })?;
    let options = virtio_user::Options { ring, offloads, queue_size: 256, ..Default::default() };
    let port = VirtioUser::connect(socket, options, Instant::now())?;
    let config = InterfaceConfig { mac: MacAddress::new([2, 0, 0, 0, 0, 16]), mtu: 1500, vlan: None };
    let interface = host.add_port(LocalPort::new("port", Box::new(port)), config);
    let now = host.now();
    host.stack().add_address(interface, own, now);
    if !host.connect(&AtomicBool::new(false)) {
        bail!("the port carries no packets");
    }
    Ok(host)
}

fn over_port(mut host: Host, to: Endpoint, duration: Duration) -> Result<f64> {
    let now = host.now();
    host.stack().connect(Endpoint::default(), to, stack::tcp::Options::default(), now)?;
    let piece = Slice::new(Buffer::from(vec![7; PIECE]));
    let mut sender = Sender { piece, connection: None, sent: 0, is_closed: false };
    let limit = Instant::now() + LIMIT;
    while sender.connection.is_none() {
        host.poll(&mut sender);
        if Instant::now() > limit {
            bail!("no connection within {LIMIT:?}");
        }
    }
    rate(duration, || {
        let before = sender.sent;
        host.poll(&mut sender);
        if sender.is_closed {
            bail!("the receiver closed the connection")
        }
        Ok(sender.sent - before)
    })
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let seconds = |text: &str| text.parse().map(Duration::from_secs);
    let rate = match words[..] {
        ["sink", at] => return sink(at.parse()?),
        ["send", to, time] => send(to.parse()?, seconds(time)?)?,
        ["port", socket, ring, offloads, own, to, time] => {
            let own =
                own.parse().map_err(|_| anyhow::anyhow!("invalid address {own}: expected ADDRESS/PREFIX"))?;
            let to: SocketAddr = to.parse()?;
            let host = host(Path::new(socket), ring.parse()?, offloads.parse()?, own)?;
            over_port(host, to.into(), seconds(time)?)?
        }
        _ => bail!(
            "usage: bulk sink ADDRESS:PORT, bulk send ADDRESS:PORT SECONDS, or bulk port SOCKET RING OFFLOADS \
                    ADDRESS/PREFIX ADDRESS:PORT SECONDS"
        ),
    };
    println!("{}", serde_json::json!({ "bits_per_second": rate }));
    Ok(())
}
