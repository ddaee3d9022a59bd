//! Executes operations on a packet, and records what leaves the switch.

use super::packet::Packet;
use crate::field::Field;
use crate::key::Key;
use crate::modify::PortNo;
use crate::tables::Tables;
use crate::translate::{Environment, Operation, Translation, reason, resume};

/// Packets that leave the switch.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Event {
    Output(PortNo),
    All(PortNo),
    Flood(PortNo),
    Normal(PortNo),
    /// Identifier, reason, cookie, and metadata.
    Controller(u16, u8, u64, u128),
    Meter(u32),
}

pub(super) type Trace = Vec<(Event, Option<u32>, Packet)>;

/// Ports below 3 are live.
pub(super) struct Ports;

impl Environment for Ports {
    fn is_live(&self, port: PortNo) -> bool {
        port.0 < 3
    }
}

/// Recirculations of a packet.
const PASSES: usize = 8;

pub(super) struct Executor<'a> {
    pub(super) tables: &'a Tables,
    pub(super) trace: Trace,
    passes: usize,
    /// Key when the packet came in, by which groups select.
    key: Key,
}

impl<'a> Executor<'a> {
    pub(super) fn run(tables: &'a Tables, packet: &Packet, translation: &Translation) -> Trace {
        let mut executor = Self { tables, trace: Vec::new(), passes: 0, key: packet.key() };
        executor.list(&translation.operations, &mut packet.clone(), &mut None);
        executor.trace
    }

    fn list(&mut self, operations: &[Operation], packet: &mut Packet, queue: &mut Option<u32>) {
        for operation in operations {
            if !self.operation(operation, packet, queue) {
                return;
            }
        }
    }

    fn record(&mut self, event: Event, packet: &Packet, queue: Option<u32>) -> bool {
        self.trace.push((event, queue, packet.on_the_wire()));
        true
    }

    fn operation(&mut self, operation: &Operation, packet: &mut Packet, queue: &mut Option<u32>) -> bool {
        match operation {
            Operation::Output(port) => self.record(Event::Output(*port), packet, *queue),
            Operation::All { except } => self.record(Event::All(*except), packet, *queue),
            Operation::Flood { except } => self.record(Event::Flood(*except), packet, *queue),
            Operation::Normal { in_port } => self.record(Event::Normal(*in_port), packet, *queue),
            Operation::Controller(output) => {
                let mut key = packet.key();
                let (value, mask) = (output.pipeline.key(), output.pipeline.mask());
                key = Key(std::array::from_fn(|i| key.0[i] & !mask.0[i] | value.0[i]));
                let event = Event::Controller(
                    output.controller,
                    output.reason,
                    output.cookie,
                    key.get(Field::Metadata),
                );
                self.record(event, packet, *queue)
            }
            Operation::Meter(id) => self.record(Event::Meter(*id), packet, *queue),
            Operation::Queue(new) => {
                *queue = *new;
                true
            }
            Operation::Clone(inner) => {
                self.list(inner, &mut packet.clone(), &mut queue.clone());
                true
            }
            Operation::Select(selection) => {
                let key = self.key;
                self.list(selection.operations(&key), &mut packet.clone(), &mut queue.clone());
                true
            }
            Operation::Recirculate(rest) => {
                self.passes += 1;
                assert!(self.passes <= PASSES, "too many recirculations");
                let translation = resume(self.tables, &packet.key(), rest, &Ports);
                self.list(&translation.operations, packet, queue);
                true
            }
            Operation::Ct(_) | Operation::CtClear => true,
            header => self.header(header, packet, *queue),
        }
    }

    fn header(&mut self, operation: &Operation, packet: &mut Packet, queue: Option<u32>) -> bool {
        let before = packet.clone();
        if packet.change(operation) {
            return true;
        }
        if let Operation::DecNwTtl(ids) = operation {
            for id in ids {
                let event = Event::Controller(*id, reason::INVALID_TTL, 0, 0);
                self.record(event, &before, queue);
            }
        }
        false
    }
}
