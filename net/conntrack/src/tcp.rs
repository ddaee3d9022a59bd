//! TCP: the phase of each side, and the window check of van Rooij, "Real Stateful TCP Packet Filtering in IP Filter".
//!
//! Phases, exceptions and timers are those of Open vSwitch's user-space connection tracking, which took them from pf.

use crate::config::Timer;
use crate::connection::Update;
use serde::{Deserialize, Serialize};
use wire::{Tcp, TcpFlags, TcpOption};

/// Bit of [`Peer::scale`]: the side has sent a window scale option.
const SCALED: u8 = 0x80;
/// Bit of [`Peer::scale`]: the handshake was not seen, so that any scale is possible.
const UNKNOWN: u8 = 0x40;
/// Bits of [`Peer::scale`] with the shift count.
const SHIFT: u8 = 0x0f;
/// Largest shift count (RFC 7323 section 2.3).
const MAX_SHIFT: u8 = 14;
/// Bytes by which an acknowledgement may differ from what is expected: a window without scale, and a segment.
const ACK_SKEW: u32 = 0xffff + 1500;

/// The parts of a segment that connection tracking reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    sequence: u32,
    acknowledgement: u32,
    window: u16,
    flags: TcpFlags,
    /// Window scale option of a SYN, as in [`Peer::scale`].
    scale: u8,
    /// Payload in bytes.
    len: u32,
}

/// Phase of one side, in the order of its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Has sent nothing.
    Closed,
    /// Has sent a SYN, or any first segment, that is not acknowledged.
    SynSent,
    /// Its SYN is acknowledged.
    Established,
    /// Has sent a FIN.
    Closing,
    /// Its FIN is acknowledged.
    FinWait,
    /// The connection is reset.
    TimeWait,
}

/// One side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Peer {
    /// Sequence number after the last byte that it has sent.
    sent: u32,
    /// Sequence number up to which it may send; 1 before the other side has sent a window.
    limit: u32,
    /// Largest window that it has advertised, before scaling.
    window: u16,
    scale: u8,
    phase: Phase,
}

/// Both sides: that of the original direction first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    peers: [Peer; 2],
}

impl Segment {
    /// `len` is the length of the payload in bytes.
    pub(crate) fn new(view: &Tcp, len: u32) -> Self {
        let flags = view.flags();
        let scale = if flags.has(TcpFlags::SYN) { scale(view) } else { 0 };
        let (sequence, acknowledgement) = (view.sequence(), view.acknowledgement());
        Self { sequence, acknowledgement, window: view.window(), flags, scale, len }
    }

    /// Sequence number.
    pub(crate) fn sequence(&self) -> u32 {
        self.sequence
    }

    /// Acknowledgement number, which is valid if the segment acknowledges anything.
    pub(crate) fn acknowledgement(&self) -> Option<u32> {
        self.has(TcpFlags::ACK).then_some(self.acknowledgement)
    }

    /// The same with another acknowledgement number.
    pub(crate) fn acknowledging(self, acknowledgement: u32) -> Self {
        Self { acknowledgement, ..self }
    }

    /// Length of the payload in bytes.
    pub(crate) fn payload_len(&self) -> usize {
        self.len as usize
    }

    fn has(&self, flag: TcpFlags) -> bool {
        self.flags.has(flag)
    }

    /// Whether the control bits make sense together.
    fn is_valid(&self) -> bool {
        let (syn, ack, rst) = (self.has(TcpFlags::SYN), self.has(TcpFlags::ACK), self.has(TcpFlags::RST));
        let (fin, push, urgent) = (self.has(TcpFlags::FIN), self.has(TcpFlags::PSH), self.has(TcpFlags::URG));
        let kind = if syn { !rst && !fin } else { ack || rst };
        kind && (ack || !(fin || push || urgent))
    }

    /// Sequence number after it.
    fn end(&self) -> u32 {
        let marks = u32::from(self.has(TcpFlags::SYN)) + u32::from(self.has(TcpFlags::FIN));
        self.sequence.wrapping_add(self.len).wrapping_add(marks)
    }
}

fn scale(view: &Tcp) -> u8 {
    let found = view.options().find_map(|option| match option {
        TcpOption::WindowScale(shift) => Some(shift.min(MAX_SHIFT) | SCALED),
        _ => None,
    });
    found.unwrap_or(0)
}

/// `a - b`, where both are near each other on the circle of sequence numbers.
fn distance(a: u32, b: u32) -> i32 {
    a.wrapping_sub(b).cast_signed()
}

