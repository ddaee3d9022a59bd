//! One entry for fuzzing: bytes become a stream of messages with descriptors.
//!
//! Every byte string is a script. It speaks over a real socket to a [`Session`] with fake queues, mostly in
//! messages that are almost right, so that a fuzzer gets past the first check, and now and then in raw bytes.
//! Whatever the script does, the session ends with a named fault or in peace, and nothing of it stays.

use super::fake::{FakeEngine, QUEUES};
use super::message::{Code, Header, ProtocolFeatures, Request, VringAddress, VringFile, VringState};
use super::session::{Offer, Session};
use super::setup::Features;
use super::sys;
use super::wire::Channel;
use mem::RegionSpec;
use rustix::event::EventfdFlags;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::MemfdFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// Where the script's well-formed memory lies.
const REGION: RegionSpec = RegionSpec { guest: 0x1000, user: 0x7000_0000, len: 0x10_0000, offset: 0 };
/// Numbers that are worth a try.
const EDGES: [u64; 16] = [
    0,
    1,
    0x8000,
    0x8001,
    0xffff,
    0x1_0000,
    0xffff_ffff,
    REGION.user,
    REGION.user + 0x8000,
    REGION.user + REGION.len - 16,
    REGION.guest,
    REGION.len,
    1 << 40,
    1 << 62,
    i64::MAX as u64,
    u64::MAX,
];

/// The messages that are served.
const SERVED: [Code; 25] = [
    Code::GetFeatures,
    Code::SetFeatures,
    Code::SetOwner,
    Code::ResetOwner,
    Code::SetMemTable,
    Code::SetVringNum,
    Code::SetVringAddr,
    Code::SetVringBase,
    Code::GetVringBase,
    Code::SetVringKick,
    Code::SetVringCall,
    Code::SetVringErr,
    Code::GetProtocolFeatures,
    Code::SetProtocolFeatures,
    Code::GetQueueNum,
    Code::SetVringEnable,
    Code::SendRarp,
    Code::NetSetMtu,
    Code::SetBackendReqFd,
    Code::ResetDevice,
    Code::GetMaxMemSlots,
    Code::AddMemReg,
    Code::RemMemReg,
    Code::SetStatus,
    Code::GetStatus,
];

/// What every session here offers: everything.
const OFFER: Offer = Offer {
    features: Features(
        Features::VERSION_1
            | Features::MRG_RXBUF
            | Features::ANY_LAYOUT
            | Features::INDIRECT_DESC
            | Features::EVENT_IDX
            | Features::IN_ORDER
            | Features::RING_PACKED
            | Features::NET_MTU
            | Features::MQ
            | Features::PROTOCOL,
    ),
    protocol: ProtocolFeatures(
        ProtocolFeatures::MQ
            | ProtocolFeatures::RARP
            | ProtocolFeatures::REPLY_ACK
            | ProtocolFeatures::NET_MTU
            | ProtocolFeatures::BACKEND_REQ
            | ProtocolFeatures::RESET_DEVICE
            | ProtocolFeatures::CONFIGURE_MEM_SLOTS
            | ProtocolFeatures::STATUS,
    ),
    queue_pairs: 2,
    mtu: Some(1500),
};

/// Plays a script.
///
/// # Panics
/// When a queue is left running or memory mapped: that is what a fuzzer looks for.
pub fn fuzz_session(script: &[u8]) {
    let mut script = Script(script);
    let mut engine = FakeEngine::default();
    while !script.0.is_empty() {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let Ok((front, back)) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        else {
            return;
        };
        let mut channel = Channel::new(back, Header::expect_request);
        let mut session = Session::new(OFFER, QUEUES);
        if script.byte() & 1 == 1 {
            warm_up(&front, &mut channel, &mut session, &mut engine);
        }
        while !script.0.is_empty() {
            if script.send(&front).is_none() || serve(&mut channel, &mut session, &mut engine).is_none() {
                break;
            }
            drain(&front);
        }
        session.end(&mut engine);
        assert!(engine.rx.is_empty() && engine.tx.is_empty(), "a session ended but a queue runs");
        assert_eq!(session.memory_use(), (0, 0), "a session ended but its memory is mapped");
    }
}

