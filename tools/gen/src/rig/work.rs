//! The main loop: the phases warm-up, measurement and drain, each of turns that send due frames and receive.

use super::outcome::{Counted, Missed, Outcome};
use super::ports::{RigPorts, receive};
use super::{MAX_RIG_STREAMS, Phase, Progress, RigError, Timing, Watch};
use crate::Description;
use crate::description::Plan;
use crate::meter::Meter;
use crate::source::{Sent, Source};
use crate::tag::MAX_STREAMS;
use measure::Clock;
use mem::copy::{Kernel, chosen};
use port::{BURST, Burst, Flush, GeneratedBurst, PLACES};
use std::time::{Duration, Instant};

/// Interval of port control and of progress reports, in nanoseconds.
const CONTROL_INTERVAL: u64 = 1_000_000;
const PROGRESS_INTERVAL: u64 = 250_000_000;
/// Interval of the receiver's announcements, in nanoseconds.
const ANNOUNCE_INTERVAL: u64 = 5_000_000;
/// Frames waiting for the port are restamped if they are older than this, in nanoseconds.
const MAX_STAMP_AGE: u64 = 1_000;
/// A longer time between two offers means that the generator's thread was descheduled, in nanoseconds.
const DESCHEDULED: u64 = 100_000;
/// Bounds of the drain time without a frame; in between it equals the duration of the measurement.
const DRAIN_TIME: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(200));
/// The schedule catches up with frames due in this many seconds, at least a burst; more than the size of a typical ring
/// only if they were due in a tenth of that.
const CATCH_UP: f64 = 0.01;
const RING: u64 = 1024;
/// Maximum extension of the warm-up while no frame has arrived, because a switch may become ready later than the
/// generator's ports. In nanoseconds.
const WARM_UP_EXTENSION: u64 = 1_000_000_000;
/// Lead time of a phase in nanoseconds, so that its first frame is not late.
const LEAD_TIME: u64 = 20_000;

/// A validated run that has not started.
#[derive(Debug)]
pub struct Rig {
    ends: RigPorts,
    timing: Timing,
    names: Vec<String>,
    rates: Vec<Option<f64>>,
    notes: Vec<String>,
    key: u32,
    source: Source,
    clock: Clock,
    origin: u64,
}

/// State of the loop.
struct LoopState {
    burst: GeneratedBurst,
    /// Number of frames of the burst that the port has accepted.
    at: usize,
    stamped: u64,
    /// Time of the last offer to the port.
    offered: u64,
    /// Whether the port had no space since the last query of the schedule.
    blocked: bool,
    missed: Missed,
    offers: (u64, u64),
    meter: Meter,
    /// Frames received by a sending port that is not the receiver.
    returned: Meter,
    announced: u64,
    tended: u64,
    told: u64,
    /// The first port that stopped carrying packets in this phase, with time and reason.
    disconnected: Option<String>,
}

impl LoopState {
    /// State before the first frame of `streams` streams.
    fn new(streams: usize, key: u32) -> Self {
        Self {
            burst: GeneratedBurst::new(),
            at: 0,
            stamped: 0,
            offered: 0,
            blocked: false,
            missed: Missed::default(),
            offers: (0, 0),
            meter: Meter::new(streams, key),
            returned: Meter::new(0, key),
            announced: 0,
            tended: 0,
            told: 0,
            disconnected: None,
        }
    }

    /// Frames received by the sending port; warm-up frames, including announcements, do not count.
    fn returned(&self) -> u64 {
        self.returned.taken() - self.returned.unidentified().warm_up
    }

    /// Whether the receiver has received no frame of this run.
    fn nothing_came(&self) -> bool {
        self.meter.received() + self.meter.unidentified().warm_up == 0
    }
}

