//! `queues`: classes of sent frames, with rates and fair queues.

mod class;

use super::rate::BitRate;
use crate::settings::reader::fields::Fields;
use crate::settings::reader::node::Value;
use crate::settings::reader::shape::Shape;
pub(crate) use class::ClassSettings;
use console::Span;
use port::PortFault;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// Bytes of packets that wait.
const MEMORY: RangeInclusive<i128> = 262_144..=1 << 30;
const DEFAULT_MEMORY: u64 = 4 << 20;
const TARGET: RangeInclusive<Duration> = Duration::from_micros(10)..=Duration::from_secs(1);
const INTERVAL: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(10);
const QUEUE: RangeInclusive<i128> = 0..=254;
/// Bytes of a burst, at least: some packets, and what the port's rate sends while its worker wakes.
const LEAST_BURST: u64 = 16_384;
/// A burst is this time of its rate, in nanoseconds.
const BURST_TIME: u64 = 5_000_000;
const EXAMPLE: &str = "[\"0 rate=900Mbit/s\", \"1 rate=100Mbit/s priority=0 dscp=46\"]";

/// `queues = { rate = "1Gbit/s", classes = ["0 rate=900Mbit/s", "1 rate=100Mbit/s dscp=46"] }`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Queues {
    pub(crate) rate: BitRate,
    pub(crate) classes: Vec<ClassSettings>,
    default: u8,
    memory: u64,
    target: Span,
    interval: Span,
    ecn: bool,
    #[serde(skip)]
    live: Live,
}

/// A class without children of a running port.
pub(crate) struct LiveQueue {
    pub(crate) queue: u8,
    pub(crate) rates: qos::ClassRates,
    pub(crate) counts: qos::ClassCounts,
    /// Rate of the port in bits per second.
    pub(crate) port: u64,
}

/// The running queues of the port that was opened with these settings. All copies of the settings share it.
#[derive(Clone, Debug, Default)]
struct Live(Arc<Mutex<Weak<qos::Shaper>>>);

