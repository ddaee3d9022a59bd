//! Sequence of a run: validate all input, measure the loopback baseline, then measure the ports.

use super::input::{self, Input};
use super::peer;
use super::report::{LoopbackBaseline, Report};
use crate::args::generator::GenArgs;
use crate::dataplane::open;
use crate::settings::topology::PortSettings;
use console::Diagnostic;
use engine::LocalPort;
use generator::Description;
use generator::rate::Rate;
use generator::rig::{Outcome, Phase, Progress, Rig, RigError, RigPorts, Timing};
use indicatif::ProgressBar;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Maximum duration of the baseline runs: at the requested rate, and at maximum rate.
const BASELINE_AT_RATE: Duration = Duration::from_secs(1);
const BASELINE_UNLIMITED: Duration = Duration::from_millis(300);
/// Warm-up of both baseline runs.
const WARM_UP: Duration = Duration::from_millis(50);

/// Runs the generator.
pub(crate) fn run(args: &GenArgs) -> anyhow::Result<()> {
    let Input { streams, ports } = input::read(args)?;
    if !args.wait {
        peer::validate(&ports)?;
    }
    crate::commands::cpu::pin(args.cpu)?;
    let ending = console::stop_on_signals()?;
    generator::rig::settle();
    let ends = ends(&ports)?;
    let (timing, key) = (args.timing(), key());
    let rig = Rig::new(ends, &streams, timing, key).map_err(|error| failed(&error))?;
    rig.notes().iter().for_each(|note| console::note(note));
    let asked = rig.asked();
    let baseline = if args.no_baseline { None } else { baseline(&streams, &timing, key, &ending) };
    let mut progress = Shown::new(timing.duration);
    let outcome = rig.run(&mut |now| {
        progress.show(now);
        !ending.load(Ordering::Relaxed)
    });
    progress.end();
    let outcome = outcome.map_err(|error| not_ready(&error, &ports).unwrap_or_else(|| failed(&error)))?;
    let ended = ended(&outcome);
    let report = Report::new(args, &ports, asked, outcome, baseline);
    console::print(&report, args.show.output, |report| report.text(args.histogram))?;
    ended.map_or(Ok(()), |error| Err(error.into()))
}

/// Error of a run whose results are partial.
fn ended(outcome: &Outcome) -> Option<Diagnostic> {
    let remedy = "see the messages of the switch about this port, and run it again";
    match &outcome.disconnected {
        Some(reason) => Some(Diagnostic::failed("linerate gen", reason, remedy)),
        None if outcome.interrupted => Some(Diagnostic::interrupted("linerate gen")),
        None => None,
    }
}

/// Key that distinguishes the frames of this run from those of others.
pub(crate) fn key() -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.subsec_nanos() ^ now.as_secs() as u32 ^ std::process::id().rotate_left(16)
}

/// Creates the ports without opening them.
pub(crate) fn ends(ports: &[PortSettings]) -> Result<RigPorts, Diagnostic> {
    let side = |port: &PortSettings| {
        let control = open::open(port)?;
        Ok::<_, Diagnostic>(LocalPort::new(&port.name, control))
    };
    let Some((first, others)) = ports.split_first() else {
        return Err(Diagnostic::bad("the ports", "no port is given", "add --port kind=...,..."));
    };
    Ok(RigPorts { send: side(first)?, receive: others.first().map(side).transpose()?, inline_work: None })
}

/// Error for a port that did not become ready because its peer process cannot be reached.
fn not_ready(error: &RigError, ports: &[PortSettings]) -> Option<Diagnostic> {
    let RigError::NotReady { name, timeout, .. } = error else { return None };
    let port = ports.iter().find(|port| port.name == *name)?;
    let failed = format!("not connected within {timeout:?}");
    peer::unreachable(port, &failed, "give it more time with --timeout")
}

fn failed(error: &RigError) -> Diagnostic {
    let remedy = match error {
        RigError::NotReady { .. } => {
            "start the other side, check its messages about this port, or give it more time with --timeout"
        }
        RigError::Streams(_) => return Diagnostic::bad("the streams", error, "describe fewer"),
        RigError::Ended => "run it again",
        _ => "correct the cause in the reason",
    };
    Diagnostic::failed("linerate gen", error, remedy)
}

/// Measures the same streams over the loopback baseline; `None` if it was interrupted or not available.
fn baseline(
    streams: &[Description],
    timing: &Timing,
    key: u32,
    ending: &AtomicBool,
) -> Option<LoopbackBaseline> {
    let of = |streams: &[Description], timing: Timing| -> Result<Outcome, RigError> {
        Rig::new(RigPorts::wire()?, streams, timing, key)?.run(&mut |_| !ending.load(Ordering::Relaxed))
    };
    let short = |longest: Duration| timing.duration.min(longest);
    let at_rate = Timing { duration: short(BASELINE_AT_RATE), warm_up: WARM_UP, ..*timing };
    let unlimited = Timing { rate: Rate::Unlimited, duration: short(BASELINE_UNLIMITED), ..at_rate };
    let free: Vec<_> = streams.iter().map(|stream| Description { rate: None, ..stream.clone() }).collect();
    let told = of(&free, unlimited).and_then(|most| Ok(LoopbackBaseline::new(&of(streams, at_rate)?, &most)));
    told.map_err(|error| console::warn(&format!("the baseline is not known: {error}"))).ok()
}

/// Progress display: a line that is redrawn on a terminal, otherwise one line per second.
struct Shown {
    bar: ProgressBar,
    duration: Duration,
    last: Option<(Phase, u64, Instant)>,
}

impl Shown {
    fn new(duration: Duration) -> Self {
        let bar = if console::is_quiet() { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
        Self { bar, duration, last: None }
    }

    fn show(&mut self, now: Progress) {
        let text = self.text(now);
        if !self.bar.is_hidden() {
            self.bar.set_message(text);
            self.bar.tick();
        } else if self.last.is_none_or(|(phase, _, at)| phase != now.phase || at.elapsed().as_secs() >= 1) {
            console::note(&text);
        } else {
            return;
        }
        self.last = Some((now.phase, now.sent, Instant::now()));
    }

    fn text(&self, now: Progress) -> String {
        let since = now.since.as_secs_f64();
        match now.phase {
            Phase::Waiting => format!("waiting for the ports, {since:.0} s"),
            Phase::WarmUp => format!("warming up: {} sent", now.sent),
            Phase::Draining => {
                format!("waiting for the last frames: {} of {} received", now.received, now.sent)
            }
            Phase::Measuring => {
                let rate = now.sent as f64 / since.max(1e-9) / 1e6;
                let left = self.duration.as_secs_f64() - since;
                format!("{rate:.3} Mpps sent, {} of {} received, {left:.0} s left", now.received, now.sent)
            }
        }
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}
