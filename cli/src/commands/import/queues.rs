//! Quality of service of a port as `queues`.

use super::database::{Database, Row};
use super::document::{Section, list, table};
use super::findings::Findings;
use std::collections::BTreeSet;

/// Rate of a port whose database names none, as in Open vSwitch.
const RATE: i64 = 10_000_000_000;
/// Least guarantee of a class, as in Open vSwitch: the MTU in a second.
const LEAST: i64 = 12_000;
/// Range of rates in the file.
const RATES: std::ops::RangeInclusive<i64> = 8_000..=1_000_000_000_000;
/// Highest number of a class, and their number without the port itself.
const LAST: i64 = 254;
/// Lowest of the priorities of classes.
const LOWEST: i64 = 7;

/// Settings of one class.
struct Class {
    number: i64,
    rate: i64,
    ceil: i64,
    priority: i64,
}

/// Writes the queues of a port, with the speed of this interface of it.
pub(super) fn write(
    section: &mut Section,
    port: &Row,
    interface: &Row,
    database: &Database,
    findings: &mut Findings,
) {
    let Some(qos) = database.referred(port, "qos", "QoS").into_iter().next() else { return };
    let queues = database.numbered(qos, "queues", "Queue");
    match qos.text("type") {
        "linux-htb" | "linux-hfsc" => classes(section, qos, &queues, interface, findings),
        kind => {
            let (reason, remedy) = other(kind);
            findings.add(
                section,
                (qos, "type"),
                format!("{kind} has no counterpart in `queues`: {reason}"),
                remedy,
            );
            qos.pairs("other_config");
        }
    }
    findings.rest(section, qos);
    for (_, queue) in queues {
        findings.rest(section, queue);
    }
}

/// Why a type is not translated, and the remedy.
fn other(kind: &str) -> (&'static str, &'static str) {
    match kind {
        "linux-fq_codel" | "linux-codel" | "linux-sfq" => (
            "each class has fair queues with CoDel",
            "write `queues` with the rate of the link and one class",
        ),
        "linux-netem" => ("it impairs packets", "write `fault` with direction = \"out\""),
        "egress-policer" | "trtcm-policer" => {
            ("sent packets are queued, not policed", "write `queues` with the rate")
        }
        "linux-noop" => ("the switch does not change the queues of the kernel", "nothing is needed"),
        _ => ("it is not known", "see docs/guide/rates-and-queues.md"),
    }
}

fn classes(
    section: &mut Section,
    qos: &Row,
    queues: &[(i64, &Row)],
    interface: &Row,
    findings: &mut Findings,
) {
    let configured = qos.key("other_config", "max-rate").and_then(|rate| rate.parse().ok());
    let speed = interface.integer("link_speed").filter(|speed| *speed > 0);
    let port = configured.or(speed).unwrap_or(RATE).clamp(*RATES.start(), *RATES.end());
    let mut classes: Vec<_> = queues.iter().map(|(number, queue)| class(*number, queue, port)).collect();
    if classes.iter().all(|class| class.number != 0) {
        classes.insert(0, Class { number: 0, rate: LEAST.min(port), ceil: port, priority: 0 });
    }
    let total = classes.iter().fold(0, |total: i64, class| total.saturating_add(class.rate));
    let problem = match () {
        () if classes.iter().any(|class| class.number > LAST) => {
            Some(format!("classes have numbers from 0 to {LAST}"))
        }
        () if total > port => Some(format!(
            "the guarantees of its queues are {} together, above its {}",
            rate(total),
            rate(port)
        )),
        () => None,
    };
    if let Some(reason) = problem {
        return findings.add(section, (qos, "queues"), reason, "write `queues` with other classes");
    }
    rank(&mut classes);
    let lines = classes.iter().map(|Class { number, rate: own, ceil, priority }| {
        format!("{number} rate={} ceil={} priority={priority}", rate(*own), rate(*ceil))
    });
    section.set("queues", table([("rate", Some(rate(port).into())), ("classes", Some(list(lines)))]));
}

fn class(number: i64, queue: &Row, port: i64) -> Class {
    let value = |key| queue.key("other_config", key)?.parse::<i64>().ok();
    let guaranteed = value("min-rate").unwrap_or(LEAST).max(LEAST).min(port);
    let ceil = value("max-rate").unwrap_or(port).clamp(guaranteed, port);
    Class { number, rate: guaranteed, ceil, priority: value("priority").unwrap_or(0) }
}

/// Replaces priorities, of which only the order matters, by those of the file if they are too large.
fn rank(classes: &mut [Class]) {
    let all: BTreeSet<i64> = classes.iter().map(|class| class.priority).collect();
    if all.iter().all(|priority| (0..=LOWEST).contains(priority)) {
        return;
    }
    for class in classes {
        let ranks = (0..=LOWEST).zip(&all);
        class.priority = ranks
            .filter(|(_, priority)| **priority <= class.priority)
            .last()
            .map_or(LOWEST, |(rank, _)| rank);
    }
}

/// A rate with the largest unit that divides it.
fn rate(bits: i64) -> String {
    let units = [(1_000_000_000, "Gbit/s"), (1_000_000, "Mbit/s"), (1000, "kbit/s")];
    let unit = units.into_iter().find(|(factor, _)| bits % factor == 0);
    unit.map_or_else(|| format!("{bits}bit/s"), |(factor, unit)| format!("{}{unit}", bits / factor))
}
