//! Fuzz target: input bytes act as a back end, both as its replies and as its writes to the rings.
//!
//! A script is run against a port over a real socket whose other end acts as the back end: valid replies, invalid
//! replies, raw bytes. Once a device runs, the script also writes to its shared memory while bursts are received and
//! sent. Ring content, headers included, is therefore untrusted input.

use super::device::QueueSetup;
use super::link::{Link, Progress};
use super::options::{Options, RingKind};
use super::{rx, tx};
use crate::socket::rights;
use crate::vhost::message::{Code, Header, MAX_DESCRIPTORS, Reply, VringState};
use crate::vhost::wire::Channel;
use crate::{BURST, Burst, BurstStats, Capabilities, Offload, QueueState, RxQueue, Segmentation, TxQueue};
use mem::{GuestMemory, Region};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Ring kinds that a script chooses from.
const KINDS: [RingKind; 4] = RingKind::ALL;
/// Offers all feature bits.
const ALL_FEATURES: u64 = u64::MAX;

/// Runs a script.
///
/// # Panics
/// If a buffer is in two places or a count is wrong.
pub fn fuzz_back_end(script: &[u8]) {
    let mut script = Script(script);
    let how = script.byte();
    let options = Options {
        ring: KINDS[usize::from(how & 3)],
        queue_size: 128,
        mergeable: how & 4 != 0,
        offloads: how & 16 == 0,
        ..Options::default()
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let Ok((front, back)) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)
    else {
        return;
    };
    let mut back = BackEnd { channel: Channel::new(back, Header::expect_request), memory: None };
    let mut link = Link::new(front, options);
    let mut now = Instant::now();
    // With a fair script all replies are valid until the device runs, which random replies rarely achieve.
    let fair = how & 8 == 0;
    loop {
        match link.advance(now) {
            Err(_) => return,
            Ok(Progress::Started) => break,
            Ok(Progress::Waits) if back.answer(&mut script, fair) => {}
            // No request is pending; only time passes.
            Ok(Progress::Waits) => now += Duration::from_mins(1),
        }
    }
    let Some((receive, transmit)) = link.device().and_then(|device| device.pairs().next()) else { return };
    let fresh = || QueueState::Fresh;
    let (Ok(rx), Ok(mut tx)) = (rx::thaw(receive, fresh()), tx::thaw(transmit, fresh())) else { return };
    let tx = if how & 32 == 0 { tx } else { tx.fork() };
    let (Some(memory), Some(own)) = (&back.memory, own()) else { return };
    let work = receive.work;
    Rings { setups: [receive, transmit], rx, tx, memory, work, own }.play(&mut script);
}

/// Packets to send: one short, two of several buffers, with and without offloads.
const OWN: [(usize, Offload); 4] = [
    (60, Offload::NONE),
    (1000, Offload::with_checksum(34, 16)),
    (5000, Offload::with_checksum(34, 16).with_segments(Segmentation::Tcp4, 1448, false)),
    (2049, Offload::NONE),
];

/// The packets of [`OWN`].
fn own() -> Option<Burst> {
    let map = GuestMemory::new(vec![Arc::new(Region::heap(0, 0, 8192))]).ok()?;
    let (map, mut burst) = (Arc::new(map), Burst::new());
    burst.begin(0);
    burst.pin(&map);
    for (i, (len, offload)) in OWN.into_iter().enumerate() {
        burst.push_kept(map.regions().first()?.seg(0, len as u32)?);
        burst.set_offload(i, offload);
    }
    burst.load_heads::<mem::copy::Portable>();
    Some(burst)
}

/// The other end of the socket.
struct BackEnd {
    channel: Channel,
    memory: Option<OwnedFd>,
}

impl BackEnd {
    /// Replies to a request if there is one: validly if `fair`, otherwise as the script selects.
    fn answer(&mut self, script: &mut Script<'_>, fair: bool) -> bool {
        let Ok(Some(message)) = self.channel.receive() else { return false };
        let Header { code, need_reply, .. } = message.header;
        if matches!(code, Code::SetMemTable | Code::AddMemReg) {
            self.memory = message.descriptors.into_iter().next();
        }
        let right = match code {
            Code::GetFeatures | Code::GetProtocolFeatures | Code::GetStatus => ALL_FEATURES,
            Code::GetQueueNum | Code::GetMaxMemSlots => 128,
            _ if need_reply => 0,
            _ => return true,
        };
        let bytes = if fair { Reply::U64(right).encode(code) } else { script.reply(code, right) };
        let files: Vec<OwnedFd> = if fair { vec![] } else { script.files() };
        let borrowed: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        // Send errors are ignored: the front end may have closed the connection.
        let _ = rights::send(self.channel.as_fd(), &bytes, &borrowed);
        true
    }
}

