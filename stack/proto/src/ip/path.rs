//! Paths: destinations with their prepared header, neighbour and path MTU.
//!
//! Connections hold the number of a path. It must never lead to another path than the one that was looked up: a removed
//! path leaves a generation behind that no later path has.

mod search;

use super::interface::Interface;
use super::lru::Lru;
use super::neighbour::NeighbourId;
use super::route::{Hop, Plan};
use super::template::Template;
use super::{InterfaceId, Keyed, PathId};
use crate::slab::Slab;
use crate::{Address, Time};
use core::hash::BuildHasher;
use core::time::Duration;
use hashbrown::HashMap;
use search::{RAISE_TIME, Search};
use wire::MacAddress;

/// Interval in which the order of use is noted, so that most packets do not change it.
const USE_INTERVAL: Duration = Duration::from_secs(1);
/// Lower bound of the path MTU of IPv4: every host accepts packets of this length (RFC 791 section 3.1).
const MIN_MTU4: u16 = 576;
/// Path MTU of IPv4 that is tried first if long packets are lost (RFC 8899 section 5.1.2, `BASE_PLPMTU`).
const BASE_MTU4: u16 = 1200;
/// Minimum MTU of IPv6 (RFC 8200 section 5).
const MIN_MTU6: u16 = 1280;
/// MTU of links, for routers that do not give theirs (RFC 1191 section 7).
const PLATEAUS: [u16; 8] = [32000, 17914, 8166, 4352, 2002, 1492, 1006, 576];

/// A path.
#[derive(Clone, Copy)]
pub(super) struct Path {
    generation: u32,
    pub(super) plan: Plan,
    pub(super) template: Template,
    pub(super) neighbour: NeighbourId,
    /// Maximum length of an IP packet, in bytes.
    pub(super) mtu: u16,
    link_mtu: u16,
    /// Time at which larger packets are tried.
    raise_at: Time,
    search: Search,
    used: Time,
    /// Identification of the next IPv4 packet.
    pub(super) identification: u16,
}

impl Path {
    pub(super) fn new(plan: Plan, interface: &Interface, identification: u16, now: Time) -> Self {
        let (mac, mtu) = match plan.hop {
            Hop::Local => (MacAddress::ZERO, u16::MAX),
            Hop::Group(mac) => (mac, interface.config.mtu),
            Hop::Neighbour(_) => (MacAddress::ZERO, interface.config.mtu),
        };
        Self {
            generation: 0,
            plan,
            template: Template::new(interface, &plan, mac),
            neighbour: NeighbourId::NONE,
            mtu,
            link_mtu: mtu,
            raise_at: Time::NEVER,
            search: Search::none(false),
            used: now,
            identification,
        }
    }

    /// Identification for a packet of its own.
    #[inline]
    pub(super) fn next_identification(&mut self) -> u16 {
        self.identification = self.identification.wrapping_add(1);
        self.identification
    }

    /// Lowers the path MTU. `is_silent` if no router reported it.
    fn shrink(&mut self, mtu: u16, is_silent: bool, now: Time) {
        (self.mtu, self.raise_at, self.search) = (mtu, now.after(RAISE_TIME), Search::none(is_silent));
    }

    /// The time of a reduced path MTU is over: connections search for a larger one.
    fn raise(&mut self, now: Time) {
        if self.search.is_ignored() {
            (self.mtu, self.search, self.raise_at) = (self.link_mtu, Search::none(false), Time::NEVER);
        } else {
            self.search.start(self.link_mtu);
            self.raise_at = now.after(self.search.wait());
        }
    }

    /// The search is over.
    fn rest(&mut self, now: Time) {
        self.raise_at = if self.mtu == self.link_mtu { Time::NEVER } else { now.after(RAISE_TIME) };
    }
}

/// All paths.
pub(super) struct Paths {
    slab: Slab<Path>,
    /// By source and destination.
    index: HashMap<(Address, Address), u32, Keyed>,
    order: Lru,
    generation: u32,
    limit: usize,
    /// No path MTU expires earlier.
    deadline: Time,
}

