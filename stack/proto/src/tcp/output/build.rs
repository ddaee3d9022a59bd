//! The bytes of a segment.

use super::super::connection::{Flags, State};
use super::super::key::with_len;
use super::super::send_queue::Pieces;
use super::super::{Connection, Seq};
use super::{Send, Syn, Turn};
use crate::ip::{Deferred, HEAD, Header, InterfaceId, NotReady, Outgoing};
use crate::{Link, Payload, Piece, Segmentation, Slice, TxOffload};
use alloc::vec::Vec;
use core::ops::Range;
use wire::checksum::{Sum, protocol};
use wire::{MAX_TCP_HEADER, TCP_HEADER, TcpBuilder, TcpFlags};

/// Longest headers before payload: Ethernet with a tag, IPv6, TCP with all options.
pub(super) const MAX_HEADERS: u32 = 18 + 40 + 60;
/// Payload in bytes up to which the checksum is computed although the link would. A frame that leaves an offload needs
/// a header of its own in shared memory, which costs more than the sum of a few cache lines.
const SHORT: u32 = 256;
/// ECN-capable transport, ECT(0) (RFC 3168 section 5).
const ECT: u8 = 0b10;

impl<P: Payload, L: Link<Payload = P>> Turn<'_, '_, P, L> {
    /// Sends a segment and records it.
    #[inline]
    pub(super) fn emit(&mut self, send: &Send) {
        match send {
            Send::Syn(reason) => self.emit_syn(*reason),
            Send::Data { range, again } => self.emit_data(range.clone(), *again),
            Send::WindowProbe => self.emit_window_probe(),
            Send::Ack { keep_alive } => {
                let seq = self.connection.tx.nxt - u32::from(*keep_alive);
                self.io.counters.tcp_out += 1;
                self.emit_segment(seq, seq..seq, TcpFlags::ACK, 0);
            }
        }
    }

    #[cold]
    fn emit_syn(&mut self, reason: Syn) {
        let c = &*self.connection;
        let iss = c.tx.iss;
        let mut flags = TcpFlags::SYN;
        if c.state == State::SynReceived {
            flags = flags.with(TcpFlags::ACK);
        }
        // RFC 3168 section 6.1.1: a SYN asks with ECE and CWR, a SYN-ACK agrees with ECE.
        if c.state == State::SynSent && c.options.ecn && reason == Syn::First {
            flags = flags.with(TcpFlags::ECE).with(TcpFlags::CWR);
            self.connection.flags.set(Flags::ECN_SYN);
        } else if c.state == State::SynReceived && c.flags.has(Flags::ECN) {
            flags = flags.with(TcpFlags::ECE);
        }
        let first = iss + 1;
        let data = if reason == Syn::First { self.fast_open_data() } else { 0 };
        self.emit_segment(iss, first..first + data, flags, 0);
        let counted = (self.io.counters.tcp_out, self.io.counters.tcp_retransmits);
        match reason {
            Syn::Answer => self.io.counters.tcp_out += 1,
            Syn::First | Syn::Again => self.note_sent(iss..first + data, reason == Syn::Again),
        }
        if self.connection.flags.has(Flags::UNRESOLVED) {
            // It is counted when it leaves.
            (self.io.counters.tcp_out, self.io.counters.tcp_retransmits) = counted;
        }
    }

    #[inline]
    pub(super) fn emit_data(&mut self, range: Range<Seq>, again: bool) {
        let c = &mut *self.connection;
        let end = c.tx.queue.end();
        let mut flags = TcpFlags::ACK;
        if end.is_before(range.end) {
            flags = flags.with(TcpFlags::FIN);
        }
        if end.is_at_most(range.end) {
            flags = flags.with(TcpFlags::PSH);
        }
        let is_ecn = c.flags.has(Flags::ECN) && !again;
        if is_ecn && c.flags.take(Flags::CWR) {
            flags = flags.with(TcpFlags::CWR);
        }
        self.emit_segment(range.start, range.start..range.end.min(end), flags, if is_ecn { ECT } else { 0 });
        self.note_sent(range, again);
    }

    #[cold]
    fn emit_window_probe(&mut self) {
        let c = &mut *self.connection;
        let seq = c.tx.nxt;
        if c.tx.queue.end() == seq {
            // Only a FIN is left: the number before it makes the peer acknowledge.
            return self.emit_segment(seq - 1, seq..seq, TcpFlags::ACK, 0);
        }
        c.flags.set(Flags::PROBED);
        self.io.counters.tcp_zero_window_probes += 1;
        self.emit_segment(seq, seq..seq + 1, TcpFlags::ACK, 0);
    }

