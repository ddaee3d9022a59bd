//! Placeholder for a port that could not be created because its interface, namespace, socket address or a kernel
//! feature was missing. It reports the reason, retries with back-off, and then forwards to the created port.
//!
//! A port that has ended ([`PortState::Ended`]) is created again in the same way.
//!
//! Independent of port types: the caller provides the creation function. Permanent errors are retried forever, because
//! they cannot be distinguished. Blocks only in port creation; never reads a clock.

use crate::backoff::Backoff;
use crate::handover::{HandOver, NotHandedOver};
use crate::{Attach, PortControl, PortDetails, PortFault, PortState, PortStatus, RssTable};
use rustix::fd::BorrowedFd;
use std::fmt::Debug;
use std::time::Instant;

/// Creates the port, or returns the reason for failure. Called by the control thread; must not block.
pub type Make = Box<dyn FnMut() -> Result<Box<dyn PortControl>, String> + Send>;

/// A port that could not be created yet.
pub struct DeferredPort {
    kind: &'static str,
    place: String,
    make: Make,
    port: Option<Box<dyn PortControl>>,
    why: PortFault,
    /// Time of the next attempt; `None` before the first [`PortControl::handle`].
    due: Option<Instant>,
    backoff: Backoff,
    closed: bool,
}

impl Debug for DeferredPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeferredPort")
            .field("kind", &self.kind)
            .field("why", &self.why)
            .finish_non_exhaustive()
    }
}

impl DeferredPort {
    /// A port of type `kind` (as in the configuration file) at `place`, whose creation failed because of `why`.
    pub fn new(kind: &'static str, place: String, why: String, make: Make) -> Self {
        let (why, backoff) = (PortFault::NotMade(why), Backoff::default());
        Self { kind, place, make, port: None, why, due: None, backoff, closed: false }
    }

    /// Creates the port once the pause is over.
    fn try_again(&mut self, now: Instant) {
        if self.due.is_some_and(|at| now >= at) {
            match (self.make)() {
                Ok(port) => return self.port = Some(port),
                Err(why) => self.why = PortFault::NotMade(why),
            }
            self.due = None;
        }
        if self.due.is_none() {
            self.due = Some(self.backoff.begin(now));
        }
    }
}

impl DeferredPort {
    /// Closes a port that has ended. It is created again after a pause.
    fn drop_ended(&mut self, now: Instant, engine: &mut dyn Attach) {
        let Some(port) = &mut self.port else { return };
        if let PortState::Ended(fault) = port.status().state {
            port.close(engine);
            (self.port, self.why) = (None, fault);
            self.due = Some(self.backoff.begin(now));
        }
    }
}