impl Paths {
    pub(super) fn new(limit: u32, hasher: Keyed) -> Self {
        Self {
            slab: Slab::new(),
            index: HashMap::with_hasher(hasher),
            order: Lru::new(),
            generation: 0,
            limit: limit as usize,
            deadline: Time::NEVER,
        }
    }

    #[cfg(any(test, feature = "fuzz"))]
    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    #[inline]
    pub(super) fn get(&self, id: PathId) -> Option<&Path> {
        self.slab.get(id.index).filter(|path| path.generation == id.generation)
    }

    /// The path, for a packet to be sent now.
    #[inline]
    pub(super) fn get_used(&mut self, id: PathId, now: Time) -> Option<&mut Path> {
        let path = self.slab.get_mut(id.index).filter(|path| path.generation == id.generation)?;
        if now >= path.used.after(USE_INTERVAL) {
            path.used = now;
            self.order.touch(id.index);
        }
        Some(path)
    }

    pub(super) fn find(&self, source: Address, destination: Address) -> Option<PathId> {
        let index = *self.index.get(&(source, destination))?;
        self.slab.get(index).map(|path| PathId { index, generation: path.generation })
    }

    /// Adds a path, in place of the least recently used one if the limit is reached.
    pub(super) fn insert(&mut self, plan: Plan, interface: &Interface, now: Time) -> PathId {
        if self.slab.len() >= self.limit.max(1)
            && let Some(oldest) = self.order.oldest()
        {
            self.remove(oldest);
        }
        self.generation = self.generation.wrapping_add(1);
        let key = (plan.source, plan.destination);
        let identification = self.index.hasher().hash_one((key, now.0)) as u16;
        let mut path = Path::new(plan, interface, identification, now);
        path.generation = self.generation;
        let index = self.slab.insert(path);
        self.index.insert(key, index);
        self.order.insert(index);
        PathId { index, generation: self.generation }
    }

    fn remove(&mut self, index: u32) {
        if let Some(path) = self.slab.remove(index) {
            self.index.remove(&(path.plan.source, path.plan.destination));
            self.order.remove(index);
        }
    }

    /// Removes all paths, because addresses or routes changed.
    pub(super) fn clear(&mut self) {
        while let Some(oldest) = self.order.oldest() {
            self.remove(oldest);
        }
    }

    /// Path MTU after the report that packets of `len` bytes are too long for a router, whose next link has this MTU,
    /// or 0 if it does not say. Returns `None` if there is no such path or the link's MTU is not larger.
    pub(super) fn reported(&self, ends: (Address, Address), len: usize, mtu: u32) -> Option<u16> {
        let path = self.slab.get(*self.index.get(&ends)?)?;
        let mtu = reported_mtu(ends.0.is_v4(), len, mtu)?;
        let is_usable = mtu < path.link_mtu && path.plan.hop != Hop::Local;
        is_usable.then_some(mtu)
    }

    /// Lowers the path MTU for a time, or the size of probes if that is what the report is about.
    pub(super) fn shrink(&mut self, ends: (Address, Address), mtu: u16, now: Time) {
        let path = self.index.get(&ends).and_then(|index| self.slab.get_mut(*index));
        let Some(path) = path else { return };
        if mtu > path.mtu {
            return path.search.on_report(mtu);
        }
        path.shrink(mtu, false, now);
        self.deadline = self.deadline.min(path.raise_at);
    }

    fn get_mut(&mut self, id: PathId) -> Option<&mut Path> {
        self.slab.get_mut(id.index).filter(|path| path.generation == id.generation)
    }

