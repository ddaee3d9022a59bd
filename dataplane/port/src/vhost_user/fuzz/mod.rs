//! Fuzz target: input bytes become a stream of messages with descriptors.
//!
//! Every byte string is a script. It is sent over a real socket to a [`Session`] with fake queues, mostly as almost
//! valid messages, so that a fuzzer passes the first checks, sometimes as raw bytes. The session must end normally or
//! with a named fault, and must leave no resources behind. A session that has not ended can be handed over. The same
//! scripts ([`Script`]) are sent to the ports of whole switches.

mod script;

pub use script::{Environment, Script, event, memory};

use super::fake::{FakeEngine, QUEUES};
use super::session::{Offer, Session};
use crate::socket::rights;
use crate::vhost::Features;
use crate::vhost::message::{Header, ProtocolFeatures, Request, VringAddress, VringFile, VringState};
use crate::vhost::wire::Channel;
use mem::RegionSpec;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use virtio_bindings::virtio_config::VIRTIO_CONFIG_S_DRIVER_OK;

/// Location of the script's well-formed memory.
const REGION: RegionSpec = RegionSpec { guest: 0x1000, user: 0x7000_0000, len: 0x10_0000, offset: 0 };
/// Offer of every session here: all features.
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
            | ProtocolFeatures::RESET_DEVICE
            | ProtocolFeatures::CONFIGURE_MEM_SLOTS
            | ProtocolFeatures::STATUS
            | ProtocolFeatures::DEVICE_STATE,
    ),
    queue_pairs: 2,
    mtu: Some(1500),
    memory: super::session::MAX_BYTES,
};

/// Runs a script.
///
/// # Panics
/// If a queue still runs or memory is still mapped afterwards.
pub fn fuzz_session(script: &[u8]) {
    let environment =
        Environment { region: REGION, file: None, features: OFFER.features.0, protocol: OFFER.protocol.0 };
    let mut script = Script::new(script, environment);
    let mut engine = FakeEngine::default();
    while !script.is_over() {
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
        while !script.is_over() {
            if script.send(front.as_fd()).is_err() || serve(&mut channel, &mut session, &mut engine).is_none()
            {
                break;
            }
            drain(&front);
            if script.is_over() {
                session.check_hand_over(&mut engine);
            }
        }
        session.end(&mut engine);
        // The message that ended the session may have broken a queue as well.
        engine.faults.clear();
        assert!(engine.rx.is_empty() && engine.tx.is_empty(), "a session ended but a queue runs");
        assert_eq!(session.memory_use(), (0, 0), "a session ended but its memory is mapped");
    }
}

/// Starts two rings, a state that scripts alone rarely reach.
fn warm_up(front: &OwnedFd, channel: &mut Channel, session: &mut Session, engine: &mut FakeEngine) {
    let mut send = |request: Request| {
        let shares = matches!(request, Request::SetMemTable(_));
        let fd = |_| if shares { memory(REGION.len) } else { event() };
        let fds: Vec<_> = (0..request.descriptors()).filter_map(fd).collect();
        let borrowed: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        let sent = send(front.as_fd(), &request.encode(false), &borrowed);
        assert!(sent.is_ok() && serve(channel, session, engine).is_some(), "{request:?} was refused");
    };
    send(Request::SetProtocolFeatures(OFFER.protocol.0));
    send(Request::SetFeatures(OFFER.features.0 & !Features::RING_PACKED));
    send(Request::SetMemTable(vec![REGION]));
    for index in 0..2 {
        let file = VringFile { index, has_descriptor: true };
        let index = u32::from(index);
        let at = REGION.user + 0x4_0000 * u64::from(index);
        let (used, available) = (at + 0x1_0000, at + 0x2_0000);
        send(Request::SetVringNum(VringState { index, num: 256 }));
        send(Request::SetVringAddr(VringAddress {
            index,
            descriptor: at,
            used,
            available,
            ..Default::default()
        }));
        send(Request::SetVringKick(file));
        send(Request::SetVringCall(file));
        send(Request::SetVringEnable(VringState { index, num: 1 }));
    }
    send(Request::SetStatus(VIRTIO_CONFIG_S_DRIVER_OK.into()));
    assert_eq!((engine.rx.len(), engine.tx.len()), (1, 1), "two rings were set up");
}

/// Processes the available messages. Returns `None` when the session is over.
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
    while let Ok(Some(_)) = rights::receive(front.as_fd(), &mut [0; 256], &mut descriptors) {}
}

/// Resources of this process: number of open descriptors and of shared memory mappings.
pub fn footprint() -> std::io::Result<(usize, usize)> {
    let descriptors = std::fs::read_dir("/proc/self/fd")?.count();
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    Ok((descriptors, maps.lines().filter(|line| line.contains("memfd:")).count()))
}

/// Sends bytes with descriptors attached to the first byte, at most one more than a message may have.
pub fn send(to: BorrowedFd<'_>, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    rights::send(to, bytes, descriptors)
}
