//! The loop: phases of a warm-up, of what counts and of what is still on its way, each of turns that send what is due and take what has
//! come.

use super::ends::Ends;
use super::outcome::{Counted, Missed, Outcome};
use super::{MOST, Phase, Progress, RigError, Timing, Watch};
use crate::Description;
use crate::description::Plan;
use crate::meter::Meter;
use crate::source::{Sent, Source};
use crate::tag::MOST_STREAMS;
use measure::{Clock, Processor};
use mem::copy::{Kernel, chosen};
use port::{BURST, Burst, Flush, PLACES};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How often ports are tended and whoever watches is told, in nanoseconds.
const TENDED: u64 = 1_000_000;
const TOLD: u64 = 250_000_000;
/// How long it is between two announcements of the receiver, in nanoseconds.
const ANNOUNCED: u64 = 5_000_000;
/// Frames that wait for room are made anew when they are older than this, in nanoseconds.
const STALE: u64 = 1_000;
/// Nanoseconds between two offers above which the generator's thread was kept from running.
const STALL: u64 = 100_000;
/// Without a frame for as long as frames were sent, within these bounds, the last ones are not coming any more.
const SILENCE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(200));
/// The schedule may catch up with what was due in so many seconds, but at least a burst; and with more frames than a ring
/// usually has only if they were due in a tenth of that.
const CATCH_UP: f64 = 0.01;
const RING: u64 = 1024;
/// How far ahead a phase begins, in nanoseconds, so that its first frame is not late.
const AHEAD: u64 = 20_000;

/// One for all runs of a process: to calibrate it takes a tenth of a second.
static CLOCK: OnceLock<Clock> = OnceLock::new();

/// A run that was judged and has not begun.
#[derive(Debug)]
pub struct Rig {
    ends: Ends,
    timing: Timing,
    names: Vec<String>,
    rates: Vec<Option<f64>>,
    notes: Vec<String>,
    key: u32,
    source: Source,
    clock: Clock,
    origin: u64,
}

/// The loop's own state.
struct Loop {
    burst: Burst,
    /// How far the burst was accepted.
    at: usize,
    stamped: u64,
    /// When the port was offered something last.
    offered: u64,
    /// Whether the port had no room since the schedule was asked last.
    blocked: bool,
    missed: Missed,
    offers: (u64, u64),
    meter: Meter,
    /// What came to a sending port that does not receive.
    returned: Meter,
    announced: u64,
    tended: u64,
    told: u64,
}

impl Loop {
    /// Frames that came back to the sending port; those of the warm-up, which announcements are too, do not count.
    fn returned(&self) -> u64 {
        self.returned.taken() - self.returned.strangers().warm_up
    }

    /// Whether no frame of this run has come to the receiver.
    fn nothing_came(&self) -> bool {
        self.meter.received() + self.meter.strangers().warm_up == 0
    }
}

/// Nanoseconds of a clock since `origin`.
fn nanoseconds(clock: Clock, origin: u64) -> impl Fn() -> u64 + Copy {
    let per_tick = clock.seconds(0, 1) * 1e9;
    move || (clock.ticks().saturating_sub(origin) as f64 * per_tick) as u64
}