    /// Lowers a path MTU because long packets seem to be lost without a report (RFC 8899 section 4.3): to the base that
    /// almost every path carries, and then to the minimum. The search for the right size starts at once.
    pub(super) fn suspect_black_hole(&mut self, id: PathId, now: Time) {
        let Some(path) = self.get_mut(id).filter(|path| path.plan.hop != Hop::Local) else { return };
        let (is_v4, mtu) = (path.plan.source.is_v4(), path.mtu);
        let steps = if is_v4 { [BASE_MTU4, MIN_MTU4] } else { [MIN_MTU6; 2] };
        if let Some(step) = steps.into_iter().find(|step| *step < mtu) {
            path.shrink(step, true, now);
            path.search.start(mtu);
            self.deadline = self.deadline.min(now.after(RAISE_TIME));
        }
    }

    /// Whether a probe of the path MTU may be sent now, which is noted.
    pub(super) fn take_probe(&mut self, id: PathId, now: Time) -> bool {
        let Some(path) = self.get_mut(id) else { return false };
        let may = path.search.take(now);
        if may {
            path.raise_at = now.after(RAISE_TIME);
        }
        may
    }

    /// Notes whether a probe of `size` bytes was delivered. Returns whether it raised the path MTU; one of an earlier
    /// search has no effect.
    pub(super) fn note_probe(&mut self, id: PathId, size: u16, is_delivered: bool, now: Time) -> bool {
        let Some(path) = self.get_mut(id).filter(|path| path.search.probe() == size) else { return false };
        let is_over = if is_delivered {
            path.mtu = size;
            path.search.on_delivered()
        } else {
            path.search.on_lost(path.mtu)
        };
        if is_over {
            path.rest(now);
        }
        is_delivered
    }

    /// Tries larger packets on paths that are due.
    pub(super) fn expire(&mut self, now: Time) {
        if now < self.deadline {
            return;
        }
        self.deadline = Time::NEVER;
        for index in 0..self.slab.capacity() as u32 {
            let Some(path) = self.slab.get_mut(index) else { continue };
            if path.raise_at <= now {
                path.raise(now);
            }
            self.deadline = self.deadline.min(path.raise_at);
        }
    }

    pub(super) fn deadline(&self) -> Time {
        self.deadline
    }

    /// Interface and path MTU.
    pub(super) fn describe(&self, id: PathId) -> Option<(InterfaceId, u16)> {
        self.get(id).map(|path| (path.plan.interface, path.mtu))
    }

    /// Interface, path MTU, and the size of the next probe of it or 0.
    #[inline]
    pub(super) fn describe_probed(&self, id: PathId) -> Option<(InterfaceId, u16, u16)> {
        self.get(id).map(|path| (path.plan.interface, path.mtu, path.search.probe()))
    }
}

