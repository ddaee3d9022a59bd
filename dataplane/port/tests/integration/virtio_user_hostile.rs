//! Hostile back ends: invalid replies, and invalid ring contents.

use crate::hand::{burst_of, frame, receive, send};
use port::vhost::message::{Code, Header, Reply, VringState};
use port::vhost_user::fake::FakeEngine;
use port::virtio_user::fuzz::fuzz_back_end;
use port::virtio_user::{Options, RingKind, VirtioUser};
use port::{DropReason, Offload, PortControl, PortFault, PortState};
use proptest::prelude::*;
use ring::RingFault;
use rustix::fd::OwnedFd;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

const SIZE: u16 = 128;

/// Reply of a back end to a request.
type ReplyFn = fn(Header) -> Option<Vec<u8>>;
/// Entry written to a used ring (identifier, length, index), and the expected fault.
type UsedEntry = (u32, u32, u16, RingFault);

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]
    #[test]
    fn malicious_back_end_affects_its_own_port_only(script in prop::collection::vec(any::<u8>(), 0..1500)) {
        fuzz_back_end(&script);
    }
}

/// A hand-written back end: replies as the test specifies, and keeps the shared memory.
struct BackEnd {
    stream: UnixStream,
    memory: Option<OwnedFd>,
}

impl BackEnd {
    /// Next request, or `None` if there is none.
    fn next_request(&mut self) -> Option<Header> {
        let mut bytes = [0; Header::BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let iov = &mut [IoSliceMut::new(&mut bytes)];
        let got = rustix::net::recvmsg(&self.stream, iov, &mut control, RecvFlags::DONTWAIT).ok()?;
        if got.bytes == 0 {
            return None;
        }
        let header = Header::decode(bytes).unwrap();
        let mut payload = vec![0; header.size as usize];
        std::io::Read::read_exact(&mut self.stream, &mut payload).unwrap();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(mut rights) = message {
                let file = rights.next();
                if matches!(header.code, Code::SetMemTable | Code::AddMemReg) {
                    self.memory = file;
                }
            }
        }
        Some(header)
    }

    fn send_message(&mut self, bytes: &[u8]) {
        // Errors are ignored: the port may have closed the connection, which the tests check.
        let _ = std::io::Write::write_all(&mut self.stream, bytes);
    }

    /// Reply of a back end that supports everything.
    fn full_reply(header: Header) -> Option<Vec<u8>> {
        let number = match header.code {
            Code::GetFeatures | Code::GetProtocolFeatures | Code::GetStatus => u64::MAX,
            Code::GetQueueNum | Code::GetMaxMemSlots => 8,
            _ if header.need_reply => 0,
            _ => return None,
        };
        Some(Reply::U64(number).encode(header.code))
    }
}

/// A port and its back end.
struct Stage {
    port: VirtioUser,
    engine: FakeEngine,
    back: BackEnd,
    now: Instant,
    _dir: tempfile::TempDir,
}

impl Stage {
    fn new(ring: RingKind, mergeable: bool) -> Self {
        Self::with_options(Options { ring, mergeable, queue_size: SIZE, ..Default::default() })
    }

    fn with_options(options: Options) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let (now, mut engine) = (Instant::now(), FakeEngine::default());
        let mut port = VirtioUser::connect(&path, options, now).unwrap();
        port.handle(now, &mut engine);
        let back = BackEnd { stream: listener.accept().unwrap().0, memory: None };
        Self { port, engine, back, now, _dir: dir }
    }

    /// Replies to all requests with `answer` until none is pending.
    fn reply_all(&mut self, mut answer: impl FnMut(Header) -> Option<Vec<u8>>) {
        while let Some(header) = self.back.next_request() {
            if let Some(bytes) = answer(header) {
                self.back.send_message(&bytes);
            }
            self.port.handle(self.now, &mut self.engine);
        }
    }

    /// A port with a running device.
    fn running(ring: RingKind, mergeable: bool) -> Self {
        Self::with(ring, mergeable, true)
    }

    fn with(ring: RingKind, mergeable: bool, offloads: bool) -> Self {
        let mut stage =
            Self::with_options(Options { ring, mergeable, offloads, queue_size: SIZE, ..Default::default() });
        stage.reply_all(BackEnd::full_reply);
        assert_eq!(stage.engine.rx.len(), 1, "{:?}", stage.port.status());
        stage
    }

    fn fault(&self) -> String {
        match self.port.status().state {
            PortState::Faulted(fault) => fault.to_string(),
            other => format!("no fault: {other:?}"),
        }
    }

    /// Writes to the shared memory.
    fn poke(&self, at: u64, bytes: &[u8]) {
        rustix::io::pwrite(self.back.memory.as_ref().unwrap(), bytes, at).unwrap();
    }

    /// Writes to the used ring of the receive queue (split), which follows the descriptors (16 bytes each) and the
    /// available ring.
    fn used(&self, slot: u64, id: u32, len: u32, index: u16) {
        let at = u64::from(SIZE) * 16 + (u64::from(SIZE) * 2 + 6).next_multiple_of(128);
        self.poke(at + 4 + slot * 8, &id.to_ne_bytes());
        self.poke(at + 8 + slot * 8, &len.to_ne_bytes());
        self.poke(at + 2, &index.to_ne_bytes());
    }

    fn receive(&mut self) -> Result<(port::Burst, port::BurstStats), PortFault> {
        receive(self.engine.rx.get_mut(&0).unwrap().as_mut())
    }
}

