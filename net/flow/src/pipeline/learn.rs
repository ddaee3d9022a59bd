//! The control side of `learn` and `fin_timeout`.

use super::directory::Bridge;
use super::error::UnknownBridge;
use super::exchange::{Effect, Noted, lock};
use super::switch::FlowSwitch;
use crate::tables::Changes;
use port::Now;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Results of learned flows of a bridge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LearnCounts {
    /// Flows that were added.
    pub added: u64,
    /// Flows that were not valid, or whose table was full.
    pub refused: u64,
    /// Flows that waited for a later packet, because too many waited for control.
    pub delayed: u64,
}

impl FlowSwitch {
    /// Adds flows that packets have learned since the last call, and lowers the timeouts of those whose connections
    /// have ended: [`FlowSwitch::expire`] must be called then. Workers apply them from their next burst on. Returns
    /// what was changed, by bridge, with recorded changes. Must be called soon after the waker
    /// ([`FlowSwitch::set_waker`]), which is called again if there may be more.
    pub fn learn(&self, now: Now) -> Vec<(String, Changes)> {
        let mut changed: Vec<(Arc<Bridge>, Changes)> = Vec::new();
        for Noted { bridge, effect, used } in self.exchange.take_noted() {
            let flow = match effect {
                Effect::Learn(flow) => flow,
                Effect::Reduce(reduction) => {
                    lock(&bridge.control).reduce(&reduction);
                    continue;
                }
            };
            let Ok(changes) = lock(&bridge.control).learn(&flow, used, now) else {
                bridge.counts.learn_refused.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            bridge.counts.learn_added.fetch_add(changes.added.len() as u64, Ordering::Relaxed);
            match changed.iter_mut().find(|(other, _)| Arc::ptr_eq(other, &bridge)) {
                _ if changes.is_empty() => {}
                Some((_, all)) => all.extend(changes),
                None => changed.push((bridge, changes)),
            }
        }
        let publish = |(bridge, changes): (Arc<Bridge>, Changes)| {
            let mut control = lock(&bridge.control);
            self.publish_tables(&bridge, &mut control);
            let all = bridge.with_recorded(changes);
            drop(control);
            self.renew_underlay(&bridge.name);
            (bridge.name.clone(), all)
        };
        changed.into_iter().map(publish).collect()
    }

    /// Results of learned flows of a bridge.
    ///
    /// # Errors
    /// If there is no such bridge.
    pub fn learn_counts(&self, bridge: &str) -> Result<LearnCounts, UnknownBridge> {
        let counts = &self.bridge(bridge)?.counts;
        let [added, refused, delayed] = [&counts.learn_added, &counts.learn_refused, &counts.learn_full]
            .map(|n| n.load(Ordering::Relaxed));
        Ok(LearnCounts { added, refused, delayed })
    }
}