fn unscaled(window: u16, scale: u8) -> u16 {
    u32::from(window).div_ceil(1 << (scale & SHIFT)) as u16
}

impl Peer {
    fn shift(&self) -> u8 {
        self.scale & SHIFT
    }

    /// The window in bytes.
    fn scaled(&self, shift: u8) -> u32 {
        u32::from(self.window) << shift
    }

    fn raise(&mut self, phase: Phase) {
        self.phase = self.phase.max(phase);
    }

    /// Has sent up to `end`, and allows the other side to send up to `limit`.
    fn advance(&mut self, end: u32, window: u16, (other, limit): (&mut Self, u32)) {
        self.window = self.window.max(window);
        if distance(end, self.sent) > 0 {
            self.sent = end;
        }
        if distance(limit, other.limit) >= 0 {
            other.limit = limit;
        }
    }
}

/// A segment on its way from one side to the other, with what is known of its sequence numbers.
struct Checked {
    start: u32,
    end: u32,
    ack: u32,
    window: u16,
    /// Shift counts of sender and receiver.
    shifts: (u8, u8),
    /// Whether the acknowledgement is compared.
    checks_ack: bool,
}

impl State {
    /// Starts a connection; `None` if the segment cannot be the first one.
    pub(crate) fn start(segment: &Segment) -> Option<Self> {
        let is_syn = segment.has(TcpFlags::SYN);
        if !segment.is_valid() || is_syn && segment.has(TcpFlags::ACK) {
            return None;
        }
        let scale = if is_syn { segment.scale } else { UNKNOWN };
        let from = Peer {
            sent: segment.sequence,
            limit: segment.end().wrapping_add(1),
            window: unscaled(segment.window.max(1), scale),
            scale,
            phase: Phase::SynSent,
        };
        let scale = if is_syn { 0 } else { UNKNOWN };
        let to = Peer { sent: 0, limit: 1, window: 1, scale, phase: Phase::Closed };
        Some(Self { peers: [from, to] })
    }

    /// Phases of the original and of the reply direction.
    pub(crate) fn phases(&self) -> (Phase, Phase) {
        (self.peers[0].phase, self.peers[1].phase)
    }

    /// Whether both sides have acknowledged the other's first segment, and the connection was not reset.
    pub(crate) fn is_open(&self) -> bool {
        self.peers.iter().all(|peer| (Phase::Established..Phase::TimeWait).contains(&peer.phase))
    }

    /// Updates the connection for a segment, and returns the timer that starts again.
    pub(crate) fn update(
        &mut self,
        segment: &Segment,
        is_reply: bool,
        checks_window: bool,
    ) -> (Update, Option<Timer>) {
        if !segment.is_valid() {
            return (Update::Invalid, None);
        }
        let [original, reply] = &mut self.peers;
        let (from, to) = if is_reply { (reply, original) } else { (original, reply) };
        if segment.has(TcpFlags::SYN) && !segment.has(TcpFlags::ACK) {
            if from.phase >= Phase::FinWait && to.phase >= Phase::FinWait {
                return (Update::Over, None);
            }
            if from.phase <= Phase::SynSent {
                from.phase = Phase::SynSent;
                return (Update::New, Some(Timer::TcpSynSent));
            }
        }
        let checked = check(from, to, segment);
        if !checks_window || checked.fits(from, to, segment) {
            advance(from, to, segment, &checked);
            return (Update::Valid, Some(timer(from, to)));
        }
        if !checked.nearly_fits(from, to) {
            return (Update::Invalid, None);
        }
        // The timer does not start again: a flood gets here, too.
        loosely_advance(from, to, segment, &checked);
        (Update::Valid, None)
    }
}

/// Shift counts of the windows of sender and receiver in a segment that is not a SYN.
fn shifts(from: &Peer, to: &Peer) -> (u8, u8) {
    match from.scale & to.scale & (SCALED | UNKNOWN) {
        0 => (0, 0),
        SCALED => (from.shift(), to.shift()),
        _ => (MAX_SHIFT, MAX_SHIFT),
    }
}

