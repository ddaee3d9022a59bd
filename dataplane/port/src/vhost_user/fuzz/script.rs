//! Generates front-end messages from bytes: usually almost valid, sometimes odd, sometimes arbitrary bytes.
//!
//! Every byte string is a script, and its messages are deterministic. Missing bytes are zeros, which select common
//! values. Independent of the back end: messages are written to a socket.

use super::send;
use crate::vhost::message::{
    Code, Header, LogArea, MAX_DESCRIPTORS, Request, StateTransfer, VringAddress, VringFile, VringState,
};
use mem::RegionSpec;
use rustix::event::EventfdFlags;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, Mode, OFlags, open};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// Supported messages. One is listed twice, because many ring messages are valid only while the ring is stopped.
const MESSAGES: [Code; 28] = [
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
    Code::GetVringBase,
    Code::ResetDevice,
    Code::GetMaxMemSlots,
    Code::AddMemReg,
    Code::RemMemReg,
    Code::SetStatus,
    Code::GetStatus,
    Code::SetLogBase,
    Code::SetDeviceStateFd,
    Code::CheckDeviceState,
];

/// Environment of a script: the front end's memory and the back end's features.
#[derive(Clone, Copy, Debug)]
pub struct Environment<'a> {
    /// Well-formed memory.
    pub region: RegionSpec,
    /// The file behind it. `None`: new zeroed memory for each message.
    pub file: Option<BorrowedFd<'a>>,
    /// Device features.
    pub features: u64,
    /// Protocol features.
    pub protocol: u64,
}

/// Messages generated from bytes.
#[derive(Debug)]
pub struct Script<'a> {
    bytes: &'a [u8],
    environment: Environment<'a>,
}

impl<'a> Script<'a> {
    /// Creates the script of `bytes`.
    pub fn new(bytes: &'a [u8], environment: Environment<'a>) -> Self {
        Self { bytes, environment }
    }
}

