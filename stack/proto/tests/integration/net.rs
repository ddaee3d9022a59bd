//! A simulated network of two stacks. All randomness comes from one seed, and time jumps from event to event, so that a
//! run depends on nothing else.

use super::link::{Bytes, Port, Received};
use super::offload;
use super::packet::{ETHERNET, icmp_error};
use super::rng::Rng;
use super::segment::Segment;
use stack::ip::InterfaceId;
use stack::{Address, Event, Stack, Time};
use std::collections::BTreeMap;

// With its path, because the fuzz targets include this file by path.
#[path = "net/conditions.rs"]
mod conditions;

pub(crate) use conditions::{Impairments, Rate, Receive, Transmit};

/// An application of a stack.
pub(crate) trait Application {
    /// Handles an event.
    fn on_event(&mut self, stack: &mut Stack<Bytes>, event: Event<Bytes>, now: Time);
    /// Does what is due.
    fn poll(&mut self, stack: &mut Stack<Bytes>, now: Time);
    /// Time of the next call of [`Application::poll`].
    fn wake(&self) -> Time;
}

/// A host of the network.
pub(crate) trait Node {
    /// Time of the next run.
    fn wake(&self, now: Time) -> Time;
    /// Processes received frames and does what is due.
    fn run(&mut self, now: Time, rng: &mut Rng);
    /// Takes a frame from the network.
    fn take(&mut self, frame: Vec<u8>, now: Time);
    /// Frames sent since the last call.
    fn sent(&mut self) -> Vec<Vec<u8>>;
}

/// A stack with its port and its application.
pub(crate) struct Host<A> {
    pub(crate) stack: Stack<Bytes>,
    pub(crate) interface: InterfaceId,
    pub(crate) port: Port,
    pub(crate) app: A,
    receive: Receive,
    transmit: Transmit,
    /// Frames passed to the stack.
    pub(crate) frames_in: u64,
    ring: Vec<Vec<u8>>,
    poll_at: Time,
    refill_at: Time,
    /// Consecutive runs that a deadline caused although nothing was to be done.
    idle: u32,
}

impl<A: Application> Host<A> {
    pub(crate) fn new(
        stack: Stack<Bytes>,
        interface: InterfaceId,
        mut port: Port,
        (receive, transmit): (Receive, Transmit),
        app: A,
    ) -> Self {
        port.room = transmit.room;
        let (poll_at, refill_at) = (Time::NEVER, Time::NEVER);
        let ring = Vec::new();
        Self {
            stack,
            interface,
            port,
            app,
            receive,
            transmit,
            frames_in: 0,
            ring,
            poll_at,
            refill_at,
            idle: 0,
        }
    }

    fn handle_events(&mut self, now: Time) -> bool {
        let mut any = false;
        while let Some(event) = self.stack.poll_event() {
            any = true;
            self.app.on_event(&mut self.stack, event, now);
        }
        any
    }

    fn take_frames(&mut self, now: Time, rng: &mut Rng) {
        let frames = std::mem::take(&mut self.ring);
        let max = self.receive.lro;
        let merged = match max {
            0 => frames.into_iter().map(|frame| (frame, 1)).collect(),
            _ => offload::merge(frames, max),
        };
        for (bytes, segments) in merged {
            let mut frame = self.frame(&bytes, segments);
            if rng.chance(self.receive.no_buffer) {
                frame = frame.without_buffer();
            }
            self.frames_in += 1;
            self.stack.receive(self.interface, &mut frame, now);
        }
    }

    fn frame(&self, bytes: &[u8], segments: usize) -> Received {
        let mut frame = Received::new(bytes);
        if self.receive.has_short_head {
            frame = frame.with_short_head();
        }
        match (segments > 1, self.receive.has_checksum_offload) {
            (true, _) => frame.coalesced(),
            (false, true) => frame.verified(),
            (false, false) => frame,
        }
    }
}

impl<A: Application> Node for Host<A> {
    fn wake(&self, now: Time) -> Time {
        let stack = self.stack.deadline();
        // Without room, the stack cannot send what is due; with room, an early deadline must not stop time.
        let stack = match (stack <= now, self.port.room) {
            (true, 0) => Time::NEVER,
            (true, _) => now.after_micros(1),
            _ => stack,
        };
        stack.min(self.poll_at).min(self.refill_at).min(self.app.wake())
    }

    fn run(&mut self, now: Time, rng: &mut Rng) {
        if self.refill_at <= now {
            self.refill_at = Time::NEVER;
            self.port.room = self.transmit.room;
        }
        let mut has_work = self.app.wake() <= now;
        if self.poll_at <= now {
            self.poll_at = Time::NEVER;
            has_work = true;
            self.take_frames(now, rng);
        }
        self.stack.advance(now);
        has_work |= self.handle_events(now);
        self.app.poll(&mut self.stack, now);
        self.stack.transmit(&mut self.port, now);
        // Sending may end connections and give space.
        has_work |= self.handle_events(now) || !self.port.sent.is_empty();
        self.idle = if has_work { 0 } else { self.idle + 1 };
        assert!(
            self.idle < 10_000,
            "the stack is always due and does nothing: deadline {:?}",
            self.stack.deadline()
        );
        if self.port.room == 0 && self.refill_at.is_never() {
            self.refill_at = now.after(self.transmit.refill);
        }
    }