/// Reads the sequence numbers of a segment, and those that the first segment of a side begins with.
fn check(from: &mut Peer, to: &mut Peer, segment: &Segment) -> Checked {
    let is_syn = segment.has(TcpFlags::SYN);
    let (start, end) = (segment.sequence, segment.end());
    let shifts = if is_syn { (0, 0) } else { shifts(from, to) };
    let mut checked = Checked { start, end, ack: 0, window: segment.window, shifts, checks_ack: true };
    if from.phase < Phase::SynSent {
        if is_syn && to.scale & SCALED != 0 {
            agree_scale(from, to, segment, &mut checked);
        }
        (from.sent, from.phase) = (start, Phase::SynSent);
        let limit = end.wrapping_add(to.scaled(checked.shifts.1).max(1));
        if from.limit == 1 || distance(limit, from.limit) >= 0 {
            // The connection may have existed before it was tracked.
            (from.limit, checked.checks_ack) = (limit, false);
        }
        from.window = from.window.max(checked.window);
    }
    let has_ack = segment.has(TcpFlags::ACK);
    // A reset after a handshake that failed may acknowledge nothing.
    let is_void = segment.has(TcpFlags::RST) && segment.acknowledgement == 0;
    checked.ack = if has_ack && !is_void { segment.acknowledgement } else { to.sent };
    if start == end {
        (checked.start, checked.end) = (from.sent, from.sent);
    }
    checked
}

/// Windows are scaled if both sides have sent the option (RFC 7323 section 2.2).
fn agree_scale(from: &mut Peer, to: &mut Peer, segment: &Segment, checked: &mut Checked) {
    from.scale = segment.scale;
    if from.scale & SCALED != 0 {
        checked.shifts = (from.shift(), to.shift());
        checked.window = unscaled(segment.window, from.scale);
    } else {
        to.window = to.scaled(to.shift()).min(u16::MAX.into()) as u16;
        to.scale = 0;
    }
}

impl Checked {
    /// Whether a segment is in the window of the receiver and acknowledges what the receiver has sent.
    fn fits(&self, from: &Peer, to: &Peer, segment: &Segment) -> bool {
        let skew = if self.checks_ack { distance(to.sent, self.ack) } else { 0 };
        let oldest = from.sent.wrapping_sub(to.scaled(self.shifts.1));
        // Only a reset at the expected place ends a connection.
        let is_reset_expected = distance(segment.sequence, from.sent).unsigned_abs() <= 1;
        distance(from.limit, self.end) >= 0
            && distance(self.start, oldest) >= 0
            && skew >= -(ACK_SKEW.cast_signed())
            && skew <= (ACK_SKEW << self.shifts.0).cast_signed()
            && (!segment.has(TcpFlags::RST) || is_reset_expected)
    }

    /// Whether a segment is near the window, while one side has sent nothing or has ended: SYNs of both sides at once,
    /// connections that existed before, and late segments.
    fn nearly_fits(&self, from: &Peer, to: &Peer) -> bool {
        let (first, last) = (Phase::SynSent, Phase::FinWait);
        (to.phase < first || to.phase >= last || from.phase >= last)
            && distance(from.limit.wrapping_add(ACK_SKEW), self.end) >= 0
            && distance(self.start, from.sent.wrapping_sub(ACK_SKEW)) >= 0
    }

    fn limit(&self) -> u32 {
        self.ack.wrapping_add((u32::from(self.window) << self.shifts.0).max(1))
    }
}

fn advance(from: &mut Peer, to: &mut Peer, segment: &Segment, checked: &Checked) {
    loosely_advance(from, to, segment, checked);
    if segment.has(TcpFlags::SYN) {
        from.raise(Phase::SynSent);
    }
    if segment.has(TcpFlags::ACK) && !segment.has(TcpFlags::RST) {
        match to.phase {
            Phase::SynSent => to.phase = Phase::Established,
            Phase::Closing => to.phase = Phase::FinWait,
            _ => {}
        }
    }
}

fn loosely_advance(from: &mut Peer, to: &mut Peer, segment: &Segment, checked: &Checked) {
    from.advance(checked.end, checked.window, (to, checked.limit()));
    if segment.has(TcpFlags::FIN) {
        from.raise(Phase::Closing);
    }
    if segment.has(TcpFlags::RST) {
        (from.phase, to.phase) = (Phase::TimeWait, Phase::TimeWait);
    }
}