impl PortControl for DeferredPort {
    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.port.as_ref().and_then(|port| port.poll_fd())
    }

    fn deadline(&self) -> Option<Instant> {
        self.port.as_ref().map_or(self.due.filter(|_| !self.closed), |port| port.deadline())
    }

    fn handle(&mut self, now: Instant, engine: &mut dyn Attach) {
        if self.port.is_none() && !self.closed {
            self.try_again(now);
        }
        if let Some(port) = &mut self.port {
            port.handle(now, engine);
        }
        self.drop_ended(now, engine);
    }

    fn fault(&mut self, now: Instant, fault: PortFault, engine: &mut dyn Attach) {
        if let Some(port) = &mut self.port {
            port.fault(now, fault, engine);
        }
        self.drop_ended(now, engine);
    }

    fn close(&mut self, engine: &mut dyn Attach) {
        self.closed = true;
        if let Some(port) = &mut self.port {
            port.close(engine);
        }
    }

    fn as_handover(&mut self) -> Result<&mut dyn HandOver, NotHandedOver> {
        self.port.as_mut().ok_or(NotHandedOver::NotMade)?.as_handover()
    }

    fn rss(&self) -> Option<RssTable> {
        self.port.as_ref().and_then(|port| port.rss())
    }

    fn status(&self) -> PortStatus {
        if let Some(port) = &self.port {
            return port.status();
        }
        PortStatus {
            state: if self.closed { PortState::Closed } else { PortState::Faulted(self.why.clone()) },
            kind: self.kind,
            place: self.place.clone(),
            features: Vec::new(),
            queues: Vec::new(),
            connects: 0,
            memory: (0, 0),
        }
    }

    fn details(&self) -> PortDetails {
        self.port.as_ref().map(|port| port.details()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backoff::MAX_PAUSE;
    use crate::null::Null;
    use crate::vhost_user::fake::FakeEngine;
    use crate::virtio_user::{Options, VirtioUser};
    use std::time::Duration;

    /// A null port whose creation succeeds on the `n`th attempt.
    fn from_try(n: u32) -> DeferredPort {
        let (now, mut tries) = (Instant::now(), 0);
        let make = move || -> Result<Box<dyn PortControl>, String> {
            tries += 1;
            if tries < n { Err(format!("try {tries}")) } else { Ok(Box::new(Null::new(now))) }
        };
        DeferredPort::new("null", "nowhere".into(), "try 0".into(), Box::new(make))
    }

    #[test]
    fn deferred_port_reports_its_last_reason_until_created() {
        let (mut now, mut engine, mut port) = (Instant::now(), FakeEngine::default(), from_try(3));
        let faulted = |text: &str| PortState::Faulted(PortFault::NotMade(text.into()));
        assert_eq!((port.status().state, port.status().place.as_str()), (faulted("try 0"), "nowhere"));
        port.handle(now, &mut engine);
        assert_eq!(port.status().state, faulted("try 0"), "not before the pause is over");
        for (expected, wait) in [("try 1", 100), ("try 2", 200)] {
            assert_eq!(port.deadline(), Some(now + Duration::from_millis(wait)));
            now = port.deadline().unwrap();
            port.handle(now, &mut engine);
            assert_eq!((port.status().state, port.poll_fd().is_none()), (faulted(expected), true));
        }
        port.handle(port.deadline().unwrap(), &mut engine);
        assert_eq!((port.status().state, engine.tx.len()), (PortState::Connected, 1));
        port.close(&mut engine);
        assert_eq!((port.status().state, engine.tx.len()), (PortState::Closed, 0));
    }

    #[test]
    fn ended_port_is_created_again() {
        let (mut now, mut engine, mut made) = (Instant::now(), FakeEngine::default(), 0);
        let make = move || -> Result<Box<dyn PortControl>, String> {
            made += 1;
            // The second connection lasts.
            let (socket, peer) = std::os::unix::net::UnixStream::pair().map_err(|e| e.to_string())?;
            socket.set_nonblocking(true).map_err(|e| e.to_string())?;
            if made == 2 {
                std::mem::forget(peer);
            }
            let port = VirtioUser::over(socket.into(), "switch".into(), Options::default(), now);
            Ok(Box::new(port.map_err(|e| e.to_string())?))
        };
        let mut port = DeferredPort::new("grant", "switch".into(), "not asked yet".into(), Box::new(make));
        port.handle(now, &mut engine);
        now = port.deadline().unwrap();
        port.handle(now, &mut engine);
        let ended = PortState::Faulted(crate::GrantEnd::Disconnected.into());
        assert_eq!(port.status().state, ended, "closed, and due again");
        now = port.deadline().unwrap();
        port.handle(now, &mut engine);
        assert_eq!(port.status().state, PortState::Connected);
    }

    #[test]
    fn deferred_port_backs_off_to_two_seconds_and_stops_when_closed() {
        let (mut now, mut engine, mut port) = (Instant::now(), FakeEngine::default(), from_try(u32::MAX));
        port.handle(now, &mut engine);
        let mut longest = Duration::ZERO;
        for _ in 0..20 {
            let at = port.deadline().unwrap();
            (longest, now) = (longest.max(at - now), at);
            port.handle(now, &mut engine);
        }
        assert_eq!(longest, MAX_PAUSE);
        port.close(&mut engine);
        assert_eq!((port.status().state, port.deadline()), (PortState::Closed, None));
        port.handle(now + MAX_PAUSE * 2, &mut engine);
        assert_eq!(port.status().state, PortState::Closed);
    }
}