impl Rig {
    /// Judges streams and opens nothing. `key` tells this run's frames from others'.
    pub fn new(ends: Ends, streams: &[Description], timing: Timing, key: u32) -> Result<Self, RigError> {
        if streams.is_empty() || streams.len() > MOST.min(usize::from(MOST_STREAMS)) {
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
        let clock = *CLOCK.get_or_init(|| Clock::calibrated(&Processor::here()));
        Ok(Self { ends, timing, names, rates, notes, key, source, clock, origin: clock.ticks() })
    }

    /// What whoever runs it should know.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Frames a second that are asked of all streams together; none where one has no limit.
    pub fn asked(&self) -> Option<f64> {
        self.rates.iter().copied().sum()
    }

    /// Opens the ports, sends, receives, closes them and says what became of it.
    pub fn run(mut self, watch: Watch<'_>) -> Result<Outcome, RigError> {
        if let Err(error) = self.ends.open(self.timing.timeout, watch) {
            self.ends.close();
            return Err(error);
        }
        let (mut ends, outcome) = self.run_open(watch);
        ends.close();
        outcome
    }

    /// Sends and receives over ports that are open already and stay so: they come back with what became of it.
    pub fn run_open(mut self, watch: Watch<'_>) -> (Ends, Result<Outcome, RigError>) {
        port::prepare_thread();
        let outcome = mem::with_kernel!(chosen(), K => self.measure::<K>(watch));
        (self.ends, outcome)
    }

    fn measure<K: Kernel>(&mut self, watch: Watch<'_>) -> Result<Outcome, RigError> {
        let meter = Meter::new(self.names.len(), self.key);
        let mut state = Loop {
            burst: Burst::new(),
            at: 0,
            stamped: 0,
            offered: 0,
            blocked: false,
            missed: Missed::default(),
            offers: (0, 0),
            returned: Meter::new(0, self.key),
            meter,
            announced: 0,
            tended: 0,
            told: 0,
        };
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
        self.ends.sides().map(|side| side.faults()).sum()
    }

    /// The receiver sends one frame of each stream's destination. Only where there is a receiver of its own.
    fn announce(&mut self, state: &mut Loop, at: u64) {
        state.announced = at;
        let Some(receiver) = &mut self.ends.receive else { return };
        let mut burst = Burst::new();
        for answer in self.source.answers() {
            burst.begin(0);
            burst.set_now(port::Now(at));
            if burst.push_own(&answer) {
                receiver.send(&burst, &[0]);
            }
        }
        receiver.flush(port::Now(at), Flush::All);
        self.ends.notify();
    }

    /// Sends and receives for as long as this phase is. `false`: it was ended early.
    fn phase<K: Kernel>(&mut self, state: &mut Loop, warm_up: bool, watch: Watch<'_>) -> bool {
        let now = nanoseconds(self.clock, self.origin);
        let length = if warm_up { self.timing.warm_up } else { self.timing.duration };
        let start = now() + AHEAD;
        let until = start + length.as_nanos() as u64;
        let (rates, pace) = (&self.rates, self.timing.pace);
        self.source.begin(warm_up, |i| (rates[i], pace), start);
        self.ends.send.forget();
        (state.missed, state.offers, state.at, state.blocked) = (Missed::default(), (0, 0), 0, false);
        state.burst.begin(0);
        state.told = start;
        let phase = if warm_up { Phase::WarmUp } else { Phase::Measuring };
        loop {
            let at = now();
            if at >= until {
                self.finish(state, until);
                return true;
            }
            self.turn::<K>(state, at, now);
            if at - state.tended > TENDED {
                state.tended = at;
                self.ends.tend();
                // It may have been lost: a switch is not ready at the moment its ports are.
                let again = warm_up && self.timing.announce && at - state.announced > ANNOUNCED;
                if again && state.nothing_came() {
                    self.announce(state, at);
                }
                if at.saturating_sub(state.told) > TOLD {
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

    /// Counts what was due before the end of a phase and did not go: never asked for, or left in the burst. It is the port's
    /// where that has not taken everything since the schedule was asked last. What the port keeps back goes.
    fn finish(&mut self, state: &mut Loop, end: u64) {
        if self.ends.flush(end, Flush::All) {
            self.ends.notify();
        }
        let missed = self.source.finish(end);
        if state.blocked {
            // Of a stream without limit there is always something left, and none of it was asked for.
            let left = self.asked().map_or(0, |_| state.burst.len() - state.at);
            state.missed.port += missed + left as u64;
        } else {
            state.missed.generator += missed;
        }
    }

    /// Sends what is due, and takes what has come.
    #[inline]
    fn turn<K: Kernel>(&mut self, state: &mut Loop, at: u64, now: impl Fn() -> u64 + Copy) {
        let sent = self.offer::<K>(state, at);
        let came = self.take::<K>(state, now);
        let flushed = sent == 0 && self.ends.flush(at, Flush::Waited);
        if sent + came > 0 || flushed {
            self.ends.notify();
        } else {
            std::hint::spin_loop();
        }
    }

    /// Offers the port a burst, or again what it left of the last one. How many frames it took.
    #[inline]
    fn offer<K: Kernel>(&mut self, state: &mut Loop, at: u64) -> usize {
        // What was due while this thread did not run is not the port's to answer for.
        let stalled = at - std::mem::replace(&mut state.offered, at) > STALL;
        if state.at == state.burst.len() {
            let missed = self.source.fill::<K>(&mut state.burst, at);
            *(if state.blocked && !stalled {
                &mut state.missed.port
            } else {
                &mut state.missed.generator
            }) += missed;
            (state.at, state.stamped, state.blocked) = (0, at, false);
        } else if at - state.stamped > STALE {
            self.source.renew::<K>(&mut state.burst, state.at, at);
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
    fn take<K: Kernel>(&mut self, state: &mut Loop, now: impl Fn() -> u64 + Copy) -> usize {
        self.ends.step_aside();
        let Some(receiver) = &mut self.ends.receive else {
            let came = self.ends.send.receive::<K>(&mut state.meter, now);
            self.ends.send.prefetch();
            return came;
        };
        let came = receiver.receive::<K>(&mut state.meter, now);
        receiver.prefetch();
        came + self.ends.send.receive::<K>(&mut state.returned, now)
    }

    /// Takes what is still on its way, until nothing has come for a while.
    fn drain<K: Kernel>(&mut self, state: &mut Loop, watch: Watch<'_>) {
        let now = nanoseconds(self.clock, self.origin);
        let (began, mut last) = (Instant::now(), Instant::now());
        let silence = self.timing.duration.clamp(SILENCE.0, SILENCE.1);
        let sent: u64 = self.source.sent().map(|sent| sent.frames).sum();
        while state.meter.received() < sent
            && last.elapsed() < silence
            && began.elapsed() < self.timing.timeout
        {
            let came = self.take::<K>(state, now);
            // A port that had no room for all that it kept back may have some now.
            if came > 0 || self.ends.flush(now(), Flush::All) {
                self.ends.notify();
                last = Instant::now();
            }
            self.ends.tend();
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