fn timer(from: &Peer, to: &Peer) -> Timer {
    let (first, last) = (from.phase.min(to.phase), from.phase.max(to.phase));
    if first >= Phase::FinWait {
        Timer::TcpClose
    } else if first >= Phase::Closing {
        Timer::TcpTimeWait
    } else if first < Phase::Established {
        Timer::TcpSynReceived
    } else if last >= Phase::Closing {
        Timer::TcpFinWait
    } else {
        Timer::TcpEstablished
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYN: TcpFlags = TcpFlags::SYN;
    const ACK: TcpFlags = TcpFlags::ACK;
    const FIN: TcpFlags = TcpFlags::FIN;
    const RST: TcpFlags = TcpFlags::RST;

    fn segment(flags: TcpFlags, sequence: u32, acknowledgement: u32, len: u32) -> Segment {
        Segment { sequence, acknowledgement, window: 1000, flags, scale: 0, len }
    }

    fn open() -> State {
        let mut state = State::start(&segment(SYN, 100, 0, 0)).unwrap();
        assert_eq!(state.update(&segment(SYN.with(ACK), 500, 101, 0), true, true).0, Update::Valid);
        let last = state.update(&segment(ACK, 101, 501, 0), false, true);
        assert_eq!(last, (Update::Valid, Some(Timer::TcpEstablished)));
        state
    }

    #[test]
    fn a_handshake_opens_and_fins_close() {
        let mut state = open();
        assert_eq!(state.phases(), (Phase::Established, Phase::Established));
        let fin = state.update(&segment(FIN.with(ACK), 101, 501, 0), false, true);
        assert_eq!(fin, (Update::Valid, Some(Timer::TcpFinWait)));
        let fin = state.update(&segment(FIN.with(ACK), 501, 102, 0), true, true);
        assert_eq!(fin, (Update::Valid, Some(Timer::TcpTimeWait)));
        let ack = state.update(&segment(ACK, 102, 502, 0), false, true);
        assert_eq!(ack, (Update::Valid, Some(Timer::TcpClose)));
        assert_eq!(state.update(&segment(SYN, 9000, 0, 0), false, true).0, Update::Over, "begins again");
    }

    #[test]
    fn segments_outside_of_the_window_are_invalid_unless_it_is_not_checked() {
        let far = segment(ACK, 100_000, 501, 10);
        assert_eq!(open().update(&far, false, true), (Update::Invalid, None));
        assert_eq!(open().update(&far, false, false).0, Update::Valid);
        assert_eq!(open().update(&segment(ACK, 101, 500_000, 10), false, true).0, Update::Invalid);
        assert_eq!(open().update(&segment(ACK, 101, 501, 1000), false, true).0, Update::Valid);
    }

    #[test]
    fn a_reset_must_be_at_the_expected_place() {
        let mut state = open();
        assert_eq!(state.update(&segment(RST, 300, 0, 0), true, true).0, Update::Invalid);
        assert_eq!(
            state.update(&segment(RST, 501, 0, 0), true, true),
            (Update::Valid, Some(Timer::TcpClose))
        );
    }

    #[test]
    fn windows_are_scaled_if_both_sides_agree() {
        let scaled = |segment: Segment, shift| Segment { scale: shift | SCALED, ..segment };
        let mut state = State::start(&scaled(segment(SYN, 100, 0, 0), 7)).unwrap();
        state.update(&scaled(segment(SYN.with(ACK), 500, 101, 0), 7), true, true);
        state.update(&segment(ACK, 101, 501, 0), false, true);
        state.update(&segment(ACK, 501, 101, 0), true, true);
        assert_eq!(state.update(&segment(ACK, 101, 501, 60_000), false, true).0, Update::Valid);
    }

    #[test]
    fn a_connection_may_be_older_than_its_tracking() {
        let mut state = State::start(&segment(ACK, 7000, 8000, 10)).unwrap();
        assert_eq!(state.update(&segment(ACK, 8000, 7010, 500), true, true).0, Update::Valid);
        assert_eq!(state.update(&segment(ACK, 7010, 8500, 500), false, true).0, Update::Valid);
        assert!(state.is_open());
    }

    #[test]
    fn a_reset_after_a_first_segment_opens_nothing() {
        let mut state = State::start(&segment(SYN, 100, 0, 0)).unwrap();
        state.update(&segment(RST, 100, 0, 0), false, true);
        assert!(!state.is_open(), "{state:?}");
    }

    #[test]
    fn contradicting_control_bits_are_invalid() {
        for flags in [TcpFlags(0), SYN.with(RST), SYN.with(FIN), FIN, TcpFlags::PSH] {
            assert!(State::start(&segment(flags, 1, 1, 0)).is_none(), "{flags:?}");
            assert_eq!(open().update(&segment(flags, 101, 501, 0), false, true).0, Update::Invalid);
        }
        assert!(State::start(&segment(SYN.with(ACK), 1, 1, 0)).is_none(), "an answer begins no connection");
    }
}