    fn take(&mut self, frame: Vec<u8>, now: Time) {
        self.ring.push(frame);
        self.poll_at = self.poll_at.min(now.after(self.receive.poll));
    }

    fn sent(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.port.sent)
    }
}

/// One direction.
struct Path {
    impairments: Impairments,
    /// Time at which the bottleneck has sent its queue.
    busy: Time,
    /// Arrival of the last frame that keeps its order.
    last: Time,
}

/// The network.
pub(crate) struct Net<N> {
    pub(crate) now: Time,
    pub(crate) hosts: [N; 2],
    paths: [Path; 2],
    arrivals: BTreeMap<(Time, u64), (usize, Vec<u8>)>,
    order: u64,
    rng: Rng,
    has_trace: bool,
}

impl<N: Node> Net<N> {
    /// A network; the impairments are those of frames from each host.
    pub(crate) fn new(now: Time, hosts: [N; 2], impairments: [Impairments; 2], rng: Rng) -> Self {
        let path = |impairments| Path { impairments, busy: now, last: now };
        let has_trace = std::env::var_os("LINERATE_TRACE").is_some();
        let paths = impairments.map(path);
        Self { now, hosts, paths, arrivals: BTreeMap::new(), order: 0, rng, has_trace }
    }

    /// Runs what is due next. Returns whether anything was due until `limit`.
    pub(crate) fn step(&mut self, limit: Time) -> bool {
        let now = self.now;
        let wakes = [self.hosts[0].wake(now), self.hosts[1].wake(now)];
        let arrival = self.arrivals.first_key_value().map_or(Time::NEVER, |(key, _)| key.0);
        let next = arrival.min(wakes[0]).min(wakes[1]);
        if next > limit || next.is_never() {
            return false;
        }
        self.now = now.max(next);
        self.arrive();
        for host in 0..2 {
            if self.hosts[host].wake(now) <= self.now {
                self.run(host);
            }
        }
        true
    }

    /// Moves frames that have arrived to the rings of their hosts.
    fn arrive(&mut self) {
        while let Some(entry) = self.arrivals.first_entry()
            && entry.key().0 <= self.now
        {
            let (to, frame) = entry.remove();
            self.trace("receives", to, &frame);
            self.hosts[to].take(frame, self.now);
        }
    }

    /// Runs a host at once, after calls of its stack by a test.
    pub(crate) fn run(&mut self, host: usize) {
        self.hosts[host].run(self.now, &mut self.rng);
        for frame in self.hosts[host].sent() {
            self.offer(host, frame);
        }
    }

    /// Passes a frame of a host into the network.
    pub(crate) fn offer(&mut self, from: usize, mut frame: Vec<u8>) {
        self.trace("sends", from, &frame);
        let impairments = &self.paths[from].impairments;
        let is_down = impairments.down.is_some_and(|(start, end)| (start..end).contains(&self.now));
        let mtu =
            impairments.mtu.filter(|(start, _)| *start <= self.now).map_or(usize::MAX, |(_, mtu)| mtu.into());
        let (loss, corrupt, duplicate) = (impairments.loss, impairments.corrupt, impairments.duplicate);
        if is_down || self.rng.chance(loss) {
            return;
        }
        if frame.len() > mtu.saturating_add(ETHERNET) {
            self.report_too_big(from, &frame, mtu);
            return;
        }
        if self.rng.chance(corrupt) {
            flip_bit(&mut frame, &mut self.rng);
        }
        let Some(departure) = self.queue(from, &mut frame) else { return };
        if self.rng.chance(duplicate) {
            let late = departure.after(self.rng.micros(0..2000));
            self.deliver(from, late, frame.clone());
        }
        self.deliver(from, departure, frame);
    }

    /// Time at which the frame leaves the bottleneck; `None` if its queue is full.
    fn queue(&mut self, from: usize, frame: &mut [u8]) -> Option<Time> {
        let path = &mut self.paths[from];
        let Some(rate) = &path.impairments.rate else { return Some(self.now) };
        let start = path.busy.max(self.now);
        let backlog = (start.0 - self.now.0) / rate.nanos_per_byte;
        if backlog + frame.len() as u64 > rate.queue {
            return None;
        }
        if rate.mark.is_some_and(|mark| backlog > mark) {
            mark_congestion(frame);
        }
        path.busy = Time(start.0 + frame.len() as u64 * rate.nanos_per_byte);
        Some(path.busy)
    }

