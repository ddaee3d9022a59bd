//! Timers of connections, except loss recovery's own decisions.

use super::connection::{Connection, Flags, State};
use super::input::Outcome;
use super::recovery::LossTimer;
use super::shared::{Io, Shared};
use crate::{Closed, Payload, Time};

/// Retransmissions of a SYN-ACK and of a SYN before the attempt ends.
const MAX_SYN_ACKS: u32 = 5;
const MAX_SYNS: u32 = 6;
/// Timeouts in a row of full segments after which the path is suspected to lose long packets without a report (RFC 4821
/// section 7.7, RFC 8899 section 5.1.2, `MAX_PROBES`).
const BLACK_HOLE_TIMEOUTS: u32 = 3;
/// Longest interval of zero-window probes, in microseconds.
const MAX_PERSIST: u64 = 60_000_000;

/// Runs the timers of a connection that are due.
pub(crate) fn run<P: Payload>(
    index: u32,
    c: &mut Connection<P>,
    shared: &mut Shared<P>,
    io: &mut Io<'_, P>,
) -> Outcome {
    let now = io.now;
    if c.timers.ack <= now {
        c.timers.ack = Time::NEVER;
        shared.acknowledge(index, c);
    }
    if c.timers.pace <= now {
        c.timers.pace = Time::NEVER;
        shared.make_ready(index, c);
    }
    if c.timers.persist <= now {
        probe_window(c, now);
        shared.make_ready(index, c);
    }
    if c.recovery.deadline() <= now {
        let timer = c.recovery.on_timer(&mut shared.sent, now);
        note_loss(c, timer, io);
        shared.make_ready(index, c);
    }
    if has_given_up(c) {
        return Outcome::Close(Closed::TimedOut);
    }
    if c.timers.idle <= now { idle(index, c, shared, io) } else { Outcome::Keep }
}

fn probe_window<P: Payload>(c: &mut Connection<P>, now: Time) {
    c.flags.set(Flags::PROBE_NOW);
    c.timers.probes = c.timers.probes.saturating_add(1);
    let interval = u64::from(c.recovery.rto()) << c.timers.probes.min(16);
    c.timers.persist = now.after_micros(interval.min(MAX_PERSIST));
}

fn note_loss<P: Payload>(c: &mut Connection<P>, timer: LossTimer, io: &mut Io<'_, P>) {
    match timer {
        LossTimer::Probe => {
            c.flags.set(Flags::TAIL_PROBE);
            io.counters.tcp_probes += 1;
        }
        LossTimer::Timeout => {
            io.counters.tcp_timeouts += 1;
            let is_suspect = c.recovery.timeouts().is_multiple_of(BLACK_HOLE_TIMEOUTS);
            if is_suspect && c.state.is_synchronised() && c.flight() >= c.tx.mss.into() {
                io.counters.tcp_black_holes += 1;
                io.ip.suspect_black_hole(c.path, io.now);
            }
        }
        LossTimer::Reordering | LossTimer::None => {}
    }
}

fn has_given_up<P: Payload>(c: &Connection<P>) -> bool {
    match c.state {
        State::SynReceived => c.recovery.timeouts() > MAX_SYN_ACKS,
        State::SynSent => c.recovery.timeouts() > MAX_SYNS,
        _ => false,
    }
}

/// User timeout and keep-alive (RFC 9293 sections 3.8.3 and 3.8.4). Sets the next deadline.
fn idle<P: Payload>(
    index: u32,
    c: &mut Connection<P>,
    shared: &mut Shared<P>,
    io: &mut Io<'_, P>,
) -> Outcome {
    let now = io.now;
    let timeout = c.timers.stalled.after(c.options.user_timeout);
    if !c.timers.stalled.is_never() && timeout <= now {
        return Outcome::Close(Closed::TimedOut);
    }
    let mut next = if c.timers.stalled.is_never() { Time::NEVER } else { timeout };
    if let Some(idle) = c.options.keep_alive.filter(|_| c.state.is_synchronised()) {
        let (interval, most) = c.options.keep_alive_interval;
        let quiet = u128::from(now.micros_since(c.timers.heard));
        if c.flight() > 0 {
            next = next.min(now.after(idle));
        } else if quiet < idle.as_micros() {
            c.timers.keep_alives = 0;
            next = next.min(c.timers.heard.after(idle));
        } else if c.timers.keep_alives >= most {
            return Outcome::Close(Closed::TimedOut);
        } else {
            c.timers.keep_alives += 1;
            io.counters.tcp_keep_alives += 1;
            c.flags.set(Flags::KEEP_ALIVE_NOW);
            shared.make_ready(index, c);
            next = next.min(now.after(interval));
        }
    }
    c.timers.idle = next;
    Outcome::Keep
}