/// A running device.
struct Rings<'a> {
    setups: [&'a QueueSetup; 2],
    rx: Box<dyn RxQueue>,
    tx: Box<dyn TxQueue>,
    memory: &'a OwnedFd,
    /// Offloads that the back end may leave.
    work: Capabilities,
    own: Burst,
}

impl Rings<'_> {
    fn play(mut self, script: &mut Script<'_>) {
        let mut burst = Burst::new();
        while !script.0.is_empty() {
            match script.byte() & 7 {
                0 | 1 | 4 | 5 => self.poke(script),
                7 => self = self.thaw(),
                2 | 6 => {
                    let mut stats = BurstStats::default();
                    burst.begin(0);
                    let taken = self.rx.rx(&mut burst, &mut stats);
                    assert_eq!(stats.packets, burst.len() as u64 + stats.lost);
                    assert!(burst.buf_ids().len() <= BURST);
                    burst.load_heads::<mem::copy::Portable>();
                    self.validate(&burst);
                    self.rx.complete(burst.buf_ids());
                    if taken.is_err() {
                        return;
                    }
                }
                _ => {
                    let (n, mut stats) = (usize::from(script.byte()) % BURST, BurstStats::default());
                    let which = script.byte();
                    let indices: Vec<u8> = (0..n).map(|k| which >> (2 * (k % 4)) & 3).collect();
                    let Ok(done) = self.tx.tx(&self.own, &indices, &mut stats) else { return };
                    assert_eq!((stats.packets, stats.lost), (done as u64, 0));
                }
            }
        }
    }

    /// Freezes and thaws both queues. Must succeed regardless of the back end's writes.
    fn thaw(self) -> Self {
        let (rx, tx) = (self.rx.freeze(), self.tx.freeze());
        let (rx, tx) = (rx::thaw(self.setups[0], rx), tx::thaw(self.setups[1], tx));
        let (Ok(rx), Ok(tx)) = (rx, tx) else { panic!("the state of a queue is valid") };
        Self { rx, tx, ..self }
    }

    /// Checks that offloads left are within their packet and were negotiated.
    fn validate(&self, burst: &Burst) {
        for i in 0..burst.len() {
            let offload = burst.offload(i);
            assert!(self.work.cover(offload.needs()), "{offload:?}");
            assert!(offload.checksum().is_none_or(|(start, at)| start + at + 2 <= burst.frame_len(i)));
            assert!(offload.segmentation().is_none() || offload.segment() > 0, "{offload:?}");
        }
    }

    /// Writes a value somewhere into the rings or the first buffers, as a back end may at any time.
    fn poke(&self, script: &mut Script<'_>) {
        let at = (u64::from(script.byte()) << 8 | u64::from(script.byte())) & !1;
        let value = u16::from(script.byte()) | u16::from(script.byte()) << 8;
        // The memory is longer than any offset of two bytes.
        let _ = rustix::io::pwrite(self.memory, &value.to_ne_bytes(), at);
    }
}

struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> u64 {
        (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    /// A reply to `code`, usually of the right shape.
    fn reply(&mut self, code: Code, right: u64) -> Vec<u8> {
        match self.byte() {
            0..=159 => Reply::U64(right).encode(code),
            160..=191 => Reply::U64(self.number()).encode(code),
            192..=207 => Reply::State(VringState { index: 0, num: 1 }).encode(code),
            208..=223 => {
                let other = Code::from_number(u32::from(self.byte() & 63)).unwrap_or(code);
                Reply::U64(right).encode(other)
            }
            224..=239 => {
                let mut bytes = Reply::U64(right).encode(code);
                let at = usize::from(self.byte()) % bytes.len();
                bytes[at] ^= self.byte();
                bytes
            }
            _ => (0..self.byte() % 40).map(|_| self.byte()).collect(),
        }
    }

    /// Usually none, sometimes more than any message has.
    fn files(&mut self) -> Vec<OwnedFd> {
        let n = if self.byte() < 240 { 0 } else { usize::from(self.byte()) % (MAX_DESCRIPTORS + 1) };
        let flags = rustix::event::EventfdFlags::CLOEXEC;
        (0..n).filter_map(|_| rustix::event::eventfd(0, flags).ok()).collect()
    }
}
