//! FTP through translated addresses: messages, sequence numbers and data connections.

use super::ct::{frame, lab};
use super::tunnel::run_long;
use super::*;
use conntrack::{Tuple, sample};
use port::Offload;
use std::net::IpAddr;
use wire::checksum::{Sum, protocol};

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const PUSH: u8 = 0x18;

/// A segment that was sent: its direction, sequence and acknowledgement number, and payload.
type Seen = (Tuple, u32, u32, Vec<u8>);

struct Ftp {
    lab: Lab,
    /// Whether senders leave checksums to an offload.
    is_partial: bool,
}

impl Ftp {
    /// Clients at port 1 of a translated source, or servers at port 2 of a translated destination.
    fn new(nat: &str, is_partial: bool) -> Self {
        let begin = format!("in_port=1,tcp,actions=ct(commit,alg=ftp,nat({nat}),table=1)");
        let begin6 = begin.replace(",tcp,", ",tcp6,");
        let related =
            "table=1,priority=9,in_port=2,ct_state=+trk+new+rel,tcp,actions=ct(commit,nat),output:1";
        let flows = [
            begin.as_str(),
            &begin6,
            "in_port=2,tcp,actions=ct(nat,table=1)",
            "in_port=2,tcp6,actions=ct(nat,table=1)",
            related,
            &related.replace(",tcp,", ",tcp6,"),
            "table=1,priority=8,in_port=2,ct_state=+trk+est,tcp,actions=output:1",
            "table=1,priority=8,in_port=2,ct_state=+trk+est,tcp6,actions=output:1",
            "table=1,priority=8,in_port=1,ct_state=+trk-inv,tcp,actions=output:2",
            "table=1,priority=8,in_port=1,ct_state=+trk-inv,tcp6,actions=output:2",
        ];
        Self { lab: lab(&flows), is_partial }
    }

    /// Sends a segment to a port, and returns it as it leaves by the other one. Its checksums must be valid.
    fn send(&mut self, from: u16, tuple: &Tuple, flags: u8, numbers: (u32, u32), payload: &str) -> Seen {
        let mut frame = frame(&sample::tcp(tuple, flags, numbers, payload.as_bytes()));
        let mut offload = Offload::NONE;
        if self.is_partial {
            let transport = frame.len() - 20 - payload.len();
            let addresses = if tuple.is_v6() { 22..54 } else { 26..34 };
            let sum = Sum::pseudo(&frame[addresses], protocol::TCP, (20 + payload.len()) as u32);
            frame[transport + 16..transport + 18].copy_from_slice(&sum.partial());
            offload = Offload::with_checksum(transport as u16, 16);
        }
        let context = Context::received(PortId(from), self.lab.now);
        let outcome = run_long(self.lab.worker.as_mut(), &context, (&frame, offload)).0;
        let sent = &outcome.sent.get(&(1 - from)).unwrap_or_else(|| panic!("{payload} {outcome:?}"))[0];
        seen(sent)
    }

    /// A control connection; returns its direction as the server sees it.
    fn open(&mut self, tuple: &Tuple) -> Tuple {
        let there = self.send(0, tuple, SYN, (100, 0), "").0;
        self.send(1, &there.reversed(), SYN | ACK, (900, 101), "");
        self.send(0, tuple, ACK, (101, 901), "");
        there
    }
}

fn seen(frame: &[u8]) -> Seen {
    let (addresses, transport) = if frame[14] >> 4 == 4 { (26..34, 34) } else { (22..54, 54) };
    let segment = &frame[transport..];
    let mut sum = Sum::pseudo(&frame[addresses.clone()], protocol::TCP, segment.len() as u32);
    sum.add(segment);
    assert_eq!(sum.finish(), [0, 0], "{frame:?}");
    let (source, destination) = frame[addresses].split_at(if transport == 34 { 4 } else { 16 });
    let is_v4 = transport == 34;
    let (at, header) = if is_v4 { (16, 20) } else { (18, 0) };
    assert_eq!(usize::from(u16::from_be_bytes([frame[at], frame[at + 1]])), header + segment.len());
    assert!(!is_v4 || Sum::of(&frame[14..34]).finish() == [0, 0]);
    let word = |at: usize| u32::from_be_bytes(segment[at..at + 4].try_into().unwrap());
    let ports = word(0);
    let tuple = Tuple::new((address(source), address(destination)), protocol::TCP, 0);
    let tuple = tuple.with_ports((ports >> 16) as u16, ports as u16);
    (tuple, word(4), word(8), segment[usize::from(segment[12] >> 4) * 4..].to_vec())
}

fn address(octets: &[u8]) -> IpAddr {
    let v4 = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    v4.unwrap_or_else(|_| <[u8; 16]>::try_from(octets).unwrap().into())
}

fn control(client: &str, server: &str) -> Tuple {
    let ends = (client.parse().unwrap(), server.parse().unwrap());
    Tuple::new(ends, protocol::TCP, 0).with_ports(5000, 21)
}

/// A data connection, as the side that opens it sees it.
fn data(from: IpAddr, to: IpAddr, ports: (u16, u16)) -> Tuple {
    Tuple::new((from, to), protocol::TCP, 0).with_ports(ports.0, ports.1)
}

