//! Events of a port as log lines: added, waiting and why, connected, running with which features, disconnected, stopped
//! and why, removed, a capture that ended.
//!
//! [`Logged`] compares a port's status before and after each call of the control thread, so a port kind needs no code
//! for its log, and workers never write. A port that changes often writes only some lines ([`LogLimit`]), and its last
//! state.

use super::log_limit::LogLimit;
use port::handover::{HandOver, NotHandedOver};
use port::{Attach, PortControl, PortDetails, PortFault, PortState, PortStatus};
use rustix::fd::BorrowedFd;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// How often the details of a port that has some are compared: a capture ends without a call of the control thread.
const DETAILS: Duration = Duration::from_secs(1);
/// How the names of details end that say why something ended.
const ENDED: &str = "_ended";

/// A port that writes its events.
pub(super) struct Logged {
    name: String,
    port: Box<dyn PortControl>,
    seen: Seen,
    /// State of the last line.
    written: Seen,
    /// When a change that was left out is written, unless another one follows.
    due: Option<Instant>,
    /// The ends that were written.
    ended: Vec<&'static str>,
    /// When the details were compared; `None` if the port has none.
    compared: Option<Instant>,
    limit: LogLimit,
}

/// Part of a status whose change is an event.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// No peer, with the reason if it is known.
    Waiting(Option<PortFault>),
    Connected,
    /// Packets pass.
    Running,
    Stopped(PortFault),
    Closed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    phase: Phase,
    connects: u64,
}

impl Seen {
    fn of(status: &PortStatus) -> Self {
        let phase = match &status.state {
            PortState::Waiting(reason) => Phase::Waiting(reason.clone()),
            PortState::Connected
                if status.queues.iter().any(|queue| queue.rx_running || queue.tx_running) =>
            {
                Phase::Running
            }
            PortState::Connected => Phase::Connected,
            PortState::Faulted(fault) | PortState::Ended(fault) => Phase::Stopped(fault.clone()),
            PortState::Closed => Phase::Closed,
        };
        Self { phase, connects: status.connects }
    }
}

impl Logged {
    /// The port called `name`, which has just been added.
    pub(super) fn new(name: &str, port: Box<dyn PortControl>) -> Self {
        let compared = (!port.details().is_empty()).then(Instant::now);
        let seen = Seen { phase: Phase::Waiting(None), connects: 0 };
        let PortStatus { kind, place, .. } = port.status();
        info!(port = name, kind, place, "added");
        let (name, written, limit) = (name.to_owned(), seen.clone(), LogLimit::default());
        Self { name, port, seen, written, due: None, ended: Vec::new(), compared, limit }
    }

    fn compare(&mut self, now: Instant) {
        let status = self.port.status();
        let seen = Seen::of(&status);
        let has_changed = std::mem::replace(&mut self.seen, seen) != self.seen;
        if has_changed || self.due.is_some_and(|due| now >= due) {
            self.write(&status, has_changed, now);
        }
        if self.compared.is_some_and(|at| now >= at + DETAILS) {
            self.compared = Some(now);
            self.compare_details();
        }
    }

    /// Writes the present state, or leaves it out for now.
    fn write(&mut self, status: &PortStatus, has_changed: bool, now: Instant) {
        let Some(left_out) = self.limit.admit(now) else {
            self.due = Some(self.limit.next(now));
            return;
        };
        self.due = None;
        // A change that was left out is written after all.
        let left_out = left_out.saturating_sub(u64::from(!has_changed));
        write(&self.name, &self.written, &self.seen, status, left_out);
        self.written = self.seen.clone();
    }

    /// Writes each end of a capture or trace once.
    fn compare_details(&mut self) {
        for (detail, reason) in self.port.details() {
            let Some(what) = detail.name().strip_suffix(ENDED) else { continue };
            if !self.ended.contains(&what) {
                self.ended.push(what);
                warn!(port = self.name, reason, "{what} ended");
            }
        }
    }
}

