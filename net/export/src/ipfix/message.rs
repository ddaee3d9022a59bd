//! Messages: sets of records below the maximum length, with sequence numbers (RFC 7011, section 3).

use crate::MAX_DATAGRAM;
use std::time::Duration;

const VERSION: u16 = 10;
const HEADER: usize = 16;
const SET_HEADER: usize = 4;

/// The open message, and those that wait to be taken.
#[derive(Debug)]
pub(super) struct Messages {
    domain: u32,
    start: Duration,
    /// Data records of all messages before the open one.
    sequence: u32,
    /// Data records of the open message.
    records: u32,
    /// The open message; empty if there is none.
    open: Vec<u8>,
    /// Identifier and start of its last set.
    set: Option<(u16, usize)>,
    done: Vec<Vec<u8>>,
}

impl Messages {
    /// `start` is the time of zero since 1970 (UTC).
    pub(super) fn new(domain: u32, start: Duration) -> Self {
        Self { domain, start, sequence: 0, records: 0, open: Vec::new(), set: None, done: Vec::new() }
    }

    pub(super) fn start(&self) -> Duration {
        self.start
    }

    /// Adds a data record.
    pub(super) fn add(&mut self, set: u16, record: &[u8], now: Duration) {
        self.add_template(set, record, now);
        self.records = self.records.wrapping_add(1);
    }

    /// Adds a record that sequence numbers do not count.
    pub(super) fn add_template(&mut self, set: u16, record: &[u8], now: Duration) {
        let needed = |set_header: usize| set_header + record.len();
        let is_same = self.set.is_some_and(|(id, _)| id == set);
        if self.open.len() + needed(if is_same { 0 } else { SET_HEADER }) > MAX_DATAGRAM {
            self.flush(now);
        }
        if self.open.is_empty() {
            self.open.resize(HEADER, 0);
        }
        if self.set.is_none_or(|(id, _)| id != set) {
            self.close_set();
            self.set = Some((set, self.open.len()));
            self.open.extend([0; SET_HEADER]);
        }
        self.open.extend_from_slice(record);
    }

    fn close_set(&mut self) {
        let Some((id, at)) = self.set.take() else { return };
        let len = (self.open.len() - at) as u16;
        self.open[at..at + SET_HEADER].copy_from_slice([id.to_be_bytes(), len.to_be_bytes()].as_flattened());
    }

    /// Ends the open message.
    pub(super) fn flush(&mut self, now: Duration) {
        if self.open.is_empty() {
            return;
        }
        self.close_set();
        let mut message = std::mem::take(&mut self.open);
        let seconds = (self.start + now).as_secs() as u32;
        let first = [VERSION, message.len() as u16].map(u16::to_be_bytes);
        let rest = [seconds, self.sequence, self.domain].map(u32::to_be_bytes);
        message[..4].copy_from_slice(first.as_flattened());
        message[4..HEADER].copy_from_slice(rest.as_flattened());
        self.sequence = self.sequence.wrapping_add(std::mem::take(&mut self.records));
        self.done.push(message);
    }

    pub(super) fn take(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.done)
    }
}
