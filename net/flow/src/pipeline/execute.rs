//! Executes the operations of a translation on one packet.
//!
//! The packet in the burst stays as it is: changes are made to a copy of its head, and become edits of the outputs.

use super::directory::{Member, Place, Scope};
use super::lookup::Lookup;
use super::recirculation::{Carried, Cause, Recirculation, Recirculations};
use super::track::Tracking;
use super::worker::NORMAL;
use crate::matching::Match;
use crate::modify::PortNo;
use crate::packet::{ActionError, Layout, Rewriter};
use crate::tables::{CONTROLLER, Metering};
use crate::translate::{ControllerOperation, Operation, SelectedBucket, reason};
use crate::{Field, Key, TableId};
use port::{Burst, Context, DropReason, EditId, PortId, PuntNote, PuntReason, Verdicts};
use std::sync::Arc;

/// The rest of a list is not executed: the packet has a verdict.
pub(super) struct Stopped;

/// Execution for one packet.
pub(super) struct Executor<'a> {
    pub(super) scope: Scope<'a>,
    /// Bridge and ingress port.
    pub(super) member: Member,
    pub(super) lookup: &'a mut Lookup,
    pub(super) burst: &'a Burst,
    pub(super) packet: usize,
    pub(super) context: &'a Context,
    pub(super) verdicts: &'a mut Verdicts,
    pub(super) rewriter: &'a mut Rewriter,
    pub(super) recirculations: &'a mut Recirculations,
    pub(super) carried: &'a Carried,
    pub(super) tracking: Tracking<'a>,
    /// Edit of the packet as it is now, if it is known.
    pub(super) edit: Option<EditId>,
    /// Whether the packet has a verdict.
    pub(super) is_decided: bool,
    /// Whether the packet was received on a port of the bridge.
    pub(super) has_port: bool,
    /// Traffic class of the queue that was selected last, for the outputs that follow.
    class: Option<u8>,
    /// The class of the packet, which is that of its first output. Outputs in other classes have edits.
    pub(super) packet_class: Option<u8>,
}

