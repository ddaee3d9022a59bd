mod log;
mod memory;
mod rings;

use super::*;
use crate::vhost::message::{Code, LogArea, StateTransfer, VringAddress, VringFile, VringState};
use crate::vhost_user::fake::{FakeEngine, QUEUES};
use mem::RegionSpec;
use rustix::event::EventfdFlags;
use rustix::fd::AsFd;
use rustix::fs::MemfdFlags;

const GUEST: u64 = 0x10_0000;
const USER: u64 = 0x7f00_0000_0000;
const LEN: u64 = 0x4_0000;
const REGION: RegionSpec = RegionSpec { guest: GUEST, user: USER, len: LEN, offset: 0 };
const SIZE: u32 = 256;
const USED: u64 = USER + 0x2000;
const PROTOCOL: u64 = ProtocolFeatures::REPLY_ACK
    | ProtocolFeatures::RARP
    | ProtocolFeatures::NET_MTU
    | ProtocolFeatures::STATUS
    | ProtocolFeatures::RESET_DEVICE
    | ProtocolFeatures::CONFIGURE_MEM_SLOTS
    | ProtocolFeatures::MQ
    | ProtocolFeatures::DEVICE_STATE;
const SPLIT: u64 = Features::VERSION_1 | Features::MRG_RXBUF | Features::PROTOCOL;
const SAVE: StateTransfer = StateTransfer { direction: 0, phase: StateTransfer::STOPPED };
/// A driver that uses its device: acknowledge, driver, driver ready, features.
const DRIVER_OK: u64 = 0xf;
const PACKED: u64 = SPLIT | Features::RING_PACKED;

fn memory(len: u64) -> OwnedFd {
    let fd = rustix::fs::memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&fd, len).unwrap();
    fd
}

fn eventfd() -> OwnedFd {
    rustix::event::eventfd(0, EventfdFlags::CLOEXEC).unwrap()
}

fn state(index: u32, num: u32) -> VringState {
    VringState { index, num }
}

fn file(index: u8) -> VringFile {
    VringFile { index, has_descriptor: true }
}

fn address(index: u32) -> VringAddress {
    VringAddress { index, flags: 0, descriptor: USER, available: USER + 0x1000, used: USED, log: 0 }
}

struct Bench {
    session: Session,
    engine: FakeEngine,
    memory: OwnedFd,
}

impl Bench {
    fn new() -> Self {
        let offer = Offer {
            features: Features(PACKED | Features::MQ | Features::NET_MTU | Features::LOG_ALL),
            protocol: ProtocolFeatures(PROTOCOL | ProtocolFeatures::LOG_SHMFD),
            queue_pairs: 2,
            mtu: Some(9000),
            memory: MAX_BYTES,
        };
        Self { session: Session::new(offer, QUEUES), engine: FakeEngine::default(), memory: memory(LEN) }
    }

    /// Features and memory are known and the driver is ready, no ring is.
    fn negotiated(features: u64) -> Self {
        let mut bench = Self::new();
        bench.accepts(&Request::SetProtocolFeatures(PROTOCOL));
        bench.accepts(&Request::SetFeatures(features));
        bench.accepts(&Request::SetMemTable(vec![REGION]));
        bench.accepts(&Request::SetStatus(DRIVER_OK));
        bench
    }

    /// Ring `index` runs.
    fn running(features: u64, index: u8, base: u32) -> Self {
        let mut bench = Self::negotiated(features);
        bench.accepts_all(ring_messages(index, base));
        bench
    }

    fn send(&mut self, request: &Request, fds: Vec<OwnedFd>, ack: bool) -> Result<Option<Reply>, PortFault> {
        let bytes = request.encode(ack);
        let header = Header::decode(bytes[..Header::BYTES].try_into().unwrap()).unwrap();
        let answer = self.session.receive(header, &bytes[Header::BYTES..], fds, &mut self.engine)?;
        Ok(answer.map(|bytes| Reply::decode(header.code, &bytes[Header::BYTES..]).unwrap()))
    }

