//! Rates of flows, and counters of OpenFlow bridges.

use super::super::flow_report::{FlowCounts, FlowRate, TableDrop};
use super::super::interface::DataPlaneError;
use super::super::report::{FlowEntry, FlowFilter};
use super::{Flows, Names};
use flow::TableId;
use std::time::{Duration, Instant};

impl Flows {
    /// The flows that match a filter and had packets in the interval, by descending rate, at most the limit of the
    /// filter, and the number of all of them. Waits for the interval.
    pub(in crate::dataplane) fn hot(
        &self,
        wanted: &FlowFilter,
        names: &Names,
        interval: Duration,
    ) -> Result<(usize, Vec<FlowEntry>), DataPlaneError> {
        let start = Instant::now();
        let flows = self.selected(wanted, names)?;
        let before: Vec<_> = flows.iter().map(|(_, flow)| flow.entry().counts()).collect();
        std::thread::sleep(interval);
        let seconds = start.elapsed().as_secs_f64();
        let mut hot: Vec<_> = flows
            .iter()
            .zip(before)
            .map(|((bridge, flow), (packets, bytes))| {
                let now = flow.entry().counts();
                // A flow whose counters were reset meanwhile has no rate.
                let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
                let rate = FlowRate { packets: rate(now.0, packets), bits: 8.0 * rate(now.1, bytes) };
                (rate, *bridge, flow)
            })
            .filter(|(rate, ..)| rate.packets > 0.0)
            .collect();
        hot.sort_by(|(a, ..), (b, ..)| b.packets.total_cmp(&a.packets));
        let (total, limit) = (hot.len(), wanted.limit.unwrap_or(usize::MAX));
        let entries = hot.into_iter().take(limit).map(|(rate, bridge, flow)| {
            let entry = self.entry(bridge, flow, names);
            FlowEntry { rate: Some(rate), ..entry }
        });
        Ok((total, entries.collect()))
    }

    /// Counters of a bridge; `None` if it is no OpenFlow bridge.
    pub(in crate::dataplane) fn counts(&self, bridge: &str) -> Option<FlowCounts> {
        let (tables, caches) = (self.switch.tables(bridge).ok()?, self.switch.cache_counts(bridge).ok()?);
        let drops = self.switch.table_drops(bridge).ok()?.into_iter().flat_map(|drops| {
            let reasons = [("no-flow", drops.no_flow), ("flow-drop", drops.flow_drop)];
            let reasons = reasons.into_iter().filter(|(_, packets)| *packets > 0);
            reasons.map(move |(reason, packets)| TableDrop {
                table: drops.table.0,
                reason: reason.to_owned(),
                packets,
            })
        });
        Some(FlowCounts {
            flows: TableId::each().map(|table| tables.len(table)).sum(),
            head: caches.head,
            megaflow: caches.megaflow,
            tables: caches.tables,
            probes: caches.probes,
            evicted: caches.evicted,
            evicted_masks: caches.evicted_masks,
            drops: drops.collect(),
        })
    }
}
