//! Operations on queues that return a token at once, over ports of any kind and over sockets of the kernel.
//!
//! [`Queues`] is the interface; a [`Device`] is the network below it: [`Ports`] is a host with its own TCP/IP stack,
//! [`Kernel`] uses sockets, and [`Mixed`] is both in one wait. A program is generic over the device, or chooses one. An
//! operation is tried at once and again after each event of its queue; its result is taken by one of the `wait` calls,
//! which also run the device: data leaves and arrives only there.
//!
//! Data is a [`Slice`] of a counted buffer: [`Ports`] passes received data on from the memory in which it arrived and
//! sends from the memory of the program; [`Kernel`] copies, as sockets do. Operations and received data are entries of
//! slabs, so that an operation does not allocate once these have grown to the load.
//!
//! ```
//! use api::token::{Device, Outcome, Queues, WaitError};
//!
//! /// Returns the first message of a connection to its sender.
//! fn echo_once<D: Device>(queues: &mut Queues<D>, address: std::net::SocketAddr) -> Result<(), WaitError> {
//!     let Ok(listener) = queues.listen(address) else { return Ok(()) };
//!     let token = queues.accept(listener);
//!     let Outcome::Accepted(queue, _) = queues.wait(token, None)? else { return Ok(()) };
//!     let token = queues.pop(queue);
//!     if let Outcome::Popped(data) = queues.wait(token, None)? {
//!         queues.push(queue, data);
//!     }
//!     let token = queues.close(queue);
//!     queues.wait(token, None).map(drop)
//! }
//! ```

mod datagram;
mod device;
mod kernel;
mod mixed;
mod operation;
mod ports;
mod wait;

pub use device::Device;
pub use kernel::Kernel;
pub use mixed::Mixed;
pub use operation::{Outcome, Queue, Token};
pub use ports::Ports;
pub use wait::WaitError;

use crate::list::{List, Nodes};
use host::Buffer;
use operation::{Action, Operation};
use stack::Slice;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::task::Poll;

/// Pending operations of one queue, in the order in which they were submitted.
#[derive(Debug, Default)]
struct Pending {
    /// Number of the queue; 0 if the entry is free.
    number: u64,
    /// Whether an operation that closes the queue was submitted.
    is_closing: bool,
    /// Connect, pushes, finish and close.
    outgoing: List,
    /// Accept and pops.
    incoming: List,
}

impl Pending {
    fn list(&mut self, is_incoming: bool) -> &mut List {
        if is_incoming { &mut self.incoming } else { &mut self.outgoing }
    }
}

/// The queues of one device, with their operations.
#[derive(Debug)]
pub struct Queues<D> {
    device: D,
    /// By the number of the device's end.
    pending: Vec<Pending>,
    operations: Nodes<Operation>,
    /// Complete operations whose result was not taken, in the order of their completion.
    complete: List,
    /// Number of the last queue, operation or completion.
    last: u64,
    /// Results taken since the device was run last.
    taken: u32,
    ready: Vec<u32>,
}

impl<D: Device> Queues<D> {
    /// No queues yet.
    pub fn new(device: D) -> Self {
        let (pending, ready) = (Vec::new(), Vec::new());
        Self {
            device,
            pending,
            operations: Nodes::new(),
            complete: List::default(),
            last: 0,
            taken: 0,
            ready,
        }
    }

    /// The device.
    pub fn device(&mut self) -> &mut D {
        &mut self.device
    }

