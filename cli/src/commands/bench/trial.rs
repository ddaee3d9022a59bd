//! One trial: executes a step of `rfc2544` by sending frames over ports that stay open, and returns the result.
//!
//! A trial ends by time, so a hanging switch costs one trial. If no frame comes back, slow trials are repeated until
//! one does. If none does within `--timeout`, the switch forwards nothing and the benchmark ends.

use super::child::Running;
use super::parts::Guest;
use super::setup::Job;
use super::within;
use crate::commands::generate::{ends, key};
use crate::commands::guest::Inside;
use console::Diagnostic;
use generator::Description;
use generator::meter::Summary;
use generator::rate::Rate;
use generator::rig::{InlineWork, Outcome, Phase, Progress, Rig, RigError, RigPorts, Timing};
use generator::schedule::Pace;
use rfc2544::{Load, Purpose, Step, TrialCounters};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Warm-up: share of the trial, minimum and maximum.
const WARM_UP: (f64, Duration, Duration) = (0.1, Duration::from_millis(20), Duration::from_millis(500));
/// Maximum duration of a baseline trial over loopback, in seconds.
const BASELINE_SECONDS: f64 = 0.3;
/// Number of trials that measure the generator's ceiling.
const WIRES: u32 = 3;
/// A slow trial: frames per second, and seconds.
const SLOW: (f64, f64) = (1000.0, 0.2);

/// Reason for a missing result.
#[derive(Debug)]
pub(super) enum Stop {
    /// A signal was received.
    Asked,
    /// The benchmark failed.
    Failed(Box<Diagnostic>),
}

impl From<Diagnostic> for Stop {
    fn from(error: Diagnostic) -> Self {
        Stop::Failed(Box::new(error))
    }
}

/// All running components.
pub(super) struct TestBed<'a> {
    job: &'a Job,
    ends: Option<RigPorts>,
    children: Vec<Running>,
    ending: Arc<AtomicBool>,
    /// A frame size that the switch has forwarded.
    good: Option<usize>,
}

impl<'a> TestBed<'a> {
    /// Creates the ports, starts switch and guest, and waits until all are connected.
    pub(super) fn start(job: &'a Job, ending: Arc<AtomicBool>) -> Result<Self, Stop> {
        let mut ends = if job.inline { within::switch()? } else { ends(&job.ports)? };
        let mut testbed = Self { job, ends: None, children: Vec::new(), ending, good: None };
        if let Some(start) = &job.switch {
            testbed.children.push(Running::start(start, job.folder.path())?);
        }
        ends.inline_work = testbed.guest()?.or(ends.inline_work);
        // Pinned only now, because children inherit the affinity.
        crate::commands::cpu::pin(job.cpus.generator)?;
        let opened = ends.open(job.timeout, &mut |_| testbed.is_running());
        testbed.ends = Some(ends);
        match opened {
            Ok(()) => Ok(testbed),
            Err(error) => Err(testbed.why(Some(&error), "no port became ready")),
        }
    }

    /// Starts the guest. Returns its component in the generator's thread, if any.
    fn guest(&mut self) -> Result<Option<InlineWork>, Stop> {
        let job = self.job;
        Ok(match &job.guest {
            None => None,
            Some(Guest::Process(start)) => {
                self.children.push(Running::start(start, job.folder.path())?);
                None
            }
            Some(Guest::Inline(ports)) => Some(within::guest(ports)?),
            Some(Guest::Reflector(words)) => Some(within::turns_of(self.reflector(words)?)),
        })
    }

    /// Starts a reflector and connects it.
    fn reflector(&mut self, words: &[String]) -> Result<Inside, Stop> {
        let (mut guest, began) = (within::reflector(words)?, Instant::now());
        while !guest.connect()? {
            if !self.is_running() || began.elapsed() > self.job.timeout {
                return Err(self.why(None, "the guest's device did not become ready"));
            }
        }
        Ok(guest)
    }

    /// Whether no signal was received and all children are running.
    fn is_running(&mut self) -> bool {
        !self.ending.load(Ordering::Relaxed) && self.children.iter_mut().all(|child| !child.has_ended())
    }

    /// Error of an interrupted run.
    fn why(&mut self, error: Option<&RigError>, otherwise: &str) -> Stop {
        if self.ending.load(Ordering::Relaxed) {
            return Stop::Asked;
        }
        if let Some(child) = self.children.iter_mut().find_map(|child| child.has_ended().then_some(&*child)) {
            let remedy = "run its command manually; the result is partial";
            let reason = format!("it exited ({}); {}", child.how(), child.words());
            return Diagnostic::failed(child.name(), reason, remedy).into();
        }
        let words: Vec<String> =
            self.children.iter().map(|child| format!("\n  {}: {}", child.name(), child.words())).collect();
        let reason = error.map_or_else(|| otherwise.to_owned(), ToString::to_string) + &words.concat();
        let remedy = "check its messages about these ports, or give it more time with --timeout";
        Diagnostic::failed("the switch", reason, remedy).into()
    }

    /// Executes a step.
    pub(super) fn run(&mut self, step: &Step) -> Result<TrialCounters, Stop> {
        let timing = self.timing(step);
        match step.purpose {
            Purpose::Loopback => self.ceiling(step.size, timing),
            Purpose::Probe => self.probe(step.size, timing),
            _ => self.counted(step, timing),
        }
    }

