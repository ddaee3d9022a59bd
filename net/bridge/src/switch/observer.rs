//! Events that control gets from the engine and from bonds: links, and frames of protocols.

use super::{Switch, multicast};
use crate::bond::{BondEvent, Bonds};
use crate::pair_listener::PairListener;
use crate::ports::Published;
use lacp::SLOW_PROTOCOLS;
use port::{Now, PortId, PortObserver, Punted};
use std::sync::{Arc, OnceLock};

/// Events of the links of ports.
#[derive(Clone, Debug)]
pub enum LinkEvent {
    /// Whether a port can send has changed.
    Changed(PortId, bool),
    /// Whether a bond can send has changed: one of its members can be used.
    Bond(PortId, bool),
    /// A frame of a protocol was received on a port ([`crate::PortConfig::stp`], [`crate::PortConfig::lldp`]). On a
    /// member of a bond, it was received on the bond.
    Received(PortId, Box<[u8]>),
    /// A message of IGMP, MLD or PIM, or a packet like one, was received on a port or bond in a VLAN; 0 for none
    /// ([`crate::BridgeConfig::multicast_snooping`]).
    Membership(PortId, u16, Box<[u8]>),
    /// A timer of bonds is due earlier than [`Switch::run_bonds`] has returned.
    Due,
}

/// Gets link events; must not wait.
type Listener = Box<dyn Fn(LinkEvent) + Send + Sync>;

/// Where link events go, and whose stations may move.
#[derive(Clone)]
pub(super) struct Watch {
    published: Arc<Published>,
    listener: Arc<OnceLock<Listener>>,
}

impl Watch {
    pub(super) fn new(published: Arc<Published>) -> Self {
        Self { published, listener: Arc::default() }
    }

    fn tell(&self, event: LinkEvent) {
        if let Some(listener) = self.listener.get() {
            listener(event);
        }
    }

    /// Allows the stations of a port that has stopped to move.
    fn release(&self, port: PortId, now: Now) {
        let table = self.published.current();
        if let Some(view) = table.member(port).and_then(|member| table.view(member.bridge)) {
            view.bridge.fdb.release(port, (now.0 / 1_000_000_000) as u32);
        }
    }

    /// An event of a bond.
    pub(super) fn bond(&self, event: BondEvent) {
        match event {
            BondEvent::Due => self.tell(LinkEvent::Due),
            BondEvent::Changed(bond, is_up, now) => {
                if !is_up {
                    self.release(bond, now);
                }
                self.tell(LinkEvent::Bond(bond, is_up));
            }
        }
    }
}

impl Switch {
    /// Sets the function that gets the links and protocol frames of all ports, unless it is set. The engine's control
    /// thread calls it; it must not wait.
    pub fn listen(&self, listener: impl Fn(LinkEvent) + Send + Sync + 'static) {
        // The first one stays.
        let _ = self.watch.listener.set(Box::new(listener));
    }

    /// Repeats the latest [`LinkEvent::Changed`] of a port. `also` is called with whether it can send.
    pub fn repeat_link(&self, port: PortId, also: impl FnOnce(bool)) {
        self.bonds.with_link(port, |is_up| {
            self.watch.tell(LinkEvent::Changed(port, is_up));
            also(is_up);
        });
    }
}

/// Allows the stations of stopped ports to move, and passes on the links and protocol frames of ports: LACPDUs to
/// bonds.
pub(super) struct Observer {
    pub(super) watch: Watch,
    pub(super) bonds: Arc<Bonds>,
    pub(super) pair_listener: PairListener,
}

impl PortObserver for Observer {
    fn changed(&mut self, port: PortId, is_up: bool, now: Now) {
        self.pair_listener.link(port, is_up);
        self.bonds.changed(port, is_up, now, || self.watch.tell(LinkEvent::Changed(port, is_up)));
    }

    fn punted(&mut self, packet: Punted) {
        let (port, table) = (packet.context.from, self.watch.published.current());
        if let Some((port, vlan)) = multicast::home(&table, port, &packet.frame) {
            return self.watch.tell(LinkEvent::Membership(port, vlan, packet.frame));
        }
        match table.link(port) {
            None => self.watch.tell(LinkEvent::Received(port, packet.frame)),
            Some(_) if packet.frame.starts_with(&SLOW_PROTOCOLS.octets()) => {
                self.bonds.received(port, &packet.frame, packet.context.now);
            }
            // The other end may send on each member, if it is not aware of the bond.
            Some(link) if link.accepts_groups() => {
                self.watch.tell(LinkEvent::Received(link.bond, packet.frame));
            }
            Some(_) => {}
        }
    }

    fn stopped(&mut self, port: PortId, now: Now) {
        self.watch.release(port, now);
    }
}