impl Script<'_> {
    /// Whether all bytes are used.
    pub fn is_over(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next byte, or zero at the end.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        *first
    }

    fn number(&mut self) -> u64 {
        match self.byte() {
            small @ 0..=31 => u64::from(small),
            power @ 32..=95 => 1 << (power - 32),
            edge @ 96..=239 => self.edge(edge),
            raw => u64::from(raw) << (self.byte() & 63) | u64::from(self.byte()),
        }
    }

    /// Boundary values.
    fn edge(&self, which: u8) -> u64 {
        let region = self.environment.region;
        match which % 16 {
            0 => 0,
            1 => 1,
            2 => 0x8000,
            3 => 0x8001,
            4 => 0xffff,
            5 => 0x1_0000,
            6 => 0xffff_ffff,
            7 => region.user,
            8 => region.user + 0x8000,
            9 => region.user + region.len - 16,
            10 => region.guest,
            11 => region.len,
            12 => 1 << 40,
            13 => 1 << 62,
            14 => i64::MAX as u64,
            _ => u64::MAX,
        }
    }

    /// Sends the next message. Returns an error if the socket is full or closed.
    pub fn send(&mut self, to: BorrowedFd<'_>) -> Result<(), Errno> {
        let how = self.byte();
        let (mut bytes, mut want) = match self.code() {
            Some(code) => self.message(code, how & 1 != 0),
            None => (self.raw(), 0),
        };
        match how {
            0xfc.. => want = usize::from(self.byte()) % (MAX_DESCRIPTORS + 2),
            0xf8.. if !bytes.is_empty() => {
                let at = usize::from(self.byte()) % bytes.len();
                bytes[at] ^= self.byte();
            }
            0xf4.. => self.resize(&mut bytes),
            0xf0.. => self.flag(&mut bytes),
            _ => {}
        }
        let descriptors: Vec<_> = (0..want).filter_map(|_| self.descriptor(bytes.first())).collect();
        let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        send(to, &bytes, &borrowed)
    }

    /// Changes the payload's length, and the length in the header or not.
    fn resize(&mut self, bytes: &mut Vec<u8>) {
        const SIZES: [u32; 8] = [0, 1, 7, 8, 12, 40, 264, u32::MAX];
        let (how, size) = (self.byte(), SIZES[usize::from(self.byte()) % SIZES.len()]);
        if how & 1 == 0 {
            bytes.resize(Header::BYTES + size.min(300) as usize, how);
        }
        if how & 2 == 0 && bytes.len() >= Header::BYTES {
            bytes[8..12].copy_from_slice(&size.to_ne_bytes());
        }
    }

    /// Changes the version, the reply flag, or unknown flags.
    fn flag(&mut self, bytes: &mut [u8]) {
        const FLAGS: [u32; 8] = [0, 2, 3, 5, 9, 13, 0x11, u32::MAX];
        let flags = FLAGS[usize::from(self.byte()) % FLAGS.len()];
        if bytes.len() >= Header::BYTES {
            bytes[4..8].copy_from_slice(&flags.to_ne_bytes());
        }
    }

    /// Usually a supported message.
    fn code(&mut self) -> Option<Code> {
        match self.byte() {
            any @ 240.. => Code::from_number(u32::from(any & 3) * 16 + u32::from(self.byte() & 15)),
            served => MESSAGES.get(usize::from(served) % MESSAGES.len()).copied(),
        }
    }

    /// Usually an existing ring.
    fn ring(&mut self) -> u8 {
        match self.byte() {
            any @ 250.. => any,
            there => there & 3,
        }
    }

    /// Usually an address inside the region.
    fn place(&mut self) -> u64 {
        match self.byte() {
            240.. => self.number(),
            inside => self.environment.region.user + (u64::from(inside) << 12),
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
            return self.environment.region;
        }
        RegionSpec { guest: self.number(), user: self.number(), len: self.number(), offset: self.number() }
    }

    /// Usually one region.
    fn table(&mut self) -> Vec<RegionSpec> {
        let n = match self.byte() {
            any @ 128.. => any % 9,
            _ => 1,
        };
        (0..n).map(|_| self.region()).collect()
    }

    /// Usually 0 or 1.
    fn switch(&mut self) -> VringState {
        let index = self.ring().into();
        let num = match self.byte() {
            250.. => self.number() as u32,
            bit => u32::from(bit & 1),
        };
        VringState { index, num }
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
            Code::SetFeatures => Request::SetFeatures(self.features(self.environment.features)),
            Code::SetOwner => Request::SetOwner,
            Code::ResetOwner => Request::ResetOwner,
            Code::SetMemTable => Request::SetMemTable(self.table()),
            Code::SetVringNum => Request::SetVringNum(self.state()),
            Code::SetVringAddr => Request::SetVringAddr(self.address()),
            Code::SetVringBase => Request::SetVringBase(self.state()),
            Code::GetVringBase => Request::GetVringBase(self.ring().into()),
            Code::SetVringKick => Request::SetVringKick(self.file()),
            Code::SetVringCall => Request::SetVringCall(self.file()),
            Code::SetVringErr => Request::SetVringErr(self.file()),
            Code::GetProtocolFeatures => Request::GetProtocolFeatures,
            Code::SetProtocolFeatures => {
                Request::SetProtocolFeatures(self.features(self.environment.protocol))
            }
            Code::GetQueueNum => Request::GetQueueNum,
            Code::SetVringEnable => Request::SetVringEnable(self.switch()),
            Code::SendRarp => Request::SendRarp([self.station(), 1, 2, 3, 4, 5]),
            Code::NetSetMtu => Request::NetSetMtu(self.number()),
            Code::ResetDevice => Request::ResetDevice,
            Code::GetMaxMemSlots => Request::GetMaxMemSlots,
            Code::AddMemReg => Request::AddMemReg(self.region()),
            Code::RemMemReg => Request::RemMemReg(self.region()),
            Code::SetStatus => Request::SetStatus(self.status()),
            Code::GetStatus => Request::GetStatus,
            Code::SetDeviceStateFd => Request::SetDeviceStateFd(StateTransfer {
                direction: (self.byte() % 3).into(),
                phase: (self.byte() % 2).into(),
            }),
            Code::CheckDeviceState => Request::CheckDeviceState,
            Code::SetLogBase => Request::SetLogBase(LogArea { len: self.log_len(), offset: 0 }),
            _ => return None,
        })
    }

    /// Usually within the file.
    fn log_len(&mut self) -> u64 {
        match self.byte() {
            any @ 200.. => self.number() ^ u64::from(any),
            pages => u64::from(pages) * 64,
        }
    }

    fn features(&mut self, all: u64) -> u64 {
        match self.byte() {
            240.. => self.number(),
            fewer @ 128.. => all & !(1 << (fewer & 63)),
            _ => all,
        }
    }

    /// Usually within eight bits.
    fn status(&mut self) -> u64 {
        match self.byte() {
            250.. => self.number(),
            bits => bits.into(),
        }
    }

    /// First byte of a MAC address, usually unicast.
    fn station(&mut self) -> u8 {
        match self.byte() {
            any @ 240.. => any,
            one => one & !1,
        }
    }

    /// Usually the right kind of descriptor for the message with this first byte.
    fn descriptor(&mut self, message: Option<&u8>) -> Option<OwnedFd> {
        let memory_wanted = matches!(message, Some(5 | 6 | 37));
        let len = self.environment.region.len;
        match self.byte() {
            0xff => rustix::pipe::pipe().ok().map(|(read, _)| read),
            0xfe => open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).ok(),
            0xfd => open("/", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok(),
            0xfc => closed_socket(),
            0xfb => memory(len / 2),
            0xfa => memory(0),
            0xf9 => memory(len),
            odd if (odd >= 0xf0) == memory_wanted => event(),
            _ => self.environment.file.map_or_else(|| memory(len), |file| file.try_clone_to_owned().ok()),
        }
    }
}

/// Shared memory, zeroed.
pub fn memory(len: u64) -> Option<OwnedFd> {
    let fd = rustix::fs::memfd_create("script", MemfdFlags::CLOEXEC).ok()?;
    rustix::fs::ftruncate(&fd, len).ok()?;
    Some(fd)
}

/// An eventfd for kicks or calls.
pub fn event() -> Option<OwnedFd> {
    rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()
}

/// A socket whose other end is closed.
fn closed_socket() -> Option<OwnedFd> {
    let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    pair.ok().map(|(ours, _theirs)| ours)
}
