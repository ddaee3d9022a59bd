//! Text of traces: fields of a packet, steps, and operations.

use super::names::named;
use super::value::{self, Look};
use super::{NoNames, Out, Separated, actions, control, instructions, show_match};
use crate::action::{Action, ConnectionTracking, ControllerOutput, LearnValue};
use crate::field::Field;
use crate::matching::Match;
use crate::modify::PortNo;
use crate::tables::Flow;
use crate::trace::{FieldChange, Fields, exact};
use crate::translate::{CtOperation, Encapsulation, Event, Operation, Selection};
use std::fmt;

/// Prints fields under the names that they have in the packet.
pub(super) fn print_fields(out: &mut Out, fields: &Fields) -> fmt::Result {
    let found = Match::new(&fields.packet, &fields.mask);
    show_match::print_within(out, &found, &exact(&fields.packet), &mut Separated::default())
}

/// Prints a change as `nw_ttl 64 -> 63`.
pub(super) fn print_change(out: &mut Out, change: &FieldChange) -> fmt::Result {
    let FieldChange { field, before, after } = *change;
    write!(out.f, "{} ", field.info().name)?;
    print_value(out, field, before)?;
    out.f.write_str(" -> ")?;
    print_value(out, field, after)
}

fn print_value(out: &mut Out, field: Field, value: u128) -> fmt::Result {
    value::print(out, field, named(field).form, (value, field.full()), Look::MATCH)
}

/// Prints a step in one line.
pub(super) fn print_event(out: &mut Out, event: &Event) -> fmt::Result {
    match event {
        Event::Flow(flow) => print_flow(out, flow),
        Event::Miss(table) => write!(out.f, "table {}: no flow", table.0),
        Event::Action(action) => actions::print(out, action),
        Event::Instructions(found) => instructions::print(out, found),
        Event::ActionSet => out.f.write_str("action set"),
        Event::Bucket { position, is_selected } => {
            let selected = if *is_selected { "" } else { ", not selected by the hash" };
            write!(out.f, "bucket {position}{selected}")
        }
        Event::NoBucket => out.f.write_str("no live bucket"),
        Event::Recirculation => out.f.write_str("recirculation"),
    }
}

fn print_flow(out: &mut Out, flow: &Flow) -> fmt::Result {
    let entry = flow.entry();
    write!(out.f, "table {}: ", entry.table().0)?;
    let mut list = Separated::default();
    show_match::print(out, &entry.matching(), &mut list)?;
    let separator = if list.is_continued { ", " } else { "" };
    write!(out.f, "{separator}priority {}, cookie {:#x}", entry.priority(), entry.cookie())
}

/// Prints operations as the actions that they are; `drop` if there are none.
pub(super) fn print_operations(out: &mut Out, operations: &[Operation]) -> fmt::Result {
    if operations.is_empty() {
        return out.f.write_str("drop");
    }
    let mut list = Separated::default();
    operations.iter().try_for_each(|operation| match operation {
        Operation::Set { field: Field::TunOptions, value, mask } => {
            print_deleted(out, mask & !value, &mut list)
        }
        operation => {
            list.item(out)?;
            print_operation(out, operation)
        }
    })
}

/// Prints options that are no longer present. One that becomes present is set by an operation of its own.
fn print_deleted(out: &mut Out, bits: u128, list: &mut Separated) -> fmt::Result {
    let mut fields = (0..Field::OPTIONS).filter(|n| bits >> n & 1 != 0).filter_map(Field::of_option);
    fields.try_for_each(|field| {
        list.item(out)?;
        actions::print(out, &Action::DeleteField(field))
    })
}

fn print_operation(out: &mut Out, operation: &Operation) -> fmt::Result {
    let action = match operation {
        Operation::Output(port) => output(*port),
        Operation::All { .. } => output(PortNo::ALL),
        Operation::Flood { .. } => output(PortNo::FLOOD),
        Operation::Normal { .. } => output(PortNo::NORMAL),
        Operation::Controller(sent) => Action::Controller(Box::new(ControllerOutput {
            max_len: sent.max_len,
            controller: sent.controller,
            reason: sent.reason,
            userdata: sent.userdata.clone(),
        })),
        Operation::Queue(queue) => Action::SetQueue(*queue),
        Operation::Meter(id) => Action::Meter(*id),
        Operation::DecNwTtl(controllers) => Action::DecNwTtl(controllers.clone()),
        Operation::Ct(tracking) => Action::Ct(Box::new(ct(tracking))),
        Operation::CtClear => Action::CtClear,
        Operation::Recirculate(_) => return out.f.write_str("recirculate"),
        Operation::Encapsulate(way) => return print_encapsulation(out, way),
        Operation::Unreachable(why) => return write!(out.f, "unreachable({why})"),
        Operation::Decapsulate { kind, .. } => return write!(out.f, "decapsulate({kind})"),
        Operation::Local => output(PortNo::LOCAL),
        Operation::Select(selection) => return print_selection(out, selection),
        Operation::Clone(operations) => return print_nested(out, "clone", operations),
        change => match change.change() {
            Some(action) => action,
            None => return Ok(()),
        },
    };
    actions::print(out, &action)
}

fn output(port: PortNo) -> Action {
    Action::Output { port, max_len: control::max_len(port) }
}

fn print_nested(out: &mut Out, name: &str, operations: &[Operation]) -> fmt::Result {
    write!(out.f, "{name}(")?;
    print_operations(out, operations)?;
    out.f.write_str(")")
}

fn print_encapsulation(out: &mut Out, way: &Encapsulation) -> fmt::Result {
    write!(out.f, "encapsulate({})", way.template)?;
    // Ports of the other bridge have no names here.
    match &way.then {
        None => write!(out.f, ",continue(LOCAL of the underlay)"),
        Some(operations) => {
            let mut plain = Out { ports: &NoNames, f: &mut *out.f };
            print_nested(&mut plain, ",underlay", operations)
        }
    }
}

fn print_selection(out: &mut Out, selection: &Selection) -> fmt::Result {
    write!(out.f, "select(group={}", selection.group)?;
    for bucket in selection.buckets.iter().map(|bucket| &bucket.operations) {
        out.f.write_str(",")?;
        print_nested(out, "bucket", bucket)?;
    }
    out.f.write_str(")")
}

fn ct(tracking: &CtOperation) -> ConnectionTracking {
    let set = |field: Field, value: u128, mask: u128| Action::SetField { field, value, mask };
    let mark = set(Field::CtMark, tracking.mark.0.into(), tracking.mark.1.into());
    let label = set(Field::CtLabel, tracking.label.0, tracking.label.1);
    let is_set = |action: &Action| !matches!(action, Action::SetField { mask: 0, .. });
    ConnectionTracking {
        commit: tracking.commit,
        force: tracking.force,
        zone: LearnValue::Constant(tracking.zone.into(), 16),
        table: None,
        helper: tracking.helper,
        nat: tracking.nat.clone(),
        actions: [mark, label].into_iter().filter(is_set).collect(),
    }
}
