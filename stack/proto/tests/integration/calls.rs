//! Calls in states in which their effect is special: before a connection is established, and without a free port.

use crate::link::Port;
use crate::script::host::{Host, MAC};
use crate::segment::{Segment, TcpOption, flag};
use stack::ip::InterfaceConfig;
use stack::tcp::{ConnectionId, Options};
use stack::{
    Address, Config, ConnectError, Endpoint, Event, Limits, LinkOffloads, Slice, Stack, Time, UdpError,
    UdpOptions,
};
use std::collections::HashSet;
use std::net::IpAddr;
use wire::MacAddress;

fn host(limits: Limits) -> Host {
    Host::new(Config { limits, ..Config::new([7; 16]) }, false, 1500)
}

fn connect(host: &mut Host, port: u16) -> Result<ConnectionId, ConnectError> {
    let (local, remote) = (Endpoint::new(host.local, 0), Endpoint::new(host.remote, port));
    host.stack.connect(local, remote, Options::default(), host.now)
}

/// An answer of the peer to a segment that the stack sent.
fn answer(sent: &Segment, flags: u8, numbers: (u32, u32)) -> Segment {
    Segment {
        source: sent.destination,
        destination: sent.source,
        ecn: 0,
        flags,
        seq: numbers.0,
        ack: numbers.1,
        window: 65_535,
        urgent: 0,
        options: if flags & flag::SYN == 0 { Vec::new() } else { vec![TcpOption::Mss(1460)] },
        payload: Vec::new(),
    }
}

#[test]
fn data_queued_before_the_connection_is_established_is_sent_before_the_fin() {
    let mut host = host(Limits::default());
    let connection = connect(&mut host, 80).unwrap();
    host.stack.send(connection, Slice::new(b"request"[..].into())).unwrap();
    host.stack.close(connection);
    assert!(host.stack.send(connection, Slice::new(b"more"[..].into())).is_err(), "closed");
    host.pump();
    let syn = host.sent.pop_front().unwrap().1;
    assert_eq!((syn.flags & flag::FIN, host.sent.len()), (0, 0));
    host.inject(&answer(&syn, flag::SYN | flag::ACK, (5000, syn.seq + 1)));
    let sent: Vec<Segment> = host.sent.drain(..).map(|(_, segment)| segment).collect();
    let data: Vec<u8> = sent.iter().flat_map(|segment| segment.payload.clone()).collect();
    assert_eq!((data, sent.last().unwrap().flags & flag::FIN), (b"request".to_vec(), flag::FIN));
    host.inject(&answer(&syn, flag::ACK | flag::FIN, (5001, syn.seq + 9)));
    assert!(host.events.iter().any(|event| matches!(event, Event::Closed { .. })));
}

/// An application frees memory by these numbers: one byte more, and it overwrites data that is not sent yet.
#[test]
fn acknowledgements_of_syn_and_fin_are_not_reported_as_data() {
    let mut host = host(Limits::default());
    let connection = connect(&mut host, 80).unwrap();
    host.stack.report_acks(connection, true);
    host.pump();
    let syn = host.sent.pop_front().unwrap().1;
    let acknowledged = |host: &mut Host, count: u32| {
        host.inject(&answer(
            &syn,
            flag::ACK | if count == 1 { flag::SYN } else { 0 },
            (5000 + u32::from(count > 1), syn.seq + count),
        ));
        let counts = host
            .events
            .drain(..)
            .map(|event| if let Event::Acknowledged { bytes, .. } = event { bytes } else { 0 });
        counts.sum::<u32>()
    };
    assert_eq!(acknowledged(&mut host, 1), 0, "the SYN");
    host.stack.send(connection, Slice::new(b"request"[..].into())).unwrap();
    host.stack.close(connection);
    host.pump();
    assert_eq!([4, 8, 9].map(|count| acknowledged(&mut host, count)), [3, 4, 0], "data, and the FIN");
}

#[test]
fn a_connection_without_data_that_is_not_established_ends_at_once() {
    let mut host = host(Limits::default());
    let connection = connect(&mut host, 80).unwrap();
    host.stack.close(connection);
    host.pump();
    assert!(host.stack.connection(connection).is_none() && host.sent.is_empty());
}

#[test]
fn connections_to_one_destination_use_all_ports_and_then_fail() {
    let mut host = host(Limits::default());
    let mut ports = HashSet::new();
    while let Ok(connection) = connect(&mut host, 80) {
        ports.insert(host.stack.endpoints(connection).unwrap().0.port);
    }
    assert_eq!((ports.len(), connect(&mut host, 80)), (16_384, Err(ConnectError::InUse)));
    assert!(connect(&mut host, 81).is_ok(), "another destination");
}

#[test]
fn listeners_and_sockets_without_a_port_get_different_ones() {
    let mut host = host(Limits::default());
    let any = Endpoint::new(Address::v4([0; 4]), 0);
    let mut ports = HashSet::new();
    for local in [Endpoint::new(host.local, 0), any, any] {
        let listener = host.stack.listen(local, Options::default()).unwrap();
        let chosen = host.stack.listener(listener).unwrap();
        assert!(chosen.port >= 49_152 && chosen.address == local.address);
        ports.insert(chosen.port);
        host.stack.unlisten(listener);
        assert_eq!(host.stack.listener(listener), None);
    }
    assert_eq!(ports.len(), 3);
}

