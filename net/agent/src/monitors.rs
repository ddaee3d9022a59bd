//! Monitors of flows (OpenFlow 1.4.1, 7.3.5.17; nicira-ext.h and the extension 187 of the ONF before).
//!
//! While much output waits, monitors pause: changes are kept by flow, and reported when everything was sent.

use crate::asynchronous::reason_of;
use crate::limits;
use crate::request::{Answer, Request};
use crate::session::{Session, SessionError};
use crate::stats::{covered, leads_to};
use flow::tables::{Changes, Flow};
use flow::{Instructions, TableId};
use openflow::monitor::{ADD, INITIAL, INSTRUCTIONS, MODIFY, NO_ABBREV, ONLY_OWN, REMOVED};
use openflow::{
    ErrorCode, FlowEvent, FlowReport, FlowUpdate, Message, MonitorCommand, MonitorRequest, MultipartReply,
    Version,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// The session's own changes only, in full. Open vSwitch and ovs-ofctl set the second flag alone for all changes, the
/// session's own ones in full; by the specification it would ask for own changes without their contents.
const OWN: u16 = NO_ABBREV | ONLY_OWN;

/// A change of a flow that monitors select.
struct Event {
    kind: FlowEvent,
    flow: Flow,
    reason: u8,
    /// Flags of the monitors that select it.
    flags: u16,
}

/// Monitors of a session.
#[derive(Default)]
pub(crate) struct Monitors {
    requests: BTreeMap<u32, MonitorRequest>,
    /// Changes since the monitors paused, by flow; `None` while they report.
    held: Option<HashMap<usize, Event>>,
}

impl Request<'_> {
    /// Changes monitors, all or none, and reports the flows that exist.
    pub(crate) fn flow_monitor(&mut self, mut requests: Vec<MonitorRequest>) -> Answer {
        for request in &mut requests {
            request.matching = self.normal(&request.matching)?;
        }
        let of_others: usize = self.others.values().map(|other| other.monitors.requests.len()).sum();
        let most = limits::MONITORS.min(limits::ALL_MONITORS.saturating_sub(of_others));
        let (changed, added) = change(&self.session.monitors.requests, requests, most)?;
        // Changes before this request are reported to the monitors before it only.
        let (earlier, tables) = self.datapath.synchronize();
        self.report_others(&earlier);
        self.session.monitors.requests = changed;
        let mut flows: HashMap<usize, (Flow, u16)> = HashMap::new();
        for monitor in added.iter().filter(|monitor| monitor.flags & INITIAL != 0) {
            for flow in covered(&tables, monitor.table, &monitor.matching) {
                if leads_to(&flow, monitor.out_port, monitor.out_group) {
                    flows.entry(identity(&flow)).or_insert((flow, 0)).1 |= monitor.flags;
                }
            }
        }
        let flows: Vec<_> = flows.into_values().collect();
        let initial = |(flow, flags)| report(&Event { kind: FlowEvent::Initial, flow, reason: 0, flags });
        self.reply_list(flows, initial, MultipartReply::FlowMonitor)
    }
}

/// Identifies a flow while it exists, across modifications.
fn identity(flow: &Flow) -> usize {
    Arc::as_ptr(flow.entry()).addr()
}

/// Monitors after the requests, at most `most`, and those that are new.
fn change(
    before: &BTreeMap<u32, MonitorRequest>,
    requests: Vec<MonitorRequest>,
    most: usize,
) -> Result<(BTreeMap<u32, MonitorRequest>, Vec<MonitorRequest>), ErrorCode> {
    let (mut changed, mut added) = (before.clone(), Vec::new());
    for request in requests {
        let known = changed.remove(&request.id);
        match (request.command, known) {
            (MonitorCommand::Add, Some(_)) => return Err(ErrorCode::MonitorExists),
            (MonitorCommand::Modify | MonitorCommand::Delete, None) => {
                return Err(ErrorCode::MonitorUnknownId);
            }
            (MonitorCommand::Delete, Some(_)) => continue,
            (MonitorCommand::Add, None) | (MonitorCommand::Modify, Some(_)) => {}
        }
        if changed.len() >= most || added.len() >= most {
            return Err(ErrorCode::RequestPermissions);
        }
        changed.insert(request.id, request.clone());
        added.push(request);
    }
    Ok((changed, added))
}

