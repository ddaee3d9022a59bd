//! Fuzz targets: input bytes act as a memif peer, both as its messages and as its writes to the rings.

use super::joined::Joined;
use super::link::Link;
use super::message::{AddRing, BYTES, Hello, Init, Message, VERSION, field};
use super::options::Options;
use super::queue::{QueueHalves, Rings};
use super::ring::{COOKIE, Ring};
use super::session::{ClientSession, ServerSession, Session};
use crate::socket::rights;
use crate::{BURST, Burst, BurstStats, RxQueue, TxQueue};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

fn options() -> Options {
    Options { queue_pairs: 2, ring_size: 128, buffer_size: 512, ..Options::default() }
}

/// Sends a script of messages to either end over a real socket.
///
/// # Panics
/// If a count is wrong or a frame is in two places.
pub fn fuzz_messages(script: &[u8]) {
    let mut script = Script(script);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let Ok((ours, theirs)) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None) else {
        return;
    };
    let server = script.byte() & 1 == 0;
    let session = if server {
        Session::Server(ServerSession::new(options()))
    } else {
        Session::Client(ClientSession::new(options()))
    };
    let Ok(mut link) = Link::new(ours, session) else { return };
    while !script.0.is_empty() {
        let (bytes, files) = if server { script.for_server() } else { script.for_client() };
        let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        // Send errors are ignored: the port may have closed the connection. Replies are read so that the socket does
        // not fill up.
        let _ = rights::send(theirs.as_fd(), &bytes, &files);
        let mut answer = [0; BYTES];
        while let Ok(Some(_)) = rights::receive(theirs.as_fd(), &mut answer, &mut vec![]) {}
        match link.advance() {
            Ok(None) => {}
            Ok(Some(rings)) => {
                use_once(rings);
                if link.started().is_err() {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

/// One burst in each direction over rings with arbitrary content.
fn use_once(rings: Rings) {
    let Ok((mut rx, mut tx)) = rings.start() else { return };
    let mut bench = Bench::new();
    for queue in &mut rx {
        let _ = queue.enable_notification();
        queue.disable_notification();
        bench.receive(queue.as_mut());
    }
    for queue in &mut tx {
        bench.send(queue.as_mut(), 40);
    }
}

/// Runs a script against the rings of either end: values written anywhere into the memory between bursts.
///
/// # Panics
/// Like [`fuzz_messages`].
pub fn fuzz_rings(script: &[u8]) {
    let mut script = Script(script);
    let Ok((joined, rings)) = Joined::new(options()) else { return };
    let which = usize::from(script.byte() & 1);
    let Some(Ok(mut queues)) = rings.into_iter().nth(which).map(Rings::start) else { return };
    let mut bench = Bench::new();
    while !script.0.is_empty() {
        let how = script.byte();
        let pair = usize::from(how >> 2 & 1);
        let continues = match how & 3 {
            0 if how & 8 != 0 => {
                queues = thaw(&joined, which, queues);
                true
            }
            0 | 1 => script.poke(&joined),
            2 => bench.receive(queues.0[pair].as_mut()),
            _ => bench.send(queues.1[pair].as_mut(), usize::from(script.byte()) % (BURST + 1)),
        };
        if !continues {
            return;
        }
    }
}

/// Freezes and thaws the queues. Must succeed regardless of the peer's writes.
fn thaw(joined: &Joined, which: usize, (rx, tx): QueueHalves) -> QueueHalves {
    let rx = rx.into_iter().map(RxQueue::freeze).collect();
    let tx = tx.into_iter().map(TxQueue::freeze).collect();
    let Some(rings) = joined.rings().ok().and_then(|rings| rings.into_iter().nth(which)) else {
        panic!("the rings are where they were")
    };
    rings.thaw((rx, tx)).unwrap_or_else(|fault| panic!("the state of a queue is valid: {fault}"))
}

/// Transmit bursts with alternating short and long frames.
struct Bench {
    burst: Burst,
    own: Burst,
    indices: [u8; BURST],
}

impl Bench {
    fn new() -> Self {
        let mut own = Burst::new();
        own.begin(0);
        own.push_own(&[2; 60]);
        own.push_own(&[3; 128]);
        Self { burst: Burst::new(), own, indices: std::array::from_fn(|i| (i % 2) as u8) }
    }

    fn receive(&mut self, queue: &mut dyn RxQueue) -> bool {
        let mut stats = BurstStats::default();
        self.burst.begin(0);
        let taken = queue.rx(&mut self.burst, &mut stats);
        assert_eq!(stats.packets, self.burst.len() as u64 + stats.lost);
        assert!(self.burst.buf_ids().len() <= BURST);
        self.burst.load_heads::<mem::copy::Portable>();
        let mut copy = vec![0; 65_550];
        for i in 0..self.burst.len() {
            let len = self.burst.frame(i).copy_to::<mem::copy::Portable>(&mut copy);
            assert_eq!(len, self.burst.frame_len(i));
        }
        queue.complete(self.burst.buf_ids());
        taken.is_ok()
    }

    fn send(&mut self, queue: &mut dyn TxQueue, n: usize) -> bool {
        let mut stats = BurstStats::default();
        let Ok(done) = queue.tx(&self.own, &self.indices[..n], &mut stats) else { return false };
        assert_eq!(stats.packets + stats.lost, done as u64);
        assert!(done <= n);
        queue.notify();
        true
    }
}

struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn short(&mut self) -> u16 {
        u16::from(self.byte()) | u16::from(self.byte()) << 8
    }

    fn long(&mut self) -> u64 {
        (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    /// Writes a value somewhere into the rings, as a peer may at any time: usually an index or a descriptor of the
    /// first ring, sometimes any of the first bytes.
    fn poke(&mut self, joined: &Joined) -> bool {
        let ring = u64::from(self.byte() & 3) * u64::from(Ring::bytes(7).next_multiple_of(64));
        let at = match self.byte() {
            0..=63 => 6,
            64..=127 => 64,
            128..=223 => 128 + 2 * u64::from(self.byte()),
            _ => u64::from(self.short()) & !1,
        };
        // The memory is longer than any offset used here.
        let _ = rustix::io::pwrite(joined.file(), &self.short().to_ne_bytes(), ring + at);
        true
    }

    /// A message to a server, with its descriptors.
    fn for_server(&mut self) -> (Vec<u8>, Vec<OwnedFd>) {
        let message = match self.byte() {
            0..=63 => Message::Init(Init {
                version: self.mostly(VERSION),
                id: u32::from(self.mostly(0)),
                mode: self.mostly(0) as u8,
                secret: field(""),
                name: field("fuzz"),
            }),
            64..=111 => {
                let size = if self.byte() < 200 { 1 << 16 } else { self.long() };
                Message::AddRegion(self.seldom_large(), size)
            }
            112..=175 => Message::AddRing(AddRing {
                to_server: self.byte() & 1 == 0,
                index: self.seldom_large(),
                region: self.mostly(0),
                offset: u32::from(self.byte() & 7) * 0x1000 + u32::from(self.mostly(0)),
                log2_size: if self.byte() < 200 { 7 } else { self.byte() },
                private_header: self.mostly(0),
            }),
            176..=223 => Message::Connect(field("fuzz")),
            224..=231 => Message::Ack,
            232..=239 => Message::disconnect("enough"),
            _ => return (self.raw(), self.files()),
        };
        let files = match message {
            Message::AddRegion(_, size) if self.byte() < 240 => vec![region(size.min(1 << 20))],
            Message::AddRing(_) if self.byte() < 240 => event().into_iter().collect(),
            Message::AddRegion(..) | Message::AddRing(_) => self.files(),
            _ if self.byte() < 250 => vec![],
            _ => self.files(),
        };
        (message.encode().to_vec(), files.into_iter().collect())
    }

    /// A message to a client.
    fn for_client(&mut self) -> (Vec<u8>, Vec<OwnedFd>) {
        let message = match self.byte() {
            0..=63 => Message::Hello(Hello {
                name: field("fuzz"),
                min_version: self.mostly(VERSION),
                max_version: self.mostly(VERSION),
                max_region: self.mostly(255),
                max_to_client: self.seldom_large(),
                max_to_server: self.seldom_large(),
                max_log2_ring_size: if self.byte() < 200 { 14 } else { self.byte() },
            }),
            64..=191 => Message::Ack,
            192..=223 => Message::Connected(field("fuzz")),
            224..=239 => Message::disconnect("enough"),
            _ => return (self.raw(), self.files()),
        };
        (message.encode().to_vec(), if self.byte() < 250 { vec![] } else { self.files() })
    }

    fn mostly(&mut self, usual: u16) -> u16 {
        if self.byte() < 240 { usual } else { self.short() }
    }

    fn seldom_large(&mut self) -> u16 {
        if self.byte() < 240 { u16::from(self.byte() & 1) } else { self.short() }
    }

    fn raw(&mut self) -> Vec<u8> {
        let n = if self.byte() < 128 { BYTES } else { usize::from(self.byte()) };
        (0..n).map(|_| self.byte()).collect()
    }

    /// Sometimes more than any message has.
    fn files(&mut self) -> Vec<OwnedFd> {
        (0..self.byte() % 11).filter_map(|n| if n % 2 == 0 { event() } else { Some(region(4096)) }).collect()
    }
}

fn event() -> Option<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC).ok()
}

/// A file with ring-like content at each page.
fn region(size: u64) -> OwnedFd {
    let file = memfd_create("fuzz", MemfdFlags::CLOEXEC);
    let file = file.unwrap_or_else(|errno| panic!("no memory file: {errno}"));
    // If this fails, the short file is one more test case.
    let _ = ftruncate(&file, size);
    for page in (0..size).step_by(4096) {
        let _ = rustix::io::pwrite(&file, &COOKIE.to_ne_bytes(), page);
    }
    file
}