impl<'a> Executor<'a> {
    pub(super) fn new(
        (scope, member, lookup): (Scope<'a>, Member, &'a mut Lookup),
        (burst, packet): (&'a Burst, usize),
        context: &'a Context,
        verdicts: &'a mut Verdicts,
        rewriter: &'a mut Rewriter,
        (recirculations, carried): (&'a mut Recirculations, &'a Carried),
        tracking: Tracking<'a>,
    ) -> Self {
        let (edit, is_decided, has_port) = (Some(EditId::NONE), false, true);
        Self {
            scope,
            member,
            lookup,
            burst,
            packet,
            context,
            verdicts,
            rewriter,
            recirculations,
            carried,
            tracking,
            edit,
            is_decided,
            has_port,
            class: None,
            packet_class: None,
        }
    }

    /// Executes all operations for the packet, with its key and layout.
    pub(super) fn run(&mut self, (key, layout): (&Key, &Layout), operations: &[Operation]) {
        let (head, len) = (self.burst.head(self.packet), self.burst.frame_len(self.packet));
        self.rewriter.begin(head, len, self.burst.offload(self.packet), key, layout);
        let _ = self.list(key, operations);
        if !self.is_decided {
            self.drop(DropReason::FlowDrop);
        }
    }

    pub(super) fn list(&mut self, key: &Key, operations: &[Operation]) -> Result<(), Stopped> {
        let Some((last, before)) = operations.split_last() else { return Ok(()) };
        before.iter().try_for_each(|operation| self.one(key, operation))?;
        // Nothing follows that needs the packet as it is before a copy. A refusal ends the list of the copy only.
        match last {
            Operation::Clone(copy) => self.list(key, copy).or(Ok(())),
            Operation::Encapsulate(way) => self.encapsulate(key, way).or(Ok(())),
            Operation::Decapsulate { kind, port } => self.decapsulate(*kind, *port).or(Ok(())),
            last => self.one(key, last),
        }
    }

    fn one(&mut self, key: &Key, operation: &Operation) -> Result<(), Stopped> {
        match operation {
            Operation::Output(port) => self.output(*port)?,
            Operation::All { except } => self.flood(*except, |_| true)?,
            Operation::Flood { except } => self.flood(*except, |place| !place.config.is_not_flooded)?,
            // The learning bridge forwards packets of its ports only.
            Operation::Normal { in_port } if !self.has_port => {
                self.flood(*in_port, |place| !place.config.is_not_flooded)?;
            }
            Operation::Normal { .. } => self.recirculate(NORMAL)?,
            Operation::Controller(output) => self.controller(output)?,
            Operation::Queue(queue) => self.select_queue(*queue),
            Operation::Ct(operation) => self.track(operation)?,
            Operation::CtClear => self.untrack(),
            Operation::Meter(id) => self.meter(*id)?,
            Operation::Select(selection) => {
                let SelectedBucket { operations, counter } = selection.bucket(key);
                self.lookup.selected.count(counter, self.rewriter.frame_len() as u64);
                self.copy(|copy| copy.list(key, operations));
            }
            Operation::Clone(operations) => self.copy(|copy| copy.list(key, operations)),
            Operation::Encapsulate(way) => self.copy(|copy| copy.encapsulate(key, way)),
            Operation::Unreachable(why) => self.unreachable(*why),
            Operation::Decapsulate { kind, port } => {
                self.copy(|copy| copy.decapsulate(*kind, *port));
            }
            Operation::Local => self.deliver_locally()?,
            Operation::Recirculate(rest) => self.resume(rest)?,
            change => self.change(change)?,
        }
        Ok(())
    }

    /// Executes `run` on a copy of the packet.
    fn copy(&mut self, run: impl FnOnce(&mut Self) -> Result<(), Stopped>) {
        let (before, states) = (self.rewriter.clone(), self.tracking.states);
        let output = (self.edit, self.class);
        // A refusal ends the list of the copy only.
        let _ = run(self);
        (*self.rewriter, self.tracking.states) = (before, states);
        (self.edit, self.class) = output;
    }

    fn change(&mut self, operation: &Operation) -> Result<(), Stopped> {
        let Some(action) = operation.change() else { return Ok(()) };
        match self.rewriter.apply(&action) {
            Ok(_) => {
                self.edit = None;
                Ok(())
            }
            Err(ActionError::Expired) => self.expire(match operation {
                Operation::DecNwTtl(controllers) => controllers,
                _ => &[0],
            }),
            Err(_) => self.refuse(),
        }
    }

    /// Edit of the packet as it is now.
    pub(super) fn edit(&mut self) -> Result<EditId, Stopped> {
        if let Some(edit) = self.edit {
            return Ok(edit);
        }
        let class = self.class_of_output();
        let (rewriter, original) = (&*self.rewriter, self.burst.head(self.packet));
        let edit = if rewriter.is_changed() || class.is_some() {
            self.verdicts.edit_with(|edit| {
                if let Some(class) = class {
                    edit.set_class(class);
                }
                if rewriter.is_changed() { rewriter.write_edit(original, edit) } else { Ok(()) }
            })
        } else {
            Ok(EditId::NONE)
        };
        let Ok(edit) = edit else { return self.refuse() };
        self.edit = Some(edit);
        Ok(edit)
    }

    /// Selects a queue for the outputs that follow. Ports classify by a byte, 0 for no queue.
    fn select_queue(&mut self, queue: Option<u32>) {
        let class = queue.map_or(0, |queue| u8::try_from(queue.saturating_add(1)).unwrap_or(0));
        (self.class, self.edit) = (Some(class), None);
    }

    /// The class that the edit of the next output sets, if it differs from that of the packet. Outputs of later passes
    /// are outputs of the packet of the first one, whose class they cannot change.
    fn class_of_output(&mut self) -> Option<u8> {
        let is_first = self.context.stage == 0 && !self.is_decided;
        if is_first && self.packet_class.is_none() {
            self.packet_class = self.class;
        }
        let own = || self.burst.notes(self.packet).class;
        self.class.filter(|class| *class != self.packet_class.unwrap_or_else(own))
    }

    fn output(&mut self, port: PortNo) -> Result<(), Stopped> {
        let edit = self.edit()?;
        match self.scope.view.output(port) {
            Ok(place) => self.emit(place.port, edit),
            Err(reason) => self.drop(reason),
        }
        Ok(())
    }

    pub(super) fn emit(&mut self, port: PortId, edit: EditId) {
        self.verdicts.emit(self.packet, port, edit);
        self.is_decided = true;
    }

    fn flood(&mut self, except: PortNo, is_member: impl Fn(&Place) -> bool) -> Result<(), Stopped> {
        let (edit, mut has_sent) = (self.edit()?, false);
        // Copies for tunnels are operations of their own.
        let gets = |number: PortNo, place: &Place| {
            let gets = !place.is_reserved && !place.is_tunnel() && place.config.sends();
            number != except && gets && is_member(place)
        };
        for (_, place) in self.scope.view.ports.iter().filter(|(number, place)| gets(**number, place)) {
            self.verdicts.emit(self.packet, place.port, edit);
            has_sent = true;
        }
        self.is_decided |= has_sent;
        if has_sent {
            self.verdicts.mark_flooded(self.packet..self.packet + 1);
        }
        Ok(())
    }

    pub(super) fn recirculate(&mut self, stage: u32) -> Result<(), Stopped> {
        let edit = self.edit()?;
        self.verdicts.recirculate(self.packet, Context { stage, ..*self.context }, edit);
        self.is_decided = true;
        Ok(())
    }

    fn controller(&mut self, output: &ControllerOperation) -> Result<(), Stopped> {
        let place = self.scope.view.ports.get(&self.member.number);
        if output.reason == reason::NO_MATCH && place.is_some_and(|place| place.config.misses_silently) {
            return Ok(());
        }
        let why = match output.reason {
            reason::NO_MATCH => PuntReason::NoMatch,
            reason::INVALID_TTL => PuntReason::InvalidTtl,
            _ => PuntReason::Action,
        };
        let mut note = output.clone();
        note.pipeline = with_tunnel(&note.pipeline, self.rewriter.key());
        if !self.has_port {
            let in_port = self.rewriter.key().get(Field::InPort);
            note.pipeline = note.pipeline.with(Field::InPort, in_port);
        }
        self.punt(why, Arc::new(note))
    }

    /// Sends a copy to controllers, unless that exceeds their meter.
    fn punt(&mut self, why: PuntReason, note: Arc<ControllerOperation>) -> Result<(), Stopped> {
        let (len, now) = (self.rewriter.frame_len() as u64, self.context.now);
        let meter = self.lookup.tables.meter(CONTROLLER);
        if meter.is_some_and(|meter| meter.apply(len, now) == Metering::Drop) {
            self.drop(DropReason::Metered);
            return Ok(());
        }
        let note: PuntNote = Some(note);
        self.punt_noted(why, note)
    }

    /// Punts the packet as it is now.
    pub(super) fn punt_noted(&mut self, why: PuntReason, note: PuntNote) -> Result<(), Stopped> {
        if self.edit()? != EditId::NONE {
            let (member, carried) = (self.member, Carried::default());
            let stage =
                self.recirculations.push(Recirculation { member, carried, cause: Cause::Punt(why, note) });
            return self.recirculate(stage);
        }
        self.verdicts.punt_with(self.packet, why, note);
        self.is_decided = true;
        Ok(())
    }

    /// The time to live has expired: the packet goes to controllers.
    fn expire(&mut self, controllers: &[u16]) -> Result<(), Stopped> {
        for controller in controllers {
            let output = ControllerOperation {
                max_len: 0xffff,
                controller: *controller,
                reason: reason::INVALID_TTL,
                table: TableId(0),
                cookie: u64::MAX,
                userdata: Box::default(),
                pipeline: crate::Match::any(),
            };
            self.punt(PuntReason::InvalidTtl, Arc::new(output))?;
        }
        Err(Stopped)
    }

    fn meter(&mut self, id: u32) -> Result<(), Stopped> {
        let len = self.rewriter.frame_len() as u64;
        let Some(meter) = self.lookup.tables.meter(id) else { return Ok(()) };
        match meter.apply(len, self.context.now) {
            Metering::Pass => Ok(()),
            Metering::Drop => {
                self.drop(DropReason::Metered);
                Err(Stopped)
            }
            Metering::Remark(levels) => self.remark(levels),
        }
    }

    /// Adds to the drop precedence of an assured forwarding code point (RFC 2597); others have none.
    fn remark(&mut self, levels: u8) -> Result<(), Stopped> {
        let dscp = self.rewriter.key().get(Field::IpDscp) as u8;
        let (class, precedence) = (dscp >> 3, dscp >> 1 & 3);
        if !(1..=4).contains(&class) || precedence == 0 || dscp & 1 != 0 {
            return Ok(());
        }
        let value = class << 3 | precedence.saturating_add(levels).min(3) << 1;
        self.change(&Operation::Set { field: Field::IpDscp, value: value.into(), mask: Field::IpDscp.full() })
    }

    /// An operation does not fit the packet.
    pub(super) fn refuse<T>(&mut self) -> Result<T, Stopped> {
        self.drop(DropReason::ActionFailed);
        Err(Stopped)
    }

    pub(super) fn drop(&mut self, reason: DropReason) {
        self.verdicts.drop(self.packet, reason);
        self.is_decided = true;
    }
}

/// Adds the fields of the tunnel that a packet has.
fn with_tunnel(found: &Match, key: &Key) -> Match {
    if key.words()[Key::TUNNEL].iter().all(|word| *word == 0) {
        return *found;
    }
    let present = key.get(Field::TunOptions);
    let is_there = |field: &Field| match field.option() {
        Some(n) => present >> n & 1 != 0,
        None => Key::TUNNEL.contains(&field.info().word.into()) && key.get(*field) != 0,
    };
    let fields = Field::ALL.iter().copied().filter(|field| *field != Field::TunOptions && is_there(field));
    fields.fold(*found, |found, field| found.with(field, key.get(field)))
}
