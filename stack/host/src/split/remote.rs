//! The stack as an application on another thread sees it.

use super::{BATCH, Call, Calls};
use crate::Buffer;
use engine::Doorbell;
use ring::spsc::Producer;
use stack::tcp::ConnectionId;
use stack::{Endpoint, Event, SendError, Slice, SocketId, Time, UdpError, send_cost};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Space of a send buffer.
#[derive(Clone, Copy, Debug)]
struct Space {
    free: usize,
    /// Whether the application waits for space.
    is_wanted: bool,
    /// Whether the application closed its sending side.
    is_closed: bool,
}

/// Sends calls to the thread of the stack.
#[derive(Debug)]
pub struct Remote {
    calls: Producer<Call>,
    /// Calls that are not published yet.
    staged: VecDeque<Call>,
    wakes_stack: Arc<Doorbell>,
    spaces: HashMap<ConnectionId, Space>,
    /// Size of a send buffer in bytes.
    buffer: usize,
    stop: Arc<AtomicBool>,
}

impl Remote {
    pub(super) fn new(
        calls: Producer<Call>,
        wakes_stack: Arc<Doorbell>,
        buffer: usize,
        stop: Arc<AtomicBool>,
    ) -> Self {
        let staged = VecDeque::with_capacity(BATCH);
        Self { calls, staged, wakes_stack, spaces: HashMap::new(), buffer, stop }
    }

    /// Follows the send buffers before an event is passed to the application. Returns the event that it gets.
    #[inline]
    pub(super) fn note(&mut self, event: Event<Buffer>) -> Option<Event<Buffer>> {
        match event {
            Event::Accepted { connection, .. } | Event::Connected { connection } => {
                let space = Space { free: self.buffer, is_wanted: false, is_closed: false };
                self.spaces.insert(connection, space);
            }
            Event::Closed { connection, .. } => drop(self.spaces.remove(&connection)),
            Event::Acknowledged { connection, space: freed, .. } => {
                let space = self.spaces.get_mut(&connection)?;
                space.free += freed as usize;
                let is_due = space.is_wanted && space.free >= self.buffer / 2;
                space.is_wanted &= !is_due;
                return is_due.then_some(Event::Writable { connection });
            }
            _ => {}
        }
        Some(event)
    }

    #[inline]
    fn call(&mut self, call: Call) {
        self.staged.push_back(call);
        if self.staged.len() >= BATCH {
            self.publish();
        }
    }

    /// Publishes all calls. Waits for room, which the thread of the stack makes in any state.
    pub(super) fn publish(&mut self) {
        while !self.staged.is_empty() {
            let fits = self.calls.room(self.staged.len()).min(self.staged.len());
            self.calls.push_all(&mut self.staged.drain(..fits));
            // Orders the calls before the check whether the stack sleeps.
            fence(Ordering::SeqCst);
            self.wakes_stack.ring();
            if fits == 0 {
                if self.stop.load(Ordering::Relaxed) {
                    return self.staged.clear();
                }
                std::thread::yield_now();
            }
        }
    }
}

impl Calls for Remote {
    #[inline]
    fn send(&mut self, connection: ConnectionId, data: Slice<Buffer>) -> Result<(), SendError> {
        let space = self.spaces.get_mut(&connection).ok_or(SendError::Closed)?;
        if space.is_closed {
            return Err(SendError::Closed);
        }
        let Some(free) = space.free.checked_sub(send_cost(data.len())) else {
            space.is_wanted = true;
            return Err(SendError::Full);
        };
        space.free = free;
        self.call(Call::Send(connection, data));
        Ok(())
    }

    #[inline]
    fn send_space(&self, connection: ConnectionId) -> usize {
        self.spaces.get(&connection).map_or(0, |space| space.free)
    }

    #[inline]
    fn consumed(&mut self, connection: ConnectionId, bytes: usize) {
        self.call(Call::Consumed(connection, bytes));
    }

    fn close(&mut self, connection: ConnectionId) {
        if let Some(space) = self.spaces.get_mut(&connection) {
            space.is_closed = true;
        }
        self.call(Call::Close(connection));
    }

    fn abort(&mut self, connection: ConnectionId) {
        self.call(Call::Abort(connection));
    }

    fn udp_send(
        &mut self,
        socket: SocketId,
        to: Option<Endpoint>,
        data: Vec<Slice<Buffer>>,
        _now: Time,
    ) -> Result<(), UdpError> {
        self.call(Call::UdpSend(socket, to, data));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUFFER: usize = 1024;

    /// A piece of data is never sent if the stack's buffer could refuse it: the stream would have a gap.
    #[test]
    fn short_pieces_take_as_much_space_as_in_the_stack() {
        let (calls, doorbell) = (ring::spsc::ring(64).0, Arc::new(Doorbell::new().unwrap()));
        let mut remote = Remote::new(calls, doorbell, BUFFER, Arc::default());
        let connection = ConnectionId::from_bits(1);
        remote.note(Event::Connected { connection });
        let byte = || Slice::new(Arc::<[u8]>::from([7]).into());
        let send = |remote: &mut Remote| remote.send(connection, byte());
        let pieces = BUFFER / send_cost(1);
        assert!((0..pieces).all(|_| send(&mut remote).is_ok()));
        assert_eq!(send(&mut remote), Err(SendError::Full));
        // A part of a buffer is acknowledged, which frees nothing, and then the rest.
        let acknowledged = |space| Event::Acknowledged { connection, bytes: 1, space };
        assert!(remote.note(acknowledged(0)).is_none());
        assert_eq!(send(&mut remote), Err(SendError::Full));
        let half = remote.note(acknowledged(BUFFER as u32 / 2));
        assert!(matches!(half, Some(Event::Writable { .. })), "{half:?}");
        assert!((0..pieces / 2).all(|_| send(&mut remote).is_ok()));
        assert_eq!(send(&mut remote), Err(SendError::Full));
    }
}