impl Monitors {
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Memory of the changes that are kept, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.held.as_ref().map_or(0, |held| held.capacity() * size_of::<(usize, Event)>())
    }

    pub(crate) fn cancel(&mut self, id: u32) -> Answer {
        self.requests.remove(&id).map(drop).ok_or(ErrorCode::MonitorUnknownId)
    }

    /// Flags of the monitors that report an event of a flow; `is_own`: the session has made the change.
    fn flags(&self, event: FlowEvent, flow: &Flow, is_own: bool) -> u16 {
        let bit = match event {
            FlowEvent::Initial => INITIAL,
            FlowEvent::Added => ADD,
            FlowEvent::Removed => REMOVED,
            FlowEvent::Modified => MODIFY,
        };
        let (entry, matching) = (flow.entry(), flow.entry().matching());
        let selects = |monitor: &&MonitorRequest| {
            monitor.flags & bit != 0
                && (is_own || monitor.flags & OWN != OWN)
                && [TableId::ALL, entry.table()].contains(&monitor.table)
                && monitor.matching.covers(&matching)
                && leads_to(flow, monitor.out_port, monitor.out_group)
        };
        self.requests.values().filter(selects).fold(0, |flags, monitor| flags | monitor.flags)
    }

    /// The events that monitors select.
    fn events(&self, changes: &Changes, is_own: bool) -> Vec<Event> {
        let events = final_events(changes).filter_map(|(kind, flow, reason)| {
            let flags = self.flags(kind, flow, is_own);
            (flags != 0).then(|| Event { kind, flow: flow.clone(), reason, flags })
        });
        events.collect()
    }
}

/// Keeps an event while monitors are paused. A flow that was added and removed meanwhile is not reported.
fn hold(held: &mut HashMap<usize, Event>, event: Event) {
    let flow = identity(&event.flow);
    let was_added = held.get(&flow).is_some_and(|earlier| earlier.kind == FlowEvent::Added);
    match (event.kind, was_added) {
        (FlowEvent::Removed, true) => drop(held.remove(&flow)),
        (FlowEvent::Modified, true) => drop(held.insert(flow, Event { kind: FlowEvent::Added, ..event })),
        _ => drop(held.insert(flow, event)),
    }
}

/// Net result of changes: without flows that they added and removed again. Removals come first, as other flows can
/// have the same match.
fn final_events(changes: &Changes) -> impl Iterator<Item = (FlowEvent, &Flow, u8)> {
    let is_short = changes.added.is_empty() || changes.removed.is_empty();
    let added: HashSet<_> =
        if is_short { HashSet::new() } else { changes.added.iter().map(identity).collect() };
    let is_gone = changes.removed.iter().map(|removed| identity(&removed.flow)).collect::<HashSet<_>>();
    let removed = changes.removed.iter().filter_map(move |removed| {
        let reason = reason_of(removed.reason).filter(|_| !added.contains(&identity(&removed.flow)))?;
        Some((FlowEvent::Removed, &removed.flow, reason.number()))
    });
    let stays = [(FlowEvent::Added, &changes.added), (FlowEvent::Modified, &changes.modified)];
    let stays = stays.into_iter().flat_map(|(event, flows)| flows.iter().map(move |flow| (event, flow, 0)));
    removed.chain(stays.filter(move |(_, flow, _)| !is_gone.contains(&identity(flow))))
}

