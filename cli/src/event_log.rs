//! The last events of a running switch, numbered: what the log has at level `info` and above, with the same fields.
//!
//! [`Recorder`] is a layer of the log, so an event is made where it is logged and nowhere else. Events are independent
//! of the level of the log, and workers make none. The ring is bounded in events, fields and bytes of a field, because
//! peers cause most events.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, SystemTime};
use tokio::sync::Notify;
use tracing::field::{Field, Visit};
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use utoipa::ToSchema;

/// Maximum number of events.
const MOST: usize = 1024;
/// Maximum number of characters of a field.
const LONGEST: usize = 400;
/// Fields that are left out: the URL of the web page may have its token, and the others are long.
const LEFT_OUT: [&str; 5] = ["web", "topology", "backtrace", "counters", "events"];
/// Fields that name the subject of an event, the most specific first.
const SUBJECTS: [&str; 7] = ["controller", "collector", "port", "bond", "worker", "bridge", "grant"];

/// An event, with the fields of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Event {
    /// Number, from 1 at the start of the switch, without gaps.
    pub(crate) number: u64,
    /// Time: RFC 3339, UTC, in microseconds.
    pub(crate) timestamp: String,
    /// `INFO`, `WARN` or `ERROR`.
    pub(crate) level: String,
    /// The object that it is about, such as `port red`; null if it is about the switch.
    pub(crate) subject: Option<String>,
    /// What happened.
    pub(crate) message: String,
    /// Further fields, such as `port` and `reason`.
    #[serde(flatten)]
    pub(crate) fields: BTreeMap<String, Value>,
}

/// `GET /v1/events`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct EventsReport {
    /// Start of the process that has numbered the events, in microseconds since 1970. With another one, numbers begin
    /// at 1 again. 0: an earlier version, which does not tell.
    #[serde(default)]
    pub(crate) start: u64,
    /// Number of the last event of the switch; 0 if there is none.
    pub(crate) last: u64,
    /// Number of wanted events before the first one that are no longer kept, or are beyond the limit.
    pub(crate) lost: u64,
    /// Events, oldest first.
    pub(crate) events: Vec<Event>,
}

#[derive(Debug, Default)]
struct Ring {
    events: VecDeque<Event>,
    last: u64,
    has_ended: bool,
}

/// The last events.
#[derive(Debug)]
pub(crate) struct EventLog {
    start: u64,
    ring: Mutex<Ring>,
    added: Notify,
}

impl Default for EventLog {
    fn default() -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { start: since.as_micros() as u64, ring: Mutex::default(), added: Notify::default() }
    }
}

impl EventLog {
    /// A poisoned lock is valid: the ring changes in one step.
    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, mut event: Event) {
        let mut ring = self.ring();
        ring.last += 1;
        event.number = ring.last;
        if ring.events.len() == MOST {
            ring.events.pop_front();
        }
        ring.events.push_back(event);
        drop(ring);
        self.added.notify_waiters();
    }

    /// The number after which a client wants events, if it knows `after` of the process that began at `start`; 0 for
    /// another process, all of whose events the client has not seen.
    pub(crate) fn resume(&self, after: u64, start: Option<u64>) -> u64 {
        if start.is_some_and(|start| start != self.start) { 0 } else { after }
    }

    /// At most the last `limit` events after number `after`. A number that was not reached means all.
    pub(crate) fn after(&self, after: u64, limit: usize) -> EventsReport {
        let ring = self.ring();
        let after = if after > ring.last { 0 } else { after };
        let wanted = (ring.last - after) as usize;
        let count = wanted.min(limit).min(ring.events.len());
        let events = ring.events.range(ring.events.len() - count..).cloned().collect();
        EventsReport { start: self.start, last: ring.last, lost: (wanted - count) as u64, events }
    }

    /// The last `n` events, a line each; empty while the log is locked, perhaps by the thread that asks.
    pub(crate) fn last(&self, n: usize) -> String {
        let Some(ring) = free(&self.ring) else { return String::new() };
        let lines = ring.events.range(ring.events.len().saturating_sub(n)..).map(line);
        lines.collect::<Vec<_>>().join("\n")
    }

    /// [`EventLog::after`], once there is an event or `wait` is over.
    pub(crate) async fn wait_after(&self, after: u64, limit: usize, wait: Duration) -> EventsReport {
        let waiting = async {
            loop {
                let added = self.added.notified();
                let (last, has_ended) = {
                    let ring = self.ring();
                    (ring.last, ring.has_ended)
                };
                if last != after || has_ended {
                    return;
                }
                added.await;
            }
        };
        // A report without events is the answer after the time.
        let _ = tokio::time::timeout(wait, waiting).await;
        self.after(after, limit)
    }

    /// Ends all waits: the switch ends.
    pub(crate) fn end(&self) {
        self.ring().has_ended = true;
        self.added.notify_waiters();
    }
}

/// Records the events of the log.
pub(crate) struct Recorder(pub(crate) Arc<EventLog>);

impl Recorder {
    /// Whether an event with this origin is recorded.
    pub(crate) fn records(metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::INFO && metadata.target().starts_with("linerate")
    }
}

