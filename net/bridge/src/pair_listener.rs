//! Forwarding outside the workers, as by the kernel: which pairs of stations may be forwarded there, and when that
//! ends.
//!
//! Control looks pairs up here, in the same tables as the workers. A listener is notified of every change of the port
//! table, of a station's port and of a port's link, before the path of such a pair could differ from that of a worker.
//! The listener must end the use of pairs at once, because a worker may call it under a lock. A new function that looks
//! at known unicast packets of a plain bridge must exclude its ports in [`Switch::pair`].

use super::key::Key;
use super::ports::{Ingress, PortTable, View};
use super::switch::Switch;
use super::vlan::NO_VLAN;
use port::{Now, PortId};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use wire::MacAddress;

type Listener = Box<dyn Fn(Option<PortId>) + Send + Sync>;

/// The listener, and the ports that cannot send.
#[derive(Clone, Default)]
pub(super) struct PairListener(Arc<Shared>);

#[derive(Default)]
struct Shared {
    listener: OnceLock<Listener>,
    down: Mutex<BTreeSet<PortId>>,
}

impl PairListener {
    /// Tells the listener that something about `port`, or about any port, has changed.
    pub(super) fn changed(&self, port: Option<PortId>) {
        if let Some(listener) = self.0.listener.get() {
            listener(port);
        }
    }

    /// A poisoned lock is valid: the set changes in one step.
    fn down(&self) -> MutexGuard<'_, BTreeSet<PortId>> {
        self.0.down.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes whether a port can send.
    pub(super) fn link(&self, port: PortId, is_up: bool) {
        if is_up {
            self.down().remove(&port);
        } else {
            self.down().insert(port);
        }
        self.changed(Some(port));
    }
}

impl Switch {
    /// Sets the function that is called for each change that may affect a pair: with the port whose pairs it affects,
    /// or `None` for all. The first function stays. Workers call it under a lock; it must not block.
    pub fn watch_pairs(&self, listener: impl Fn(Option<PortId>) + Send + Sync + 'static) {
        let _ = self.pair_listener.0.listener.set(Box::new(listener));
    }

    /// Output port of all untagged frames from `source` to `destination` that are received on `from`, if workers would
    /// neither change, copy, police nor drop such frames. `None` otherwise, and if one of the stations is not known.
    pub fn pair(
        &self,
        from: PortId,
        source: MacAddress,
        destination: MacAddress,
        now: Now,
    ) -> Option<PortId> {
        let table = self.published.current();
        let (view, second) = (plain(&table, from)?, second(now));
        let fdb = &view.bridge.fdb;
        let port_of = |mac: MacAddress| {
            let key = Key::new(mac, NO_VLAN);
            fdb.destination(key, fdb.places(key), second)
        };
        let to = port_of(destination).filter(|to| self.passes(&table, from, *to))?;
        (port_of(source) == Some(from)).then_some(to)
    }

    /// Whether nothing but flow tables decides about unicast packets from one port to another one of its bridge.
    pub fn leaves_to_tables(&self, from: PortId, to: PortId) -> bool {
        let table = self.published.current();
        plain(&table, from).is_some() && self.passes(&table, from, to)
    }

    /// Whether packets from a port can leave by another one of its bridge.
    fn passes(&self, table: &PortTable, from: PortId, to: PortId) -> bool {
        let Some(home) = table.member(from).map(|member| member.bridge) else { return false };
        let down = self.pair_listener.down();
        from != to && table.sends(home, to) && !down.contains(&from) && !down.contains(&to)
    }

    /// Keeps `source` from ageing, which sent frames from `from` outside the workers.
    pub fn confirm(&self, from: PortId, source: MacAddress, now: Now) {
        let table = self.published.current();
        if let Some(view) = plain(&table, from) {
            let key = Key::new(source, NO_VLAN);
            let fdb = &view.bridge.fdb;
            fdb.confirm(key, fdb.places(key), from, second(now));
        }
    }
}

fn second(now: Now) -> u32 {
    (now.0 / 1_000_000_000) as u32
}

