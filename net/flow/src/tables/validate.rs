//! Checks of instructions and actions (OpenFlow 1.3.5, 7.3.4.2), before anything is changed.

use super::error::{ActionError, FlowModError, InstructionError};
use super::limits;
use super::snapshot::Tables;
use crate::action::{Action, ConnectionTracking, Learn, LearnSpec, LearnValue, Resubmit, Subfield};
use crate::field::{Access, Field};
use crate::matching::Match;
use crate::modify::{FlowMod, PortNo, TableId};

/// Where actions are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In a list that is executed in order.
    List,
    /// In an action set, or in a bucket.
    Set,
    /// In `ct`.
    Ct,
    /// In a packet-out: as in a list, and the packet may go to the first table.
    PacketOut,
}

struct Checker<'a> {
    tables: &'a Tables,
    place: Place,
    /// Known fields of packets at this action; `None` if prerequisites are checked for each packet only.
    known: Option<Match>,
    /// A group that exists, although it is not there yet.
    group: Option<u32>,
}

/// Checks the instructions of a flow.
pub(super) fn flow(tables: &Tables, change: &FlowMod) -> Result<(), FlowModError> {
    let instructions = &change.instructions;
    if let Some(to) = instructions.goto.filter(|to| *to <= change.table || *to == TableId::ALL) {
        return Err(InstructionError::Goto { from: change.table, to }.into());
    }
    if let Some(id) = instructions.meter {
        meter(tables, id)?;
    }
    let mut checker = Checker { tables, place: Place::List, known: Some(change.matching), group: None };
    checker.actions(&instructions.apply, 0)?;
    let part = |action: &Action| matches!(action, Action::Conjunction { .. });
    if instructions.apply.iter().any(part) {
        conjunction(change)?;
    }
    checker.place = Place::Set;
    Ok(checker.actions(&instructions.write, 0)?)
}

/// Checks the actions of a bucket of group `group`.
pub(super) fn bucket(tables: &Tables, group: u32, actions: &[Action]) -> Result<(), ActionError> {
    Checker { tables, place: Place::Set, known: None, group: Some(group) }.actions(actions, 0)
}

/// Checks the actions of a packet-out.
pub(super) fn packet_out(tables: &Tables, actions: &[Action]) -> Result<(), ActionError> {
    Checker { tables, place: Place::PacketOut, known: None, group: None }.actions(actions, 0)
}

fn conjunction(change: &FlowMod) -> Result<(), FlowModError> {
    let instructions = &change.instructions;
    let alone = |action: &Action| matches!(action, Action::Conjunction { .. } | Action::Note(_));
    if !instructions.apply.iter().all(alone) {
        return Err(ActionError::Argument("conjunction").into());
    }
    let others =
        instructions.goto.is_some() || instructions.metadata.is_some() || instructions.meter.is_some();
    if others || instructions.clear || !instructions.write.is_empty() {
        return Err(InstructionError::Conjunction.into());
    }
    Ok(())
}

fn meter(tables: &Tables, id: u32) -> Result<(), ActionError> {
    if tables.meter(id).is_some() { Ok(()) } else { Err(ActionError::Meter(id)) }
}

fn require(holds: bool, error: ActionError) -> Result<(), ActionError> {
    if holds { Ok(()) } else { Err(error) }
}

fn table(id: TableId, action: &'static str) -> Result<(), ActionError> {
    require(id != TableId::ALL, ActionError::Argument(action))
}

