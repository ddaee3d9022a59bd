//! Two well-behaved ("calm") guests beside an attacker: one sends, the other receives, with the generator and the
//! meter of `linerate gen`. One thread runs generator and attack alternately; their shares of the CPU follow from the
//! cost of a turn of each and are reported.

use crate::args::guest::GuestArgs;
use crate::commands::generate::input::validated_ports;
use crate::commands::generate::{ends, key};
use console::Diagnostic;
use generator::Description;
use generator::rate::Rate;
use generator::rig::{InlineWork, Outcome, Rig, RigError, RigPorts, Timing, settle};
use generator::schedule::Pace;
use guest::hostile::{AttackGroup, DeviceCounts, TimedGroup};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wire::MacAddress;

/// Address of the calm receiver.
pub(super) const RECEIVER: MacAddress = MacAddress::new([2, 0, 0, 0, 1, 2]);
const SENDER: MacAddress = MacAddress::new([2, 0, 0, 0, 1, 1]);
/// Maximum frames sent at once after a stall of the thread: more than become due in an attacker's turn at 100 kpps. A
/// longer backlog would be measured as latency of the switch.
const CATCH_UP: u64 = 8;
/// Default duration of each phase.
const DURATION: Duration = Duration::from_secs(2);
/// Time for the switch to learn the addresses of the calm guests before measuring.
const WARM_UP: Duration = Duration::from_millis(300);
/// Timeout for the calm guests to connect, and time for their last frames to arrive.
const TIMEOUT: Duration = Duration::from_secs(20);
const DRAIN: Duration = Duration::from_secs(1);
/// Minimum measurement, after the warm-up.
const SHORT: Duration = Duration::from_millis(1);
/// Entries of the calm guests' rings.
const ENTRIES: u16 = 1024;

/// Measurements of the calm guests.
#[derive(Debug, Serialize)]
pub(super) struct Calm {
    /// At maximum rate.
    pub(super) fast: Reading,
    /// At the requested rate.
    pub(super) paced: Reading,
}

/// One phase.
#[derive(Debug, Serialize)]
pub(super) struct Reading {
    seconds: f64,
    sent: u64,
    received: u64,
    lost: u64,
    sent_mpps: f64,
    received_mpps: f64,
    p50_ns: u64,
    p99_ns: u64,
    max_ns: u64,
    longest_silence_ns: u64,
    /// Longest time between two turns of this thread. A gap of this length in received frames is not caused by the
    /// switch.
    longest_stall_ns: u64,
    /// Frames for the calm receiver that arrived at an attacker's device.
    foreign: u64,
    /// `foreign`, limited to the number of frames that the receiver did not get.
    stolen: u64,
    /// Frames received by the calm receiver that are not from the calm sender.
    unidentified: u64,
    /// Chains that the switch took from the attacker.
    attacker_sent: u64,
    /// Connections of the attacker that the switch closed.
    attacker_refused: u64,
    /// Attacker's share of this thread's time.
    attacker_share: f64,
    /// Turns of the thread per second.
    turns_per_second: f64,
}

/// Chains sent, connections closed and foreign frames so far.
fn counts(turns: &TimedGroup) -> [u64; 3] {
    turns.device_counts().iter().fold([0; 3], |[sent, refused, foreign], account| {
        [sent + account.counts.sent, refused + account.refused, foreign + account.counts.foreign]
    })
}

/// Runs both phases beside the attack.
pub(super) fn run(
    args: &GuestArgs,
    group: AttackGroup,
    ending: &Arc<AtomicBool>,
) -> anyhow::Result<(Vec<DeviceCounts>, Calm)> {
    settle();
    let turns = Arc::new(Mutex::new(TimedGroup::new(group)));
    let mut ends = calm_ends(args)?;
    // A bridge learns an address at the first port that uses it, so the calm guests send before the attack begins.
    let begun = Arc::new(AtomicBool::new(false));
    let (own, begins) = (turns.clone(), begun.clone());
    ends.inline_work = Some(InlineWork::new(move || {
        if begins.load(Ordering::Relaxed) {
            locked(&own).turn();
        }
    }));
    let opened = ends.open(TIMEOUT, &mut |_| !ending.load(Ordering::Relaxed));
    opened.map_err(|error| failed(&error))?;
    let duration = args.duration.map_or(DURATION, |duration| duration.0);
    // Frames may have been flooded until now, so those that arrived elsewhere do not count.
    let (ends, _) = phase(ends, args.attack.rate, (WARM_UP, SHORT), &turns, ending)?;
    begun.store(true, Ordering::Relaxed);
    let (ends, _) = phase(ends, args.attack.rate, (WARM_UP, SHORT), &turns, ending)?;
    let (ends, fast) = phase(ends, Rate::Unlimited, (Duration::ZERO, duration), &turns, ending)?;
    let (mut ends, paced) = phase(ends, args.attack.rate, (Duration::ZERO, duration), &turns, ending)?;
    ends.close();
    let device_counts = locked(&turns).device_counts();
    Ok((device_counts, Calm { fast, paced }))
}