    /// The device, without the queues.
    pub fn into_device(self) -> D {
        self.device
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Makes an end of the device a queue.
    fn adopt(&mut self, end: u32) -> Queue {
        let number = self.next();
        if self.pending.len() <= end as usize {
            self.pending.resize_with(end as usize + 1, Pending::default);
        }
        self.pending[end as usize] = Pending { number, ..Pending::default() };
        Queue { end, number }
    }

    /// Accepts connections to an address and port.
    ///
    /// # Errors
    /// If the port is in use or the address is not one of this host.
    pub fn listen(&mut self, local: SocketAddr) -> Result<Queue, ErrorKind> {
        let end = self.device.listen(local)?;
        Ok(self.adopt(end))
    }

    /// Opens a connection. Data may be pushed before it is established.
    ///
    /// # Errors
    /// If there is no route or no free port.
    pub fn connect(&mut self, remote: SocketAddr) -> Result<(Queue, Token), ErrorKind> {
        let end = self.device.connect(remote)?;
        let queue = self.adopt(end);
        Ok((queue, self.submit(queue, Action::Connect)))
    }

    /// Takes the next connection of a listener: [`Outcome::Accepted`].
    pub fn accept(&mut self, listener: Queue) -> Token {
        self.submit(listener, Action::Accept)
    }

    /// Sends data. Complete when the send buffer has taken all of it.
    pub fn push(&mut self, queue: Queue, data: Slice<Buffer>) -> Token {
        self.submit(queue, Action::Push(Some(data)))
    }

    /// Takes the next received data: [`Outcome::Popped`], or [`Outcome::Finished`] after the peer's last byte. The
    /// receive window opens when the operation completes.
    pub fn pop(&mut self, queue: Queue) -> Token {
        self.submit(queue, Action::Pop)
    }

    /// Closes the sending side after all pushed data. Receiving continues.
    pub fn finish(&mut self, queue: Queue) -> Token {
        self.submit(queue, Action::Finish)
    }

    /// Closes a queue after all pushed data. Pending pops and accepts fail. Received data that was not popped resets
    /// the connection.
    pub fn close(&mut self, queue: Queue) -> Token {
        let token = self.submit(queue, Action::Close);
        if let Some(pending) = self.pending(queue) {
            pending.is_closing = true;
        }
        token
    }

    /// Resets a connection. All its pending operations fail.
    pub fn abort(&mut self, queue: Queue) {
        if self.pending(queue).is_some() {
            self.device.abort(queue.end);
            self.remove(queue.end);
        }
    }

    /// Drops the result of an operation, now or when it completes.
    pub fn detach(&mut self, token: Token) {
        let Some(operation) = self.operations.get_mut(token.at).filter(|known| known.number == token.number)
        else {
            return;
        };
        operation.is_detached = true;
        if operation.is_complete() {
            self.operations.unlink(&mut self.complete, token.at);
            self.operations.remove(token.at);
        }
    }

    fn pending(&mut self, queue: Queue) -> Option<&mut Pending> {
        self.pending.get_mut(queue.end as usize).filter(|pending| pending.number == queue.number)
    }

    fn submit(&mut self, queue: Queue, action: Action) -> Token {
        let (number, is_incoming) = (self.next(), action.is_incoming());
        let operation = Operation { number, queue, is_detached: false, action };
        let known = self.pending.get_mut(queue.end as usize);
        let Some(pending) = known.filter(|pending| pending.number == queue.number && !pending.is_closing)
        else {
            return self.submit_failed(operation);
        };
        let list = pending.list(is_incoming);
        let at = self.operations.push(list, operation);
        if list.first() == Some(at) {
            self.progress(queue.end, is_incoming);
        }
        Token { at, number }
    }

    /// An operation of a queue that is closed. Closing it again succeeds, so that a program may close a queue after
    /// each failed operation.
    #[cold]
    fn submit_failed(&mut self, mut operation: Operation) -> Token {
        let number = operation.number;
        let outcome = match operation.action {
            Action::Close => Outcome::Closed,
            _ => Outcome::Failed(ErrorKind::NotConnected),
        };
        operation.action = Action::Complete(self.next(), outcome);
        Token { at: self.operations.push(&mut self.complete, operation), number }
    }

    /// Runs the first operations of one direction of a queue, as far as they complete.
    fn progress(&mut self, end: u32, is_incoming: bool) {
        while let Some(at) =
            self.pending.get_mut(end as usize).and_then(|queue| queue.list(is_incoming).first())
            && let Poll::Ready(outcome) = self.attempt(end, at)
        {
            let is_closed = matches!(outcome, Outcome::Closed);
            self.settle(end, is_incoming, at, outcome);
            if is_closed {
                self.remove(end);
            }
        }
    }

    fn attempt(&mut self, end: u32, at: u32) -> Poll<Outcome> {
        let Self { device, operations, .. } = self;
        let Some(operation) = operations.get_mut(at) else { return Poll::Pending };
        let result = match &mut operation.action {
            Action::Push(data) => device.poll_push(end, data).map_ok(|()| Outcome::Pushed),
            Action::Pop => {
                device.poll_pop(end).map_ok(|data| data.map_or(Outcome::Finished, Outcome::Popped))
            }
            Action::PushTo(to, data) => device.poll_push_to(end, *to, data).map_ok(|()| Outcome::Pushed),
            Action::PopFrom => {
                device.poll_pop_from(end).map_ok(|(from, data)| Outcome::PoppedFrom(from, data))
            }
            Action::Connect => device.poll_connect(end).map_ok(|()| Outcome::Connected),
            Action::Accept => match device.poll_accept(end) {
                Poll::Ready(Ok((accepted, remote))) => {
                    Poll::Ready(Ok(Outcome::Accepted(self.adopt(accepted), remote)))
                }
                other => other.map_ok(|_| Outcome::Connected),
            },
            Action::Finish => Poll::Ready(device.finish(end).map(|()| Outcome::Shut)),
            Action::Close => {
                device.close(end);
                Poll::Ready(Ok(Outcome::Closed))
            }
            Action::Complete(..) => Poll::Pending,
        };
        result.map(|result| result.unwrap_or_else(Outcome::Failed))
    }

    /// Moves an operation to the complete ones.
    #[inline]
    fn settle(&mut self, end: u32, is_incoming: bool, at: u32, outcome: Outcome) {
        let number = self.next();
        let Self { pending, operations, complete, .. } = self;
        let Some(queue) = pending.get_mut(end as usize) else { return };
        operations.unlink(queue.list(is_incoming), at);
        let Some(operation) = operations.get_mut(at) else { return };
        operation.action = Action::Complete(number, outcome);
        if operation.is_detached {
            operations.remove(at);
        } else {
            operations.append(complete, at);
        }
    }

    /// Removes a queue whose end the device no longer has. Its operations fail.
    fn remove(&mut self, end: u32) {
        for is_incoming in [false, true] {
            while let Some(at) = self.pending.get_mut(end as usize).and_then(|q| q.list(is_incoming).first())
            {
                self.settle(end, is_incoming, at, Outcome::Failed(ErrorKind::ConnectionAborted));
            }
        }
        if let Some(queue) = self.pending.get_mut(end as usize) {
            *queue = Pending::default();
        }
    }
}