impl PartialEq for Live {
    /// Settings are equal whether or not a port runs with them.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Live {}

pub(super) fn read(fields: &mut Fields<'_, '_>) -> Option<Queues> {
    fields.accepts("queues", || Shape::Table);
    let (place, node) = (fields.place("queues"), fields.node("queues")?);
    if !matches!(node.value, Value::Table(_)) {
        let wanted = format!("a table, such as {{ rate = \"1Gbit/s\", classes = {EXAMPLE} }}");
        return fields.not("queues", node, &wanted);
    }
    let errors = fields.notes.errors();
    // Missing keys of the inner table are reported for the section.
    for key in ["rate", "classes"] {
        fields.notes.written((place.0, key), node.line);
    }
    let mut inner = Fields::open_inner(node, place, fields.notes);
    let queues = read_inner(&mut inner);
    inner.finish();
    // Invalid queues are not the absence of queues.
    if fields.notes.errors() > errors {
        fields.notes.mark_invalid(place);
    }
    Some(queues)
}

fn read_inner(fields: &mut Fields<'_, '_>) -> Queues {
    let (default, errors) = (qos::CodelParams::default(), fields.notes.errors());
    let rate = BitRate::required(fields, "rate");
    let classes: Vec<ClassSettings> = fields.list("classes", str::parse, EXAMPLE);
    let span = |span: Option<Span>, default| span.unwrap_or(Span(Duration::from_nanos(default)));
    let queues = Queues {
        rate,
        default: fields.number("default", QUEUE, "as a queue").unwrap_or(0),
        memory: fields.number("memory", MEMORY, "bytes").unwrap_or(DEFAULT_MEMORY),
        target: span(fields.span_within("target", &TARGET), default.target),
        interval: span(fields.span_within("interval", &INTERVAL), default.interval),
        ecn: fields.flag("ecn").unwrap_or(default.ecn),
        classes,
        live: Live::default(),
    };
    let checked = if fields.notes.errors() == errors { queues.check() } else { Ok(()) };
    if let Err(reason) = checked {
        fields.wrong::<()>("classes", reason, format!("write classes such as {EXAMPLE}"));
    }
    queues
}

impl Queues {
    /// Checks classes against each other.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.classes.is_empty() || self.classes.len() >= qos::MAX_CLASSES {
            return Err(format!(
                "`queues` has {} classes, not 1 to {}",
                self.classes.len(),
                qos::MAX_CLASSES - 1
            ));
        }
        for (at, class) in self.classes.iter().enumerate() {
            self.check_class(at, class)?;
        }
        self.check_guarantees(None, self.rate)?;
        let default = self.classes.iter().any(|class| class.queue == self.default && !self.is_inner(class));
        if default {
            Ok(())
        } else {
            Err(format!("the default queue {} is not a class without children", self.default))
        }
    }

    fn check_class(&self, at: usize, class: &ClassSettings) -> Result<(), String> {
        let queue = class.queue;
        if self.classes[..at].iter().any(|other| other.queue == queue) {
            return Err(format!("queue {queue} is configured twice"));
        }
        if class.ceil(self.rate) < class.rate {
            return Err(format!("queue {queue}: its `ceil` is below its `rate`"));
        }
        let parent = class.parent;
        if parent.is_some_and(|parent| !self.classes[..at].iter().any(|other| other.queue == parent)) {
            return Err(format!("queue {queue}: no class before it is its parent"));
        }
        if self.depth(class) > qos::MAX_DEPTH {
            return Err(format!("queue {queue}: more than {} levels", qos::MAX_DEPTH));
        }
        self.check_guarantees(Some(queue), class.rate)
    }

    /// Guarantees of the children of a class must fit into its own.
    fn check_guarantees(&self, parent: Option<u8>, rate: BitRate) -> Result<(), String> {
        let total: u64 =
            self.classes.iter().filter(|class| class.parent == parent).map(|class| class.rate.0).sum();
        if total <= rate.0 {
            return Ok(());
        }
        let of = parent.map_or("the port".to_owned(), |queue| format!("queue {queue}"));
        Err(format!("the rates of the classes of {of} are {} together, above its {rate}", BitRate(total)))
    }

    /// Levels from the port, which is one, to a class.
    fn depth(&self, class: &ClassSettings) -> usize {
        let parent = |class: &&ClassSettings| {
            let parent = class.parent?;
            self.classes.iter().find(|other| other.queue == parent)
        };
        // A class that is its own ancestor has been refused, because parents come first.
        1 + std::iter::successors(Some(class), parent).take(qos::MAX_DEPTH + 1).count()
    }

    fn is_inner(&self, class: &ClassSettings) -> bool {
        self.classes.iter().any(|other| other.parent == Some(class.queue))
    }

    /// Rates of class `at`, with bursts.
    fn rates(&self, class: &ClassSettings) -> qos::ClassRates {
        rates(class.rate, class.ceil(self.rate))
    }

    /// Creates the queues of a port.
    pub(super) fn shaper(&self) -> Result<Arc<qos::Shaper>, PortFault> {
        let root = qos::Node { rates: rates(self.rate, self.rate), parent: None, priority: 0, quantum: 1514 };
        let mut classes = vec![qos::ClassConfig { node: root, leaf: None }];
        classes.extend(self.classes.iter().map(|class| self.class(class)));
        let mut map = qos::ClassMap::new(self.index(self.default));
        for class in self.classes.iter().filter(|class| !self.is_inner(class)) {
            let index = self.index(class.queue);
            map.set_queue(class.queue, index);
            class.pcp.iter().for_each(|pcp| map.set_pcp(*pcp, index));
            class.dscp.iter().for_each(|dscp| map.set_dscp(*dscp, index));
        }
        let shaper = Arc::new(qos::Shaper::new(qos::ShaperConfig { classes, map, memory: self.memory })?);
        *self.live.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&shaper);
        Ok(shaper)
    }

    fn class(&self, class: &ClassSettings) -> qos::ClassConfig {
        let codel = qos::CodelParams {
            target: self.target.0.as_nanos() as u64,
            interval: self.interval.0.as_nanos() as u64,
            ecn: self.ecn,
            ..qos::CodelParams::default()
        };
        let leaf = qos::FqParams { codel, quantum: 1514, flows: class.flows, limit: class.limit };
        let parent = Some(class.parent.map_or(0, |parent| self.index(parent)));
        let node = qos::Node { rates: self.rates(class), parent, priority: class.priority, quantum: 1514 };
        qos::ClassConfig { node, leaf: (!self.is_inner(class)).then_some(leaf) }
    }

    /// Index of a class; the root is 0.
    fn index(&self, queue: u8) -> u8 {
        self.classes.iter().position(|class| class.queue == queue).map_or(0, |at| at as u8 + 1)
    }

    /// Counters of the classes, in their order; `None` if the port is not open. Inner classes have no counters.
    pub(crate) fn counts(&self) -> Option<Vec<Option<qos::ClassCounts>>> {
        let classes = self.running()?.classes();
        Some(classes.into_iter().skip(1).map(|(_, counts)| counts).collect())
    }

    /// The running classes without children; none if the port is not open.
    pub(crate) fn live(&self) -> Vec<LiveQueue> {
        let running = self.running().map(|shaper| shaper.classes()).unwrap_or_default();
        let Some(((port, _), running)) = running.split_first() else { return Vec::new() };
        let live = |(class, (rates, counts)): (&ClassSettings, &(_, Option<_>))| {
            Some(LiveQueue { queue: class.queue, rates: *rates, counts: (*counts)?, port: port.rate })
        };
        self.classes.iter().zip(running).filter_map(live).collect()
    }

    /// Changes the rates of class `at` in these settings and in the running port.
    pub(crate) fn set(&mut self, at: usize, rate: BitRate, ceil: Option<BitRate>) -> Result<(), String> {
        let mut changed = self.clone();
        (changed.classes[at].rate, changed.classes[at].ceil) = (rate, ceil);
        changed.check()?;
        if let Some(shaper) = self.running() {
            shaper.set_rates(at + 1, changed.rates(&changed.classes[at]));
        }
        *self = changed;
        Ok(())
    }

    fn running(&self) -> Option<Arc<qos::Shaper>> {
        self.live.0.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }
}

fn rates(rate: BitRate, ceil: BitRate) -> qos::ClassRates {
    let burst = |rate: BitRate| rate.bytes_in(BURST_TIME, LEAST_BURST);
    qos::ClassRates { rate: rate.0, ceil: ceil.0, burst: burst(rate), ceil_burst: burst(ceil) }
}

impl fmt::Display for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sends {} in {} classes", self.rate, self.classes.len())
    }
}