    fn timing(&self, step: &Step) -> Timing {
        let duration = Duration::from_secs_f64(step.seconds);
        let (part, least, most) = WARM_UP;
        let warm_up = duration.mul_f64(part).clamp(least, most);
        let (rate, pace, warm_up) = match step.load {
            Load::Unlimited => (Rate::Unlimited, Pace::Constant, warm_up),
            Load::Rate(rate) => (Rate::Frames(rate), Pace::Constant, warm_up),
            Load::Burst(frames) => {
                // The interval exceeds the trial, so there is a single burst.
                let rate = frames as f64 / (2.0 * step.seconds);
                (Rate::Frames(rate), Pace::Burst(frames.min(u64::from(u32::MAX)) as u32), Duration::ZERO)
            }
        };
        Timing { rate, pace, duration, warm_up, catch_up: None, timeout: self.job.timeout, announce: true }
    }

    fn stream(&self, size: usize) -> [Description; 1] {
        let size = self.job.plan.sizes[size].clone();
        [Description { size, ..self.job.stream.clone() }]
    }

    /// The maximum rate of the generator: the best of several trials, because disturbances only reduce it.
    fn ceiling(&mut self, size: usize, timing: Timing) -> Result<TrialCounters, Stop> {
        let mut best = self.wire(size, timing)?;
        for _ in 1..WIRES {
            let seen = self.wire(size, timing)?;
            best = if seen.received_pps() > best.received_pps() { seen } else { best };
        }
        Ok(TrialCounters { delays: None, ..best })
    }

    /// Runs the generator over its own loopback.
    fn wire(&mut self, size: usize, timing: Timing) -> Result<TrialCounters, Stop> {
        let of = |ending: &AtomicBool| -> Result<Outcome, RigError> {
            Rig::new(RigPorts::wire()?, &self.stream(size), timing, key())?
                .run(&mut |_| !ending.load(Ordering::Relaxed))
        };
        let outcome = of(&self.ending).map_err(|error| self.own_wire(&error))?;
        if outcome.interrupted { Err(Stop::Asked) } else { Ok(TrialCounters::of(&outcome, true)) }
    }

    fn own_wire(&self, error: &RigError) -> Stop {
        if self.ending.load(Ordering::Relaxed) {
            return Stop::Asked;
        }
        Diagnostic::failed("the loopback baseline", error, "give --ceiling, or this process more memory")
            .into()
    }

    /// Runs a trial through the switch, over the open ports.
    fn through(&mut self, size: usize, timing: Timing, delays: bool) -> Result<TrialCounters, Stop> {
        let Some(ends) = self.ends.take() else { return Err(self.why(None, "its ports were removed")) };
        let rig = Rig::new(ends, &self.stream(size), timing, key());
        let rig = rig.map_err(|error| self.why(Some(&error), ""))?;
        let (ends, outcome) = rig.run_open(&mut |now: Progress| {
            // A drain ends by itself within a short time.
            now.phase == Phase::Draining || self.is_running()
        });
        self.ends = Some(ends);
        match outcome {
            Ok(outcome) if !outcome.interrupted => {
                // If a child ended while the last frames were in transit, they were not all forwarded.
                if self.is_running() {
                    Ok(TrialCounters::of(&outcome, delays))
                } else {
                    Err(self.why(None, ""))
                }
            }
            Ok(_) => Err(self.why(None, "it was ended")),
            Err(error) => Err(self.why(Some(&error), "")),
        }
    }

    /// Runs a trial that counts.
    fn counted(&mut self, step: &Step, timing: Timing) -> Result<TrialCounters, Stop> {
        let delays = matches!(step.purpose, Purpose::Latency(_));
        let mut seen = self.through(step.size, timing, delays)?;
        if seen.received == 0 {
            self.carries(step.size)?;
        }
        if let Some(delays) = &mut seen.delays {
            delays.baseline_ns = self.baseline(step, timing)?;
        }
        Ok(seen)
    }

    /// Latency of the same load over the generator's loopback.
    fn baseline(&mut self, step: &Step, timing: Timing) -> Result<Option<Summary>, Stop> {
        let duration = Duration::from_secs_f64(step.seconds.min(BASELINE_SECONDS));
        let seen = self.wire(step.size, Timing { duration, ..timing })?;
        Ok(seen.delays.map(|delays| delays.latency_ns).filter(|latency| latency.count > 0))
    }

    /// Tests whether frames of a size are forwarded. If none are, that is a result only if another size is still
    /// forwarded.
    fn probe(&mut self, size: usize, timing: Timing) -> Result<TrialCounters, Stop> {
        let seen = self.patiently(size, timing)?;
        if seen.received > 0 {
            self.good = Some(size);
            return Ok(seen);
        }
        match self.good.filter(|good| *good != size) {
            Some(good) => self.carries(good).map(|()| seen),
            None => Err(self.carries_nothing()),
        }
    }

    /// Checks that frames of this size, which were forwarded before, still are.
    fn carries(&mut self, size: usize) -> Result<(), Stop> {
        let (rate, seconds) = SLOW;
        let load = Load::Rate(rate);
        let timing = self.timing(&Step { round: 0, size, purpose: Purpose::Probe, load, seconds });
        let seen = self.patiently(size, timing)?;
        if seen.received > 0 { Ok(()) } else { Err(self.carries_nothing()) }
    }

    fn carries_nothing(&mut self) -> Stop {
        let timeout = self.job.timeout;
        let reason = format!("no frame came back within {timeout:?}");
        self.why(None, &reason)
    }

    /// Repeats slow trials until a frame comes back. Returns the last one.
    fn patiently(&mut self, size: usize, timing: Timing) -> Result<TrialCounters, Stop> {
        let began = Instant::now();
        loop {
            let seen = self.through(size, timing, false)?;
            if seen.received > 0 || began.elapsed() >= self.job.timeout {
                return Ok(seen);
            }
        }
    }
}

impl Drop for TestBed<'_> {
    fn drop(&mut self) {
        if let Some(ends) = &mut self.ends {
            ends.close();
        }
    }
}
