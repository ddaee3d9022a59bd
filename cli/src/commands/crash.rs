//! The report of a thread that panics, in the log: place, reason, backtrace, the last events and the counters of a
//! moment before; and the line about a signal that ends the process, which `confine` writes. They have nothing of a
//! packet.
//!
//! A panic may come while its thread holds any lock, so nothing here waits for one: what is locked is left out.

use crate::event_log::{EventLog, free};
use crate::log::LogFormat;
use engine::Snapshot;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::PanicHookInfo;
use std::sync::{Arc, Mutex};
use tracing::{error, warn};

/// Events in a report.
const EVENTS: usize = 20;

/// What is known before a thread panics.
#[derive(Debug, Default)]
pub(crate) struct Crash {
    events: Arc<EventLog>,
    counters: Mutex<Snapshot>,
}

impl Crash {
    pub(crate) fn new(events: Arc<EventLog>) -> Arc<Self> {
        Arc::new(Self { events, counters: Mutex::default() })
    }

    /// Has each panic logged, in addition to the text on standard error, so that the journal has one entry. Signals
    /// that end the process are reported in the form of the log.
    pub(crate) fn report_crashes(self: &Arc<Self>, log: LogFormat) {
        if let Err(error) = confine::report_signals(env!("CARGO_PKG_VERSION"), log.line()) {
            warn!(%error, "signals that end the process are not reported");
        }
        let (print, crash) = (std::panic::take_hook(), self.clone());
        std::panic::set_hook(Box::new(move |panic| {
            crash.report(panic);
            print(panic);
        }));
    }

    /// Keeps the counters for a report.
    pub(crate) fn observe(&self, now: Snapshot) {
        confine::keep_counters(&totals(&now));
        if let Some(mut counters) = free(&self.counters) {
            *counters = now;
        }
    }

    fn report(&self, panic: &PanicHookInfo<'_>) {
        let thread = std::thread::current().name().unwrap_or("unnamed").to_owned();
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let backtrace = std::backtrace::Backtrace::force_capture();
        let version = env!("CARGO_PKG_VERSION");
        let counters = free(&self.counters).map(|counters| totals(&counters));
        let events = self.events.last(EVENTS);
        error!(
            thread, place, version, %backtrace, counters, events, reason = panic.payload_as_str(),
            "a thread panicked"
        );
    }
}

/// Counters of all ports together, as text.
fn totals(now: &Snapshot) -> String {
    let sum = |count: fn(&engine::PortSnapshot) -> u64| now.ports.iter().map(count).sum::<u64>();
    let (ports, received, sent) = (now.ports.len(), sum(|port| port.rx_packets), sum(|port| port.tx_packets));
    let mut text = format!("{ports} ports, {received} packets received, {sent} sent");
    let mut drops = BTreeMap::<&str, u64>::new();
    for (reason, n) in now.ports.iter().flat_map(|port| &port.drops) {
        *drops.entry(reason.as_str()).or_default() += n;
    }
    for (reason, n) in drops.into_iter().filter(|(_, n)| *n > 0) {
        let _ = write!(text, ", {n} dropped ({reason})");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_log::Recorder;
    use engine::PortSnapshot;
    use serde_json::Value;
    use std::panic::catch_unwind;
    use tracing::info;
    use tracing_subscriber::filter::filter_fn;
    use tracing_subscriber::fmt;
    use tracing_subscriber::prelude::*;

    /// What is logged, as JSON.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_panic_is_reported_with_the_last_events_and_counters() {
        let (events, written) = (Arc::<EventLog>::default(), Written::default());
        let output = written.clone();
        let json = fmt::layer().json().flatten_event(true).with_writer(move || output.clone());
        let recorder = Recorder(events.clone()).with_filter(filter_fn(Recorder::records));
        let crash = Crash::new(events.clone());
        let drops = [("queue-full".to_owned(), 2)].into();
        let port = PortSnapshot { rx_packets: 7, tx_packets: 5, drops, ..PortSnapshot::default() };
        crash.observe(Snapshot { ports: vec![port], ..Snapshot::default() });
        let before = std::panic::take_hook();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(recorder).with(json), || {
            for n in 0..30 {
                info!(port = "red", n, "connected");
            }
            let own = crash.clone();
            std::panic::set_hook(Box::new(move |panic| own.report(panic)));
            assert!(catch_unwind(|| panic!("no such queue")).is_err());
        });
        std::panic::set_hook(before);
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let report: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!(
            (report["message"].as_str(), report["reason"].as_str()),
            (Some("a thread panicked"), Some("no such queue"))
        );
        assert_eq!(report["counters"], "1 ports, 7 packets received, 5 sent, 2 dropped (queue-full)");
        let listed: Vec<&str> = report["events"].as_str().unwrap().lines().collect();
        assert!(
            listed.len() == EVENTS && listed[0].contains("\"n\":10") && listed[19].contains("\"n\":29"),
            "{listed:?}"
        );
        assert!(report["place"].as_str().unwrap().contains("crash.rs") && report["backtrace"].is_string());
        assert_eq!(events.after(30, 9).events[0].fields.get("events"), None);
    }
}