fn write(port: &str, before: &Seen, seen: &Seen, status: &PortStatus, left_out: u64) {
    let left_out = (left_out > 0).then_some(left_out);
    match &seen.phase {
        Phase::Waiting(reason) => {
            let has_connected = seen.connects != before.connects;
            write_waiting(port, &before.phase, has_connected, reason.as_ref(), left_out);
        }
        Phase::Connected if before.phase == Phase::Running && before.connects == seen.connects => {
            info!(port, left_out, "queues stopped");
        }
        Phase::Connected => info!(port, left_out, "connected"),
        Phase::Running => {
            let features = (!status.features.is_empty()).then(|| status.features.join(" "));
            let queues = status.queues.len();
            info!(port, left_out, queues, features, "running");
        }
        Phase::Stopped(fault) => warn!(port, left_out, reason = %fault, "stopped"),
        Phase::Closed => info!(port, left_out, "removed"),
    }
}

/// Writes why a port waits. `has_connected`: a peer connected and disconnected since the last line.
fn write_waiting(
    port: &str,
    before: &Phase,
    has_connected: bool,
    reason: Option<&PortFault>,
    left_out: Option<u64>,
) {
    match (reason, before) {
        (None | Some(PortFault::Disconnected(_)), Phase::Waiting(_)) if has_connected => {
            info!(port, left_out, "the peer left before it was ready");
        }
        (Some(reason @ PortFault::Disconnected(_)), _) => info!(port, left_out, %reason, "disconnected"),
        (Some(reason), _) => warn!(port, left_out, %reason, "waiting"),
        (None, Phase::Waiting(_) | Phase::Stopped(_)) => info!(port, left_out, "waiting for a peer"),
        (None, _) => info!(port, left_out, "disconnected"),
    }
}

