//! Discard (RFC 863): received bytes are dropped at once.

use crate::{Served, Server};
use host::{App, Buffer, Calls};
use stack::{Event, Time};

/// The discard server.
#[derive(Debug, Default)]
pub struct Discard(Served);

impl Server for Discard {
    const TCP_PORT: u16 = 9;

    fn served(&self) -> Served {
        self.0
    }
}

impl<S: Calls> App<S> for Discard {
    fn event(&mut self, stack: &mut S, event: Event<Buffer>, _now: Time) {
        match event {
            Event::Data { connection, data } => {
                self.0.received += data.len() as u64;
                stack.consumed(connection, data.len());
            }
            Event::Accepted { .. } => self.0.connections += 1,
            Event::Finished { connection } => stack.close(connection),
            Event::Closed { reason, .. } => self.0.closed(reason),
            _ => {}
        }
    }
}