/// Path MTU from an ICMP error. IPv6 routers never report less than the minimum (RFC 8201 section 4).
fn reported_mtu(is_v4: bool, len: usize, mtu: u32) -> Option<u16> {
    let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
    match mtu {
        0 if is_v4 => PLATEAUS.into_iter().find(|plateau| usize::from(*plateau) < len),
        _ if is_v4 => Some(mtu.max(MIN_MTU4)),
        _ => (mtu >= MIN_MTU6).then_some(mtu),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::InterfaceConfig;
    use crate::ip::interface::Interfaces;
    use std::prelude::v1::*;

    const OWN: Address = Address::v4([10, 0, 0, 1]);

    fn paths(limit: u32) -> (Paths, Interfaces) {
        let mut interfaces = Interfaces::default();
        interfaces.add(InterfaceConfig { mac: MacAddress::new([2; 6]), mtu: 9000, vlan: None });
        (Paths::new(limit, Keyed([0; 16])), interfaces)
    }

    fn add(paths: &mut Paths, interfaces: &Interfaces, last: u8, now: Time) -> PathId {
        let destination = Address::v4([10, 0, 0, last]);
        let interface = InterfaceId(0);
        let plan = Plan { interface, source: OWN, destination, hop: Hop::Neighbour(destination) };
        paths.insert(plan, interfaces.get(interface).unwrap(), now)
    }

    #[test]
    fn the_least_recently_used_path_is_removed_and_its_number_stays_invalid() {
        let (mut paths, interfaces) = paths(2);
        let [a, b] = [5, 6].map(|last| add(&mut paths, &interfaces, last, Time(0)));
        assert!(paths.get_used(a, Time(0).after_micros(2_000_000)).is_some());
        let c = add(&mut paths, &interfaces, 7, Time(0));
        assert!(paths.get(a).is_some() && paths.get(b).is_none() && paths.len() == 2);
        assert_eq!((c.index, paths.find(OWN, Address::v4([10, 0, 0, 6]))), (b.index, None));
        paths.clear();
        assert!(paths.get(a).is_none() && paths.len() == 0);
    }

    #[test]
    fn path_mtu_shrinks_within_bounds_and_expires() {
        let (mut paths, interfaces) = paths(2);
        let id = add(&mut paths, &interfaces, 5, Time(0));
        let ends = (OWN, Address::v4([10, 0, 0, 5]));
        let mut shrink = |len, mtu| {
            let mtu = paths.reported(ends, len, mtu)?;
            paths.shrink(ends, mtu, Time(0));
            Some(mtu)
        };
        assert_eq!((shrink(9000, 9000), shrink(9000, 70_000)), (None, None));
        assert_eq!(
            (shrink(9000, 0), shrink(1500, 1400), shrink(1500, 1500)),
            (Some(8166), Some(1400), Some(1500))
        );
        assert_eq!((shrink(1400, 68), shrink(500, 0)), (Some(576), None));
        assert_eq!(paths.reported((OWN, OWN), 1500, 1000), None, "no such path");
        paths.expire(Time(0).after(Duration::from_secs(599)));
        assert_eq!(paths.describe(id), Some((InterfaceId(0), 576)));
        paths.expire(Time(0).after(RAISE_TIME));
        assert_eq!(paths.describe_probed(id), Some((InterfaceId(0), 576, 9000)), "a probe is due");
        paths.expire(Time(0).after(RAISE_TIME + search::PROBE_WAIT));
        assert_eq!((paths.describe(id), paths.deadline()), (Some((InterfaceId(0), 9000)), Time::NEVER));
    }

    #[test]
    fn probes_raise_the_path_mtu_and_end_its_search() {
        let (mut paths, interfaces) = paths(2);
        let (id, at) =
            (add(&mut paths, &interfaces, 5, Time(0)), |seconds| Time(0).after(Duration::from_secs(seconds)));
        paths.suspect_black_hole(id, at(0));
        assert_eq!(paths.describe_probed(id), Some((InterfaceId(0), 1200, 9000)));
        assert!(paths.take_probe(id, at(1)) && !paths.take_probe(id, at(1)));
        assert!(!paths.note_probe(id, 8000, true, at(1)), "not the size of the search");
        paths.shrink((OWN, Address::v4([10, 0, 0, 5])), 4000, at(1));
        assert_eq!(paths.describe_probed(id), Some((InterfaceId(0), 1200, 4000)), "as reported");
        assert!(paths.note_probe(id, 4000, true, at(2)));
        assert_eq!(paths.describe_probed(id), Some((InterfaceId(0), 4000, 0)));
        paths.expire(at(700));
        assert_eq!(paths.describe_probed(id), Some((InterfaceId(0), 4000, 9000)), "searched again");
        paths.expire(at(1400));
        assert_eq!(paths.describe(id), Some((InterfaceId(0), 4000)), "long packets were lost silently");
        assert!(paths.note_probe(id, 9000, true, at(1500)));
        paths.expire(at(2200));
        assert_eq!(
            (paths.describe_probed(id), paths.deadline()),
            (Some((InterfaceId(0), 9000, 0)), Time::NEVER)
        );
    }

    #[test]
    fn ipv6_has_a_minimum_mtu() {
        assert_eq!([0, 1279, 1280].map(|mtu| reported_mtu(false, 1500, mtu)), [None, None, Some(1280)]);
    }
}
