//! One table: its flows, its limit, and the order of eviction.

use super::flow::Flow;
use super::radix::Radix;
use crate::lookup::Classifier;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Settings of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableConfig {
    /// Maximum number of flows.
    pub limit: usize,
    /// Whether a full table removes its least important flow for a new one (OpenFlow 1.4, 6.5).
    pub eviction: bool,
}

/// Counters of a table.
#[derive(Debug, Default)]
struct Counters {
    lookups: AtomicU64,
    matched: AtomicU64,
}

/// A table of a snapshot.
#[derive(Clone)]
pub(crate) struct Table {
    pub(super) classifier: Classifier,
    config: TableConfig,
    /// Flows by importance and age; empty without eviction.
    order: Radix<Flow>,
    counters: Arc<Counters>,
}

impl Table {
    pub(super) fn new(config: TableConfig) -> Self {
        let (classifier, order, counters) = (Classifier::default(), Radix::default(), Arc::default());
        Self { classifier, config, order, counters }
    }

    pub(super) fn config(&self) -> TableConfig {
        self.config
    }

    pub(super) fn configure(&mut self, config: TableConfig) {
        self.config = config;
        self.order = Radix::default();
        if config.eviction {
            self.classifier.iter().for_each(|flow| self.order.insert(rank(flow), flow.clone()));
        }
    }

    pub(crate) fn classifier(&self) -> &Classifier {
        &self.classifier
    }

    pub(super) fn is_full(&self) -> bool {
        self.classifier.len() >= self.config.limit
    }

    /// The flow to remove for a new one of `importance`.
    pub(super) fn victim(&self, importance: u16) -> Option<Flow> {
        let (_, flow) = self.order.first()?;
        (flow.entry().importance() <= importance).then(|| flow.clone())
    }

    pub(super) fn insert(&mut self, flow: Flow, seed: u64) {
        if self.config.eviction {
            self.order.insert(rank(&flow), flow.clone());
        }
        self.classifier.insert(flow, seed);
    }

    pub(super) fn remove(&mut self, flow: &Flow) -> bool {
        if self.config.eviction {
            self.order.remove(rank(flow), |other| other.is(flow.entry()));
        }
        self.classifier.remove(flow)
    }

    pub(super) fn count(&self, lookups: u64, matched: u64) {
        self.counters.lookups.fetch_add(lookups, Ordering::Relaxed);
        self.counters.matched.fetch_add(matched, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> (u64, u64) {
        (self.counters.lookups.load(Ordering::Relaxed), self.counters.matched.load(Ordering::Relaxed))
    }
}

/// Position in the order of eviction: importance, then creation time in units of 2^16 ns.
fn rank(flow: &Flow) -> u64 {
    u64::from(flow.entry().importance()) << 48 | flow.entry().created().0 >> 16
}
