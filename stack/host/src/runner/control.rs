//! Control of a host's ports: connecting, loss and changes of addresses.

use super::{App, Host};
use crate::Buffer;
use crate::lease::SharedLease;
use stack::ip::InterfaceId;
use stack::{Stack, Time};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Interval of port control while polling, in nanoseconds.
const CONTROL_INTERVAL: u64 = 1_000_000;
/// Interval between two looks at ports that are not ready.
const CONNECT_INTERVAL: Duration = Duration::from_millis(2);

impl Host {
    /// The first port that carries no packets, with its state as text.
    pub fn not_ready(&self) -> Option<(&str, String)> {
        let port =
            self.ports.interfaces.iter().map(|interface| &interface.port).find(|port| !port.is_ready())?;
        Some((port.name(), port.state()))
    }

    /// State of the first port as text, if no port will ever carry packets again, such as one whose grant was revoked.
    pub fn ended(&self) -> Option<String> {
        let has_ended =
            !self.ports.interfaces.is_empty() && self.ports.interfaces.iter().all(|own| own.has_ended);
        let first = self.ports.interfaces.first().filter(|_| has_ended)?;
        Some(first.port.state())
    }

    /// Whether each port has a queue pair on this thread.
    pub(crate) fn has_pairs(&self) -> bool {
        self.ports.interfaces.iter().all(|interface| interface.port.has_pair())
    }

    /// Waits until all ports carry packets. Returns `false` if `stop` was set or all ports have ended before. The
    /// caller then runs the host or its control regularly, because peers of ports wait for answers to their requests.
    pub fn connect(&mut self, stop: &AtomicBool) -> bool {
        loop {
            self.control(self.clock.now());
            if self.not_ready().is_none() || stop.load(Ordering::Relaxed) || self.ended().is_some() {
                return self.not_ready().is_none();
            }
            std::thread::sleep(CONNECT_INTERVAL);
        }
    }

    /// Whether the ports' control is due.
    pub fn is_control_due(&self, now: Time) -> bool {
        now.0 - self.controlled.0 > CONTROL_INTERVAL
    }

    /// Runs the control of all ports, and answers a question of an [`crate::Inspector`].
    pub fn control(&mut self, now: Time) {
        self.controlled = now;
        let instant = Instant::now();
        for (number, interface) in (0..).map(InterfaceId).zip(&mut self.ports.interfaces) {
            interface.port.poll_control(instant);
            let ends = interface.ends();
            if ends {
                abort_connections(&mut self.stack, number);
            }
            if interface.update() | ends {
                let port = &interface.port;
                let state = if port.is_ready() { "connected".to_owned() } else { port.state() };
                self.is_port_lost |= !port.is_ready();
                (self.on_port)(&format!("port {}: {state}", port.name()));
            }
        }
        self.share_leases(now);
        if self.stack.take_address_change() {
            self.report_addresses();
        }
        self.meter.iter_mut().for_each(|meter| meter.tick(now));
        self.answer_question();
    }

    /// Passes a change of the lease of a shared port to the other workers, or takes over theirs.
    pub(super) fn share_leases(&mut self, now: Time) {
        let Self { ports, stack, clock, .. } = self;
        for (number, interface) in (0..).map(InterfaceId).zip(&mut ports.interfaces) {
            let Some(shared) = &mut interface.lease else { continue };
            if shared.is_follower() {
                shared.take_change(*clock, |lease| stack.set_lease(number, lease, now));
            } else {
                shared.publish(stack.lease(number), *clock);
            }
        }
    }

    /// Reports a port that stopped carrying packets since the last call. Sets `stop` if all ports have ended, after the
    /// events of their connections.
    pub(super) fn report_loss(&mut self, app: &mut impl App, stop: &AtomicBool) {
        if !std::mem::take(&mut self.is_port_lost) {
            return;
        }
        if let Some((name, state)) = self.not_ready() {
            app.port_lost(name, &state);
        }
        if self.ended().is_some() {
            let now = self.clock.now();
            while let Some(event) = self.stack.poll_event() {
                app.event(&mut self.stack, event, now);
            }
            stop.store(true, Ordering::Relaxed);
        }
    }

    /// The workers of a port have the same addresses, which the first one reports.
    #[cold]
    fn report_addresses(&self) {
        for (number, interface) in (0..).map(InterfaceId).zip(&self.ports.interfaces) {
            if interface.lease.as_ref().is_some_and(SharedLease::is_follower) {
                continue;
            }
            let addresses: Vec<_> = self.stack.addresses(number).map(|own| own.to_string()).collect();
            let text = if addresses.is_empty() { "none".to_owned() } else { addresses.join(", ") };
            (self.on_port)(&format!("port {}: addresses {text}", interface.port.name()));
        }
    }
}

/// Ends the connections of an interface whose port has ended. Their events have the reason.
#[cold]
fn abort_connections(stack: &mut Stack<Buffer>, interface: InterfaceId) {
    let own: Vec<_> = stack.addresses(interface).map(|own| own.address).collect();
    let of_port = stack.connections().filter(|connection| own.contains(&connection.local.address));
    let of_port: Vec<_> = of_port.map(|connection| connection.connection).collect();
    for connection in of_port {
        stack.abort(connection);
    }
}
