//! Hostile peers: memory and work per segment stay within limits, and other connections are not affected.
//!
//! The tests count segments, events and frames that the stack holds, never time.

mod black_hole;
mod flood;
mod fragments;
mod injection;
mod memory;
mod windows;

use crate::link::{Bytes, Received};
use crate::packet::ROUTER_MAC;
use crate::script::host::{Host, MAC};
use crate::segment::{Segment, TcpOption, flag};
use stack::tcp::{ConnectionId, ConnectionInfo, Options};
use stack::{Config, Endpoint, Event, Limits};
use std::sync::{Arc, Weak};

/// Port of the listener.
const PORT: u16 = 80;
/// First sequence number of the peer.
const IRS: u32 = 1_000_000;
/// Microseconds of a second.
const SECOND: u64 = 1_000_000;

/// A stack with a listener, and its attacker.
struct Victim {
    host: Host,
    /// Frames that were passed to the stack: alive as long as it, or its application, holds their payload.
    frames: Vec<Weak<[u8]>>,
}

impl Victim {
    fn new(limits: Limits, options: Options) -> Self {
        let config = Config { limits, tcp: options, ..Config::new([7; 16]) };
        let mut host = Host::new(config, false, 1500);
        host.stack.listen(Endpoint::new(host.local, PORT), options).unwrap();
        Self { host, frames: Vec::new() }
    }

    /// A segment of the peer at a port; `seq` and `ack` are absolute.
    fn segment(&self, port: u16, flags: u8, (seq, ack): (u32, u32)) -> Segment {
        Segment {
            source: Endpoint::new(self.host.remote, port),
            destination: Endpoint::new(self.host.local, PORT),
            ecn: 0,
            flags,
            seq,
            ack,
            window: 65_535,
            urgent: 0,
            options: Vec::new(),
            payload: Vec::new(),
        }
    }

    /// Passes a segment to the stack, and sends what is due. Returns the number of segments sent.
    fn inject(&mut self, segment: &Segment) -> usize {
        self.inject_burst(std::slice::from_ref(segment))
    }

    /// The same with segments that arrive in one burst.
    fn inject_burst(&mut self, segments: &[Segment]) -> usize {
        let before = self.host.sent.len();
        for segment in segments {
            let mut frame = Received::new(&segment.encode(MAC, ROUTER_MAC));
            self.frames.push(frame.weak());
            self.host.receive_frame(&mut frame);
        }
        self.host.pump();
        self.host.sent.len() - before
    }

    /// Waits, and returns the number of segments that the stack sent.
    fn wait(&mut self, micros: u64) -> usize {
        let before = self.host.sent.len();
        self.host.advance_to(self.host.micros() + micros, false);
        self.host.sent.len() - before
    }

    /// Connects from a port with SACK but without timestamps.
    fn connect(&mut self, port: u16) -> Peer {
        self.connect_with(
            port,
            vec![TcpOption::Mss(1460), TcpOption::SackOk, TcpOption::Nop, TcpOption::WindowScale(7)],
        )
    }

    fn connect_with(&mut self, port: u16, options: Vec<TcpOption>) -> Peer {
        let syn = Segment { options, ..self.segment(port, flag::SYN, (IRS, 0)) };
        self.inject(&syn);
        let iss = self.host.sent.pop_back().expect("a SYN-ACK").1.seq;
        let peer = Peer { port, snd: IRS + 1, rcv: iss + 1 };
        self.inject(&self.segment(port, flag::ACK, (peer.snd, peer.rcv)));
        peer
    }

    /// Connects from a port and sends a FIN.
    fn connect_and_close(&mut self, port: u16) -> (Peer, ConnectionId) {
        let peer = self.connect(port);
        self.inject(&self.segment(port, flag::FIN | flag::ACK, (peer.snd, peer.rcv)));
        (peer, *self.accepted().last().expect("the connection was accepted"))
    }

    /// Queues data of the application.
    fn send(&mut self, connection: ConnectionId, data: &[u8]) {
        self.host.stack.send(connection, stack::Slice::new(data.into())).expect("the connection is open");
    }

    /// Identifiers of connections in the order in which they were accepted.
    fn accepted(&self) -> Vec<ConnectionId> {
        let accepted = self.host.events.iter().filter_map(|event| match event {
            Event::Accepted { connection, .. } => Some(*connection),
            _ => None,
        });
        accepted.collect()
    }

    /// Bytes delivered, of all connections.
    fn delivered(&self) -> Vec<u8> {
        let data = self.host.events.iter().filter_map(|event| match event {
            Event::Data { data, .. } => Some(data.to_vec()),
            _ => None,
        });
        data.flatten().collect()
    }

    fn info(&self) -> Vec<ConnectionInfo> {
        self.host.stack.connections().collect()
    }

    /// Frames whose payload is held.
    fn held_frames(&self) -> usize {
        self.frames.iter().filter(|frame| frame.strong_count() > 0).count()
    }

    /// Checks that a connection works in both directions.
    fn works(&mut self, peer: &mut Peer, connection: ConnectionId) {
        let before = self.delivered().len();
        let data = peer.data(self, b"request");
        self.inject(&data);
        peer.snd += 7;
        assert_eq!(self.delivered().len(), before + 7, "data arrives");
        self.host.stack.consumed(connection, 7);
        self.send(connection, b"answer");
        self.host.sent.clear();
        self.host.pump();
        let sent: Vec<u8> = self.host.sent.iter().flat_map(|(_, segment)| segment.payload.clone()).collect();
        assert_eq!(sent, b"answer");
        peer.rcv += 6;
        self.inject(&self.segment(peer.port, flag::ACK, (peer.snd, peer.rcv)));
    }
}

/// The attacker's end of a connection.
#[derive(Clone, Copy, Debug)]
struct Peer {
    port: u16,
    /// Next number to send, and next number expected.
    snd: u32,
    rcv: u32,
}

impl Peer {
    /// The next segment with this payload.
    fn data(&self, victim: &Victim, payload: &[u8]) -> Segment {
        self.at(victim, 0, payload)
    }

    /// A segment with payload at an offset from the next number.
    fn at(&self, victim: &Victim, offset: u32, payload: &[u8]) -> Segment {
        let numbers = (self.snd.wrapping_add(offset), self.rcv);
        Segment { payload: payload.to_vec(), ..victim.segment(self.port, flag::ACK, numbers) }
    }
}