    fn deliver(&mut self, from: usize, departure: Time, frame: Vec<u8>) {
        let path = &mut self.paths[from];
        let Impairments { delay, jitter, reorder, .. } = &path.impairments;
        let mut at = departure.after(*delay);
        if !jitter.is_zero() {
            at = at.after(self.rng.micros(0..jitter.as_micros() as u64));
        }
        if self.rng.chance(reorder.0) {
            at = at.after(self.rng.micros(1..reorder.1.as_micros() as u64 + 2));
        } else {
            at = at.max(path.last);
            path.last = at;
        }
        self.order += 1;
        self.arrivals.insert((at, self.order), (1 - from, frame));
    }

    fn report_too_big(&mut self, from: usize, frame: &[u8], mtu: usize) {
        let is_v4 = frame[ETHERNET] >> 4 == 4;
        let router = if is_v4 { Address::v4([10, 9, 0, 254]) } else { router_v6() };
        let kind = if is_v4 { (3, 4) } else { (2, 0) };
        let error = icmp_error(frame, router, kind, mtu as u32);
        self.deliver(1 - from, self.now, error);
    }

    fn trace(&self, verb: &str, host: usize, frame: &[u8]) {
        if !self.has_trace {
            return;
        }
        let at = self.now.micros();
        match Segment::decode(frame) {
            Some(Ok(segment)) => {
                let (from, to) = (segment.source.port, segment.destination.port);
                println!("{at:>12} host {host} {verb:8} {from} > {to} {segment}");
            }
            other => println!("{at:>12} host {host} {verb:8} {} bytes, {other:?}", frame.len()),
        }
    }
}

fn router_v6() -> Address {
    let mut octets = [0; 16];
    (octets[0], octets[15]) = (0xfd, 0xfe);
    Address::v6(octets)
}

/// Flips a bit of an IP packet. Frames of other protocols, which have no checksum, stay whole: Ethernet detects such
/// errors.
pub(crate) fn flip_bit(frame: &mut [u8], rng: &mut Rng) {
    if matches!(frame[12..14], [0x08, 0x00] | [0x86, 0xdd]) {
        let bit = rng.within(ETHERNET as u64 * 8..frame.len() as u64 * 8) as usize;
        frame[bit / 8] ^= 1 << (bit % 8);
    }
}

/// Sets congestion experienced (RFC 3168) if the packet is ECN-capable.
fn mark_congestion(frame: &mut [u8]) {
    match (&frame[12..14], frame[ETHERNET + 1] & 3, (frame[ETHERNET + 1] >> 4) & 3) {
        ([0x08, 0x00], 1 | 2, _) => {
            frame[ETHERNET + 1] |= 3;
            let word = |at| u16::from_be_bytes([frame[at], frame[at + 1]]);
            let (len, identification) = (word(ETHERNET + 2), word(ETHERNET + 4));
            wire::rewrite_ipv4(&mut frame[ETHERNET..], len, identification);
        }
        ([0x86, 0xdd], _, 1 | 2) => frame[ETHERNET + 1] |= 0x30,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::Packet;
    use super::super::segment::flag;
    use super::*;
    use stack::Endpoint;

    fn frame(source: Address, destination: Address, len: usize) -> Vec<u8> {
        let segment = Segment {
            source: Endpoint::new(source, 1),
            destination: Endpoint::new(destination, 2),
            ecn: 2,
            flags: flag::ACK,
            seq: 1,
            ack: 1,
            window: 1,
            urgent: 0,
            options: Vec::new(),
            payload: vec![7; len],
        };
        segment.encode([2; 6], [4; 6])
    }

    #[test]
    fn marked_packets_stay_valid() {
        let v4 = (Address::v4([10, 0, 0, 1]), Address::v4([10, 0, 0, 2]));
        for (source, destination) in [v4, (router_v6(), Address::v6([1; 16]))] {
            let mut frame = frame(source, destination, 100);
            mark_congestion(&mut frame);
            assert_eq!(Segment::decode(&frame).unwrap().unwrap().ecn, 3);
        }
    }

    #[test]
    fn errors_quote_the_packet_and_give_the_size() {
        let frame = frame(Address::v4([10, 0, 0, 1]), Address::v4([10, 0, 0, 2]), 1400);
        let error = icmp_error(&frame, Address::v4([10, 9, 0, 254]), (3, 4), 1200);
        let packet = Packet::decode(&error).unwrap().check().unwrap();
        assert_eq!(packet.transport[..2], [3, 4]);
        assert_eq!(packet.transport[6..8], 1200u16.to_be_bytes());
        assert_eq!(packet.transport[8..36], frame[ETHERNET..ETHERNET + 28]);
        assert_eq!((packet.destination, packet.protocol), (Address::v4([10, 0, 0, 1]), 1));
    }
}
