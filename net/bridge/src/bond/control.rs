//! Control of bonds: passes events and time to each of them (`aggregate`).
//!
//! Events come from the engine's control thread (links, LACPDUs) and from timers ([`Bonds::run`]), whose next deadline
//! is known: an event that starts an earlier one reports it. Each locks the bonds for some microseconds; none waits for
//! a worker.

use super::aggregate::{Control, add_to, hashing, number};
use super::config::{BondConfig, MemberConfig};
use super::report::BondStatistics;
use super::shared::{Bond, Link};
use crate::key::Key;
use lacp::{SlowFrame, marker_response};
use port::{Context, Now, PortId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use wire::MacAddress;

/// Has a worker send a frame on a port.
type Send = Box<dyn Fn(PortId, Box<[u8]>, u32) -> bool + std::marker::Send + Sync>;

/// Gets events in their order, while bonds are locked; must not use them.
type Listener = Box<dyn Fn(BondEvent) + std::marker::Send + Sync>;

/// Result of an event of a member or a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BondEvent {
    /// Whether a bond has a usable member has changed.
    Changed(PortId, bool, Now),
    /// A timer is due earlier than [`Bonds::run`] has returned.
    Due,
}

/// All bonds.
pub(crate) struct Bonds {
    state: Mutex<State>,
    send: OnceLock<Send>,
    listener: Listener,
}

#[derive(Default)]
struct State {
    bonds: BTreeMap<PortId, Control>,
    /// Ports with a link, also those that are no members.
    up: BTreeSet<PortId>,
    /// The deadline that is known to the caller of [`Bonds::run`].
    next: Option<u64>,
}

/// A station that is announced: its address and VLAN, and the frame.
pub(crate) struct Announcement {
    pub(crate) source: Key,
    pub(crate) frame: Box<[u8]>,
}

