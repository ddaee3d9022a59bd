//! A slow interpreter of the specification: each packet by itself, each table by a scan, no masks.

use super::execute::{Event, Ports, Trace};
use super::packet::Packet;
use crate::action::{Action, Bucket, Instructions, Subfield};
use crate::field::{Field, Prerequisite};
use crate::key::Key;
use crate::matching::Match;
use crate::modify::{GroupKind, PortNo, TableId};
use crate::tables::{Flow, Tables};
use crate::translate::{Environment, Operation, reason, select_slot};
use std::collections::BTreeMap;

/// Why a list ends.
enum End {
    Exit,
    /// The packet is no longer valid.
    Stop,
}

type Step<T = ()> = Result<T, End>;

#[derive(Clone, Copy)]
struct Site {
    table: TableId,
    cookie: u64,
    miss: bool,
}

/// The interpreter.
#[derive(Clone)]
pub(super) struct Oracle<'a> {
    tables: &'a Tables,
    packet: Packet,
    /// Key when the packet came in.
    first: Key,
    set: Vec<Action>,
    stack: Vec<u128>,
    queue: Option<u32>,
    site: Site,
    trace: Trace,
}

impl<'a> Oracle<'a> {
    pub(super) fn run(tables: &'a Tables, packet: &Packet) -> Trace {
        let site = Site { table: TableId(0), cookie: 0, miss: false };
        let mut oracle = Self {
            tables,
            packet: packet.clone(),
            first: packet.key(),
            set: Vec::new(),
            stack: Vec::new(),
            queue: None,
            site,
            trace: Vec::new(),
        };
        let end = oracle.table(TableId(0));
        oracle.end(&end);
        oracle.trace
    }

    fn end(&mut self, end: &Step) {
        if !matches!(end, Err(End::Stop)) {
            let list = in_order(&std::mem::take(&mut self.set));
            _ = self.actions(&list, self.site);
        }
    }

    fn table(&mut self, table: TableId) -> Step {
        let Some(flow) = find(self.tables, table, &self.packet.key()) else {
            self.set.clear();
            return Ok(());
        };
        self.flow(flow)
    }

    fn flow(&mut self, flow: &Flow) -> Step {
        let instructions: &Instructions = flow.instructions();
        let entry = flow.entry();
        let site = Site { table: entry.table(), cookie: entry.cookie(), miss: entry.is_table_miss() };
        self.site = site;
        if let Some(id) = instructions.meter {
            self.record(Event::Meter(id));
        }
        self.actions(&instructions.apply, site)?;
        self.site = site;
        if instructions.clear {
            self.set.clear();
        }
        for action in &instructions.write {
            self.write(action);
        }
        if let Some((value, mask)) = instructions.metadata {
            self.packet.set(Field::Metadata, value.into(), mask.into());
        }
        instructions.goto.map_or(Ok(()), |next| self.table(next))
    }

    fn write(&mut self, action: &Action) {
        let same = |other: &Action| match (action, other) {
            (Action::SetField { field, mask, .. }, Action::SetField { field: f, mask: m, .. }) => {
                field == f && mask == m
            }
            (Action::Move { .. } | Action::DeleteField(_), _) => false,
            _ => std::mem::discriminant(action) == std::mem::discriminant(other),
        };
        self.set.retain(|other| !same(other));
        self.set.push(action.clone());
    }

    fn record(&mut self, event: Event) {
        self.trace.push((event, self.queue, self.packet.on_the_wire()));
    }

    fn actions(&mut self, list: &[Action], site: Site) -> Step {
        list.iter().try_for_each(|action| self.action(action, site))
    }

