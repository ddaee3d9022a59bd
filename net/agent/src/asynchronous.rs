//! Notices of removed flows (OpenFlow 1.3.5, 7.4.2), and of all other changes of flows to monitors.

use crate::session::Session;
use crate::settings::Event;
use flow::tables::{Changes, Removed, RemovedReason};
use openflow::{FlowRemoved, Message, Version};
use port::Now;
use std::time::Duration;

impl Session {
    /// Reports changes of flows; `own`: the transaction identifier if this session has made them.
    pub(crate) fn report_changes(&mut self, changes: &Changes, own: Option<u32>, now: Now) {
        if self.dialect.is_none() {
            return;
        }
        for removed in changes.removed.iter().filter(|removed| removed.is_reported()) {
            self.flow_removed(removed, now);
        }
        self.monitor_changes(changes, own);
    }

    fn flow_removed(&mut self, removed: &Removed, now: Now) {
        let Some(reason) = reason_of(removed.reason) else { return };
        if !self.settings.wants(self.kind, self.role, Event::FlowRemoved, reason.number()) {
            return;
        }
        let entry = removed.flow.entry();
        let ((packets, bytes), (idle_timeout, hard_timeout)) = (entry.counts(), entry.timeouts());
        let notice = Box::new(FlowRemoved {
            table: entry.table(),
            matching: entry.matching(),
            priority: entry.priority(),
            cookie: entry.cookie(),
            reason,
            duration: since(entry.created(), now),
            idle_timeout,
            hard_timeout,
            packets,
            bytes,
        });
        let is_nicira = self.version() == Some(Version::V10) && self.settings.nicira_flows;
        let message = if is_nicira { Message::NxFlowRemoved(notice) } else { Message::FlowRemoved(notice) };
        self.notify(&message);
    }
}

/// Time from `start` to `now`.
pub(crate) fn since(start: Now, now: Now) -> Duration {
    Duration::from_nanos(now.0.saturating_sub(start.0))
}

/// The reason in messages; replaced flows are not reported.
pub(crate) fn reason_of(reason: RemovedReason) -> Option<openflow::RemovedReason> {
    use openflow::RemovedReason as Reason;
    match reason {
        RemovedReason::IdleTimeout => Some(Reason::IdleTimeout),
        RemovedReason::HardTimeout => Some(Reason::HardTimeout),
        RemovedReason::Delete => Some(Reason::Delete),
        RemovedReason::GroupDelete => Some(Reason::GroupDelete),
        RemovedReason::MeterDelete => Some(Reason::MeterDelete),
        RemovedReason::Eviction => Some(Reason::Eviction),
        RemovedReason::Replaced => None,
    }
}
