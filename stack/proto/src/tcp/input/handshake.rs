//! Handshakes of connections opened here, and of both at the same time.

use super::super::connection::{Connection, Flags, State};
use super::super::segment::SynOptions;
use super::super::{ConnectionId, Seq};
use super::{Arrival, Outcome};
use crate::{Closed, Event, Frame, Payload};
use wire::TcpFlags;

impl<P: Payload, F: Frame<Payload = P>> Arrival<'_, '_, P, F> {
    /// A segment in SYN-SENT (RFC 9293 section 3.10.7.3).
    #[cold]
    pub(super) fn syn_sent(&mut self) -> Outcome {
        let (c, s) = (&mut *self.connection, &self.segment);
        let has_ack = s.flags.has(TcpFlags::ACK);
        let is_valid = has_ack && c.tx.iss.is_before(s.ack) && s.ack.is_at_most(c.tx.nxt);
        if has_ack && !is_valid {
            if !s.flags.has(TcpFlags::RST) {
                let reply = super::super::reset::reply(&c.key, s);
                super::super::reset::send(c.path, &reply, self.shared, self.io);
            }
            return Outcome::Keep;
        }
        if s.flags.has(TcpFlags::RST) {
            return if is_valid { Outcome::Close(Closed::Refused) } else { Outcome::Keep };
        }
        if !s.flags.has(TcpFlags::SYN) {
            return Outcome::Keep;
        }
        let syn = s.syn_options(self.frame.head());
        negotiate(c, &syn, s.seq, s.timestamps, self.io.now);
        let has_ecn = s.flags.has(TcpFlags::ECE) && (has_ack != s.flags.has(TcpFlags::CWR));
        c.flags.put(Flags::ECN, has_ecn && c.flags.has(Flags::ECN_SYN));
        self.shared.acknowledge(self.index, c);
        if let Some(cookie) = syn.fast_open.filter(|cookie| !cookie.bytes().is_empty()) {
            self.shared.cookies.insert(c.key.remote, cookie, c.tx.peer_mss);
        }
        if !has_ack {
            c.state = State::SynReceived;
            self.shared.half_open += 1;
            return Outcome::Keep;
        }
        self.establish();
        self.acknowledge_data();
        self.repeat_syn_data();
        self.take_syn_text()
    }

    /// Whether this is the peer's SYN-ACK after both sides opened at the same time (RFC 9293 section 3.5, figure 8).
    pub(super) fn is_crossed_syn(&self) -> bool {
        let (c, s) = (&*self.connection, &self.segment);
        c.state == State::SynReceived
            && s.flags.has(TcpFlags::SYN.with(TcpFlags::ACK))
            && s.seq == c.rx.irs
            && c.tx.iss.is_before(s.ack)
            && s.ack.is_at_most(c.tx.nxt)
    }

    /// Treats a SYN that was processed before as the segment after it. Its window is not scaled.
    pub(super) fn skip_syn(&mut self) {
        let s = &mut *self.segment;
        s.seq += 1;
        // ECE of a SYN is part of the negotiation.
        s.flags = TcpFlags(s.flags.0 & !(TcpFlags::SYN.0 | TcpFlags::ECE.0 | TcpFlags::CWR.0));
        s.window >>= self.connection.tx.scale;
    }

    /// Payload and FIN of a SYN-ACK.
    fn take_syn_text(&mut self) -> Outcome {
        self.segment.seq += 1;
        if !self.segment.payload.is_empty() {
            self.take_text();
        }
        if self.segment.flags.has(TcpFlags::FIN) {
            self.note_fin();
        }
        self.take_fin()
    }

    /// The acknowledgement of our SYN in SYN-RECEIVED. Returns `false` if it is not one; a reset was sent then.
    pub(super) fn complete_handshake(&mut self) -> bool {
        let (c, s) = (&mut *self.connection, &self.segment);
        if !(c.tx.iss.is_before(s.ack) && s.ack.is_at_most(c.tx.nxt)) {
            let reply = super::super::reset::reply(&c.key, s);
            super::super::reset::send(c.path, &reply, self.shared, self.io);
            return false;
        }
        self.shared.half_open = self.shared.half_open.saturating_sub(1);
        self.establish();
        true
    }

    /// An earlier copy of the SYN may have been answered with a cookie, which the peer has acknowledged.
    pub(super) fn take_cookie(&mut self) {
        let (c, s) = (&mut *self.connection, &self.segment);
        let is_ours = c.tx.iss.is_before(s.ack) && s.ack.is_at_most(c.tx.nxt);
        if is_ours
            || !s.flags.has(TcpFlags::ACK)
            || c.flags.has(Flags::ACTIVE)
            || c.flags.has(Flags::FAST_OPEN)
        {
            return;
        }
        let numbers = (c.rx.irs, s.ack - 1);
        if let Some(cookie) = self.shared.cookie(&c.key, numbers, self.io.now) {
            c.recovery.release(&mut self.shared.sent);
            super::super::listen::restart(c, numbers, cookie, self.io.now);
            self.io.counters.tcp_cookies_in += 1;
        }
    }

    /// Both SYNs were exchanged.
    fn establish(&mut self) {
        let (c, s) = (&mut *self.connection, &self.segment);
        c.state = if c.flags.has(Flags::FIN_QUEUED) { State::FinWait1 } else { State::Established };
        (c.tx.wl1, c.tx.wl2) = (s.seq - 1, s.ack);
        c.watch_idle(self.io.now);
        let connection = ConnectionId { index: self.index, generation: c.generation };
        if c.flags.has(Flags::ACTIVE) {
            self.io.events.push_back(Event::Connected { connection });
        } else if !c.flags.has(Flags::FAST_OPEN) {
            self.io.events.push_back(accepted(connection, c));
        }
    }
}

/// The event of a connection that a peer opened.
pub(crate) fn accepted<P: Payload>(connection: ConnectionId, c: &Connection<P>) -> Event<P> {
    Event::Accepted { connection, listener: c.listener, remote: c.key.remote() }
}

/// Takes over the peer's SYN: its number, and the options that both sides have.
pub(crate) fn negotiate<P: Payload>(
    c: &mut Connection<P>,
    syn: &SynOptions,
    irs: Seq,
    timestamps: Option<(u32, u32)>,
    now: crate::Time,
) {
    let options = c.options.clone();
    (c.rx.irs, c.rx.nxt, c.rx.acked) = (irs, irs + 1, irs + 1);
    c.flags.put(Flags::TIMESTAMPS, timestamps.is_some() && options.timestamps);
    c.flags.put(Flags::SACK, syn.sack_permitted && options.sack);
    if let Some((value, _)) = timestamps {
        (c.rx.ts_recent, c.rx.ts_recent_at) = (value, now.millis() as u32);
    }
    match syn.window_scale {
        Some(shift) if options.window_scale => {
            c.tx.scale = shift;
            c.flags.set(Flags::SCALED);
        }
        _ => {
            (c.tx.scale, c.rx.scale) = (0, 0);
            c.flags.clear(Flags::SCALED);
        }
    }
    // RFC 9293 section 3.7.1: the default without the option.
    let default = if c.key.remote.is_v4() { 536 } else { 1220 };
    c.tx.mtu = 0;
    c.tx.peer_mss = syn.max_segment.unwrap_or(default).max(super::super::MIN_SEGMENT);
    // The window of a SYN is not scaled.
    c.rx.edge = c.rx.nxt + c.free().min(0xffff);
}