#[test]
fn a_burst_of_connections_does_not_wait_for_retransmissions_of_syns() {
    let mut host = host(Limits::default());
    let connections: Vec<_> = (0..500).map(|_| connect(&mut host, 80).unwrap()).collect();
    host.pump();
    let ports: HashSet<u16> = host.sent.iter().map(|(_, syn)| syn.source.port).collect();
    assert_eq!((ports.len(), host.sent.len(), connections.len()), (500, 500, 500), "each SYN once");
    let counters = host.stack.counters();
    assert_eq!((counters.neighbour_failed, counters.tcp_retransmits), (0, 0));
    assert_eq!(counters.tcp_out, 500, "each SYN is counted once");
}

/// Length of the headers before a UDP payload.
const HEADERS: usize = 14 + 20 + 8;

/// Offloads of a link, and the frames that it gets for three datagrams.
const LINKS: [(LinkOffloads, u64); 4] = {
    let none = LinkOffloads { checksum: false, tso4: 0, tso6: 0, uso: 0 };
    let sums = LinkOffloads { checksum: true, ..none };
    [
        (none, 3),
        (sums, 3),
        (LinkOffloads { uso: 65_535, ..sums }, 1),
        // Too short for all of them.
        (LinkOffloads { uso: 2000, ..sums }, 3),
    ]
};

#[test]
fn segments_of_one_call_are_datagrams() {
    for (offloads, frames) in LINKS {
        for (own, remote) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
            segments_of_one_call(offloads, frames, own, remote);
        }
    }
}

fn segments_of_one_call(offloads: LinkOffloads, frames: u64, own: &str, remote: &str) {
    let address = |text: &str| Address::from(text.parse::<IpAddr>().unwrap());
    let mut stack = Stack::new(Config::new([7; 16]), Time(0));
    let interface = stack.add_interface(InterfaceConfig { mac: MacAddress::new(MAC), mtu: 1500, vlan: None });
    let is_v4 = address(own).is_v4();
    let prefix = if is_v4 { 24 } else { 64 };
    stack.add_address(interface, format!("{own}/{prefix}").parse().unwrap(), Time(0));
    let remote = Endpoint::new(address(remote), 53);
    stack.add_neighbour(interface, remote.address, MacAddress::new([2; 6]), Time(0));
    let any = Endpoint::new(if is_v4 { Address::v4([0; 4]) } else { address("::") }, 0);
    let mut port = Port { offloads, ..Port::new(1500) };
    // Reports of groups and probes of addresses.
    for second in 0..20 {
        stack.advance(Time(second * 1_000_000_000));
        stack.transmit(&mut port, Time(second * 1_000_000_000));
    }
    let now = Time(20_000_000_000);
    (port.frames, port.sent) = (0, Vec::new());
    let socket = stack.udp_bind(any, UdpOptions::default()).unwrap();
    assert!(stack.udp_endpoints(socket).unwrap().0.port >= 49_152, "a port was chosen");
    let bytes: Vec<u8> = (0..2500_u32).map(|i| i as u8).collect();
    let pieces = [&bytes[..700], &bytes[700..]].map(|piece| Slice::new(piece.into()));
    stack.udp_send_segments(socket, Some(remote), &pieces, 1000, now).unwrap();
    stack.transmit(&mut port, now);
    let headers = if is_v4 { HEADERS } else { HEADERS + 20 };
    let payloads: Vec<&[u8]> = port.sent.iter().map(|frame| &frame[headers..]).collect();
    assert_eq!(payloads, [&bytes[..1000], &bytes[1000..2000], &bytes[2000..]]);
    assert_eq!((stack.counters().udp_out, port.frames), (3, frames));
    let mut send = |segment| stack.udp_send_segments(socket, Some(remote), &pieces, segment, now);
    let longest = if is_v4 { 1472 } else { 1452 };
    assert_eq!((send(1473), send(39)), (Err(UdpError::TooLong(longest)), Err(UdpError::TooLong(39 * 64))));
}

/// RFC 6298 section 5.7 is for handshakes without a sample. The timestamp that answers a repeated SYN is one.
#[test]
fn a_repeated_syn_does_not_delay_the_repair_of_the_first_data() {
    let mut host = host(Limits::default());
    let connection = connect(&mut host, 80).unwrap();
    host.advance_to(1_500_000, false);
    let (_, syn) = host.sent.pop_back().unwrap();
    let stamp = syn.options.iter().find_map(|option| match option {
        TcpOption::Timestamps(value, _) => Some(*value),
        _ => None,
    });
    assert_eq!(host.sent.len(), 1, "the SYN was sent twice");
    let mut reply = answer(&syn, flag::SYN | flag::ACK, (5000, syn.seq + 1));
    reply.options.push(TcpOption::Timestamps(700, stamp.unwrap()));
    host.inject(&reply);
    host.stack.send(connection, Slice::new(b"request"[..].into())).unwrap();
    host.pump();
    host.sent.clear();
    let start = host.micros();
    host.advance_to(start + 5_000_000, true);
    assert!(host.micros() - start <= 2_000_000, "again after {} us", host.micros() - start);
}