    /// Sends the bytes of `range`, which may be empty, behind a header with this sequence number.
    #[inline]
    fn emit_segment(&mut self, seq: Seq, range: Range<Seq>, flags: TcpFlags, ecn: u8) {
        let edge = self.connection.next_edge();
        let mut builder = self.start_header(seq, flags, edge);
        if flags.has(TcpFlags::SYN) {
            self.syn_options(&mut builder, flags.has(TcpFlags::ACK));
        } else {
            self.options(&mut builder);
        }
        if self.connection.flags.has(Flags::URGENT) && flags.has(TcpFlags::ACK) {
            self.mark_urgent(seq, &mut builder);
        }
        let (len, words) = builder.seal();
        let part = Part { header: &builder, len, words, range };
        let mut head = [0; HEAD];
        let (total, c) = (len + part.payload() as usize, &*self.connection);
        let flow = (ecn, if c.key.remote.is_v4() { 0 } else { c.flow_label(self.shared.flow_seed) });
        match self.io.ip.header(c.path, total, protocol::TCP, flow, &mut head, self.io.now) {
            Ok((interface, at)) => {
                if flags.has(TcpFlags::SYN) {
                    self.connection.flags.clear(Flags::UNRESOLVED);
                    self.connection.flags.set(Flags::SYN_LEFT);
                }
                self.send(interface, (&mut head, at), &part);
            }
            Err(NotReady::Removed) => {}
            Err(NotReady::Resolving) if flags.has(TcpFlags::SYN) && !c.flags.has(Flags::SYN_LEFT) => {
                self.shared.await_neighbour(self.index, self.connection);
            }
            Err(NotReady::Resolving | NotReady::Loopback) => self.emit_later(&part, ecn),
        }
        if flags.has(TcpFlags::ACK) {
            self.note_ack(edge);
        }
    }

    /// Completes the head of a frame, whose first `at` bytes are written, and sends it.
    #[inline]
    fn send(&mut self, interface: InterfaceId, (head, at): (&mut [u8; HEAD], usize), part: &Part<'_>) {
        let (c, shared, len) = (&mut *self.connection, &*self.shared, part.payload());
        let pieces = c.tx.queue.pieces(&shared.chunks, part.range.start, part.range.end);
        let is_long = len > self.segment;
        let (sum, offload) = if (len > SHORT || is_long) && self.link.offloads(interface).checksum {
            let segment = is_long.then_some(self.segment as u16);
            (part.pseudo(c.pseudo).partial(), offload(c, at, segment, part.header))
        } else {
            (part.checksum(c.pseudo, pieces.clone()), TxOffload::default())
        };
        part.header.write(sum, &mut head[at..]);
        let pieces = pieces.map(|(slice, range)| Piece::of(slice, range));
        self.link.send(interface, &head[..at + part.len], pieces, offload);
        self.io.counters.frames_out += 1;
    }

    /// Sets the urgent pointer of a segment that is followed by urgent data: to the number after it, as all
    /// implementations understand it (RFC 6093 section 4).
    #[cold]
    fn mark_urgent(&mut self, seq: Seq, builder: &mut TcpBuilder) {
        let c = &mut *self.connection;
        let Some(end) = self.shared.urgent.get(&c.generation).copied() else { return };
        if end.is_at_most(c.tx.una) {
            self.shared.urgent.remove(&c.generation);
            return c.flags.clear(Flags::URGENT);
        }
        if seq.is_before(end) {
            builder.urgent(u16::try_from(end.since(seq)).unwrap_or(u16::MAX));
        }
    }

    /// Header without options and checksum.
    #[inline]
    fn start_header(&self, seq: Seq, mut flags: TcpFlags, edge: Seq) -> TcpBuilder {
        let c = &*self.connection;
        let is_syn = flags.has(TcpFlags::SYN);
        let has_ack = flags.has(TcpFlags::ACK);
        if c.flags.has(Flags::ECE) && has_ack && !is_syn {
            flags = flags.with(TcpFlags::ECE);
        }
        let edge = if c.flags.has(Flags::NO_BUFFER) { c.rx.nxt } else { edge };
        let window = edge.since(c.rx.nxt) >> if is_syn { 0 } else { c.rx.scale };
        let window = if is_syn && !has_ack { c.free().min(0xffff) } else { window.min(0xffff) };
        let ack = if has_ack { c.rx.nxt.0 } else { 0 };
        let ports = (c.key.local_port, c.key.remote_port);
        TcpBuilder::new(ports, seq.0, ack, flags, window as u16)
    }