/// A panic within a turn ends the process before the lock is taken again.
fn locked(turns: &Mutex<TimedGroup>) -> MutexGuard<'_, TimedGroup> {
    turns.lock().unwrap_or_else(PoisonError::into_inner)
}

fn calm_ends(args: &GuestArgs) -> anyhow::Result<RigPorts> {
    let mode = if args.socket.connect.is_empty() { "server" } else { "client" };
    let port = |socket: &Path| {
        let keys = json!({
            "kind": "virtio-user", "socket": std::path::absolute(socket)?, "mode": mode,
            "ring": args.ring.name(), "queue_size": ENTRIES, "offloads": false,
        });
        let Value::Object(keys) = keys else { return Ok(Map::new()) };
        anyhow::Ok(keys)
    };
    let ports = args.attack.calm.iter().map(|socket| port(socket)).collect::<Result<_, _>>()?;
    Ok(ends(&validated_ports(ports)?)?)
}

fn phase(
    ends: RigPorts,
    rate: Rate,
    (warm_up, duration): (Duration, Duration),
    turns: &Mutex<TimedGroup>,
    ending: &AtomicBool,
) -> anyhow::Result<(RigPorts, Reading)> {
    let timing = Timing {
        rate,
        pace: Pace::Constant,
        duration,
        warm_up,
        catch_up: Some(CATCH_UP),
        timeout: DRAIN,
        announce: true,
    };
    let stream = Description { source_mac: SENDER, destination_mac: RECEIVER, ..Description::default() };
    let rig = Rig::new(ends, &[stream], timing, key()).map_err(|error| failed(&error))?;
    let before = {
        let mut turns = locked(turns);
        turns.restart();
        counts(&turns)
    };
    let began = Instant::now();
    let (ends, outcome) = rig.run_open(&mut |_| !ending.load(Ordering::Relaxed));
    let outcome = outcome.map_err(|error| failed(&error))?;
    let reading = reading(&outcome, &locked(turns), before, began.elapsed());
    Ok((ends, reading))
}

fn reading(outcome: &Outcome, turns: &TimedGroup, before: [u64; 3], elapsed: Duration) -> Reading {
    let stream = outcome.streams.first().cloned().unwrap_or_default();
    let ([sent, refused, foreign], timing) = (counts(turns), turns.timing());
    let foreign = foreign - before[2];
    Reading {
        seconds: outcome.seconds,
        sent: outcome.sent,
        received: outcome.received,
        lost: outcome.lost,
        sent_mpps: outcome.sent_pps / 1e6,
        received_mpps: outcome.received_pps / 1e6,
        p50_ns: stream.latency_ns.p50,
        p99_ns: stream.latency_ns.p99,
        max_ns: stream.latency_ns.max,
        longest_silence_ns: stream.longest_silence_ns,
        longest_stall_ns: (timing.longest_stall * elapsed.as_nanos() as f64) as u64,
        foreign,
        stolen: foreign.min(outcome.lost),
        unidentified: outcome.untagged,
        attacker_sent: sent - before[0],
        attacker_refused: refused - before[1],
        attacker_share: timing.attacker,
        turns_per_second: timing.turns as f64 / elapsed.as_secs_f64().max(1e-9),
    }
}

fn failed(error: &RigError) -> Diagnostic {
    Diagnostic::failed("--calm", error, "check the switch's messages about the calm guests' ports")
}

/// Results as text.
pub(super) fn text(calm: &Calm) -> String {
    let titles = [
        "CALM",
        ">TX Mpps",
        ">RX Mpps",
        ">LOST",
        ">STOLEN",
        ">p50 us",
        ">p99",
        ">MAX",
        ">SILENCE ms",
        ">STALL ms",
        ">ATTACKER",
    ];
    let row = |(name, reading): (&str, &Reading)| {
        let micro = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
        let milli = |ns: u64| format!("{:.2}", ns as f64 / 1e6);
        vec![
            name.to_owned(),
            format!("{:.4}", reading.sent_mpps),
            format!("{:.4}", reading.received_mpps),
            reading.lost.to_string(),
            reading.stolen.to_string(),
            micro(reading.p50_ns),
            micro(reading.p99_ns),
            micro(reading.max_ns),
            milli(reading.longest_silence_ns),
            milli(reading.longest_stall_ns),
            format!("{:.0} %", reading.attacker_share * 100.0),
        ]
    };
    console::table(&titles, [("fast", &calm.fast), ("paced", &calm.paced)].map(row))
}
