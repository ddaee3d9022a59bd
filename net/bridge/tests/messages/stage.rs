//! Environment of the scenarios: two well-behaved guests, and a port for a misbehaving peer.

use crate::calm::{self, BAD, Calm};
use crate::guest::{Behavior, Guest, Limit, TIMEOUT};
use port::vhost::message::{Header, Reply, Request};
use port::vhost_user::fuzz::{footprint, send};
use port::virtio_user::FrontEnd;
use ring::driver::DriverRing;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::net::RecvFlags;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Frames that must pass each way before traffic counts as running.
pub(crate) const MIN_FRAMES: u64 = 20;

/// Serialises scenarios, because the counters are process-wide.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs `act` with port `bad`, beside well-behaved guests. Checks that no descriptor or mapping outlives the switch.
pub(crate) fn play<R: DriverRing>(packed: bool, act: impl FnOnce(&Stage<'_>)) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = footprint().unwrap();
    // The guests rest regularly, to yield the CPU on small machines.
    let behavior = Behavior { foreign_frames: Some(BAD), rest: Duration::from_millis(1), careless: false };
    calm::beside::<R>(packed, behavior, |calm| {
        calm.go_on(MIN_FRAMES);
        let stage = Stage { calm, packed, footprint: footprint().unwrap() };
        act(&stage);
        calm.go_on(MIN_FRAMES);
    });
    assert_eq!(footprint().unwrap(), before, "descriptors and mappings that outlived the switch");
}

pub(crate) struct Stage<'a> {
    pub(crate) calm: &'a Calm<'a>,
    packed: bool,
    footprint: (usize, usize),
}

impl Stage<'_> {
    /// A guest at port `bad` with running traffic, which will misbehave.
    pub(crate) fn guest<R: DriverRing>(&self) -> Guest<R> {
        let careless = Behavior { careless: true, ..Behavior::default() };
        let mut guest = self.plug_in::<R>().with(careless);
        flow(&mut guest);
        guest
    }

    fn plug_in<R: DriverRing>(&self) -> Guest<R> {
        Guest::plug_in(&self.calm.rig.socket("bad"), BAD, self.packed)
    }

    /// A connection to port `bad` on which nothing has been sent.
    pub(crate) fn connection(&self) -> FrontEnd {
        FrontEnd::connect(self.calm.rig.socket("bad"), TIMEOUT).unwrap()
    }

    /// Waits until port `bad` has released its last peer. Returns the fault, if there was one.
    pub(crate) fn parted(&self, connects: u64) -> Option<String> {
        let rig = self.calm.rig;
        let port = rig.wait("bad", "the end of the connection", |port| {
            port.connects == connects && port.state != "connected"
        });
        let nothing = (port.memory_regions, port.memory_bytes);
        assert_eq!(nothing, (0, 0), "memory of a peer that has left");
        assert!(port.queues.iter().all(|queue| !queue.rx_running && !queue.tx_running));
        (port.state == "faulted").then(|| port.reason.unwrap())
    }

    /// Number of connections of port `bad` so far.
    pub(crate) fn connects(&self) -> u64 {
        self.calm.rig.port("bad").map_or(0, |port| port.connects)
    }

    /// Checks that other traffic continues, no peer resources are left, and the next guest is served.
    pub(crate) fn recover<R: DriverRing>(&self) {
        self.calm.go_on(MIN_FRAMES);
        assert_eq!(footprint().unwrap(), self.footprint, "descriptors and mappings of a peer that has left");
        let mut fresh = self.plug_in::<R>();
        flow(&mut fresh);
        let connects = self.connects();
        drop(fresh);
        assert_eq!(self.parted(connects), None);
        assert_eq!(footprint().unwrap(), self.footprint, "descriptors and mappings of a guest that has left");
    }
}

/// Passes frames in both directions.
pub(crate) fn flow<R: DriverRing>(guest: &mut Guest<R>) {
    let (limit, before) = (Limit::new(), guest.counts);
    while guest.counts.sent < before.sent + MIN_FRAMES || guest.counts.received < before.received + MIN_FRAMES
    {
        limit.check("frames of the third guest");
        guest.step(&[0, 1]);
    }
}

/// Sends a message with these descriptors.
pub(crate) fn tell(to: &impl AsFd, request: &Request, files: &[BorrowedFd<'_>]) {
    // The send fails if the port has already ended the connection.
    let _ = send(to.as_fd(), &request.encode(false), files);
}

/// Sends a request and returns its reply.
pub(crate) fn ask(to: &impl AsFd, request: &Request, files: &[BorrowedFd<'_>]) -> Reply {
    send(to.as_fd(), &request.encode(true), files).unwrap();
    answer(to, request)
}

/// Receives the next reply, which must belong to `request`.
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
