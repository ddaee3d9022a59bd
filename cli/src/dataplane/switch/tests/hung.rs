//! Removal of a port while a worker hangs in one of its queues.

use super::{port, switch};
use crate::dataplane::health::{Progress, STALL};
use crate::dataplane::interface::{DataPlane, DataPlaneError};
use crate::dataplane::switch::{Member, Switch};
use ::port::{Attach, Burst, BurstStats, PortControl, PortFault, PortId, PortState, PortStatus, RxQueue};
use port::BufId;
use rustix::fd::BorrowedFd;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Far above the duration of every step here, so that a hang fails the test.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A queue whose poll blocks until the other end of `free` is dropped.
struct Trap {
    entered: Sender<()>,
    free: Receiver<()>,
}

impl RxQueue for Trap {
    fn prefetch(&self) {}

    fn rx(&mut self, _burst: &mut Burst, _stats: &mut BurstStats) -> Result<(), PortFault> {
        // The receiver has been dropped if the test has failed.
        let _ = self.entered.send(());
        let _ = self.free.recv();
        Ok(())
    }

    fn complete(&mut self, _: &[BufId]) {}

    fn notify(&mut self) {}

    fn enable_notification(&mut self) -> Result<bool, PortFault> {
        Ok(true)
    }

    fn disable_notification(&mut self) {}

    fn kick_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }
}

/// A port whose only queue is a [`Trap`].
struct Trapped(Option<Trap>);

impl PortControl for Trapped {
    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn handle(&mut self, _now: Instant, engine: &mut dyn Attach) {
        if let Some(trap) = self.0.take() {
            engine.start_rx(0, Box::new(trap));
        }
    }

    fn fault(&mut self, _now: Instant, _fault: PortFault, _engine: &mut dyn Attach) {}

    fn close(&mut self, engine: &mut dyn Attach) {
        drop(engine.stop_rx(0));
    }

    fn status(&self) -> PortStatus {
        PortStatus {
            state: PortState::Connected,
            kind: "trap",
            place: String::new(),
            features: Vec::new(),
            queues: Vec::new(),
            connects: 0,
            memory: (0, 0),
        }
    }
}

/// Adds the port "a" with a trap, and waits until a worker hangs in it. Returns the port's number and the sender
/// whose drop releases the worker.
fn trap(switch: &Switch, dir: &Path) -> (PortId, Sender<()>) {
    let ((entered, inside), (shut, free)) = (channel(), channel());
    let control = Trapped(Some(Trap { entered, free }));
    let id = switch.plug_in(&port(dir, "a", None), Box::new(control)).unwrap();
    switch.members().push(Member { id, name: "a".to_owned(), bridge: "main".to_owned(), queues: None });
    inside.recv_timeout(TIMEOUT).unwrap();
    switch.engine.set_response_limit(Duration::from_millis(300));
    (id, shut)
}

fn number(switch: &Switch, name: &str) -> Option<u16> {
    switch.snapshot().ports.iter().find(|port| port.name == name).map(|port| port.id)
}

/// Adds and removes the port "b" until it gets the number `id`.
fn add_under(switch: &Switch, dir: &Path, id: PortId) {
    let until = Instant::now() + TIMEOUT;
    loop {
        switch.add_port(&port(dir, "b", None), None).unwrap();
        if number(switch, "b") == Some(id.0) {
            return;
        }
        switch.remove_port("b").unwrap();
        assert!(Instant::now() < until, "the number of a removed port is never free again");
    }
}

#[test]
fn a_worker_that_stays_in_a_queue_hangs() {
    let dir = tempfile::tempdir().unwrap();
    let switch = switch(Vec::new(), Vec::new()).unwrap();
    let (id, shut) = trap(&switch, dir.path());
    let (mut progress, now) = (Progress::default(), Instant::now());
    assert!(progress.observe(&switch.snapshot().workers, now).hung_workers.is_empty());
    let hung = progress.observe(&switch.snapshot().workers, now + STALL).hung_workers;
    assert_eq!(hung.iter().map(|worker| worker.worker).collect::<Vec<_>>(), [0]);
    let step = switch.snapshot().workers.remove(0).current_step.unwrap();
    assert_eq!((step.name.as_str(), step.port), ("receive", Some(id.0)));
    drop(shut);
}

#[test]
fn number_of_a_port_of_a_hung_worker_is_not_reused() {
    let dir = tempfile::tempdir().unwrap();
    let switch = switch(Vec::new(), Vec::new()).unwrap();
    let (id, shut) = trap(&switch, dir.path());
    assert_eq!(switch.remove_port("a"), Err(DataPlaneError::held("a", 0)));
    assert_eq!(number(&switch, "a"), None);
    let again = switch.remove_port("a");
    assert!(matches!(again, Err(DataPlaneError::Refused(_))), "{again:?}");
    // The name can be reused, the number cannot.
    switch.add_port(&port(dir.path(), "a", None), None).unwrap();
    assert_ne!(number(&switch, "a"), Some(id.0));
    switch.remove_port("a").unwrap();
    switch.engine.set_response_limit(TIMEOUT);
    drop(shut);
    add_under(&switch, dir.path(), id);
    assert!(switch.remove_port("a").is_err());
    assert_eq!(number(&switch, "b"), Some(id.0));
    assert!(dir.path().join("b").exists());
}