#[test]
fn commands_of_a_translated_client_give_its_public_address() {
    for is_partial in [false, true] {
        for (client, server, public, old, new) in [
            ("10.0.0.1", "10.0.0.2", "203.0.113.200", "PORT 10,0,0,1,4,1", "PORT 203,0,113,200,4,1"),
            ("10.0.0.1", "10.0.0.2", "1.1.1.1", "EPRT |1|10.0.0.1|1025|", "EPRT |1|1.1.1.1|1025|"),
            ("fd00::1", "fd00::2", "2001:db8::1", "EPRT |2|fd00::1|1025|", "EPRT |2|2001:db8::1|1025|"),
        ] {
            let nat = if public.contains(':') { format!("src=[{public}]") } else { format!("src={public}") };
            let mut ftp = Ftp::new(&nat, is_partial);
            let tuple = control(client, server);
            let there = ftp.open(&tuple);
            assert_eq!(there.source(), public.parse::<IpAddr>().unwrap());
            let (old, new) = (format!("{old}\r\n"), format!("{new}\r\n"));
            let (sent, received) = (101 + old.len() as u32, 101 + new.len() as u32);
            // The second one is a retransmission.
            for _ in 0..2 {
                let seen = ftp.send(0, &tuple, PUSH, (101, 901), &old);
                assert_eq!(seen, (there, 101, 901, new.clone().into_bytes()));
            }
            let reply = ftp.send(1, &there.reversed(), PUSH, (901, received), "200 ok\r\n");
            assert_eq!((reply.0, reply.1, reply.2), (tuple.reversed(), 901, sent));
            let next = ftp.send(0, &tuple, PUSH, (sent, 909), "RETR file\r\n");
            assert_eq!((next.1, next.2, next.3), (received, 909, b"RETR file\r\n".to_vec()));
            // The server opens the data connection to the public address.
            let opened = data(there.destination(), there.source(), (20, 1025));
            let arrived = ftp.send(1, &opened, SYN, (1, 0), "").0;
            assert_eq!(arrived, data(tuple.destination(), tuple.source(), (20, 1025)));
            assert_eq!(ftp.send(0, &arrived.reversed(), SYN | ACK, (5, 2), "").0, opened.reversed());
        }
    }
}

#[test]
fn replies_of_a_translated_server_give_its_public_address() {
    for is_partial in [false, true] {
        let mut ftp = Ftp::new("dst=10.0.0.22", is_partial);
        let tuple = control("10.0.0.1", "203.0.113.7");
        let there = ftp.open(&tuple);
        let server = there.destination();
        assert_eq!(server, IpAddr::from([10, 0, 0, 22]));
        let text = "227 Entering Passive Mode (10,0,0,22,4,1).\r\n";
        let reply = ftp.send(1, &there.reversed(), PUSH, (901, 101), text);
        let public = text.replace("10,0,0,22", "203,0,113,7");
        assert_eq!((reply.1, reply.3), (901, public.clone().into_bytes()));
        let (sent, received) = (901 + text.len() as u32, 901 + public.len() as u32);
        let next = ftp.send(0, &tuple, PUSH, (101, received), "RETR file\r\n");
        assert_eq!((next.1, next.2), (101, sent));
        let opened = data(tuple.source(), tuple.destination(), (6000, 1025));
        let arrived = ftp.send(0, &opened, SYN, (1, 0), "").0;
        assert_eq!(arrived, data(tuple.source(), server, (6000, 1025)));
        // Without an address in the reply, only the data connection is translated.
        let text = "229 Entering Extended Passive Mode (|||1026|)\r\n";
        let reply = ftp.send(1, &there.reversed(), PUSH, (sent, 112), text);
        assert_eq!((reply.1, reply.3), (received, text.as_bytes().to_vec()));
        let opened = data(tuple.source(), tuple.destination(), (6001, 1026));
        assert_eq!(ftp.send(0, &opened, SYN, (1, 0), "").0.destination(), server);
    }
}

#[test]
fn two_clients_behind_one_address_get_ports_of_their_own() {
    let mut ftp = Ftp::new("src=203.0.113.200", false);
    for (client, given) in [("10.0.0.1", 1025_u16), ("10.0.0.3", 1026)] {
        let tuple = control(client, "10.0.0.2");
        ftp.open(&tuple);
        let text = format!("PORT {},4,1\r\n", client.replace('.', ","));
        let seen = ftp.send(0, &tuple, PUSH, (101, 901), &text);
        let expected = format!("PORT 203,0,113,200,4,{}\r\n", given - 1024);
        assert_eq!(seen.3, expected.into_bytes());
    }
    for (client, given) in [("10.0.0.3", 1026), ("10.0.0.1", 1025)] {
        let opened = data([10, 0, 0, 2].into(), [203, 0, 113, 200].into(), (20, given));
        let arrived = ftp.send(1, &opened, SYN, (1, 0), "").0;
        assert_eq!(arrived, data([10, 0, 0, 2].into(), client.parse().unwrap(), (20, 1025)));
    }
}