    fn fds_for(&self, request: &Request) -> Vec<OwnedFd> {
        let is_memory = matches!(request.code(), Code::SetMemTable | Code::AddMemReg);
        let new = |_| if is_memory { self.memory.try_clone().unwrap() } else { eventfd() };
        (0..request.descriptors()).map(new).collect()
    }

    fn accepts(&mut self, request: &Request) {
        let fds = self.fds_for(request);
        let answer = self.send(request, fds, false);
        assert_eq!(answer, Ok(None), "{request:?}");
    }

    fn accepts_all(&mut self, requests: impl IntoIterator<Item = Request>) {
        for request in requests {
            self.accepts(&request);
        }
    }

    fn reply_to(&mut self, request: &Request) -> Reply {
        self.send(request, vec![], false).unwrap().unwrap()
    }

    fn fails(&mut self, request: &Request) -> String {
        let fds = self.fds_for(request);
        self.send(request, fds, false).unwrap_err().to_string()
    }

    fn refuses(&mut self, request: &Request) {
        let fds = self.fds_for(request);
        assert_eq!(self.send(request, fds, true), Ok(Some(Reply::U64(1))), "{request:?}");
    }

    fn runs(&self, index: u8) -> bool {
        let pair = u16::from(index / 2);
        if index % 2 == 1 { self.engine.rx.contains_key(&pair) } else { self.engine.tx.contains_key(&pair) }
    }

    fn base(&mut self, index: u32) -> u32 {
        match self.reply_to(&Request::GetVringBase(index)) {
            Reply::State(s) if s.index == index => s.num,
            other => panic!("{other:?}"),
        }
    }

    fn poke_used_index(&self, index: u16) {
        rustix::io::pwrite(&self.memory, &index.to_ne_bytes(), USED - USER + 2).unwrap();
    }
}

fn ring_messages(index: u8, base: u32) -> Vec<Request> {
    let ring = u32::from(index);
    vec![
        Request::SetVringNum(state(ring, SIZE)),
        Request::SetVringBase(state(ring, base)),
        Request::SetVringAddr(address(ring)),
        Request::SetVringCall(file(index)),
        Request::SetVringKick(file(index)),
        Request::SetVringEnable(state(ring, 1)),
    ]
}

#[test]
fn unoffered_feature_bits_are_a_fault() {
    assert!(Bench::new().fails(&Request::SetFeatures(1 << 25)).contains("0x2000000"));
    let bit = ProtocolFeatures::BACKEND_REQ;
    let fault = Bench::new().fails(&Request::SetProtocolFeatures(PROTOCOL | bit));
    assert!(fault.contains(&format!("{bit:#x}, which were not offered")), "{fault}");
}

#[test]
fn requests_of_unnegotiated_features_are_a_fault() {
    for request in [
        Request::SendRarp([2; 6]),
        Request::NetSetMtu(1500),
        Request::ResetDevice,
        Request::GetMaxMemSlots,
        Request::AddMemReg(REGION),
        Request::RemMemReg(REGION),
        Request::SetStatus(1),
        Request::GetStatus,
        Request::SetLogBase(LogArea { len: 64, offset: 0 }),
        Request::SetDeviceStateFd(SAVE),
        Request::CheckDeviceState,
    ] {
        assert!(Bench::new().fails(&request).contains("was not negotiated"));
    }
}

#[test]
fn a_reset_stops_the_rings_and_keeps_the_memory() {
    for reset in [Request::ResetDevice, Request::SetStatus(0), Request::ResetOwner] {
        let mut bench = Bench::running(SPLIT, 1, 0);
        bench.accepts(&reset);
        assert!(!bench.runs(1));
        assert_eq!(bench.session.memory_use(), (1, LEN));
        bench.accepts(&Request::SetFeatures(SPLIT));
        bench.poke_used_index(0);
        bench.accepts_all(ring_messages(1, 0));
        bench.accepts(&Request::SetStatus(DRIVER_OK));
        assert!(bench.runs(1));
    }
}

