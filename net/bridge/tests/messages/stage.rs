//! Where the scenarios take place: two guests that behave, and a port with a misbehaving peer.

use crate::calm::{self, BAD, Calm};
use crate::guest::{Guest, Limit, Manners, PATIENCE};
use port::vhost::message::{Header, Reply, Request};
use port::vhost_user::fuzz::{footprint, send};
use port::virtio_user::FrontEnd;
use ring::driver::DriverRing;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::net::RecvFlags;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Frames that must pass each way before it counts as traffic.
pub(crate) const ENOUGH: u64 = 100;

/// One scenario at a time: what is counted is the whole process's.
static ALONE: Mutex<()> = Mutex::new(());

/// Plays `act` with the port `bad`, beside guests that behave. Nothing is left of it, neither then nor at the end.
pub(crate) fn play<R: DriverRing>(packed: bool, act: impl FnOnce(&Stage<'_>)) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = footprint().unwrap();
    // They leave the CPU to the others now and then, where there are few.
    let manners = Manners { strangers: Some(BAD), rest: Duration::from_micros(100), careless: false };
    calm::beside::<R>(packed, manners, |calm| {
        calm.go_on(ENOUGH);
        let stage = Stage { calm, packed, footprint: footprint().unwrap() };
        act(&stage);
        calm.go_on(ENOUGH);
    });
    assert_eq!(footprint().unwrap(), before, "descriptors and mappings that outlived the switch");
}

pub(crate) struct Stage<'a> {
    pub(crate) calm: &'a Calm<'a>,
    packed: bool,
    footprint: (usize, usize),
}

impl Stage<'_> {
    /// A guest at the port `bad` whose frames flow and which is about to misbehave.
    pub(crate) fn guest<R: DriverRing>(&self) -> Guest<R> {
        let careless = Manners { careless: true, ..Manners::default() };
        let mut guest = self.plug_in::<R>().with(careless);
        flow(&mut guest);
        guest
    }

    fn plug_in<R: DriverRing>(&self) -> Guest<R> {
        Guest::plug_in(&self.calm.rig.socket("bad"), BAD, self.packed)
    }

    /// A connection to the port `bad` that has said nothing.
    pub(crate) fn connection(&self) -> FrontEnd {
        FrontEnd::connect(self.calm.rig.socket("bad"), PATIENCE).unwrap()
    }

    /// Waits until the port `bad` has released its last peer: the fault, if that was the reason.
    pub(crate) fn parted(&self, connects: u64) -> Option<String> {
        let rig = self.calm.rig;
        let port = rig.wait("bad", "the end of the connection", |port| {
            port.connects == connects && port.state != "connected"
        });
        let nothing = (port.memory_regions, port.memory_bytes);
        assert_eq!(nothing, (0, 0), "memory of a peer that has left");
        assert!(port.queues.iter().all(|queue| !queue.rx_running && !queue.tx_running));
        (port.state == "faulted").then(|| port.fault.unwrap())
    }

    /// How many connections the port `bad` has had.
    pub(crate) fn connects(&self) -> u64 {
        self.calm.rig.port("bad").map_or(0, |port| port.connects)
    }

    /// After all that: the others' frames flow, nothing is left of its peers, and the next guest is served.
    pub(crate) fn recover<R: DriverRing>(&self) {
        self.calm.go_on(ENOUGH);
        assert_eq!(footprint().unwrap(), self.footprint, "descriptors and mappings of a peer that has left");
        let mut fresh = self.plug_in::<R>();
        flow(&mut fresh);
        let connects = self.connects();
        drop(fresh);
        assert_eq!(self.parted(connects), None);
        assert_eq!(footprint().unwrap(), self.footprint, "descriptors and mappings of a guest that has left");
    }
}

/// Has frames pass both ways.
pub(crate) fn flow<R: DriverRing>(guest: &mut Guest<R>) {
    let (limit, before) = (Limit::new(), guest.counts);
    while guest.counts.sent < before.sent + ENOUGH || guest.counts.received < before.received + ENOUGH {
        limit.check("frames of the third guest");
        guest.step(&[0, 1]);
    }
}

/// Sends a message with these descriptors.
pub(crate) fn tell(to: &impl AsFd, request: &Request, files: &[BorrowedFd<'_>]) {
    // A port that has ended the connection already has said why.
    let _ = send(to.as_fd(), &request.encode(false), files);
}

/// Sends a message and returns the answer to it.
pub(crate) fn ask(to: &impl AsFd, request: &Request, files: &[BorrowedFd<'_>]) -> Reply {
    send(to.as_fd(), &request.encode(true), files).unwrap();
    answer(to, request)
}

/// The answer that comes next, which must be the one to `request`.
pub(crate) fn answer(from: &impl AsFd, request: &Request) -> Reply {
    const WHOLE: usize = Header::BYTES + Reply::BYTES as usize;
    let mut bytes = [0; WHOLE];
    let (got, _) = rustix::net::recv(from, &mut bytes, RecvFlags::WAITALL).unwrap();
    assert_eq!(got, WHOLE, "{request:?} was not answered");
    let (header, payload) = bytes.split_at(Header::BYTES);
    let header = Header::decode(header.try_into().unwrap()).unwrap().expect_reply().unwrap();
    assert_eq!(header.code, request.code());
    Reply::decode(header.code, payload).unwrap()
}