/// Returns a function for the nanoseconds since `origin`.
fn nanoseconds(clock: Clock, origin: u64) -> impl Fn() -> u64 + Copy {
    let per_tick = clock.seconds(0, 1) * 1e9;
    move || (clock.ticks().saturating_sub(origin) as f64 * per_tick) as u64
}

impl Rig {
    /// Validates the streams; opens no port. `key` distinguishes this run's frames from those of other runs.
    pub fn new(ends: RigPorts, streams: &[Description], timing: Timing, key: u32) -> Result<Self, RigError> {
        if streams.is_empty() || streams.len() > MAX_RIG_STREAMS.min(usize::from(MAX_STREAMS)) {
            return Err(RigError::Streams(streams.len()));
        }
        let plan = |(i, stream): (usize, &Description)| stream.plan().map_err(|e| RigError::Stream(i, e));
        let plans = streams.iter().enumerate().map(plan).collect::<Result<Vec<Plan>, _>>()?;
        let sharing = plans.iter().filter(|plan| plan.rate.is_none()).count().max(1);
        let common = timing.rate.part(1.0 / sharing as f64);
        let rates: Vec<_> = plans.iter().map(|plan| plan.rate.unwrap_or(common).frames(plan.mean)).collect();
        let name =
            |(i, plan): (usize, &Plan)| if plan.name.is_empty() { i.to_string() } else { plan.name.clone() };
        let names = plans.iter().enumerate().map(name).collect();
        let notes = plans.iter().flat_map(|plan| plan.notes.clone()).collect();
        let fastest = rates.iter().flatten().fold(0.0_f64, |most, rate| most.max(*rate));
        let most = RING.max((fastest * CATCH_UP / 10.0) as u64);
        let catch_up = timing.catch_up.unwrap_or(((fastest * CATCH_UP) as u64).clamp(BURST as u64, most));
        let pairs = plans.into_iter().zip(rates.iter().copied()).collect();
        let source = Source::new(pairs, timing.pace, 0, catch_up, key)?;
        let clock = Clock::calibrated();
        Ok(Self { ends, timing, names, rates, notes, key, source, clock, origin: clock.ticks() })
    }

    /// Notes for the user.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Requested frames per second of all streams; `None` if one is unlimited.
    pub fn asked(&self) -> Option<f64> {
        self.rates.iter().copied().sum()
    }

    /// Opens the ports, runs, closes the ports and returns the results.
    pub fn run(mut self, watch: Watch<'_>) -> Result<Outcome, RigError> {
        if let Err(error) = self.ends.open(self.timing.timeout, watch) {
            self.ends.close();
            return Err(error);
        }
        let (mut ends, outcome) = self.run_open(watch);
        ends.close();
        outcome
    }

    /// Runs over open ports, which stay open and are returned with the results.
    pub fn run_open(mut self, watch: Watch<'_>) -> (RigPorts, Result<Outcome, RigError>) {
        port::prepare_thread();
        let outcome = mem::with_kernel!(chosen(), K => self.measure::<K>(watch));
        (self.ends, outcome)
    }

    fn measure<K: Kernel>(&mut self, watch: Watch<'_>) -> Result<Outcome, RigError> {
        let mut state = LoopState::new(self.names.len(), self.key);
        if self.timing.announce {
            self.announce(&mut state, 0);
        }
        if !self.timing.warm_up.is_zero() && !self.phase::<K>(&mut state, true, watch) {
            return Err(RigError::Ended);
        }
        let before = (self.faults(), state.returned());
        let (began, now) = (Instant::now(), nanoseconds(self.clock, self.origin));
        state.meter.begin(now());
        let whole = self.phase::<K>(&mut state, false, watch);
        state.meter.end(now());
        let seconds = if whole { self.timing.duration.as_secs_f64() } else { began.elapsed().as_secs_f64() };
        let sent: Vec<Sent> = self.source.sent().collect();
        self.drain::<K>(&mut state, watch);
        let faults = self.faults() - before.0;
        let counted = Counted {
            seconds,
            interrupted: !whole,
            disconnected: state.disconnected.take(),
            names: &self.names,
            rates: &self.rates,
            sent,
            meter: &state.meter,
            missed: state.missed,
            offers: state.offers,
            dropped_by_port: self.ends.send.dropped(),
            returned: state.returned() - before.1,
            faults,
        };
        Ok(counted.outcome())
    }

