use super::*;
use crate::vhost_user::fake::{FakeEngine, QUEUES};
use crate::vhost_user::message::{Code, MAX_TABLE, VringAddress, VringFile, VringState};
use mem::RegionSpec;
use proptest::prelude::*;
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
    | ProtocolFeatures::BACKEND_REQ;
const SPLIT: u64 = Features::VERSION_1 | Features::MRG_RXBUF | Features::PROTOCOL;
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
            features: Features(PACKED | Features::MQ | Features::NET_MTU),
            protocol: ProtocolFeatures(PROTOCOL),
            queue_pairs: 2,
            mtu: Some(9000),
        };
        Self { session: Session::new(offer, QUEUES), engine: FakeEngine::default(), memory: memory(LEN) }
    }

    /// Features and memory are known, no ring is.
    fn negotiated(features: u64) -> Self {
        let mut bench = Self::new();
        bench.tell(&Request::SetProtocolFeatures(PROTOCOL));
        bench.tell(&Request::SetFeatures(features));
        bench.tell(&Request::SetMemTable(vec![REGION]));
        bench
    }

    /// Ring `index` runs.
    fn running(features: u64, index: u8, base: u32) -> Self {
        let mut bench = Self::negotiated(features);
        bench.tell_all(ring_messages(index, base));
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

    fn tell(&mut self, request: &Request) {
        let fds = self.fds_for(request);
        let answer = self.send(request, fds, false);
        assert_eq!(answer, Ok(None), "{request:?}");
    }

    fn tell_all(&mut self, requests: impl IntoIterator<Item = Request>) {
        for request in requests {
            self.tell(&request);
        }
    }

    fn ask(&mut self, request: &Request) -> Reply {
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
        match self.ask(&Request::GetVringBase(index)) {
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

proptest! {
    #[test]
    fn a_ring_starts_with_the_last_thing_it_needs_in_whatever_order(
        order in Just(ring_messages(3, 0)).prop_shuffle(),
    ) {
        let mut bench = Bench::negotiated(SPLIT);
        let mut needed = 4; // size, address, kick, enable
        for request in order {
            needed -= usize::from(!matches!(request, Request::SetVringBase(_) | Request::SetVringCall(_)));
            if needed == 0 && matches!(request, Request::SetVringBase(_)) {
                // The ring runs already, so this is the one message that is too late.
                prop_assert!(bench.fails(&request).contains("while it was running"));
                return Ok(());
            }
            bench.tell(&request);
            prop_assert_eq!(bench.runs(3), needed == 0);
        }
        prop_assert!(!bench.runs(2), "nobody started the other ring of the pair");
    }
}

#[test]
fn even_rings_bring_packets_to_the_guest_and_odd_ones_take_them() {
    let mut bench = Bench::running(SPLIT, 2, 0);
    assert!(bench.engine.tx.contains_key(&1) && bench.engine.rx.is_empty());
    bench.tell_all(ring_messages(1, 0));
    assert!(bench.engine.rx.contains_key(&0));
    let status = bench.session.queue_status();
    assert_eq!((status[0].rx_running, status[0].tx_running, status[1].tx_running), (true, false, true));
    assert_eq!(status[1].size, SIZE as u16);
}

#[test]
fn a_ring_without_protocol_features_runs_as_soon_as_it_is_started() {
    let mut bench = Bench::negotiated(Features::VERSION_1);
    bench.tell_all(ring_messages(0, 0).into_iter().take(5));
    assert!(bench.runs(0));
}

#[test]
fn a_stopped_ring_says_where_and_needs_a_new_kick() {
    let mut bench = Bench::running(SPLIT, 1, 0);
    bench.poke_used_index(3); // what the fake queue pretends to have moved
    assert_eq!(bench.base(1), 3);
    assert!(!bench.runs(1));
    bench.tell(&Request::SetVringEnable(state(1, 1)));
    assert!(!bench.runs(1));
    bench.tell(&Request::SetVringKick(file(1)));
    assert!(bench.runs(1));
    assert_eq!(bench.base(1), 6);
}

#[test]
fn a_split_ring_continues_where_its_used_index_is_whatever_the_front_end_says() {
    let mut bench = Bench::negotiated(SPLIT);
    bench.poke_used_index(41);
    bench.tell_all(ring_messages(1, 0));
    assert_eq!(bench.base(1), 44);
}

#[test]
fn a_packed_base_means_both_halves_even_if_only_the_lower_is_filled() {
    for base in [0x8005, 0x8005_8005] {
        let mut bench = Bench::running(PACKED, 1, base);
        assert_eq!(bench.base(1), 0x8008_8008);
    }
    let mut fresh = Bench::negotiated(PACKED);
    assert_eq!(fresh.base(0), 0x8000_8000, "both wrap counters begin at 1");
}

#[test]
fn a_base_that_no_ring_has_is_a_fault() {
    let mut bench = Bench::negotiated(PACKED);
    let mut messages = ring_messages(1, 0x8000 | SIZE);
    let last = messages.pop().unwrap();
    bench.tell_all(messages);
    assert!(bench.fails(&last).contains("past the end"));
    let mut bench = Bench::negotiated(SPLIT);
    let mut messages = ring_messages(1, 0x1_0000);
    let last = messages.pop().unwrap();
    bench.tell_all(messages);
    assert!(bench.fails(&last).contains("16 bits"));
}

#[test]
fn a_split_ring_of_an_odd_size_is_a_fault_and_a_packed_one_runs() {
    for (features, runs) in [(SPLIT, false), (PACKED, true)] {
        let mut bench = Bench::negotiated(features);
        let mut messages = ring_messages(1, 0x8000 & (features >> 34 << 15) as u32);
        messages[0] = Request::SetVringNum(state(1, 100));
        let last = messages.pop().unwrap();
        bench.tell_all(messages);
        if runs {
            bench.tell(&last);
            assert!(bench.runs(1));
        } else {
            assert!(bench.fails(&last).contains("power of two"));
        }
    }
}

#[test]
fn a_new_call_or_kick_or_address_moves_a_running_ring_on_from_its_place() {
    for (n, change) in [
        Request::SetVringCall(file(1)),
        Request::SetVringKick(file(1)),
        Request::SetVringKick(VringFile { index: 1, has_descriptor: false }),
        Request::SetVringAddr(VringAddress { available: USER + 0x1800, ..address(1) }),
    ]
    .into_iter()
    .enumerate()
    {
        let mut bench = Bench::running(PACKED, 1, 0x8000);
        bench.tell(&change);
        assert!(bench.runs(1), "change {n}");
        assert_eq!(bench.base(1), 0x8006_8006, "change {n}: two runs of the fake queue");
    }
}

#[test]
fn the_same_address_again_disturbs_nothing() {
    let mut bench = Bench::running(PACKED, 1, 0x8000);
    bench.tell(&Request::SetVringAddr(address(1)));
    assert_eq!(bench.base(1), 0x8003_8003, "one run of the fake queue");
}

#[test]
fn every_start_calls_the_guest_once_so_that_no_call_is_lost_in_between() {
    let mut bench = Bench::running(SPLIT, 0, 0);
    let call = eventfd();
    let request = Request::SetVringCall(file(0));
    assert_eq!(bench.send(&request, vec![call.try_clone().unwrap()], false), Ok(None));
    let mut count = [0; 8];
    assert_eq!(rustix::io::read(&call, &mut count), Ok(8));
    assert_eq!(u64::from_ne_bytes(count), 1);
}

#[test]
fn size_and_base_and_features_cannot_change_under_a_running_ring() {
    assert!(Bench::running(SPLIT, 1, 0).fails(&Request::SetVringNum(state(1, 128))).contains("running"));
    assert!(Bench::running(SPLIT, 1, 0).fails(&Request::SetVringBase(state(1, 0))).contains("running"));
    assert!(Bench::running(SPLIT, 1, 0).fails(&Request::SetFeatures(PACKED)).contains("running"));
    Bench::running(SPLIT, 1, 0).tell(&Request::SetFeatures(SPLIT));
    Bench::running(SPLIT, 1, 0).tell(&Request::SetVringNum(state(0, 128)));
}

#[test]
fn bits_that_were_not_offered_are_a_fault() {
    assert!(Bench::new().fails(&Request::SetFeatures(1 << 26)).contains("0x4000000"));
    assert!(Bench::new().fails(&Request::SetProtocolFeatures(ProtocolFeatures::LOG_SHMFD)).contains("0x2"));
}

#[test]
fn messages_of_a_feature_that_was_not_negotiated_are_a_fault() {
    for request in [
        Request::SendRarp([2; 6]),
        Request::NetSetMtu(1500),
        Request::SetBackendReqFd,
        Request::ResetDevice,
        Request::GetMaxMemSlots,
        Request::AddMemReg(REGION),
        Request::RemMemReg(REGION),
        Request::SetStatus(1),
        Request::GetStatus,
    ] {
        assert!(Bench::new().fails(&request).contains("was not negotiated"));
    }
}

#[test]
fn rings_that_do_not_exist_and_values_out_of_range_are_faults() {
    for request in [
        Request::SetVringNum(state(4, 256)),
        Request::SetVringNum(state(u32::MAX, 256)),
        Request::SetVringNum(state(0, 0)),
        Request::SetVringNum(state(0, 32_769)),
        Request::SetVringBase(state(4, 0)),
        Request::SetVringAddr(address(4)),
        Request::SetVringAddr(VringAddress { flags: VringAddress::LOG, ..address(0) }),
        Request::GetVringBase(4),
        Request::SetVringKick(file(4)),
        Request::SetVringCall(file(255)),
        Request::SetVringErr(file(4)),
        Request::SetVringEnable(state(4, 1)),
        Request::SetVringEnable(state(0, 2)),
        Request::SetStatus(256),
    ] {
        let fault = Bench::negotiated(SPLIT).fails(&request);
        assert!(fault.starts_with("the front end broke the vhost-user protocol"), "{fault}");
    }
}

#[test]
fn only_an_eventfd_can_be_a_kick_or_a_call() {
    let (pipe, _other_end) = rustix::pipe::pipe().unwrap();
    for (request, fd) in
        [(Request::SetVringKick(file(0)), pipe), (Request::SetVringCall(file(0)), memory(4096))]
    {
        let fault = Bench::negotiated(SPLIT).send(&request, vec![fd], false).unwrap_err();
        assert!(matches!(fault, PortFault::BadDescriptor(..)), "{fault}");
    }
}

#[test]
fn an_eventfd_that_blocks_is_made_to_not_block() {
    let mut bench = Bench::negotiated(SPLIT);
    let kick = eventfd();
    let ours = kick.try_clone().unwrap();
    assert_eq!(bench.send(&Request::SetVringKick(file(0)), vec![ours], false), Ok(None));
    let flags = rustix::fs::fcntl_getfl(&kick).unwrap();
    assert!(flags.contains(rustix::fs::OFlags::NONBLOCK));
}

#[test]
fn hostile_regions_are_refused_and_change_nothing() {
    let mut bench = Bench::negotiated(SPLIT);
    let region = |guest, user, len, offset| RegionSpec { guest, user, len, offset };
    for bad in [
        vec![region(0, 0, 0, 0)],
        vec![region(u64::MAX - 10, 0, 0x1000, 0)],
        vec![region(0, u64::MAX - 10, 0x1000, 0)],
        vec![region(0, 0, 0x1000, u64::MAX - 10)],
        vec![region(0, 0, u64::MAX, 0)],
        vec![region(0, 0, LEN + 1, 0)],
        vec![region(0, 0, 0x1000, LEN)],
        vec![region(0, 0, 1 << 62, 0); 2],
        vec![REGION, REGION],
        vec![REGION, region(GUEST + LEN - 1, 0, 0x1000, 0)],
        vec![REGION; MAX_TABLE],
    ] {
        bench.refuses(&Request::SetMemTable(bad.clone()));
        assert_eq!(bench.session.memory_use(), (1, LEN), "{bad:?}");
        assert!(matches!(bench.fails(&Request::SetMemTable(bad)), text if text.contains("protocol")));
    }
    bench.refuses(&Request::AddMemReg(REGION));
    bench.refuses(&Request::AddMemReg(region(0, 0, u64::MAX, 0)));
    bench.refuses(&Request::RemMemReg(region(GUEST, USER, LEN - 1, 0)));
    let not_memory = bench.send(&Request::AddMemReg(region(0, 0, 4096, 0)), vec![eventfd()], true);
    assert_eq!(not_memory, Ok(Some(Reply::U64(1))));
    assert_eq!(bench.session.memory_use(), (1, LEN));
}

#[test]
fn more_memory_than_a_front_end_may_have_is_refused() {
    let mut bench = Bench::negotiated(SPLIT);
    let sparse = memory(8 << 40);
    let huge = RegionSpec { guest: 0, user: 0, len: 5 << 40, offset: 0 };
    assert_eq!(bench.send(&Request::AddMemReg(huge), vec![sparse], true), Ok(Some(Reply::U64(1))));
}

#[test]
fn regions_come_and_go_while_a_ring_runs() {
    let mut bench = Bench::running(SPLIT, 1, 0);
    let before = bench.engine.refreshes;
    let more = RegionSpec { guest: GUEST + LEN, user: USER + LEN, len: 0x1000, offset: 0x1000 };
    bench.tell(&Request::AddMemReg(more));
    assert_eq!(bench.session.memory_use(), (2, LEN + 0x1000));
    let stray = bench.send(&Request::RemMemReg(more), vec![eventfd()], true);
    assert_eq!(stray, Ok(Some(Reply::U64(0))), "a stray descriptor is accepted and closed");
    assert_eq!(bench.engine.refreshes, before + 2);
    assert!(bench.runs(1) && bench.engine.faults.is_empty());
    bench.tell(&Request::SetMemTable(vec![]));
    assert_eq!(bench.engine.faults, [PortFault::RingOutside("descriptor")], "the queue lost its ring");
}

#[test]
fn as_many_regions_as_promised_are_taken_and_not_one_more() {
    let mut bench = Bench::new();
    bench.tell(&Request::SetProtocolFeatures(PROTOCOL));
    assert_eq!(bench.ask(&Request::GetMaxMemSlots), Reply::U64(509));
    for n in 0..=509 {
        let region = RegionSpec { guest: n << 12, user: n << 12, len: 4096, offset: 0 };
        if n < 509 {
            bench.tell(&Request::AddMemReg(region));
        } else {
            bench.refuses(&Request::AddMemReg(region));
        }
    }
    assert_eq!(bench.session.memory_use().0, 509);
}

#[test]
fn a_reset_stops_the_rings_and_keeps_the_memory() {
    for reset in [Request::ResetDevice, Request::SetStatus(0), Request::ResetOwner] {
        let mut bench = Bench::running(SPLIT, 1, 0);
        bench.tell(&reset);
        assert!(!bench.runs(1));
        assert_eq!(bench.session.memory_use(), (1, LEN));
        bench.tell(&Request::SetFeatures(SPLIT));
        bench.poke_used_index(0);
        bench.tell_all(ring_messages(1, 0));
        assert!(bench.runs(1));
    }
}

#[test]
fn the_device_status_is_kept() {
    let mut bench = Bench::negotiated(SPLIT);
    bench.tell(&Request::SetStatus(11));
    assert_eq!(bench.ask(&Request::GetStatus), Reply::U64(11));
}

#[test]
fn an_mtu_is_judged() {
    let mut bench = Bench::negotiated(SPLIT);
    bench.tell(&Request::NetSetMtu(9000));
    bench.tell(&Request::NetSetMtu(68));
    for mtu in [0, 67, 9001, u64::MAX] {
        bench.refuses(&Request::NetSetMtu(mtu));
    }
}

#[test]
fn a_rarp_reaches_the_switch_as_a_frame() {
    let mut bench = Bench::negotiated(SPLIT);
    let address = [2, 0, 0, 0, 0, 9];
    bench.tell(&Request::SendRarp(address));
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
fn an_answer_is_given_only_where_it_was_asked_for_and_negotiated() {
    let mut bench = Bench::new();
    assert_eq!(bench.send(&Request::SetOwner, vec![], true), Ok(None), "not negotiated yet");
    bench.tell(&Request::SetProtocolFeatures(PROTOCOL));
    assert_eq!(bench.send(&Request::SetOwner, vec![], true), Ok(Some(Reply::U64(0))));
    assert_eq!(bench.send(&Request::SetOwner, vec![], false), Ok(None));
    let both = bench.send(&Request::GetFeatures, vec![], true).unwrap();
    assert!(matches!(both, Some(Reply::U64(bits)) if bits & Features::VERSION_1 != 0), "one answer, not two");
}

#[test]
fn the_end_leaves_nothing_behind() {
    let mut bench = Bench::running(SPLIT, 1, 0);
    bench.tell(&Request::SetBackendReqFd);
    bench.session.end(&mut bench.engine);
    assert!(bench.engine.rx.is_empty());
    assert_eq!(bench.session.memory_use(), (0, 0));
    assert!(bench.memory.as_fd().try_clone_to_owned().is_ok());
}