    fn action(&mut self, action: &Action, site: Site) -> Step {
        match action {
            Action::Output { port, .. } => self.output(*port, site),
            Action::OutputField { from, .. } => {
                // The generator has no parts of 16 bits or more.
                let port = PortNo(self.part(*from) as u32);
                self.output(port, site);
            }
            Action::SetQueue(queue) => self.queue = *queue,
            Action::SetField { field, value, mask } => self.set_field(*field, *value, *mask),
            Action::Move { from, to } if self.holds(from.field) => {
                let value = self.part(*from);
                self.set_field(to.field, value << to.offset, to.mask());
            }
            Action::DeleteField(field) => {
                self.packet.set(*field, 0, field.full());
                self.packet.set(Field::TunOptions, 0, presence(*field));
            }
            Action::StackPush(from) => {
                let value = self.part(*from);
                self.stack.push(value);
            }
            Action::StackPop(to) => {
                if let Some(value) = self.stack.pop() {
                    self.set_field(to.field, value << to.offset & to.mask(), to.mask());
                }
            }
            Action::Resubmit(resubmit) => {
                let table = resubmit.table.unwrap_or(site.table);
                let mut key = self.packet.key();
                if let Some(port) = resubmit.in_port {
                    key.set(Field::InPort, port.0.into());
                }
                return find(self.tables, table, &key).map_or(Ok(()), |flow| self.flow(flow));
            }
            Action::Group(id) => self.group(*id, site),
            Action::Clone(inner) => self.copy(inner, site),
            Action::Meter(id) => self.record(Event::Meter(*id)),
            Action::Exit => return Err(End::Exit),
            other => return self.header(other),
        }
        Ok(())
    }

    fn output(&mut self, port: PortNo, site: Site) {
        let in_port = PortNo(self.packet.get(Field::InPort) as u32);
        let event = match port {
            PortNo::CONTROLLER => {
                let reason = if site.miss { reason::NO_MATCH } else { reason::ACTION };
                Event::Controller(0, reason, site.cookie, self.packet.get(Field::Metadata))
            }
            PortNo::IN_PORT => Event::Output(in_port),
            PortNo::ALL => Event::All(in_port),
            PortNo::FLOOD => Event::Flood(in_port),
            PortNo::NORMAL => Event::Normal(in_port),
            port if port == in_port => return,
            port => Event::Output(port),
        };
        self.record(event);
    }

    fn header(&mut self, action: &Action) -> Step {
        let (mpls, ip) = (self.is_type(&[0x8847, 0x8848]), self.is_type(&[0x800, 0x86dd]));
        let operation = match action {
            Action::PushVlan(kind) => Operation::PushVlan(*kind),
            Action::PopVlan if self.has_tag() => Operation::PopVlan,
            Action::PushMpls(kind) => Operation::PushMpls(*kind),
            Action::PopMpls(kind) if mpls => Operation::PopMpls(*kind),
            Action::DecMplsTtl if mpls => Operation::DecMplsTtl,
            Action::DecNwTtl(ids) if ip => Operation::DecNwTtl(ids.clone()),
            Action::CopyTtlOut if mpls => Operation::CopyTtlOut,
            Action::CopyTtlIn if mpls => Operation::CopyTtlIn,
            _ => return Ok(()),
        };
        let before = self.packet.clone();
        if self.packet.change(&operation) {
            return Ok(());
        }
        if let Operation::DecNwTtl(ids) = operation {
            for id in ids {
                let event = Event::Controller(id, reason::INVALID_TTL, 0, 0);
                self.trace.push((event, self.queue, before.on_the_wire()));
            }
        }
        Err(End::Stop)
    }

    fn copy(&mut self, list: &[Action], site: Site) {
        let mut copy = self.clone();
        copy.set.clear();
        let end = copy.actions(list, site);
        copy.end(&end);
        self.trace = copy.trace;
    }

    fn group(&mut self, id: u32, site: Site) {
        let Some(group) = self.tables.group(id).cloned() else { return };
        let live = |bucket: &&Bucket| bucket.watch_port.is_none_or(|port| Ports.is_live(port));
        let all = group.buckets();
        let chosen: Vec<&Bucket> = match group.kind() {
            GroupKind::All | GroupKind::Indirect => all.iter().collect(),
            GroupKind::FastFailover => all.iter().filter(live).take(1).collect(),
            GroupKind::Select => {
                let live: Vec<_> = (0..all.len()).filter(|i| live(&&all[*i])).collect();
                let slot = group.slots(&live).get(select_slot(&self.first)).copied();
                slot.map(|i| &all[usize::from(i)]).into_iter().collect()
            }
        };
        for bucket in chosen {
            self.copy(&in_order(&bucket.actions), site);
        }
    }