    /// Options of every segment after the handshake.
    #[inline]
    fn options(&self, builder: &mut TcpBuilder) {
        let c = &*self.connection;
        if c.flags.has(Flags::TIMESTAMPS) {
            builder.timestamps(c.timestamp(self.io.now), c.rx.ts_recent, false);
        }
        if c.flags.has(Flags::SACK) && (c.rx.duplicate.is_some() || !c.out_of_order.is_empty()) {
            let ranges = c.rx.duplicate.into_iter().chain(c.out_of_order.ranges());
            builder.sack(ranges.map(|(left, right)| (left.0, right.0)));
        }
    }

    #[cold]
    fn syn_options(&self, builder: &mut TcpBuilder, is_answer: bool) {
        let c = &*self.connection;
        let mtu = self.io.ip.path(c.path).map_or(576, |(_, mtu)| mtu);
        builder.max_segment(super::super::announced_segment(c, mtu));
        let (timestamps, sack, scale) = if is_answer {
            (c.flags.has(Flags::TIMESTAMPS), c.flags.has(Flags::SACK), c.flags.has(Flags::SCALED))
        } else {
            (c.options.timestamps, c.options.sack, c.options.window_scale)
        };
        if timestamps {
            builder.timestamps(c.timestamp(self.io.now), c.rx.ts_recent, sack);
        } else if sack {
            builder.option(&[1, 1, 4, 2]);
        }
        if scale {
            builder.option(&[1, 3, 3, c.rx.scale]);
        }
        self.fast_open_option(builder);
    }

    /// Passes the segment to the IP layer, which holds it until the neighbour is resolved.
    #[cold]
    fn emit_later(&mut self, part: &Part<'_>, ecn: u8) {
        let c = &mut *self.connection;
        let pieces = c.tx.queue.pieces(&self.shared.chunks, part.range.start, part.range.end);
        let mut header = [0; MAX_TCP_HEADER];
        part.header.write(part.checksum(c.pseudo, pieces.clone()), &mut header);
        let payload: Vec<Slice<P>> = pieces
            .map(|(slice, range)| {
                let mut piece = slice.clone();
                piece.narrow(range);
                piece
            })
            .collect();
        let outgoing = Outgoing {
            path: c.path,
            protocol: protocol::TCP,
            ecn,
            flow: c.flow_label(self.shared.flow_seed),
            hop_limit: 64,
            header: Header::new(&header[..part.len]),
            payload,
            may_fragment: false,
            deferred: Deferred::default(),
        };
        self.io.ip.send(outgoing, self.io.now, self.io.counters);
    }
}

/// A segment: its finished header, and the range of its payload.
struct Part<'a> {
    header: &'a TcpBuilder,
    /// Length of the header in bytes, and sum of its words.
    len: usize,
    words: u64,
    range: Range<Seq>,
}

impl Part<'_> {
    /// Length of the payload in bytes.
    #[inline]
    fn payload(&self) -> u32 {
        self.range.end.since(self.range.start)
    }

    /// Sum of the pseudo header.
    #[inline]
    fn pseudo(&self, pseudo: u16) -> Sum {
        with_len(pseudo, self.len as u32 + self.payload())
    }

    /// Checksum over the pseudo header, the header and the payload.
    #[inline(always)]
    fn checksum<P: Payload>(&self, pseudo: u16, pieces: Pieces<'_, P>) -> [u8; 2] {
        let mut sum = self.pseudo(pseudo);
        // Headers of every length are whole words.
        sum.add_words(self.words, TCP_HEADER);
        for (slice, part) in pieces {
            let len = part.len();
            sum.add_words(slice.words(part), len);
        }
        sum.finish()
    }
}

/// Offload of a segment's checksum, and its segmentation if `segment` bytes are the payload of one.
fn offload<P: Payload>(c: &Connection<P>, at: usize, segment: Option<u16>, header: &TcpBuilder) -> TxOffload {
    let kind = if c.key.remote.is_v4() { Segmentation::Tcp4 } else { Segmentation::Tcp6 };
    TxOffload {
        checksum: Some((at as u16, 16)),
        segments: segment.map(|segment| (kind, segment)),
        ecn: segment.is_some() && header.flags().has(TcpFlags::CWR),
    }
}
