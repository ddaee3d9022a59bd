//! The supervisor of the process: systemd is told when the switch runs, when it ends, and that it does its work.
//!
//! A thread looks at the workers every second, or twice in the interval of systemd's watchdog if that is shorter
//! (`WatchdogSec`). Only while none hangs, the watchdog is told so; otherwise systemd ends the process and starts it
//! again. A worker that hangs is also logged, once, and so is its end, and changes of members of bonds. The same
//! thread takes the samples of the history of rates, and the counters for the report of a panic. Without a supervisor,
//! notices go nowhere.

use super::crash::Crash;
use crate::api::service::ApiService;
use crate::dataplane::health::HealthReport;
use sd_notify::NotifyState;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tracing::{error, info};

/// Longest interval between two looks at the workers.
const INTERVAL: Duration = Duration::from_secs(1);

/// The running thread. Ends it when dropped, and tells that the switch ends if it was ready.
pub(crate) struct Supervision {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    is_ready: bool,
}

impl Supervision {
    /// Begins to look at the workers.
    pub(crate) fn start(service: Arc<ApiService>, crash: Arc<Crash>) -> std::io::Result<Self> {
        let (stop, stopped) = channel::<()>();
        let watchdog = sd_notify::watchdog_enabled();
        let interval = watchdog.map_or(INTERVAL, |limit| INTERVAL.min(limit / 2));
        let watch = move || {
            let mut hung = BTreeSet::new();
            loop {
                let now = service.snapshot();
                let health = service.observe_health(&now);
                if let Some(sign) = sign_of_life(&health, watchdog) {
                    notify(sign);
                }
                hung = tell(&health, &hung);
                service.observe_bonds();
                service.observe_rates(&now);
                crash.observe(now);
                if stopped.recv_timeout(interval) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("watchdog".to_owned()).spawn(watch)?;
        Ok(Self { stop: Some(stop), thread: Some(thread), is_ready: false })
    }

    /// Tells that the switch runs.
    pub(super) fn ready(&mut self) {
        self.is_ready = true;
        ready();
    }
}

impl Supervision {
    /// Ends the thread. The supervisor is told that another process runs the switch.
    pub(super) fn leave(mut self, successor: u32) {
        notify(NotifyState::MainPid(successor));
        self.end();
    }

    fn end(&mut self) {
        drop(self.stop.take());
        // A panic of the thread was printed already.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Drop for Supervision {
    fn drop(&mut self) {
        if self.thread.is_some() {
            if self.is_ready {
                notify(NotifyState::Stopping);
            }
            self.end();
        }
    }
}

/// What systemd's watchdog is told, if there is one: nothing while a worker hangs.
fn sign_of_life(health: &HealthReport, watchdog: Option<Duration>) -> Option<NotifyState<'static>> {
    watchdog.filter(|_| health.hung_workers.is_empty()).map(|_| NotifyState::Watchdog)
}

/// Logs changes since the workers `before` hung. Returns the workers that hang.
fn tell(health: &HealthReport, before: &BTreeSet<usize>) -> BTreeSet<usize> {
    for hung in health.hung_workers.iter().filter(|hung| !before.contains(&hung.worker)) {
        error!(worker = hung.worker, cpu = ?hung.cpu, seconds = hung.seconds, step = hung.step, "a worker hangs");
    }
    let now: BTreeSet<_> = health.hung_workers.iter().map(|hung| hung.worker).collect();
    before.difference(&now).for_each(|worker| info!(worker, "the worker works again"));
    now
}

/// Tells that the configuration is about to change (the notice of `Type=notify-reload`).
pub(super) fn reloading() {
    let now = NotifyState::monotonic_usec_now();
    let _ = now.map(|now| sd_notify::notify(&[NotifyState::Reloading, now]));
}

/// Tells that the switch runs.
pub(super) fn ready() {
    notify(NotifyState::Ready);
}

/// A supervisor that is gone cannot be told anything.
fn notify(state: NotifyState<'_>) {
    let _ = sd_notify::notify(&[state]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::health::HungWorker;

    #[test]
    fn the_watchdog_hears_nothing_while_a_worker_hangs() {
        let (well, hung) =
            (HealthReport::default(), HealthReport { hung_workers: vec![HungWorker::default()] });
        assert!(sign_of_life(&well, Some(INTERVAL)).is_some());
        assert!(sign_of_life(&hung, Some(INTERVAL)).is_none());
        assert!(sign_of_life(&well, None).is_none());
    }
}
