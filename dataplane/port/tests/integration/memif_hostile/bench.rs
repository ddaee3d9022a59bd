//! A hand-written memif client, connected to a port over a real socket.

use port::memif::{Memif, Options};
use port::vhost_user::fake::FakeEngine;
use port::{PortControl, PortFault, PortState};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType,
};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::time::Instant;

pub(super) const COOKIE: u32 = 0x3e3_1f20;
pub(super) const REGION: u64 = 1 << 20;
/// Offset of the ring to the client. The ring to the server is at 0; buffers of 2048 bytes start at `BUFFERS`.
pub(super) const BACK: u64 = 0x8000;
pub(super) const BUFFERS: u64 = 0x1_0000;
pub(super) const SIZE: u16 = 128;

/// A hand-written client, and the port that it is connected to.
pub(super) struct Bench {
    pub(super) port: Memif,
    pub(super) engine: FakeEngine,
    pub(super) socket: OwnedFd,
    pub(super) memory: OwnedFd,
    pub(super) now: Instant,
    pub(super) path: PathBuf,
}

pub(super) fn options() -> Options {
    Options { ring_size: SIZE, ..Options::default() }
}

pub(super) fn dial(path: &Path) -> OwnedFd {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    rustix::net::connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    socket
}

pub(super) fn message(kind: u16, fields: &[&[u8]]) -> Vec<u8> {
    let mut bytes: Vec<u8> = kind.to_ne_bytes().into_iter().chain(fields.concat()).collect();
    bytes.resize(128, 0);
    bytes
}

pub(super) fn init() -> Vec<u8> {
    message(3, &[&0x200u16.to_ne_bytes(), &0u32.to_ne_bytes(), &[0]])
}

pub(super) fn region(index: u16, size: u64) -> Vec<u8> {
    message(4, &[&index.to_ne_bytes(), &size.to_ne_bytes()])
}

pub(super) fn ring(to_server: u16, index: u16, region: u16, offset: u32, log2: u8) -> Vec<u8> {
    let numbers = [to_server, index, region].map(u16::to_ne_bytes).concat();
    message(5, &[&numbers, &offset.to_ne_bytes(), &[log2]])
}

pub(super) fn connect() -> Vec<u8> {
    message(6, &[b"by hand"])
}

pub(super) fn event() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC).unwrap()
}

impl Bench {
    pub(super) fn new(dir: &Path) -> Self {
        let path = dir.join("s");
        let port = Memif::listen(&path, options()).unwrap();
        let memory = memfd_create("memif-hostile", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&memory, REGION).unwrap();
        let (socket, now) = (dial(&path), Instant::now());
        let mut bench = Self { port, engine: FakeEngine::default(), socket, memory, now, path };
        for ring in [0, BACK] {
            bench.poke(ring, &COOKIE.to_ne_bytes());
        }
        bench.turn();
        bench
    }

    pub(super) fn turn(&mut self) {
        (0..3).for_each(|_| self.port.handle(self.now, &mut self.engine));
    }

    pub(super) fn poke(&self, at: u64, bytes: &[u8]) {
        assert_eq!(rustix::io::pwrite(&self.memory, bytes, at), Ok(bytes.len()));
    }

    pub(super) fn peek(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        assert_eq!(rustix::io::pread(&self.memory, &mut bytes, at), Ok(len));
        bytes
    }

    pub(super) fn send_message(&mut self, bytes: &[u8], files: &[BorrowedFd<'_>]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(files.is_empty() || control.push(SendAncillaryMessage::ScmRights(files)));
        let iov = [IoSlice::new(bytes)];
        // Errors are ignored: the tests check whether the port has closed the connection.
        let _ = rustix::net::sendmsg(&self.socket, &iov, &mut control, SendFlags::NOSIGNAL);
        self.turn();
    }

    pub(super) fn share(&mut self) {
        let memory = rustix::io::dup(&self.memory).unwrap();
        self.send_message(&init(), &[]);
        self.send_message(&region(0, REGION), &[memory.as_fd()]);
    }

    /// Sets up one ring per direction and starts the queues.
    pub(super) fn run(&mut self) {
        self.share();
        self.send_message(&ring(1, 0, 0, 0, 7), &[event().as_fd()]);
        self.send_message(&ring(0, 0, 0, BACK as u32, 7), &[event().as_fd()]);
        self.send_message(&connect(), &[]);
        assert_eq!((self.engine.rx.len(), self.engine.tx.len()), (1, 1), "{:?}", self.port.status());
    }

    pub(super) fn describe(&self, ring: u64, slot: u64, flags: u16, region: u16, len: u32, offset: u32) {
        let words =
            [&[flags, region].map(u16::to_ne_bytes).concat()[..], &len.to_ne_bytes(), &offset.to_ne_bytes()];
        self.poke(ring + 128 + slot * 16, &words.concat());
    }

    pub(super) fn head(&self, ring: u64, head: u16) {
        self.poke(ring + 6, &head.to_ne_bytes());
    }

    pub(super) fn tail(&self, ring: u64) -> u16 {
        u16::from_ne_bytes(self.peek(ring + 64, 2).try_into().unwrap())
    }

    pub(super) fn fault(&self) -> PortFault {
        match self.port.status().state {
            PortState::Faulted(fault) => fault,
            other => panic!("no fault: {other:?}"),
        }
    }

    /// Types of all messages sent by the port since the last call.
    pub(super) fn received_types(&self) -> Vec<u16> {
        let (mut kinds, mut bytes) = (vec![], [0; 129]);
        while let Ok(n) = rustix::io::read(&self.socket, &mut bytes) {
            if n == 0 {
                kinds.push(0);
                break;
            }
            assert_eq!(n, 128);
            kinds.push(u16::from_ne_bytes([bytes[0], bytes[1]]));
        }
        kinds
    }
}