#[test]
fn wrong_reply_is_named_and_closes_the_connection() {
    let wrong: [(&str, ReplyFn); 5] = [
        ("unexpected reply to GET_FEATURES: GET_QUEUE_NUM", |_| {
            Some(Reply::U64(1).encode(Code::GetQueueNum))
        }),
        ("request 250 does not exist", |_| {
            Some([250u32, 5, 8, 0, 0].iter().flat_map(|word| word.to_ne_bytes()).collect())
        }),
        ("GET_FEATURES carries the flags", |header| match header.code {
            Code::GetFeatures => Some(Header { reply: false, ..header }.encode().to_vec()),
            _ => BackEnd::full_reply(header),
        }),
        ("it refused SET_VRING_NUM", |header| match header.code {
            Code::SetVringNum => Some(Reply::U64(1).encode(header.code)),
            _ => BackEnd::full_reply(header),
        }),
        ("does not accept the features", |header| match header.code {
            Code::GetStatus => Some(Reply::U64(0).encode(header.code)),
            _ => BackEnd::full_reply(header),
        }),
    ];
    for (expected, answer) in wrong {
        let mut stage = Stage::new(RingKind::Split, true);
        stage.reply_all(answer);
        let fault = stage.fault();
        assert!(fault.contains(expected), "{fault} instead of {expected}");
        assert!(stage.engine.rx.is_empty() && stage.port.deadline().is_some(), "the port retries later");
    }
}

#[test]
fn silent_back_end_times_out_and_unsolicited_messages_disconnect() {
    let mut stage = Stage::new(RingKind::Split, true);
    let until = stage.port.deadline().unwrap();
    assert_eq!(until, stage.now + Duration::from_secs(10));
    stage.port.handle(stage.now + Duration::from_millis(9_999), &mut stage.engine);
    assert_eq!(stage.port.status().state, PortState::Connected);
    stage.port.handle(until, &mut stage.engine);
    assert!(stage.fault().contains("it did not answer GET_FEATURES within 10 s"), "{}", stage.fault());

    let mut stage = Stage::running(RingKind::Packed, true);
    stage.back.send_message(&Reply::State(VringState { index: 0, num: 0 }).encode(Code::GetVringBase));
    stage.port.handle(stage.now, &mut stage.engine);
    assert!(stage.fault().contains("GET_VRING_BASE unasked"), "{}", stage.fault());
    assert!(stage.engine.rx.is_empty() && stage.engine.tx.is_empty(), "the queues are stopped");
}

#[test]
fn every_used_ring_violation_is_named() {
    let header = 12;
    let entries: [UsedEntry; 5] = [
        (0, 76, 129, RingFault::UsedJump { index: 129, taken: 0, out: 128 }),
        (0, 76, 0xffff, RingFault::UsedJump { index: 0xffff, taken: 0, out: 128 }),
        (128, 76, 1, RingFault::NotOut(128)),
        (u32::MAX, 76, 1, RingFault::NotOut(u32::MAX)),
        (0, 2048 + header + 1, 1, RingFault::UsedLength { len: 2048 + header + 1, room: 2048 + header }),
    ];
    for (id, len, index, fault) in entries {
        let mut stage = Stage::running(RingKind::Split, false);
        stage.used(0, id, len, index);
        assert_eq!(stage.receive().unwrap_err(), PortFault::UsedRing(fault));
    }
    let mut stage = Stage::running(RingKind::Split, false);
    stage.used(0, 5, 76, 1);
    assert_eq!(stage.receive().unwrap().0.len(), 1);
    stage.used(1, 5, 76, 2);
    let twice = stage.receive().unwrap_err();
    assert_eq!(twice, PortFault::UsedRing(RingFault::NotOut(5)), "the buffer is in a burst");
    assert_eq!(
        twice.to_string(),
        "the back end violated the virtqueue protocol: buffer 5 was used but not out"
    );
}

/// Address of `num_buffers` in the header of receive buffer `id`: after the four areas of the two rings.
fn num_buffers(id: u64) -> u64 {
    let n = u64::from(SIZE);
    let ring: u64 = [n * 16, n * 2 + 6, n * 8 + 6].iter().map(|bytes| bytes.next_multiple_of(128)).sum();
    2 * ring + id * (2048 + 256) + 126
}

