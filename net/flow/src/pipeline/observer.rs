//! Reports of the engine: which ports can send, and packets for controllers.

use super::directory::{Directory, Member, Place};
use super::exchange::{Exchange, PortEvent, lock};
use super::underlay::Local;
use port::{Now, PortId, PortObserver, Published, PuntReason, Punted};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// Packets for controllers that wait for [`super::FlowSwitch::take_punted`].
const MAX_PUNTED: usize = 1024;

/// The lock that serialises changes of the directory, the directory, and the exchange that is notified.
type Shared<'a> = (&'a Mutex<()>, &'a Published<Directory>, &'a Exchange);

/// Changes a port, and publishes the directory if that is different then.
pub(super) fn update(
    (changing, published, exchange): Shared<'_>,
    port: PortId,
    change: impl FnOnce(&mut Place),
) {
    let _changing = lock(changing);
    let mut directory = Directory::clone(&published.current());
    if directory.update(port, change) {
        exchange.publish(published, directory);
    }
}

/// Keeps packets for controllers and states of ports, and passes everything else on.
pub(super) struct Observer {
    pub(super) published: Arc<Published<Directory>>,
    pub(super) changing: Arc<Mutex<()>>,
    pub(super) punted: Arc<Mutex<VecDeque<Punted>>>,
    pub(super) exchange: Arc<Exchange>,
    pub(super) normal: Option<Box<dyn PortObserver>>,
}

/// Sets whether a port can send, and tells control.
pub(super) fn set_up((changing, published, exchange): Shared<'_>, port: PortId, is_up: bool) {
    update((changing, published, exchange), port, |place| place.is_live = is_up);
    let directory = published.current();
    let Some(Member { bridge, number, .. }) = directory.member(port) else { return };
    if let Some(view) = directory.view(bridge) {
        let bridge = view.bridge.name.clone();
        exchange.port_changed(PortEvent { port, bridge, number, is_up });
    }
}

impl PortObserver for Observer {
    fn changed(&mut self, port: PortId, is_up: bool, now: Now) {
        self.normal.iter_mut().for_each(|observer| observer.changed(port, is_up, now));
        set_up((&self.changing, &self.published, &self.exchange), port, is_up);
    }

    fn stopped(&mut self, port: PortId, now: Now) {
        self.normal.iter_mut().for_each(|observer| observer.stopped(port, now));
    }

    fn punted(&mut self, packet: Punted) {
        let note = packet.note.clone();
        if let Some(local) = note.as_ref().and_then(|note| note.downcast_ref::<Local>()) {
            return self.exchange.frame(local, packet);
        }
        let is_protocol = packet.reason == PuntReason::Protocol;
        if is_protocol || self.published.current().by_tables(packet.context.from).is_none() {
            return self.normal.iter_mut().for_each(|observer| observer.punted(packet.clone()));
        }
        let mut punted = lock(&self.punted);
        if punted.len() < MAX_PUNTED {
            punted.push_back(packet);
        }
        drop(punted);
        self.exchange.wake();
    }
}
