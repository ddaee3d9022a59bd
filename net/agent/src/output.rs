//! Messages that wait to be sent, and answers that are longer than what may wait.

use crate::limits;
use openflow::{Dialect, EncodeError, Message, MultipartReply, encode};
use std::iter::Peekable;

/// Parts of an answer; at least one.
pub(crate) type Parts = Box<dyn Iterator<Item = MultipartReply> + Send>;

/// The rest of an answer.
struct Dump {
    parts: Peekable<Parts>,
    /// Memory of all parts in bytes.
    memory: usize,
    dialect: Dialect,
    xid: u32,
}

/// Messages that wait to be sent.
#[derive(Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    dump: Option<Dump>,
    /// Whether other sessions have their turn before the next request.
    is_turn_over: bool,
}

impl Output {
    /// Bytes that wait.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether no further request may be processed before some output is taken.
    pub(crate) fn is_full(&self) -> bool {
        self.dump.is_some() || self.bytes.len() >= limits::OUTPUT
    }

    /// Whether no further request may be processed now.
    pub(crate) fn is_turn_over(&self) -> bool {
        self.is_turn_over || self.is_full()
    }

    pub(crate) fn begin_turn(&mut self) {
        self.is_turn_over = false;
    }

    /// Whether so much waits that monitors pause.
    pub(crate) fn is_slow(&self) -> bool {
        self.dump.is_some() || self.bytes.len() >= limits::NOTICES
    }

    /// Processes no further request in this turn, because the last one has cost much work.
    pub(crate) fn end_turn(&mut self) {
        self.is_turn_over = true;
    }

    /// Whether everything was taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.dump.is_none() && self.bytes.is_empty()
    }

    pub(crate) fn put(&mut self, message: &Message, dialect: Dialect, xid: u32) -> Result<(), EncodeError> {
        encode(message, dialect, xid, &mut self.bytes)
    }

    /// Memory of answers and messages in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.len() + self.dump.as_ref().map_or(0, |dump| dump.memory)
    }

    /// Adds an answer of several parts, which keep `memory` bytes. Entries that the version cannot express are left
    /// out.
    pub(crate) fn dump(&mut self, parts: Parts, memory: usize, dialect: Dialect, xid: u32) {
        self.end_turn();
        self.dump = Some(Dump { parts: parts.peekable(), memory, dialect, xid });
        self.refill();
    }

    /// Adds a notice that is a part of no answer.
    pub(crate) fn put_part(&mut self, part: MultipartReply, dialect: Dialect) {
        part_of_answer(&mut self.bytes, part, false, dialect, 0);
    }

    /// Waiting messages, and then the next parts.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.refill();
        std::mem::take(&mut self.bytes)
    }

    fn refill(&mut self) {
        while self.bytes.len() < limits::OUTPUT {
            let Some(dump) = &mut self.dump else { return };
            let Some(part) = dump.parts.next() else { return self.dump = None };
            let more = dump.parts.peek().is_some();
            part_of_answer(&mut self.bytes, part, more, dump.dialect, dump.xid);
            if !more {
                self.dump = None;
            }
        }
    }
}

/// Encodes a part, without the entries that the version cannot express.
fn part_of_answer(out: &mut Vec<u8>, part: MultipartReply, more: bool, dialect: Dialect, xid: u32) {
    let mut message = Message::MultipartReply(part, more);
    if encode(&message, dialect, xid, out).is_ok() {
        return;
    }
    if let Message::MultipartReply(part, _) = &mut message {
        retain_expressible(part, dialect);
    }
    // Without entries, an answer that the version has is expressible.
    let _ = encode(&message, dialect, xid, out);
}

fn retain_expressible(part: &mut MultipartReply, dialect: Dialect) {
    fn retain<T: Clone>(list: &mut Vec<T>, dialect: Dialect, wrap: fn(Vec<T>) -> MultipartReply) {
        let mut scratch = Vec::new();
        list.retain(|entry| {
            scratch.clear();
            let single = Message::MultipartReply(wrap(vec![entry.clone()]), false);
            encode(&single, dialect, 0, &mut scratch).is_ok()
        });
    }
    match part {
        MultipartReply::Flow(list) => retain(list, dialect, MultipartReply::Flow),
        MultipartReply::NxFlow(list) => retain(list, dialect, MultipartReply::NxFlow),
        MultipartReply::Port(list) => retain(list, dialect, MultipartReply::Port),
        MultipartReply::PortDesc(list) => retain(list, dialect, MultipartReply::PortDesc),
        MultipartReply::GroupDesc(list) => retain(list, dialect, MultipartReply::GroupDesc),
        MultipartReply::FlowMonitor(list) => retain(list, dialect, MultipartReply::FlowMonitor),
        _ => {}
    }
}