    fn has_tag(&self) -> bool {
        self.packet.get(Field::VlanTci) & 0x1000 != 0
    }

    fn is_type(&self, types: &[u128]) -> bool {
        types.contains(&self.packet.get(Field::EthType))
    }

    fn holds(&self, field: Field) -> bool {
        let requires = field.info().requires;
        let (key, every) = (self.packet.key(), Key([u64::MAX; crate::WORDS]));
        requires == Prerequisite::InPort || requires.holds(&Match::new(&key, &every))
    }

    fn part(&self, part: Subfield) -> u128 {
        let value = if self.holds(part.field) { self.packet.get(part.field) } else { 0 };
        (value & part.mask()) >> part.offset
    }

    fn set_field(&mut self, field: Field, value: u128, mask: u128) {
        if !self.holds(field) {
            return;
        }
        match field {
            Field::VlanVid if !self.has_tag() => {}
            Field::VlanVid => self.packet.set(field, value, mask & 0xfff),
            _ => self.packet.set(field, value, mask),
        }
        self.packet.set(Field::TunOptions, presence(field), presence(field));
    }
}

/// The bit that says that an option is present.
fn presence(field: Field) -> u128 {
    field.option().map_or(0, |n| 1 << n)
}

/// The flow of the highest priority, by a scan (OpenFlow 1.3.5, 5.3; ovs-fields(7) for conjunctions).
pub(super) fn find<'a>(tables: &'a Tables, table: TableId, key: &Key) -> Option<&'a Flow> {
    let mut flows: Vec<_> = tables.flows(table).filter(|flow| flow.entry().matching().selects(key)).collect();
    flows.sort_by_key(|flow| std::cmp::Reverse((flow.entry().priority(), !flow.is_part())));
    let mut parts: BTreeMap<(u16, u32, u8), u64> = BTreeMap::new();
    for (i, flow) in flows.iter().enumerate() {
        if !flow.is_part() {
            return Some(flow);
        }
        let priority = flow.entry().priority();
        for (id, clause, of) in flow.conjunctions() {
            *parts.entry((priority, id, of)).or_default() |= 1 << clause;
        }
        // After the last part of a priority, its conjunctions are complete or not.
        if flows.get(i + 1).is_some_and(|next| next.entry().priority() == priority) {
            continue;
        }
        for ((at, id, of), clauses) in &parts {
            if *at == priority && clauses.count_ones() == u32::from(*of) {
                let mut key = *key;
                key.set(Field::ConjId, (*id).into());
                let hard = tables.flows(table).filter(|flow| !flow.is_part());
                let found = hard
                    .filter(|flow| flow.entry().matching().selects(&key))
                    .max_by_key(|flow| flow.entry().priority());
                if found.is_some() {
                    return found;
                }
            }
        }
    }
    None
}

/// A list in the order of an action set.
fn in_order(set: &[Action]) -> Vec<Action> {
    let order: [fn(&Action) -> bool; 8] = [
        |action| matches!(action, Action::CopyTtlIn),
        |action| matches!(action, Action::PopVlan),
        |action| matches!(action, Action::PopMpls(_)),
        |action| matches!(action, Action::PushMpls(_)),
        |action| matches!(action, Action::PushVlan(_)),
        |action| matches!(action, Action::CopyTtlOut),
        |action| matches!(action, Action::DecNwTtl(_)),
        |action| matches!(action, Action::DecMplsTtl),
    ];
    let last = |is: &dyn Fn(&Action) -> bool| set.iter().rev().find(|action| is(action)).cloned();
    let group = last(&|action| matches!(action, Action::Group(_)));
    let output = last(&|action| matches!(action, Action::Output { .. }));
    let Some(end) = group.or(output) else { return Vec::new() };
    let mut list: Vec<_> = order.iter().filter_map(|is| last(is)).collect();
    let sets = |action: &&Action| {
        matches!(action, Action::SetField { .. } | Action::Move { .. } | Action::DeleteField(_))
    };
    list.extend(set.iter().filter(sets).cloned());
    list.extend(last(&|action| matches!(action, Action::SetQueue(_))));
    list.push(end);
    list
}
