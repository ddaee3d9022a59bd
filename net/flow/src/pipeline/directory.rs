//! Ports of OpenFlow bridges: numbers of the engine and numbers of OpenFlow. Changed rarely, read per burst.

use super::drops::Drops;
use crate::modify::PortNo;
use crate::tables::{Control, Tables};
use crate::translate::Environment;
use port::{PortId, Published};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

/// A bridge: its tables as control changes them, and as workers see them.
pub(super) struct Bridge {
    pub(super) name: String,
    pub(super) control: Mutex<Control>,
    pub(super) tables: Published<Tables>,
    pub(super) counts: Counts,
}

/// Packets by the place where they were found, and learned flows. Added to by workers, once for many packets.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) head: AtomicU64,
    pub(super) megaflow: AtomicU64,
    pub(super) tables: AtomicU64,
    /// Masks of the megaflow cache.
    pub(super) probes: AtomicU64,
    /// See `probes`.
    pub(super) evicted_masks: AtomicU64,
    /// See [`super::LearnCounts`].
    pub(super) learn_added: AtomicU64,
    pub(super) learn_refused: AtomicU64,
    pub(super) learn_full: AtomicU64,
    pub(super) drops: Drops,
}

/// A port of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// Position in [`Directory::bridges`].
    pub(super) bridge: u16,
    pub(super) number: PortNo,
}

/// A port as its bridge sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) port: PortId,
    /// Whether it can send.
    pub(super) is_live: bool,
    /// Whether it gets flooded packets.
    pub(super) is_flooded: bool,
}

/// A bridge and its ports.
#[derive(Clone)]
pub(super) struct View {
    pub(super) bridge: Arc<Bridge>,
    pub(super) ports: BTreeMap<PortNo, Place>,
    /// Whether packets go to the pipeline of `NORMAL` instead of the tables.
    pub(super) is_standalone: bool,
}

/// All bridges and their ports.
#[derive(Clone, Default)]
pub(super) struct Directory {
    /// By number of the engine.
    members: Vec<Option<Member>>,
    pub(super) bridges: Vec<Option<View>>,
}

impl Directory {
    /// Bridge and number of a port.
    #[inline]
    pub(super) fn member(&self, port: PortId) -> Option<Member> {
        *self.members.get(usize::from(port.0))?
    }

    /// As [`Directory::member`], if the tables of the bridge decide about its packets.
    #[inline]
    pub(super) fn by_tables(&self, port: PortId) -> Option<Member> {
        self.member(port).filter(|member| self.view(member.bridge).is_some_and(|view| !view.is_standalone))
    }

    /// A bridge.
    #[inline]
    pub(super) fn view(&self, bridge: u16) -> Option<&View> {
        self.bridges.get(usize::from(bridge))?.as_ref()
    }

    /// The bridge of this name.
    pub(super) fn named(&self, name: &str) -> Option<(u16, &View)> {
        let mut views = (0..).zip(&self.bridges).filter_map(|(i, view)| Some((i, view.as_ref()?)));
        views.find(|(_, view)| view.bridge.name == name)
    }

    /// Adds or removes a port.
    pub(super) fn set(&mut self, port: PortId, member: Option<Member>) {
        let at = usize::from(port.0);
        self.members.resize(self.members.len().max(at + 1), None);
        let before = std::mem::replace(&mut self.members[at], member);
        if let Some(view) = before.and_then(|member| self.bridges[usize::from(member.bridge)].as_mut()) {
            view.ports.retain(|_, place| place.port != port);
        }
        let Some(Member { bridge, number }) = member else { return };
        if let Some(view) = &mut self.bridges[usize::from(bridge)] {
            view.ports.insert(number, Place { port, is_live: true, is_flooded: true });
        }
    }

    /// Changes a port. Returns whether it is different then.
    pub(super) fn update(&mut self, port: PortId, change: impl FnOnce(&mut Place)) -> bool {
        let Some(Member { bridge, number }) = self.member(port) else { return false };
        let view = self.bridges[usize::from(bridge)].as_mut();
        let Some(place) = view.and_then(|view| view.ports.get_mut(&number)) else { return false };
        let before = *place;
        change(place);
        *place != before
    }
}

impl Environment for View {
    fn is_live(&self, port: PortNo) -> bool {
        self.ports.get(&port).is_some_and(|place| place.is_live)
    }
}
