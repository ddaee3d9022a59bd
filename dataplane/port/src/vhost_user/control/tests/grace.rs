//! Guests whose rings become invalid: those that then stop them or leave, and those that stay.

use super::*;
use crate::QueueId;
use crate::vhost::message::{VringAddress, VringFile, VringState};
use crate::vhost_user::session::{GRACE, GRACE_INTERVAL};
use mem::RegionSpec;
use ring::RingFault;
use rustix::fd::OwnedFd;
use rustix::fs::MemfdFlags;

const USER: u64 = 0x7f00_0000_0000;
const REGION: RegionSpec = RegionSpec { guest: 0, user: USER, len: 0x4_0000, offset: 0 };
const EMPTY: PortFault = PortFault::Ring(RingFault::IndexJump { index: 0, used: 2, size: 1024 });

fn left() -> PortState {
    PortState::Waiting(Some(PortFault::Disconnected("guest")))
}

fn send(peer: &UnixStream, request: &Request) {
    let fds: Vec<OwnedFd> = (0..request.descriptors())
        .map(|_| {
            if matches!(request, Request::SetMemTable(_)) {
                let memory = rustix::fs::memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
                rustix::fs::ftruncate(&memory, REGION.len).unwrap();
                memory
            } else {
                rustix::event::eventfd(0, EventfdFlags::CLOEXEC).unwrap()
            }
        })
        .collect();
    let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
    rights::send(peer.as_fd(), &request.encode(false), &fds).unwrap();
}

fn send_all(peer: &UnixStream, requests: impl IntoIterator<Item = Request>) {
    for request in requests {
        send(peer, &request);
    }
}

fn ring(index: u32) -> [Request; 4] {
    let at = USER + u64::from(index) * 0x1_0000;
    let address =
        VringAddress { index, flags: 0, descriptor: at, available: at + 0x8000, used: at + 0xc000, log: 0 };
    [
        Request::SetVringNum(VringState { index, num: 1024 }),
        Request::SetVringAddr(address),
        Request::SetVringKick(VringFile { index: index as u8, has_descriptor: true }),
        Request::SetVringEnable(VringState { index, num: 1 }),
    ]
}

impl Bench {
    /// Connects a guest whose two rings run.
    fn guest(&mut self) -> UnixStream {
        let peer = self.peer();
        send(&peer, &Request::SetFeatures(Features::VERSION_1 | Features::PROTOCOL));
        send(&peer, &Request::SetMemTable(vec![REGION]));
        send_all(&peer, (0..2).flat_map(ring));
        self.run();
        assert_eq!(self.running(), (1, 1));
        peer
    }

    fn running(&self) -> (usize, usize) {
        (self.engine.rx.len(), self.engine.tx.len())
    }

    /// A worker finds the receive queue invalid and returns it.
    fn break_rx(&mut self) {
        drop(self.engine.rx.remove(&0).unwrap());
        self.engine.faulty_queue = Some(QueueId::Rx(0));
        self.port.fault(self.now, EMPTY, &mut self.engine);
    }
}

#[test]
fn a_guest_that_leaves_after_its_ring_became_invalid_is_disconnected() {
    let mut bench = Bench::listening();
    let guest = bench.guest();
    bench.break_rx();
    assert_eq!((bench.state(), bench.running()), (PortState::Connected, (0, 1)));
    drop(guest);
    bench.run();
    assert_eq!((bench.state(), bench.running()), (left(), (0, 0)));
    assert_eq!(bench.port.details(), [(PortDetail::RingFaults, "1".to_owned())]);
    assert_eq!(bench.port.deadline(), Some(bench.now + MIN_PAUSE), "the next guest waits as after a fault");
}

#[test]
fn a_guest_that_stops_its_invalid_ring_stays_connected() {
    let index = 1;
    for stop in [
        Request::GetVringBase(index),
        Request::SetVringEnable(VringState { index, num: 0 }),
        Request::SetMemTable(vec![REGION]),
        Request::ResetOwner,
    ] {
        let mut bench = Bench::listening();
        let guest = bench.guest();
        bench.break_rx();
        send(&guest, &stop);
        bench.wait(GRACE);
        assert_eq!((bench.state(), bench.running().0), (PortState::Connected, 0), "{stop:?}");
        send_all(&guest, ring(index));
        bench.run();
        assert_eq!(bench.running().0, 1, "{stop:?}: it starts again");
        assert_eq!(bench.port.deadline(), None);
    }
}

#[test]
fn a_guest_that_keeps_an_invalid_ring_is_stopped_by_name() {
    let mut bench = Bench::listening();
    let mut guest = bench.guest();
    bench.break_rx();
    assert_eq!(bench.port.deadline(), Some(bench.now + GRACE));
    // Neither other messages nor a new kick end the grace period or start the ring.
    send(&guest, &ring(1)[2]);
    bench.wait(GRACE / 2);
    assert_eq!((bench.state(), bench.running().0), (PortState::Connected, 0));
    bench.wait(GRACE / 2);
    assert_eq!((bench.state(), bench.running()), (PortState::Faulted(EMPTY), (0, 0)));
    assert!(is_closed(&mut guest));
}

#[test]
fn a_ring_that_becomes_invalid_again_soon_has_no_second_grace_period() {
    let mut bench = Bench::listening();
    let guest = bench.guest();
    for _ in 0..2 {
        bench.break_rx();
        assert_eq!(bench.state(), PortState::Connected);
        send(&guest, &Request::GetVringBase(1));
        send_all(&guest, ring(1));
        bench.wait(GRACE_INTERVAL);
    }
    bench.break_rx();
    send(&guest, &Request::ResetOwner);
    send_all(&guest, (0..2).flat_map(ring));
    bench.wait(GRACE_INTERVAL / 2);
    assert_eq!((bench.state(), bench.running().0), (PortState::Connected, 1));
    bench.break_rx();
    assert_eq!((bench.state(), bench.running()), (PortState::Faulted(EMPTY), (0, 0)));
    assert_eq!(bench.port.details(), [(PortDetail::RingFaults, "4".to_owned())]);
}

#[test]
fn other_faults_and_unknown_queues_end_the_connection_at_once() {
    for (fault, queue) in
        [(PortFault::MemoryLost, Some(QueueId::Rx(0))), (EMPTY, None), (EMPTY, Some(QueueId::Tx(9)))]
    {
        let mut bench = Bench::listening();
        let _guest = bench.guest();
        bench.engine.faulty_queue = queue;
        bench.port.fault(bench.now, fault.clone(), &mut bench.engine);
        assert_eq!((bench.state(), bench.running()), (PortState::Faulted(fault), (0, 0)));
    }
}