#[test]
fn frames_of_invalid_length_are_counted_and_buffers_returned() {
    let mut stage = Stage::running(RingKind::Split, false);
    for (slot, len) in [0, 11, 12, 25].into_iter().enumerate() {
        stage.used(slot as u64, slot as u32, len, slot as u16 + 1);
    }
    let (burst, stats) = stage.receive().unwrap();
    assert_eq!((burst.len(), burst.buf_ids().len(), stats.packets), (0, 4, 4));
    assert_eq!(stats.drops[DropReason::TooShort as usize], 4);
}

#[test]
fn frame_waits_for_all_its_buffers_within_the_limit() {
    for n in [0, 65, u16::MAX] {
        let mut stage = Stage::running(RingKind::Split, true);
        stage.poke(num_buffers(0), &n.to_ne_bytes());
        stage.used(0, 0, 76, 1);
        assert_eq!(stage.receive().unwrap_err(), PortFault::UsedRing(RingFault::Merged(n)));
    }
    let mut stage = Stage::running(RingKind::Split, true);
    stage.poke(num_buffers(0), &2u16.to_ne_bytes());
    stage.used(0, 0, 2060, 1);
    let (burst, stats) = stage.receive().unwrap();
    assert_eq!(
        (burst.len(), burst.buf_ids().len(), stats.packets),
        (0, 0, 0),
        "an incomplete frame is not delivered"
    );
    stage.used(1, 1, 100, 2);
    let (burst, stats) = stage.receive().unwrap();
    assert_eq!((burst.len(), burst.buf_ids().len(), stats.bytes), (1, 2, 2148));
    // 40 buffers of 2060 bytes exceed any frame.
    let mut stage = Stage::running(RingKind::Split, true);
    stage.poke(num_buffers(0), &40u16.to_ne_bytes());
    (0..40).for_each(|slot| stage.used(slot, slot as u32, 2060, slot as u16 + 1));
    let (burst, stats) = stage.receive().unwrap();
    assert_eq!((burst.len(), burst.buf_ids().len()), (0, 40));
    assert_eq!(stats.drops[DropReason::TooLong as usize], 1);
}

#[test]
fn invalid_header_fields_drop_their_packet_only() {
    let header = |flags: u8, gso: u8, segment: u16, start: u16, offset: u16| {
        [vec![flags, gso], [0, segment, start, offset].map(u16::to_le_bytes).concat()].concat()
    };
    let good = header(1, 1, 1448, 34, 16);
    let bad = [
        header(1, 0, 0, 63, 0),
        header(1, 0, 0, 34, 29),
        header(1, 0, 0, u16::MAX, u16::MAX),
        header(1, 1, 0, 34, 16),
        header(0, 1, 1448, 34, 16),
        header(1, 2, 1448, 34, 16),
        header(1, 3, 1448, 34, 16),
        header(1, 0x7f, 1448, 34, 16),
    ];
    for (mergeable, offloads) in [(true, true), (true, false), (false, true)] {
        let mut stage = Stage::with(RingKind::Split, mergeable, offloads);
        for (n, words) in bad.iter().flat_map(|words| [words, &good]).enumerate() {
            let (n, slot) = (n as u64, n as u16);
            stage.poke(num_buffers(n) - 10, words);
            stage.poke(num_buffers(n), &1u16.to_ne_bytes());
            stage.used(n, n as u32, 12 + 64, slot + 1);
        }
        let (burst, stats) = stage.receive().unwrap();
        // Without mergeable buffers, segmentation offload was not negotiated; without offloads, headers are ignored.
        let left = if !offloads {
            16
        } else if mergeable {
            8
        } else {
            0
        };
        assert_eq!((burst.len(), burst.buf_ids().len(), stats.packets), (left, 16, 16));
        assert_eq!(stats.drops[DropReason::BadOffload as usize], 16 - left as u64);
        let expected = Offload::validate(good.clone().try_into().unwrap(), 64).unwrap();
        let expected = if offloads { expected } else { Offload::NONE };
        assert!((0..burst.len()).all(|i| burst.offload(i) == expected));
    }
}

#[test]
fn stalled_back_end_fills_only_its_queue() {
    let mut stage = Stage::running(RingKind::Packed, true);
    let tx = stage.engine.tx.get_mut(&0).unwrap();
    let burst = burst_of(&(0..50).map(|seed| frame(64, seed)).collect::<Vec<_>>());
    let sent: Vec<_> = (0..4).map(|_| send(tx.as_mut(), &burst).unwrap().0).collect();
    assert_eq!(sent, [50, 50, 28, 0]);
}
