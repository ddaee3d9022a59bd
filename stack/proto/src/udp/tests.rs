use super::*;
use crate::Slice;
use proptest::prelude::*;
use std::net::{IpAddr, SocketAddr};
use std::prelude::v1::*;
use std::sync::Arc;
use std::vec;

type Bytes = Arc<[u8]>;

/// A frame whose checksum was not verified, with a private head of 128 bytes.
struct Plain {
    bytes: Bytes,
    has_buffer: bool,
    segment: Option<u16>,
}

impl Frame for Plain {
    type Payload = Bytes;

    fn head(&self) -> &[u8] {
        &self.bytes[..self.bytes.len().min(128)]
    }

    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn segment(&self) -> Option<u16> {
        self.segment
    }

    fn is_checksum_valid(&self) -> bool {
        false
    }

    fn sum(&self, range: core::ops::Range<usize>) -> u64 {
        self.bytes.sum(range)
    }

    fn copy_to(&self, at: usize, to: &mut [u8]) {
        Payload::copy_to(&self.bytes, at, to);
    }

    fn retain(&mut self, range: core::ops::Range<usize>) -> Option<Slice<Bytes>> {
        self.has_buffer.then(|| Slice::of(self.bytes.clone(), range))
    }
}

fn end(text: &str) -> Endpoint {
    text.parse::<SocketAddr>().unwrap().into()
}

fn address(text: &str) -> Address {
    text.parse::<IpAddr>().unwrap().into()
}

const PATH: PathId = PathId { index: 0, generation: 0 };
const PORT: InterfaceId = InterfaceId(1);

/// A received frame with the datagram at offset `at`, followed by padding.
fn frame(from: Endpoint, to: Endpoint, payload: &[u8], at: usize) -> (Plain, Packet) {
    let cut = payload.len() / 3;
    let slices = [&payload[..cut], &payload[cut..]].map(|piece| Slice::new(Bytes::copy_of(piece)));
    let mut sent = datagram(PATH, from, to, UdpOptions::default(), slices.to_vec(), 0).unwrap();
    sent.complete();
    let mut bytes = vec![0xee; at];
    bytes.extend(&sent.header.bytes[..usize::from(sent.header.len)]);
    bytes.extend(payload);
    let end = bytes.len();
    bytes.extend([0xdd; 5]);
    let packet = Packet {
        interface: PORT,
        source: from.address,
        destination: to.address,
        protocol: protocol::UDP,
        transport: at,
        end,
        ecn: 0,
        is_group: to.address.is_multicast(),
    };
    (Plain { bytes: bytes.into(), has_buffer: true, segment: None }, packet)
}

struct Host {
    udp: Udp<Bytes>,
    counters: Counters,
}

impl Host {
    fn new(change: impl FnOnce(&mut Limits)) -> Self {
        let mut config = Config::new([3; 16]);
        change(&mut config.limits);
        Self { udp: Udp::new(&config), counters: Counters::default() }
    }

    fn bind(&mut self, local: &str) -> SocketId {
        self.udp.bind(end(local), UdpOptions::default()).unwrap()
    }

    fn send(&mut self, from: &str, to: &str) -> Result<(), NoPort> {
        let (mut frame, packet) = frame(end(from), end(to), b"hello", 42);
        self.udp.receive(&mut frame, &packet, &mut self.counters)
    }

    /// Socket that receives a datagram with these ends.
    fn receiver(&mut self, from: &str, to: &str) -> Option<SocketId> {
        self.send(from, to).ok()?;
        match self.udp.poll_event()? {
            Event::Datagram { socket, from: sender, to: destination, data } => {
                assert_eq!((sender, destination, &data.to_vec()[..]), (end(from), end(to), &b"hello"[..]));
                Some(socket)
            }
            event => unreachable!("{event:?}"),
        }
    }
}

#[test]
fn merged_datagrams_are_received_apart() {
    let mut host = Host::new(|limits| limits.udp_queue = 3);
    let socket = host.bind("0.0.0.0:53");
    let (mut merged, packet) = frame(end("10.0.0.9:7"), end("10.0.0.1:53"), b"onetwothrfo", 42);
    merged.segment = Some(3);
    host.udp.receive(&mut merged, &packet, &mut host.counters).unwrap();
    for expected in ["one", "two", "thr"] {
        let Some(Event::Datagram { socket: receiver, data, .. }) = host.udp.poll_event() else {
            unreachable!()
        };
        assert_eq!((receiver, &data.to_vec()[..]), (socket, expected.as_bytes()));
    }
    assert_eq!((host.counters.udp_in, host.counters.udp_overflow), (3, 1), "the queue has room for three");
    let (mut empty, packet) = frame(end("10.0.0.9:7"), end("10.0.0.1:53"), b"", 42);
    host.udp.receive(&mut empty, &packet, &mut host.counters).unwrap();
    assert!(matches!(host.udp.poll_event(), Some(Event::Datagram { data, .. }) if data.is_empty()));
}