impl Bonds {
    pub(crate) fn new(listener: impl Fn(BondEvent) + std::marker::Send + Sync + 'static) -> Self {
        Self { state: Mutex::default(), send: OnceLock::new(), listener: Box::new(listener) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the function that sends frames; the first one remains.
    pub(crate) fn connect(&self, send: Send) {
        let _ = self.send.set(send);
    }

    /// Adds a bond without members. Returns what workers read.
    pub(crate) fn add(&self, bond: PortId, config: BondConfig) -> Arc<Bond> {
        let shared = Arc::new(Bond::new(bond, hashing(config.mode)));
        self.lock().bonds.insert(bond, Control::new(config, shared.clone()));
        shared
    }

    /// Changes a bond and its members, whose order is new; they stay. Returns what workers read, if that is replaced.
    pub(crate) fn set(
        &self,
        bond: PortId,
        config: BondConfig,
        members: &[(PortId, MemberConfig)],
        now: Now,
    ) -> Option<Arc<Bond>> {
        let mut state = self.lock();
        let replaced = state.bonds.get_mut(&bond)?.configure(config, members, now.0);
        self.settle(&mut state, bond, now);
        replaced
    }

    pub(crate) fn remove(&self, bond: PortId) {
        self.lock().bonds.remove(&bond);
    }

    /// Adds a member. Returns what workers read; `None` if the bond does not exist.
    pub(crate) fn join(
        &self,
        port: PortId,
        bond: PortId,
        config: MemberConfig,
        now: Now,
    ) -> Option<Arc<Link>> {
        let mut state = self.lock();
        let is_up = state.up.contains(&port);
        let control = state.bonds.get_mut(&bond)?;
        let link = Arc::new(Link::new(bond, control.lacp.is_some()));
        control.links.insert(port, link.clone());
        control.members.add(port, config.is_primary, is_up);
        if let Some(group) = &mut control.lacp {
            add_to(group, port, config.priority, (is_up, now.0));
        }
        self.settle(&mut state, bond, now);
        Some(link)
    }

    pub(crate) fn leave(&self, port: PortId, bond: PortId, now: Now) {
        let mut state = self.lock();
        let Some(control) = state.bonds.get_mut(&bond) else { return };
        control.members.remove(port);
        control.links.remove(&port);
        if let Some(group) = &mut control.lacp {
            group.remove(number(port));
        }
        self.settle(&mut state, bond, now);
    }

    /// The link of a port came up or went down. `tell` is called in the order of these events.
    pub(crate) fn changed(&self, port: PortId, is_up: bool, now: Now, tell: impl FnOnce()) {
        let mut state = self.lock();
        tell();
        if is_up {
            state.up.insert(port)
        } else {
            state.up.remove(&port)
        };
        let Some((bond, control)) = state.of_member(port) else { return };
        control.members.set_up(port, is_up);
        if let Some(group) = &mut control.lacp {
            group.set_enabled(number(port), is_up, now.0);
        }
        self.settle(&mut state, bond, now);
    }

    /// Calls `tell` with whether a port has a link, in the order of the events of links.
    pub(crate) fn with_link(&self, port: PortId, tell: impl FnOnce(bool)) {
        let state = self.lock();
        tell(state.up.contains(&port));
    }

    /// Port by which frames of protocols leave: the active member if `port` is a bond. `None` if it has none.
    pub(crate) fn sender(&self, port: PortId) -> Option<PortId> {
        self.lock().bonds.get(&port).map_or(Some(port), |control| control.members.active)
    }

    /// A member received a frame of a slow protocol.
    pub(crate) fn received(&self, port: PortId, frame: &[u8], now: Now) {
        let mut state = self.lock();
        let Some((bond, control)) = state.of_member(port) else { return };
        let Some(group) = &mut control.lacp else { return };
        match SlowFrame::parse(frame) {
            Ok(SlowFrame::Lacp(pdu)) => {
                group.receive(number(port), &pdu, now.0);
                self.settle(&mut state, bond, now);
            }
            Ok(SlowFrame::Marker(marker)) => {
                let response = marker_response(group.config().system, &marker);
                self.send(port, Box::new(response));
            }
            Err(_) => {}
        }
    }

    /// Runs a bond, and reports what follows.
    fn settle(&self, state: &mut State, bond: PortId, now: Now) {
        let Some(control) = state.bonds.get_mut(&bond) else { return };
        self.run_one(control, now);
        let due = control.deadline(now.0);
        if due.is_some_and(|due| state.next.is_none_or(|next| due < next)) {
            state.next = due;
            (self.listener)(BondEvent::Due);
        }
    }

    fn run_one(&self, control: &mut Control, now: Now) {
        control.run(now.0, &|port, frame| self.send(port, frame));
        let is_up = control.members.active.is_some();
        if std::mem::replace(&mut control.is_up, is_up) != is_up {
            (self.listener)(BondEvent::Changed(control.shared.port, is_up, now));
        }
    }

    /// Runs all timers. `stations` returns the stations at other ports than a bond. Returns when the next timer is due;
    /// `None` if none runs.
    pub(crate) fn run(&self, now: Now, stations: impl Fn(PortId) -> VecDeque<Announcement>) -> Option<Now> {
        let mut state = self.lock();
        let send = |port: PortId, frame: Box<[u8]>| self.send(port, frame);
        state.bonds.values_mut().for_each(|control| self.run_one(control, now));
        let wanted = state.bonds.iter().filter(|(_, control)| control.announcing.is_none());
        let wanted: Vec<PortId> = wanted.map(|(bond, _)| *bond).collect();
        // Tables can be large: events do not wait for them.
        drop(state);
        let found: Vec<_> = wanted.into_iter().map(|bond| (bond, stations(bond))).collect();
        let mut state = self.lock();
        for (bond, list) in found {
            state.bonds.entry(bond).and_modify(|control| control.announcing = Some(list));
        }
        state.bonds.values_mut().for_each(|control| control.announce(&send));
        state.next = state.bonds.values().filter_map(|control| control.deadline(now.0)).min();
        state.next.map(Now)
    }

    fn send(&self, port: PortId, frame: Box<[u8]>) {
        // A frame that the engine has no room for is lost, as on a wire.
        let _ = self.send.get().is_some_and(|send| send(port, frame, Context::TRANSMIT));
    }

    pub(crate) fn statistics(&self, now: Now) -> Vec<BondStatistics> {
        self.lock().bonds.values_mut().map(|control| control.statistics(now.0)).collect()
    }
}

impl State {
    /// The bond of a member.
    fn of_member(&mut self, port: PortId) -> Option<(PortId, &mut Control)> {
        let mut bonds = self.bonds.iter_mut().map(|(bond, control)| (*bond, control));
        bonds.find(|(_, control)| control.links.contains_key(&port))
    }
}

/// A reverse ARP request for `mac`, which every switch on its way learns (RFC 903).
pub(crate) fn learning_packet(mac: MacAddress, vlan: Option<wire::VlanId>) -> Box<[u8]> {
    const REVERSE_REQUEST: u16 = 3;
    let none = std::net::Ipv4Addr::UNSPECIFIED;
    let mut frame = vec![0; 64];
    let header = wire::write_ethernet(&mut frame, MacAddress::BROADCAST, mac, vlan, wire::EtherType::RARP);
    let at = header.unwrap_or(wire::HEADER_LEN);
    let packet = wire::arp_packet(REVERSE_REQUEST, (mac, none), (mac, none));
    frame[at..at + wire::ARP_LEN].copy_from_slice(&packet);
    frame.into_boxed_slice()
}