/// Two rings run, which a script alone seldom gets to.
fn warm_up(front: &OwnedFd, channel: &mut Channel, session: &mut Session, engine: &mut FakeEngine) {
    // All zeros but for what is named: descriptors are of the right kind and numbers are small.
    let mut script = Script(&[]);
    let mut say = |request: Request| {
        let bytes = request.encode(false);
        let fds: Vec<_> =
            (0..request.descriptors()).filter_map(|_| script.descriptor(bytes.first())).collect();
        let borrowed: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        let sent = sys::send(front.as_fd(), &bytes, &borrowed);
        assert!(sent.is_ok() && serve(channel, session, engine).is_some(), "{request:?} was refused");
    };
    say(Request::SetProtocolFeatures(OFFER.protocol.0));
    say(Request::SetFeatures(OFFER.features.0 & !Features::RING_PACKED));
    say(Request::SetMemTable(vec![REGION]));
    for index in 0..2 {
        let file = VringFile { index, has_descriptor: true };
        let index = u32::from(index);
        let at = REGION.user + 0x4_0000 * u64::from(index);
        let (used, available) = (at + 0x1_0000, at + 0x2_0000);
        say(Request::SetVringNum(VringState { index, num: 256 }));
        say(Request::SetVringAddr(VringAddress {
            index,
            descriptor: at,
            used,
            available,
            ..Default::default()
        }));
        say(Request::SetVringKick(file));
        say(Request::SetVringCall(file));
        say(Request::SetVringEnable(VringState { index, num: 1 }));
    }
    assert_eq!((engine.rx.len(), engine.tx.len()), (1, 1), "two rings were set up");
}

/// Carries out what is there. `None` when the session is over.
fn serve(channel: &mut Channel, session: &mut Session, engine: &mut FakeEngine) -> Option<()> {
    loop {
        match channel.receive() {
            Ok(Some(m)) => {
                if let Some(answer) = session.receive(m.header, m.payload, m.descriptors, engine).ok()? {
                    channel.send(&answer, &[]).ok()?;
                }
            }
            Ok(None) => return std::mem::take(&mut engine.faults).is_empty().then_some(()),
            Err(_) => return None,
        }
    }
}

fn drain(front: &OwnedFd) {
    let mut descriptors = Vec::new();
    while let Ok(Some(_)) = sys::receive(front.as_fd(), &mut [0; 256], &mut descriptors) {}
}

struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> u64 {
        match self.byte() {
            small @ 0..=31 => u64::from(small),
            power @ 32..=95 => 1 << (power - 32),
            edge @ 96..=239 => EDGES[edge as usize % EDGES.len()],
            raw => u64::from(raw) << (self.byte() & 63) | u64::from(self.byte()),
        }
    }

    /// Sends the next message. `None` when the socket is full.
    fn send(&mut self, to: &OwnedFd) -> Option<()> {
        let how = self.byte();
        let (mut bytes, mut want) = match self.code() {
            Some(code) => self.message(code, how & 1 != 0),
            None => (self.raw(), 0),
        };
        if how & 0xf0 == 0xf0 {
            want = usize::from(self.byte()) % 9;
        }
        if how & 0xf0 == 0xe0 && !bytes.is_empty() {
            let at = usize::from(self.byte()) % bytes.len();
            bytes[at] ^= self.byte();
        }
        let descriptors: Vec<_> = (0..want).filter_map(|_| self.descriptor(bytes.first())).collect();
        let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        sys::send(to.as_fd(), &bytes, &borrowed).ok()
    }

    /// Mostly one of the messages that are served.
    fn code(&mut self) -> Option<Code> {
        match self.byte() {
            any @ 240.. => Code::from_number(u32::from(any & 3) * 16 + u32::from(self.byte() & 15)),
            served => SERVED.get(usize::from(served) % SERVED.len()).copied(),
        }
    }

    /// Mostly a ring that exists.
    fn ring(&mut self) -> u8 {
        match self.byte() {
            any @ 250.. => any,
            there => there & 3,
        }
    }

    /// Mostly inside the region.
    fn place(&mut self) -> u64 {
        match self.byte() {
            240.. => self.number(),
            inside => REGION.user + (u64::from(inside) << 12),
        }
    }

    fn raw(&mut self) -> Vec<u8> {
        let n = usize::from(self.byte()) % 32 + 1;
        (0..n).map(|_| self.byte()).collect()
    }

    fn message(&mut self, code: Code, need_reply: bool) -> (Vec<u8>, usize) {
        match self.request(code) {
            Some(request) => (request.encode(need_reply), request.descriptors()),
            None => (Header::request(code, need_reply, self.byte().into()).encode().to_vec(), 0),
        }
    }

    fn state(&mut self) -> VringState {
        VringState { index: self.ring().into(), num: self.number() as u32 }
    }

    fn file(&mut self) -> VringFile {
        VringFile { index: self.ring(), has_descriptor: self.byte() & 7 != 7 }
    }

    fn region(&mut self) -> RegionSpec {
        if self.byte() & 3 != 3 {
            return REGION;
        }
        RegionSpec { guest: self.number(), user: self.number(), len: self.number(), offset: self.number() }
    }

    fn address(&mut self) -> VringAddress {
        VringAddress {
            index: self.ring().into(),
            flags: u32::from(self.byte() == 255),
            descriptor: self.place(),
            used: self.place(),
            available: self.place(),
            log: 0,
        }
    }

    fn request(&mut self, code: Code) -> Option<Request> {
        Some(match code {
            Code::GetFeatures => Request::GetFeatures,
            Code::SetFeatures => Request::SetFeatures(self.features(OFFER.features.0)),
            Code::SetOwner => Request::SetOwner,
            Code::ResetOwner => Request::ResetOwner,
            Code::SetMemTable => Request::SetMemTable((0..self.byte() % 9).map(|_| self.region()).collect()),
            Code::SetVringNum => Request::SetVringNum(self.state()),
            Code::SetVringAddr => Request::SetVringAddr(self.address()),
            Code::SetVringBase => Request::SetVringBase(self.state()),
            Code::GetVringBase => Request::GetVringBase(self.ring().into()),
            Code::SetVringKick => Request::SetVringKick(self.file()),
            Code::SetVringCall => Request::SetVringCall(self.file()),
            Code::SetVringErr => Request::SetVringErr(self.file()),
            Code::GetProtocolFeatures => Request::GetProtocolFeatures,
            Code::SetProtocolFeatures => Request::SetProtocolFeatures(self.features(OFFER.protocol.0)),
            Code::GetQueueNum => Request::GetQueueNum,
            Code::SetVringEnable => Request::SetVringEnable(self.state()),
            Code::SendRarp => Request::SendRarp([self.byte(), 1, 2, 3, 4, 5]),
            Code::NetSetMtu => Request::NetSetMtu(self.number()),
            Code::SetBackendReqFd => Request::SetBackendReqFd,
            Code::ResetDevice => Request::ResetDevice,
            Code::GetMaxMemSlots => Request::GetMaxMemSlots,
            Code::AddMemReg => Request::AddMemReg(self.region()),
            Code::RemMemReg => Request::RemMemReg(self.region()),
            Code::SetStatus => Request::SetStatus(self.number()),
            Code::GetStatus => Request::GetStatus,
            _ => return None,
        })
    }

    fn features(&mut self, all: u64) -> u64 {
        if self.byte() & 1 == 0 { all } else { self.number() }
    }

    /// Usually of the right kind for the message with this first byte, sometimes not.
    fn descriptor(&mut self, message: Option<&u8>) -> Option<OwnedFd> {
        let memory = matches!(message, Some(5 | 37));
        match self.byte() {
            0xff => rustix::pipe::pipe().ok().map(|(read, _)| read),
            odd if (odd >= 0xf0) == memory => {
                rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()
            }
            _ => {
                let fd = rustix::fs::memfd_create("script", MemfdFlags::CLOEXEC).ok()?;
                rustix::fs::ftruncate(&fd, REGION.len).ok()?;
                Some(fd)
            }
        }
    }
}