#[test]
fn the_most_specific_socket_receives() {
    let mut host = Host::new(|_| ());
    let (any, one) = (host.bind("0.0.0.0:53"), host.bind("10.0.0.1:53"));
    let peer = host.bind("10.0.0.2:53");
    host.udp.connect(peer, address("10.0.0.1"), end("10.0.0.9:7"), PATH).unwrap();
    assert_eq!(host.receiver("10.0.0.9:7", "10.0.0.1:53"), Some(peer));
    assert_eq!(host.receiver("10.0.0.9:8", "10.0.0.1:53"), Some(one));
    assert_eq!(host.receiver("10.0.0.9:7", "10.0.0.2:53"), Some(any));
    assert_eq!(host.send("10.0.0.9:7", "10.0.0.1:54"), Err(NoPort));
    assert_eq!(host.send("[fe80::1]:7", "[fe80::2]:53"), Err(NoPort));
    assert_eq!((host.counters.udp_in, host.counters.udp_no_port), (3, 2));
}

#[test]
fn ends_are_unique_and_ephemeral_ports_are_free() {
    let mut host = Host::new(|limits| limits.udp_sockets = 20_000);
    let one = host.bind("10.0.0.1:53");
    assert_eq!(host.udp.bind(end("10.0.0.1:53"), UdpOptions::default()), Err(UdpError::InUse));
    let all: Vec<_> = (0..16_384).map(|_| host.bind("[::]:0")).collect();
    assert_eq!(host.udp.bind(end("[::]:0"), UdpOptions::default()), Err(UdpError::InUse));
    assert!(all.iter().all(|id| host.udp.socket(*id).unwrap().ends.local.port >= 49_152));
    assert_eq!(host.udp.close(one), None);
    assert!(host.udp.socket(one).is_err());
    assert_ne!(host.bind("10.0.0.1:53"), one);
}

#[test]
fn limits_of_sockets_and_events_hold() {
    let mut host = Host::new(|limits| (limits.udp_sockets, limits.udp_queue) = (2, 3));
    let (one, two) = (host.bind("10.0.0.1:1"), host.bind("10.0.0.1:2"));
    assert_eq!(host.udp.bind(end("10.0.0.1:3"), UdpOptions::default()), Err(UdpError::TooMany));
    for to in ["10.0.0.1:1", "10.0.0.1:2"] {
        assert!((0..5).all(|_| host.send("10.0.0.9:9", to).is_ok()));
    }
    assert_eq!((host.counters.udp_in, host.counters.udp_overflow), (6, 4));
    assert_eq!(host.udp.close(one), None);
    let owners: Vec<_> = core::iter::from_fn(|| host.udp.poll_event()).filter_map(|e| owner(&e)).collect();
    assert_eq!(owners, [two; 3]);
    assert_eq!(host.receiver("10.0.0.9:9", "10.0.0.1:2"), Some(two));
}

#[test]
fn a_frame_without_a_free_buffer_is_counted() {
    let mut host = Host::new(|_| ());
    host.bind("10.0.0.1:1");
    let (mut frame, packet) = frame(end("10.0.0.9:9"), end("10.0.0.1:1"), b"x", 42);
    frame.has_buffer = false;
    assert_eq!(host.udp.receive(&mut frame, &packet, &mut host.counters), Ok(()));
    assert_eq!((host.counters.udp_overflow, host.udp.poll_event().is_none()), (1, true));
}

#[test]
fn groups_are_received_by_members_on_their_interface() {
    let mut host = Host::new(|limits| limits.groups = 1);
    let (socket, group) = (host.bind("[::]:5353"), address("ff02::fb"));
    assert_eq!(host.receiver("[fe80::1]:5353", "[ff02::fb]:5353"), None);
    assert_eq!(host.udp.join(socket, PORT, group), Ok(true));
    assert_eq!(host.udp.join(socket, PORT, group), Ok(false));
    assert_eq!(host.udp.join(socket, InterfaceId(2), group), Err(UdpError::TooMany));
    for wrong in ["224.0.0.251", "fe80::1"] {
        assert_eq!(host.udp.join(socket, PORT, address(wrong)), Err(UdpError::InvalidAddress));
    }
    assert_eq!(host.receiver("[fe80::1]:5353", "[ff02::fb]:5353"), Some(socket));
    assert_eq!(host.udp.leave(socket, Some(InterfaceId(2)), group), Ok(None));
    assert_eq!(host.udp.leave(socket, None, group), Ok(Some(PORT)));
    assert_eq!(host.receiver("[fe80::1]:5353", "[ff02::fb]:5353"), None);
    assert_eq!(host.udp.join(socket, PORT, group), Ok(true));
    assert_eq!((host.udp.close(socket), host.udp.close(socket)), (Some((PORT, group)), None));
}