impl Checker<'_> {
    fn actions(&mut self, actions: &[Action], depth: usize) -> Result<(), ActionError> {
        require(depth <= limits::CLONES, ActionError::TooMany)?;
        actions.iter().try_for_each(|action| self.action(action, depth))
    }

    fn action(&mut self, action: &Action, depth: usize) -> Result<(), ActionError> {
        self.allowed(action)?;
        match action {
            Action::Output { port: PortNo::TABLE, .. } if self.place == Place::PacketOut => Ok(()),
            Action::Output { port, .. } => output(*port),
            Action::OutputField { from, .. } | Action::StackPush(from) => self.readable(*from),
            Action::Group(id) => self.out_group(*id),
            Action::SetField { field, value, mask } => self.set(*field, *value, *mask),
            Action::Move { from, to } => self.copy(*from, *to),
            Action::StackPop(to) => self.writable(*to),
            Action::DeleteField(field) => self.deletable(*field),
            Action::Meter(id) => meter(self.tables, *id),
            Action::Resubmit(Resubmit { table: Some(id), .. }) => table(*id, "resubmit"),
            Action::Learn(learn) => self.learn(learn),
            Action::Ct(tracking) => self.ct(tracking, depth),
            Action::Conjunction { clause, clauses, .. } => {
                let valid = (2..=64).contains(clauses) && clause < clauses;
                require(valid, ActionError::Argument("conjunction"))
            }
            Action::FinTimeout { .. } => self.consistent(Field::TcpFlags),
            Action::Clone(inner) => self.clone_of(inner, depth),
            _ => self.header(action),
        }
    }

    /// Actions that change headers.
    fn header(&mut self, action: &Action) -> Result<(), ActionError> {
        let one_of =
            |kind: u16, kinds: &[u16], name| require(kinds.contains(&kind), ActionError::Argument(name));
        match action {
            Action::PushVlan(kind) => {
                one_of(*kind, &[0x8100, 0x88a8], "push_vlan")?;
                self.know(|known| known.with(Field::VlanVid, 0x1000));
            }
            Action::PopVlan => self.know(|known| known.with(Field::VlanTci, 0)),
            Action::PushMpls(kind) => {
                one_of(*kind, &[0x8847, 0x8848], "push_mpls")?;
                self.know_type(*kind);
            }
            Action::PopMpls(kind) => {
                require(*kind >= 0x600, ActionError::Argument("pop_mpls"))?;
                self.know_type(*kind);
            }
            Action::PushPbb(kind) => {
                one_of(*kind, &[0x88e7], "push_pbb")?;
                self.know_type(*kind);
            }
            // The contents after the tag are not known.
            Action::PopPbb => self.known = None,
            _ => {}
        }
        Ok(())
    }

    /// Whether the kind of action may stand here.
    fn allowed(&self, action: &Action) -> Result<(), ActionError> {
        let name = match (self.place, action) {
            (Place::List | Place::PacketOut, _)
            | (Place::Ct, Action::SetField { .. } | Action::Move { .. }) => return Ok(()),
            (Place::Ct, _) => "ct",
            (_, Action::Learn(_)) => "learn",
            (_, Action::Conjunction { .. }) => "conjunction",
            (_, Action::FinTimeout { .. }) => "fin_timeout",
            // Buckets of Open vSwitch are lists in all but name.
            _ if self.group.is_some() => return Ok(()),
            (_, Action::Clone(_)) => "clone",
            (_, Action::StackPush(_) | Action::StackPop(_)) => "push, pop",
            (_, Action::Exit) => "exit",
            (_, Action::Note(_)) => "note",
            (_, Action::OutputField { .. }) => "output",
            (_, Action::Controller(_)) => "controller",
            _ => return Ok(()),
        };
        Err(ActionError::Type(name))
    }

    fn know(&mut self, change: impl FnOnce(Match) -> Match) {
        self.known = self.known.map(change);
    }

    fn know_type(&mut self, kind: u16) {
        // The network header is another one; its fields are not known.
        self.known = self.known.map(|_| Match::any().with(Field::EthType, kind.into()));
    }

    fn out_group(&self, id: u32) -> Result<(), ActionError> {
        let exists = self.group == Some(id) || self.tables.group(id).is_some();
        require(exists, ActionError::OutGroup(id))
    }

    fn consistent(&self, field: Field) -> Result<(), ActionError> {
        let info = field.info();
        let holds = self.known.is_none_or(|known| info.requires.holds(&known));
        require(holds, ActionError::Inconsistent(info.name, info.requires.describe()))
    }

    fn set(&self, field: Field, value: u128, mask: u128) -> Result<(), ActionError> {
        let info = field.info();
        require(info.access == Access::Write, ActionError::SetType(info.name))?;
        require(value & !mask == 0 && mask & !field.full() == 0, ActionError::SetArgument(info.name))?;
        self.tables.options.check_value(field, value, mask)?;
        self.consistent(field)
    }

    fn deletable(&self, field: Field) -> Result<(), ActionError> {
        require(field.option().is_some(), ActionError::SetType(field.info().name))?;
        Ok(self.tables.options.check_value(field, 0, field.full())?)
    }

    fn readable(&self, part: Subfield) -> Result<(), ActionError> {
        self.tables.options.check(part)?;
        self.consistent(part.field)
    }

    fn writable(&self, part: Subfield) -> Result<(), ActionError> {
        let info = part.field.info();
        require(info.access == Access::Write, ActionError::SetType(info.name))?;
        self.tables.options.check(part)?;
        self.consistent(part.field)
    }

    fn copy(&self, from: Subfield, to: Subfield) -> Result<(), ActionError> {
        require(from.bits == to.bits, ActionError::Argument("move"))?;
        self.readable(from)?;
        self.writable(to)
    }

    fn clone_of(&mut self, inner: &[Action], depth: usize) -> Result<(), ActionError> {
        let known = self.known;
        self.actions(inner, depth + 1)?;
        self.known = known;
        Ok(())
    }

    fn learn(&self, learn: &Learn) -> Result<(), ActionError> {
        table(learn.table, "learn")?;
        self.tables.check_limit(learn)?;
        let value = |value: &LearnValue| match value {
            LearnValue::Field(part) => self.readable(*part),
            LearnValue::Constant(..) => Ok(()),
        };
        if let Some((field, offset)) = learn.result {
            self.tables.options.check(Subfield { field, offset, bits: 1 })?;
        }
        for spec in &learn.specs {
            match spec {
                LearnSpec::Match(from, to) => {
                    value(from)?;
                    self.tables.options.check(*to)?;
                }
                LearnSpec::Load(from, to) => {
                    value(from)?;
                    self.tables.options.check(*to)?;
                    require(
                        to.field.info().access == Access::Write,
                        ActionError::SetType(to.field.info().name),
                    )?;
                }
                LearnSpec::Output(from) => self.readable(*from)?,
            }
        }
        Ok(())
    }

    fn ct(&mut self, tracking: &ConnectionTracking, depth: usize) -> Result<(), ActionError> {
        if let Some(id) = tracking.table {
            table(id, "ct")?;
        }
        if let LearnValue::Field(part) = tracking.zone {
            self.readable(part)?;
        }
        let place = std::mem::replace(&mut self.place, Place::Ct);
        let result = self.actions(&tracking.actions, depth + 1);
        self.place = place;
        result
    }
}

fn output(port: PortNo) -> Result<(), ActionError> {
    let reserved =
        [PortNo::IN_PORT, PortNo::NORMAL, PortNo::FLOOD, PortNo::ALL, PortNo::CONTROLLER, PortNo::LOCAL];
    let valid = port.0 != 0 && port <= PortNo::MAX || reserved.contains(&port);
    require(valid, ActionError::OutPort(port))
}