#[test]
fn the_device_status_is_kept() {
    let mut bench = Bench::negotiated(SPLIT);
    bench.accepts(&Request::SetStatus(11));
    assert_eq!(bench.reply_to(&Request::GetStatus), Reply::U64(11));
}

#[test]
fn the_saved_state_is_empty_and_a_restored_state_must_be() {
    let mut bench = Bench::running(SPLIT, 1, 0);
    let reply = |bench: &mut Bench, transfer, end: OwnedFd| {
        bench.send(&Request::SetDeviceStateFd(transfer), vec![end], true).unwrap().unwrap()
    };
    let (read, write) = rustix::pipe::pipe().unwrap();
    assert_eq!(reply(&mut bench, SAVE, write), Reply::U64(0x101), "a ring is running");
    assert_eq!(rustix::io::read(&read, &mut [0; 8]), Ok(0));
    bench.reply_to(&Request::GetVringBase(1));
    for (transfer, expected) in [
        (SAVE, 0x100),
        (StateTransfer { direction: StateTransfer::LOAD, ..SAVE }, 0x100),
        (StateTransfer { direction: 2, ..SAVE }, 0x101),
        (StateTransfer { phase: 1, ..SAVE }, 0x101),
    ] {
        let (read, write) = rustix::pipe::pipe().unwrap();
        if transfer.direction == StateTransfer::LOAD {
            assert_eq!(reply(&mut bench, transfer, read), Reply::U64(expected));
            assert_eq!(rustix::io::write(&write, b"state"), Err(rustix::io::Errno::PIPE));
        } else {
            assert_eq!(reply(&mut bench, transfer, write), Reply::U64(expected), "{transfer:?}");
            assert_eq!(rustix::io::read(&read, &mut [0; 8]), Ok(0), "the end of the state");
        }
    }
    assert_eq!(bench.reply_to(&Request::CheckDeviceState), Reply::U64(0));
}

#[test]
fn mtu_is_validated() {
    let mut bench = Bench::negotiated(SPLIT);
    bench.accepts(&Request::NetSetMtu(9000));
    bench.accepts(&Request::NetSetMtu(68));
    for mtu in [0, 67, 9001, u64::MAX] {
        bench.refuses(&Request::NetSetMtu(mtu));
    }
}

#[test]
fn send_rarp_injects_a_frame() {
    let mut bench = Bench::negotiated(SPLIT);
    let address = [2, 0, 0, 0, 0, 9];
    bench.accepts(&Request::SendRarp(address));
    let frame = &bench.engine.injected[0];
    assert_eq!(frame.len(), 60);
    assert_eq!(
        (&frame[..6], &frame[6..12], &frame[12..14]),
        (&[0xff; 6][..], &address[..], &[0x80, 0x35][..])
    );
    assert_eq!(frame[14..22], [0, 1, 8, 0, 6, 4, 0, 3]);
    assert_eq!((&frame[22..28], &frame[32..38]), (&address[..], &address[..]));
    bench.refuses(&Request::SendRarp([0xff; 6]));
    bench.refuses(&Request::SendRarp([0; 6]));
}

#[test]
fn reply_is_sent_only_if_requested_and_negotiated() {
    let mut bench = Bench::new();
    assert_eq!(bench.send(&Request::SetOwner, vec![], true), Ok(None), "not negotiated yet");
    bench.accepts(&Request::SetProtocolFeatures(PROTOCOL));
    assert_eq!(bench.send(&Request::SetOwner, vec![], true), Ok(Some(Reply::U64(0))));
    assert_eq!(bench.send(&Request::SetOwner, vec![], false), Ok(None));
    let both = bench.send(&Request::GetFeatures, vec![], true).unwrap();
    assert!(matches!(both, Some(Reply::U64(bits)) if bits & Features::VERSION_1 != 0), "one answer, not two");
}

#[test]
fn end_releases_everything() {
    let mut bench = Bench::running(SPLIT, 1, 0);
    bench.session.end(&mut bench.engine);
    assert!(bench.engine.rx.is_empty());
    assert_eq!(bench.session.memory_use(), (0, 0));
    assert!(bench.memory.as_fd().try_clone_to_owned().is_ok());
}