impl<S: Subscriber> Layer<S> for Recorder {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let Fields { message, map: fields } = fields;
        self.0.push(Event {
            number: 0,
            timestamp: humantime::format_rfc3339_micros(SystemTime::now()).to_string(),
            level: event.metadata().level().to_string(),
            subject: SUBJECTS.iter().find_map(|name| Some(format!("{name} {}", plain(fields.get(*name)?)))),
            message,
            fields,
        });
    }
}

/// The lock, if no thread holds it. A poisoned one is valid.
pub(crate) fn free<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

fn line(event: &Event) -> String {
    let Event { timestamp, level, message, fields, .. } = event;
    let fields = serde_json::to_string(fields).unwrap_or_default();
    format!("{timestamp} {level} {message} {fields}")
}

/// A value without quotes.
pub(crate) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[derive(Default)]
struct Fields {
    message: String,
    map: BTreeMap<String, Value>,
}

impl Fields {
    fn add(&mut self, field: &Field, value: Value) {
        if !LEFT_OUT.contains(&field.name()) {
            self.map.insert(field.name().to_owned(), value);
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let text: String = value.chars().take(LONGEST).collect();
        if field.name() == "message" {
            self.message = text;
        } else {
            self.add(field, text.into());
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }
}

/// The events of this thread during `log`.
#[cfg(test)]
pub(crate) fn recorded(log: impl FnOnce()) -> Arc<EventLog> {
    use tracing_subscriber::prelude::*;
    let events = Arc::<EventLog>::default();
    let layer =
        Recorder(events.clone()).with_filter(tracing_subscriber::filter::filter_fn(Recorder::records));
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), log);
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::{debug, info, warn};

    #[test]
    fn an_event_has_the_fields_of_the_log_and_no_secret() {
        let events = recorded(|| {
            debug!("not an event");
            info!(target: "hyper", "neither");
            let reason = Some("x".repeat(LONGEST + 1));
            warn!(port = "red", bridge = "lan", queues = 2, reason, "stopped");
            info!(web = "http://127.0.0.1/#token=secret", "running");
        });
        let EventsReport { last, lost, events, .. } = events.after(0, 10);
        assert_eq!((last, lost, events.len()), (2, 0, 2));
        let event = serde_json::to_value(&events[0]).unwrap();
        assert_eq!(
            (&event["number"], &event["level"], &event["message"]),
            (&1.into(), &"WARN".into(), &"stopped".into())
        );
        assert_eq!((&event["subject"], &event["queues"]), (&"port red".into(), &2.into()));
        assert_eq!(event["reason"].as_str().map(str::len), Some(LONGEST));
        assert!(events[1].subject.is_none() && events[1].fields.is_empty(), "{:?}", events[1]);
    }

    #[test]
    fn old_events_are_counted_as_lost() {
        let events = recorded(|| (0..MOST + 10).for_each(|number| info!(number, "event")));
        let all = events.after(0, usize::MAX);
        assert_eq!((all.last, all.lost, all.events.len()), (MOST as u64 + 10, 10, MOST));
        assert_eq!((all.events[0].number, all.events[MOST - 1].number), (11, all.last));
        let some = events.after(all.last - 5, 3);
        assert_eq!((some.lost, some.events[0].number), (2, all.last - 2));
        assert!(events.after(all.last, 9).events.is_empty());
        assert_eq!(events.after(all.last + 1, 9).events.len(), 9, "the number is of an earlier switch");
    }

    #[test]
    fn numbers_of_another_process_mean_all_events() {
        let events = recorded(|| (0..5).for_each(|number| info!(number, "event")));
        let start = events.after(0, 1).start;
        let numbers = |after, start| {
            let report = events.after(events.resume(after, start), 9);
            (report.lost, report.events.iter().map(|event| event.number).collect::<Vec<_>>())
        };
        assert_eq!(numbers(3, Some(start)), (0, vec![4, 5]));
        assert_eq!(numbers(3, None), (0, vec![4, 5]));
        // The earlier process had as many events as this one has now, or fewer.
        assert_eq!(numbers(5, Some(start - 1)), (0, vec![1, 2, 3, 4, 5]));
        assert_eq!(numbers(3, Some(start - 1)), (0, vec![1, 2, 3, 4, 5]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_with_an_event_with_the_time_or_with_the_switch() {
        let events = recorded(|| info!("first"));
        let wait = Duration::from_secs(9);
        assert_eq!(events.wait_after(0, 9, wait).await.events.len(), 1);
        let start = tokio::time::Instant::now();
        assert!(events.wait_after(1, 9, wait).await.events.is_empty() && start.elapsed() == wait);
        let (found, ()) = tokio::join!(events.wait_after(1, 9, wait), async {
            tokio::task::yield_now().await;
            let own = events.after(0, 9).events[0].clone();
            events.push(own);
        });
        assert_eq!((found.events[0].number, start.elapsed()), (2, wait));
        events.end();
        assert!(events.wait_after(2, 9, wait).await.events.is_empty() && start.elapsed() == wait);
    }
}
