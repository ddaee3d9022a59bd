//! Source of bytes, for measurements: sends the same buffer again and again until the peer closes. The bytes are those
//! of their positions modulo 251, so that a receiver can check them.

use crate::{Served, Server};
use host::{App, Buffer, Calls};
use stack::tcp::ConnectionId;
use stack::{Event, Slice, Time};

/// Bytes that are sent at a time: a multiple of 251, so that the sequence continues.
const LEN: usize = 251 * 261;

/// The source.
#[derive(Debug)]
pub struct Source {
    served: Served,
    data: Slice<Buffer>,
}

impl Default for Source {
    fn default() -> Self {
        let bytes: Vec<u8> = (0..LEN).map(|i| (i % 251) as u8).collect();
        Self { served: Served::default(), data: Slice::new(bytes.into()) }
    }
}

impl Source {
    /// Fills the send buffer.
    fn fill(&mut self, stack: &mut impl Calls, connection: ConnectionId) {
        while stack.send(connection, self.data.clone()).is_ok() {
            self.served.sent += LEN as u64;
        }
    }
}

impl Server for Source {
    const TCP_PORT: u16 = 19;

    fn served(&self) -> Served {
        self.served
    }
}

impl<S: Calls> App<S> for Source {
    fn event(&mut self, stack: &mut S, event: Event<Buffer>, _now: Time) {
        match event {
            Event::Accepted { connection, .. } => {
                self.served.connections += 1;
                self.fill(stack, connection);
            }
            Event::Writable { connection } => self.fill(stack, connection),
            Event::Data { connection, data } => {
                self.served.received += data.len() as u64;
                stack.consumed(connection, data.len());
            }
            Event::Finished { connection } => stack.close(connection),
            Event::Closed { reason, .. } => self.served.closed(reason),
            _ => {}
        }
    }
}