impl PortControl for Logged {
    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.port.poll_fd()
    }

    fn deadline(&self) -> Option<Instant> {
        let own = self.due.into_iter().chain(self.compared.map(|at| at + DETAILS));
        own.chain(self.port.deadline()).min()
    }

    fn handle(&mut self, now: Instant, engine: &mut dyn Attach) {
        self.port.handle(now, engine);
        self.compare(now);
    }

    fn fault(&mut self, now: Instant, fault: PortFault, engine: &mut dyn Attach) {
        self.port.fault(now, fault, engine);
        self.compare(now);
    }

    fn close(&mut self, engine: &mut dyn Attach) {
        self.port.close(engine);
        let status = self.port.status();
        write(
            &self.name,
            &self.written,
            &Seen { phase: Phase::Closed, connects: status.connects },
            &status,
            0,
        );
    }

    fn as_handover(&mut self) -> Result<&mut dyn HandOver, NotHandedOver> {
        self.port.as_handover()
    }

    fn status(&self) -> PortStatus {
        self.port.status()
    }

    fn details(&self) -> PortDetails {
        self.port.details()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::{PortDetail, QueueStatus};
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    fn status(state: PortState, running: bool) -> PortStatus {
        PortStatus {
            state,
            kind: "null",
            place: String::new(),
            features: vec![],
            queues: vec![QueueStatus { size: 1, rx_running: running, tx_running: false }],
            connects: 0,
            memory: (0, 0),
        }
    }

    #[test]
    fn a_port_is_running_once_a_queue_is() {
        let phase = |state, running| Seen::of(&status(state, running)).phase;
        assert_eq!(phase(PortState::Connected, false), Phase::Connected);
        assert_eq!(phase(PortState::Connected, true), Phase::Running);
        assert_eq!(phase(PortState::Waiting(None), true), Phase::Waiting(None));
        let down = Some(PortFault::InterfaceDown("eth0".to_owned()));
        assert_eq!(phase(PortState::Waiting(down.clone()), true), Phase::Waiting(down));
        assert_eq!(
            phase(PortState::Faulted(PortFault::MemoryLost), false),
            Phase::Stopped(PortFault::MemoryLost)
        );
    }

    /// A port whose state the test sets, and whose capture has ended.
    struct Scripted(Arc<Mutex<PortStatus>>);

    impl PortControl for Scripted {
        fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
            None
        }

        fn deadline(&self) -> Option<Instant> {
            None
        }

        fn handle(&mut self, _: Instant, _: &mut dyn Attach) {}

        fn fault(&mut self, _: Instant, _: PortFault, _: &mut dyn Attach) {}

        fn close(&mut self, _: &mut dyn Attach) {}

        fn status(&self) -> PortStatus {
            self.0.lock().unwrap().clone()
        }

        fn details(&self) -> PortDetails {
            vec![(PortDetail::Captured, "7".to_owned()), (PortDetail::CaptureEnded, "disk full".to_owned())]
        }
    }

    /// Destination of the log lines of a test.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Lines of a port that passes through `states`, each with its number of connections.
    fn lines_of(states: &[(PortState, u64)]) -> Vec<String> {
        lines_of_calls(|port, shared| {
            for (state, connects) in states {
                *shared.lock().unwrap() = PortStatus { connects: *connects, ..status(state.clone(), false) };
                port.compare(Instant::now());
            }
        })
    }

    fn lines_of_calls(calls: impl FnOnce(&mut Logged, &Mutex<PortStatus>)) -> Vec<String> {
        let (lines, shared) =
            (Lines::default(), Arc::new(Mutex::new(status(PortState::Waiting(None), false))));
        let to = lines.clone();
        let log = tracing_subscriber::fmt().with_writer(move || to.clone()).without_time().with_ansi(false);
        tracing::subscriber::with_default(log.with_target(false).finish(), || {
            let mut port = Logged::new("red", Box::new(Scripted(shared.clone())));
            calls(&mut port, &shared);
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| line.trim().replace(" port=\"red\"", "")).collect()
    }

    #[test]
    fn unchanged_waiting_reason_is_logged_once() {
        let waiting = |reason| PortState::Waiting(Some(reason));
        let absent = || waiting(PortFault::Unreachable("No such file".to_owned()));
        let refused = || waiting(PortFault::Unreachable("refused".to_owned()));
        let left = || waiting(PortFault::Disconnected("peer"));
        let states = [(absent(), 0), (absent(), 0), (refused(), 0), (PortState::Connected, 1), (left(), 1)];
        let expected = [
            "INFO added kind=\"null\" place=\"\"",
            "WARN waiting reason=the peer is not reachable yet: No such file",
            "WARN waiting reason=the peer is not reachable yet: refused",
            "INFO connected",
            "INFO disconnected reason=peer disconnected",
        ];
        assert_eq!(lines_of(&states), expected);
        assert_eq!(lines_of(&[(left(), 1)])[1], "INFO the peer left before it was ready");
        // A port that is a socket of an interface without a carrier has connected to it.
        let down = lines_of(&[(waiting(PortFault::InterfaceDown("eth0".to_owned())), 1)]);
        assert_eq!(down[1], "WARN waiting reason=interface eth0 is down");
        let stopped = (PortState::Faulted(PortFault::MemoryLost), 0);
        let lines = lines_of(&[stopped, (PortState::Waiting(None), 0)]);
        assert_eq!(lines[2], "INFO waiting for a peer");
    }

    #[test]
    fn the_end_of_a_capture_is_logged_once() {
        let now = Instant::now();
        let lines = lines_of_calls(|port, _| (1..5).for_each(|n| port.compare(now + n * DETAILS)));
        assert_eq!(lines[1..], ["WARN capture ended reason=\"disk full\""]);
    }

    #[test]
    fn the_last_state_of_a_storm_is_logged() {
        let start = Instant::now();
        let lines = lines_of_calls(|port, shared| {
            for connects in 1..=100 {
                let state = if connects == 100 { PortState::Connected } else { PortState::Waiting(None) };
                *shared.lock().unwrap() = PortStatus { connects, ..status(state, false) };
                port.compare(start);
            }
            let due = port.due.unwrap();
            assert_eq!(port.deadline(), Some(due));
            port.compare(due);
            port.compare(due + Duration::from_secs(1));
        });
        let storm = "INFO the peer left before it was ready";
        assert_eq!(lines[1..11], [storm; 10]);
        assert_eq!(lines[11..], ["INFO connected left_out=89", "WARN capture ended reason=\"disk full\""]);
    }

    #[test]
    fn a_port_whose_queues_stop_has_not_connected_again() {
        let lines = lines_of_calls(|port, shared| {
            for running in [false, true, false] {
                *shared.lock().unwrap() = PortStatus { connects: 1, ..status(PortState::Connected, running) };
                port.compare(Instant::now());
            }
        });
        assert_eq!(lines[1..], ["INFO connected", "INFO running queues=1", "INFO queues stopped"]);
    }
}