/// The bridge of `port`, if known unicast packets of the port are forwarded by addresses alone: without VLANs, bonds,
/// mirrors, rules for sources, and in the state forwarding.
fn plain(table: &PortTable, port: PortId) -> Option<&View> {
    let place = table.place(port).filter(|place| place.ingress == Ingress::Open)?;
    let view = table.view(place.member.bridge)?;
    let is_plain = !view.vlan_aware && view.bonds.is_empty() && view.configured.is_empty();
    is_plain.then_some(view)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{BridgeConfig, MirrorConfig, MirrorOutput, PortConfig, PortState, Vlan};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use wire::VlanId;

    const A: PortId = PortId(1);
    const B: PortId = PortId(2);
    const C: PortId = PortId(3);
    const NOW: Now = Now(5_000_000_000);

    fn mac(last: u8) -> MacAddress {
        MacAddress::new([2, 0, 0, 0, 0, last])
    }

    fn learn(switch: &Switch, last: u8, port: PortId) {
        let table = switch.published.current();
        let fdb = &table.view(0).expect("a bridge").bridge.fdb;
        let key = Key::new(mac(last), NO_VLAN);
        fdb.announce(key, port, second(NOW), &mut 9);
    }

    /// Station 1 at port A, station 2 at port B, and the number of changes that were told.
    fn switch(a: &PortConfig) -> (Switch, Arc<AtomicUsize>) {
        let switch = Switch::new(8);
        let told = Arc::new(AtomicUsize::new(0));
        let count = told.clone();
        switch.watch_pairs(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        switch.add_bridge("lan", BridgeConfig::default()).expect("a new bridge");
        switch.add_port(A, "lan", a).expect("a new port");
        switch.add_port(B, "lan", &PortConfig::default()).expect("a new port");
        switch.add_port(C, "lan", &PortConfig::default()).expect("a new port");
        learn(&switch, 1, A);
        learn(&switch, 2, B);
        (switch, told)
    }

    fn pair(switch: &Switch) -> Option<PortId> {
        switch.pair(A, mac(1), mac(2), NOW)
    }

    /// Whether `change` is told.
    fn tells(told: &AtomicUsize, change: impl FnOnce()) -> bool {
        let before = told.load(Ordering::Relaxed);
        change();
        told.load(Ordering::Relaxed) > before
    }

    #[test]
    fn known_stations_of_a_plain_bridge_are_a_pair() {
        let (switch, _) = switch(&PortConfig::default());
        assert_eq!(pair(&switch), Some(B));
        assert_eq!(switch.pair(B, mac(2), mac(1), NOW), Some(A));
        assert_eq!(switch.pair(B, mac(1), mac(2), NOW), None, "the source is elsewhere");
        assert_eq!(switch.pair(A, mac(1), mac(9), NOW), None, "the destination is not known");
        assert_eq!(switch.pair(A, mac(9), mac(2), NOW), None, "the source is not known");
        assert_eq!(switch.pair(A, mac(1), mac(1), NOW), None, "back to where it came from");
        assert_eq!(switch.pair(A, mac(1), MacAddress::BROADCAST, NOW), None);
    }

    #[test]
    fn ports_with_rules_vlans_or_trees_are_in_no_pair() {
        let default = PortConfig::default;
        let vlan = Vlan::Access(VlanId::new(7).unwrap());
        for config in [
            PortConfig { macs: vec![mac(1)], ..default() },
            PortConfig { sources: Some(Vec::new()), ..default() },
            PortConfig { vlan, ..default() },
            PortConfig { stp: true, ..default() },
        ] {
            let (switch, _) = switch(&config);
            assert_eq!(pair(&switch), None, "{config:?}");
        }
        let (switch, told) = switch(&PortConfig { stp: true, ..default() });
        let forward = || switch.set_states("lan", [(A, PortState::Forwarding)].into_iter());
        assert!(tells(&told, forward));
        assert_eq!(pair(&switch), Some(B));
        assert!(tells(&told, || switch.set_states("lan", [(A, PortState::Discarding)].into_iter())));
        assert_eq!(pair(&switch), None);
    }

    #[test]
    fn every_change_of_a_pair_is_told() {
        let (switch, told) = switch(&PortConfig::default());
        let ends = |change: &dyn Fn()| {
            assert_eq!(pair(&switch), Some(B));
            assert!(tells(&told, change));
            assert_ne!(pair(&switch), Some(B));
        };
        ends(&|| learn(&switch, 2, C));
        learn(&switch, 2, B);
        ends(&|| switch.forget("lan", mac(1), 0).unwrap());
        learn(&switch, 1, A);
        ends(&|| switch.add_static("lan", mac(1), None, B).unwrap());
        switch.remove_static("lan", mac(1), None).unwrap();
        learn(&switch, 1, A);
        ends(&|| switch.pair_listener.link(B, false));
        assert!(tells(&told, || switch.pair_listener.link(B, true)));
        let mirror = MirrorConfig {
            name: "copy".to_owned(),
            sources: Vec::new(),
            destinations: Vec::new(),
            all: true,
            vlans: None,
            output: Some(MirrorOutput::Port(PortId(7))),
            snap_length: None,
        };
        ends(&|| switch.set_mirrors("lan", std::slice::from_ref(&mirror)).unwrap());
        assert!(tells(&told, || switch.set_mirrors("lan", &[]).unwrap()));
        ends(&|| assert_eq!(switch.flush("lan", crate::Selection::default()), Ok(2)));
        learn(&switch, 1, A);
        learn(&switch, 2, B);
        ends(&|| switch.remove_port(B).unwrap());
    }

    #[test]
    fn confirmed_source_does_not_age() {
        let (switch, _) = switch(&PortConfig::default());
        let late = Now(NOW.0 + 299_000_000_000);
        switch.confirm(A, mac(1), late);
        switch.confirm(B, mac(1), late);
        let later = Now(NOW.0 + 301_000_000_000);
        let age = |last: u8| {
            let stations = switch.stations("lan", later).unwrap();
            stations.iter().find(|station| station.mac == mac(last)).and_then(|station| station.age_seconds)
        };
        assert_eq!((age(1), age(2)), (Some(2), None), "station 2 has aged");
        assert_eq!(switch.pair(A, mac(1), mac(2), later), None);
    }
}