    fn faults(&mut self) -> u64 {
        self.ends.ports().map(|rig_port| rig_port.faults()).sum()
    }

    /// Sends one frame of each stream's destination from the receiving port, if that is a separate port.
    fn announce(&mut self, state: &mut LoopState, at: u64) {
        state.announced = at;
        let Some(receiver) = &mut self.ends.receive else { return };
        let mut burst = Burst::new();
        for answer in self.source.announcements() {
            burst.begin(0);
            burst.set_now(port::Now(at));
            if burst.push_own(&answer) {
                receiver.send(&burst, &[0]);
            }
        }
        receiver.flush(port::Now(at), Flush::All);
        self.ends.notify();
    }

    /// Sends and receives for the duration of a phase. Returns false if the run was ended early.
    fn phase<K: Kernel>(&mut self, state: &mut LoopState, warm_up: bool, watch: Watch<'_>) -> bool {
        let now = nanoseconds(self.clock, self.origin);
        let length = if warm_up { self.timing.warm_up } else { self.timing.duration };
        let start = now() + LEAD_TIME;
        let until = start + length.as_nanos() as u64;
        let (rates, pace) = (&self.rates, self.timing.pace);
        self.source.begin(warm_up, |i| (rates[i], pace), start);
        self.ends.send.forget();
        (state.missed, state.offers, state.at, state.blocked) = (Missed::default(), (0, 0), 0, false);
        state.burst.begin(0);
        (state.told, state.disconnected) = (start, None);
        let phase = if warm_up { Phase::WarmUp } else { Phase::Measuring };
        loop {
            let at = now();
            if at >= until && !(warm_up && self.extends_warm_up(state, at - until)) {
                self.finish(state, until);
                return true;
            }
            self.turn::<K>(state, at, now);
            if at - state.tended > CONTROL_INTERVAL {
                state.tended = at;
                self.ends.poll_control();
                self.note_disconnect(state, at.saturating_sub(start));
                // An announcement may be lost, because a switch may become ready later than its ports.
                let again = warm_up && self.timing.announce && at - state.announced > ANNOUNCE_INTERVAL;
                if again && state.nothing_came() {
                    self.announce(state, at);
                }
                if at.saturating_sub(state.told) > PROGRESS_INTERVAL {
                    state.told = at;
                    let since = Duration::from_nanos(at.saturating_sub(start));
                    let sent = self.source.sent().map(|sent| sent.frames).sum();
                    if !watch(Progress { phase, since, sent, received: state.meter.received() }) {
                        self.finish(state, at);
                        return false;
                    }
                }
            }
        }
    }

    /// Whether the warm-up, which should have ended `late` nanoseconds ago, lasts until a frame arrives.
    fn extends_warm_up(&self, state: &LoopState, late: u64) -> bool {
        self.timing.announce
            && self.ends.receive.is_some()
            && state.nothing_came()
            && late < WARM_UP_EXTENSION
    }

    /// Stores the first port that does not carry packets; it may connect again.
    fn note_disconnect(&mut self, state: &mut LoopState, since: u64) {
        if state.disconnected.is_some() {
            return;
        }
        if let Some(rig_port) = self.ends.ports().find(|rig_port| !rig_port.is_ready()) {
            let (name, seconds) = (rig_port.name(), since as f64 / 1e9);
            let reason = rig_port.state();
            state.disconnected = Some(format!("port {name} stopped after {seconds:.3} s: {reason}"));
        }
    }

