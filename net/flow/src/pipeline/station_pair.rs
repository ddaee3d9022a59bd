//! Forwarding outside the workers, as by the kernel: results that depend on nothing but the ingress port and the
//! addresses of a frame.
//!
//! Control looks pairs of stations up here, in the same tables as the workers. Every change of the tables of a bridge,
//! and of its ports, is told to a listener for each of its ports, after it was published: the use of pairs must end
//! then. A result with any effect beyond its output, such as a meter or a learned flow, is no pair.

use super::directory::{Bridge, Directory, Scope};
use super::exchange::Exchange;
use super::switch::FlowSwitch;
use crate::tables::{Control, Entry, GroupCounter};
use crate::translate::{Operation, enter, translate};
use crate::{Field, Key};
use port::{Now, PortId, Published};
use std::sync::Arc;
use wire::MacAddress;

/// Result for all untagged frames of a pair of stations.
#[derive(Debug)]
pub struct PairResult {
    /// Output port.
    pub to: PortId,
    flows: Vec<Arc<Entry>>,
    counters: Vec<Arc<GroupCounter>>,
}

impl PairResult {
    /// Counts frames that were forwarded outside the workers at their flows and groups.
    pub fn count(&self, packets: u64, bytes: u64, now: Now) {
        self.flows.iter().for_each(|flow| flow.count(packets, bytes, now));
        self.counters.iter().for_each(|counter| counter.add(packets, bytes));
    }
}

impl Exchange {
    /// Tells the listener that results of a bridge may have changed.
    pub(super) fn results_changed(&self, directory: &Directory, bridge: &Bridge) {
        let Some(listener) = self.pair_listener.get() else { return };
        if let Some((_, view)) = directory.named(&bridge.name) {
            view.ports.values().for_each(|place| listener(place.port));
        }
    }

    /// Publishes a changed directory, and tells the listener that results of all bridges may have changed.
    pub(super) fn publish(&self, published: &Published<Directory>, directory: Directory) {
        let (before, after) = (published.current(), Arc::new(directory));
        published.publish(after.clone());
        let Some(listener) = self.pair_listener.get() else { return };
        let views = [&before, &after].into_iter().flat_map(|directory| directory.bridges.iter().flatten());
        views.flat_map(|view| view.ports.values()).for_each(|place| listener(place.port));
    }
}

impl FlowSwitch {
    /// Sets the function that is called with each port whose pairs a change may affect. The first function stays. It
    /// must not block.
    pub fn watch_pairs(&self, listener: impl Fn(PortId) + Send + Sync + 'static) {
        let _ = self.exchange.pair_listener.set(Box::new(listener));
    }

    /// Publishes the tables of a bridge as control has changed them.
    pub(super) fn publish_tables(&self, bridge: &Bridge, control: &mut Control) {
        bridge.tables.publish(control.seal());
        self.exchange.results_changed(&self.published.current(), bridge);
    }

    /// Whether flow tables decide about the packets of a port.
    pub fn decides(&self, port: PortId) -> bool {
        self.published.current().by_tables(port).is_some()
    }

    /// Result for all untagged frames from `source` to `destination` that are received on `from`, if it is the output
    /// to another port and depends on nothing else.
    pub fn pair(&self, from: PortId, source: MacAddress, destination: MacAddress) -> Option<PairResult> {
        let directory = self.published.current();
        let member = directory.by_tables(from)?;
        let view = directory.view(member.bridge)?;
        let scope = Scope { directory: &directory, view, bridge: member.bridge, is_nested: false };
        let mut key = Key::ZERO;
        enter(&mut key, member.number);
        key.set(Field::InPhyPort, member.number.0.into());
        key.set(Field::EthSrc, source.to_u64().into());
        key.set(Field::EthDst, destination.to_u64().into());
        let found = translate(&view.bridge.tables.current(), &key, member.number, &scope);
        let [Operation::Output(port)] = found.operations.as_slice() else { return None };
        let place = view.ports.get(port).filter(|place| place.port != from && !place.is_tunnel())?;
        let below = found.mask.words()[Key::BELOW_ETHERNET].iter().any(|word| *word != 0);
        let depends = below || found.mask.get(Field::EthType) != 0;
        let has_effects = !found.learned.is_empty() || !found.reduced.is_empty();
        let is_pair = !depends && !has_effects && !source.is_group() && !destination.is_group();
        is_pair.then_some(PairResult { to: place.port, flows: found.flows, counters: found.counters })
    }
}