fn report(event: &Event) -> FlowUpdate {
    let entry = event.flow.entry();
    let (idle_timeout, hard_timeout) = entry.timeouts();
    let instructions = if event.flags & INSTRUCTIONS == 0 {
        Instructions::default()
    } else {
        (**event.flow.instructions()).clone()
    };
    FlowUpdate::Flow(Box::new(FlowReport {
        event: event.kind,
        table: entry.table(),
        reason: event.reason,
        idle_timeout,
        hard_timeout,
        priority: entry.priority(),
        cookie: entry.cookie(),
        matching: entry.matching(),
        instructions,
    }))
}

impl Session {
    /// Reports changes to monitors; `own`: the transaction identifier if this session has made them.
    pub(crate) fn monitor_changes(&mut self, changes: &Changes, own: Option<u32>) {
        if self.monitors.is_empty() && self.monitors.held.is_none() {
            return;
        }
        let mut events = self.monitors.events(changes, own.is_some());
        if let Some(xid) = own.filter(|_| self.monitors.held.is_none()) {
            self.abbreviate(&mut events, xid);
        }
        while self.monitors.held.is_none() && !events.is_empty() {
            if self.output.is_slow() {
                self.pause_monitors();
                break;
            }
            let rest = events.split_off(events.len().min(limits::CHUNK));
            self.send_updates(events.iter().map(report).collect());
            events = rest;
        }
        self.hold(events, changes);
    }

    /// Replaces the events that monitors report in short form by one report.
    fn abbreviate(&mut self, events: &mut Vec<Event>, xid: u32) {
        let all = events.len();
        events.retain(|event| event.flags & OWN != 0);
        if events.len() < all {
            self.send_updates(vec![FlowUpdate::Own(xid)]);
        }
    }

    /// Keeps events while monitors are paused.
    fn hold(&mut self, events: Vec<Event>, changes: &Changes) {
        let Some(held) = &mut self.monitors.held else { return };
        for event in events {
            hold(held, event);
        }
        // Of a flow that is gone, no monitor may report more than that.
        for removed in &changes.removed {
            let flow = identity(&removed.flow);
            if held.get(&flow).is_some_and(|event| event.kind != FlowEvent::Removed) {
                held.remove(&flow);
            }
        }
        if held.len() > limits::HELD {
            held.clear();
            self.ended = Some(SessionError::Stalled);
        }
    }

    fn pause_monitors(&mut self) {
        self.monitors.held = Some(HashMap::new());
        self.send_state(FlowUpdate::Paused, &Message::MonitorPaused);
    }

    /// Continues to report after a pause, if everything was sent: first what has changed meanwhile.
    pub(crate) fn resume_monitors(&mut self) {
        let Some(dialect) = self.dialect.filter(|_| self.output.is_empty()) else { return };
        let Some(held) = &mut self.monitors.held else { return };
        if held.is_empty() {
            self.monitors.held = None;
            return self.send_state(FlowUpdate::Resumed, &Message::MonitorResumed);
        }
        let mut events: Vec<_> = std::mem::take(held).into_values().collect();
        let memory = size_of_val(&*events);
        // A flow that was added can have the match of one that was removed.
        events.sort_by_key(|event| event.kind != FlowEvent::Removed);
        let mut events = events.into_iter();
        let parts = std::iter::from_fn(move || {
            let updates: Vec<_> = events.by_ref().take(limits::CHUNK).map(|event| report(&event)).collect();
            (!updates.is_empty()).then_some(MultipartReply::FlowMonitor(updates))
        });
        self.output.dump(Box::new(parts), memory, dialect, 0);
    }

    fn send_state(&mut self, update: FlowUpdate, message: &Message) {
        if self.version() >= Some(Version::V14) {
            self.send_updates(vec![update]);
        } else {
            // Every version has these messages.
            let _ = self.send(message, 0);
        }
    }

    fn send_updates(&mut self, updates: Vec<FlowUpdate>) {
        let Some(dialect) = self.dialect.filter(|_| !updates.is_empty()) else { return };
        self.counters.sent += 1;
        self.output.put_part(MultipartReply::FlowMonitor(updates), dialect);
    }
}