#[test]
fn errors_reach_the_connected_socket_only() {
    let mut host = Host::new(|limits| limits.udp_queue = 1);
    let (socket, remote) = (host.bind("10.0.0.1:1"), end("10.0.0.9:9"));
    let local = end("10.0.0.1:1");
    let error =
        TransportError { kind: ErrorKind::TooBig(1400), protocol: protocol::UDP, local, remote, sequence: 0 };
    host.udp.fail(&error, &mut host.counters);
    assert!(host.udp.poll_event().is_none());
    host.udp.connect(socket, local.address, remote, PATH).unwrap();
    host.udp.fail(&error, &mut host.counters);
    host.udp.fail(&error, &mut host.counters);
    assert_eq!((host.counters.udp_errors_dropped, host.counters.udp_overflow), (1, 0));
    let event = host.udp.poll_event();
    assert!(
        matches!(event, Some(Event::DatagramLost { error: DatagramError::TooBig(1400), .. })),
        "{event:?}"
    );
    assert!(host.udp.poll_event().is_none());
}

#[test]
fn a_zero_checksum_is_valid_for_version_4_only() {
    let mut host = Host::new(|_| ());
    host.bind("10.0.0.1:1");
    host.bind("[fd00::1]:1");
    for (from, to, received) in [("10.0.0.9:9", "10.0.0.1:1", true), ("[fd00::9]:9", "[fd00::1]:1", false)] {
        let (mut frame, packet) = frame(end(from), end(to), b"hello", 42);
        let mut bytes = frame.bytes.to_vec();
        bytes[48..50].fill(0);
        frame.bytes = bytes.into();
        assert_eq!(host.udp.receive(&mut frame, &packet, &mut host.counters), Ok(()));
        assert_eq!(host.udp.poll_event().is_some(), received);
    }
    assert_eq!(host.counters.udp_errors, 1);
}

#[test]
fn too_long_datagrams_are_refused_and_a_zero_sum_is_sent_as_ffff() {
    let long = vec![Slice::new(Bytes::copy_of(&[0; 65_508]))];
    let (from, to) = (end("10.0.0.1:1"), end("10.0.0.9:9"));
    let sent = datagram(PATH, from, to, UdpOptions::default(), long.clone(), 0);
    assert_eq!(sent.err(), Some(UdpError::TooLong(65_507)));
    assert!(datagram(PATH, end("[::1]:1"), end("[::1]:9"), UdpOptions::default(), long, 0).is_ok());
    let sums: Vec<_> = (0..=u16::MAX)
        .map(|word| vec![Slice::new(Bytes::copy_of(&word.to_be_bytes()))])
        .map(|data| {
            let mut sent = datagram(PATH, from, to, UdpOptions::default(), data, 0).unwrap();
            sent.complete();
            sent.header.bytes
        })
        .map(|bytes| [bytes[6], bytes[7]])
        .collect();
    assert!(!sums.contains(&[0, 0]) && sums.contains(&[0xff, 0xff]));
}

proptest! {
    #[test]
    fn sent_datagrams_are_received_and_changed_ones_are_not(
        payload in prop::collection::vec(any::<u8>(), 0..300),
        at in 14usize..200,
        is_v4: bool,
        flip in any::<prop::sample::Index>(),
        bit in 0u8..8,
    ) {
        let mut host = Host::new(|_| ());
        let (from, to) = if is_v4 { ("10.0.0.9:9", "10.0.0.1:1") } else { ("[fd00::9]:9", "[fd00::1]:1") };
        host.bind(to);
        let (mut frame, packet) = frame(end(from), end(to), &payload, at);
        prop_assert_eq!(host.udp.receive(&mut frame, &packet, &mut host.counters), Ok(()));
        let Some(Event::Datagram { data, .. }) = host.udp.poll_event() else { unreachable!("not received") };
        prop_assert_eq!(data.to_vec(), &payload[..]);
        // Not the checksum itself: zero is valid.
        let flip = at + match flip.index(packet.end - at - 2) { n if n < 6 => n, n => n + 2 };
        let mut bytes = frame.bytes.to_vec();
        bytes[flip] ^= 1 << bit;
        frame.bytes = bytes.into();
        let _ = host.udp.receive(&mut frame, &packet, &mut host.counters);
        prop_assert!(host.udp.poll_event().is_none());
    }

    #[test]
    fn arbitrary_datagrams_do_not_panic(
        bytes in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..40),
        transport in 0usize..30,
        end in 0usize..60,
    ) {
        let mut host = Host::new(|_| ());
        host.bind("0.0.0.0:1");
        let (_, mut packet) = frame(Endpoint::default(), Endpoint::default(), &[], 0);
        (packet.transport, packet.end) = (transport, end);
        let mut frame = Plain { bytes: bytes.into(), has_buffer: true, segment: None };
        let _ = host.udp.receive(&mut frame, &packet, &mut host.counters);
    }
}