    /// Counts frames due before the end of a phase and not sent: not generated, or left in the burst. They count for
    /// the port if it refused frames since the last query of the schedule, else for the generator. Flushes the port.
    fn finish(&mut self, state: &mut LoopState, end: u64) {
        if self.ends.flush(end, Flush::All) {
            self.ends.notify();
        }
        let missed = self.source.finish(end);
        if state.blocked {
            // An unlimited stream always has frames left in the burst; none of them was requested.
            let left = self.asked().map_or(0, |_| state.burst.len() - state.at);
            state.missed.port += missed + left as u64;
        } else {
            state.missed.generator += missed;
        }
    }

    /// Sends due frames and receives.
    #[inline]
    fn turn<K: Kernel>(&mut self, state: &mut LoopState, at: u64, now: impl Fn() -> u64 + Copy) {
        let sent = self.offer::<K>(state, at);
        let came = self.take::<K>(state, now);
        let flushed = sent == 0 && self.ends.flush(at, Flush::Waited);
        if sent + came > 0 || flushed {
            self.ends.notify();
        } else {
            std::hint::spin_loop();
        }
    }

    /// Offers a new burst, or the rest of the last one, to the port. Returns the number of frames accepted.
    #[inline]
    fn offer<K: Kernel>(&mut self, state: &mut LoopState, at: u64) -> usize {
        // Frames due while this thread was descheduled do not count as missed by the port.
        let stalled = at - std::mem::replace(&mut state.offered, at) > DESCHEDULED;
        if state.at == state.burst.len() {
            let missed = self.source.fill::<K>(&mut state.burst, at);
            *(if state.blocked && !stalled {
                &mut state.missed.port
            } else {
                &mut state.missed.generator
            }) += missed;
            (state.at, state.stamped, state.blocked) = (0, at, false);
        } else if at - state.stamped > MAX_STAMP_AGE {
            self.source.restamp::<K>(&mut state.burst, state.at, at);
            state.stamped = at;
        }
        let len = state.burst.len();
        if len == 0 {
            return 0;
        }
        state.burst.set_now(port::Now(at));
        let done = self.ends.send.send(&state.burst, &PLACES[state.at..len]);
        self.source.accepted(state.at, state.at + done);
        state.at += done;
        state.offers.0 += 1;
        if state.at < len {
            state.blocked = true;
            state.offers.1 += 1;
        }
        done
    }

    #[inline]
    fn take<K: Kernel>(&mut self, state: &mut LoopState, now: impl Fn() -> u64 + Copy) -> usize {
        self.ends.run_inline_work();
        let Some(receiver) = &mut self.ends.receive else {
            let came = receive::<K>(&mut self.ends.send, &mut state.meter, now);
            self.ends.send.prefetch();
            return came;
        };
        let came = receive::<K>(receiver, &mut state.meter, now);
        receiver.prefetch();
        came + receive::<K>(&mut self.ends.send, &mut state.returned, now)
    }

    /// Receives frames in flight until none has arrived for a while.
    fn drain<K: Kernel>(&mut self, state: &mut LoopState, watch: Watch<'_>) {
        let now = nanoseconds(self.clock, self.origin);
        let (began, mut last) = (Instant::now(), Instant::now());
        let silence = self.timing.duration.clamp(DRAIN_TIME.0, DRAIN_TIME.1);
        let sent: u64 = self.source.sent().map(|sent| sent.frames).sum();
        while state.meter.received() < sent
            && last.elapsed() < silence
            && began.elapsed() < self.timing.timeout
        {
            let came = self.take::<K>(state, now);
            // A port that could not send all held packets before may have space now.
            if came > 0 || self.ends.flush(now(), Flush::All) {
                self.ends.notify();
                last = Instant::now();
            }
            self.ends.poll_control();
            let progress = Progress {
                phase: Phase::Draining,
                since: began.elapsed(),
                sent,
                received: state.meter.received(),
            };
            if !watch(progress) {
                return;
            }
        }
    }
}
