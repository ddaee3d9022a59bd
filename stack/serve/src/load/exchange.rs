//! Requests and replies of the client.

use super::input::{Input, Reply, WrongReply};
use super::table::State;
use super::{BATCH, Failure, Framing, Load, Mode, Phase, Workload};
use host::{Buffer, Calls};
use stack::tcp::ConnectionId;
use stack::{Slice, Time};

impl<W: Workload> Load<W> {
    /// Queues connections whose time between reply and request has passed.
    pub(super) fn resume(&mut self, now: Time) {
        while let Some((_, id)) = self.thinking.pop_front_if(|(due, _)| *due <= now) {
            self.table.enqueue(id);
        }
    }

    /// Whether a request is due, and since when.
    #[inline]
    fn due(&self, now: Time) -> Option<Time> {
        match (self.phase, &self.arrivals) {
            (Phase::Filling, _) => (!self.is_filled).then_some(now),
            (Phase::Running, None) => Some(now),
            (Phase::Running, Some(arrivals)) => Some(arrivals.peek()).filter(|due| *due <= now),
            _ => None,
        }
    }

    /// Sends requests that are due on connections that may send.
    pub(super) fn dispatch(&mut self, stack: &mut impl Calls, now: Time) {
        for _ in 0..BATCH {
            let Some(due) = self.due(now) else { return };
            let Some(connection) = self.table.dequeue() else { return };
            let is_free = connection.state == State::Open && connection.outstanding < self.options.depth;
            let id = connection.id;
            if is_free && (!self.send(stack, id, due, now) || self.options.depth > 1) {
                self.table.enqueue(id);
            }
        }
    }

    /// Sends a request. Returns whether it was sent.
    #[inline]
    fn send(&mut self, stack: &mut impl Calls, id: ConnectionId, due: Time, now: Time) -> bool {
        let Some(connection) = self.table.get_mut(id) else { return false };
        let mut sent = true;
        let mut send = |data: Slice<Buffer>| sent &= stack.send(id, data).is_ok();
        let tag = if self.phase == Phase::Filling {
            if let Some(tag) = self.workload.fill(&mut send) {
                tag
            } else {
                self.is_filled = true;
                return false;
            }
        } else {
            self.workload.request(&mut send)
        };
        // The connection has ended and its last event follows.
        if !sent {
            return false;
        }
        if self.pending.len() == 0 {
            self.progress = now;
        }
        self.pending.push(&mut connection.last, due, tag);
        connection.outstanding += 1;
        connection.sent += 1;
        if self.options.requests_per_connection == Some(connection.sent) {
            connection.state = State::Last;
        }
        self.meter.sent(due, now);
        if self.phase == Phase::Running
            && let Some(arrivals) = &mut self.arrivals
        {
            arrivals.pop();
        }
        true
    }

    /// Reads replies.
    #[inline]
    pub(super) fn data(&mut self, stack: &mut impl Calls, id: ConnectionId, data: &Slice<Buffer>, now: Time) {
        stack.consumed(id, data.len());
        self.meter.received(data.len(), now);
        let mut text = self.texts.take(id);
        let mut input = Input::new(data, &mut text);
        let read = self.read(stack, id, &mut input, now);
        let kept = self.texts.put(id, text);
        if let Err(wrong) = read.and(kept) {
            self.wrong(stack, id, wrong, now);
        }
    }

    #[inline]
    fn read(
        &mut self,
        stack: &mut impl Calls,
        id: ConnectionId,
        input: &mut Input<'_>,
        now: Time,
    ) -> Result<(), WrongReply> {
        while !input.is_empty() {
            let Some(connection) = self.table.get_mut(id) else { return Ok(()) };
            if !matches!(connection.state, State::Open | State::Last) {
                return Ok(());
            }
            let Some(request) = self.pending.first(connection.last) else {
                return Err(WrongReply::new("bytes without a request", 0));
            };
            let Some(reply) = self.workload.reply(&mut connection.framing, request.tag, input)? else {
                return Ok(());
            };
            self.complete(stack, id, reply, now);
        }
        Ok(())
    }

    /// The reply to the oldest request of a connection is complete.
    #[inline]
    pub(super) fn complete(&mut self, stack: &mut impl Calls, id: ConnectionId, reply: Reply, now: Time) {
        let Some(connection) = self.table.get_mut(id) else { return };
        let Some(request) = self.pending.pop(&mut connection.last) else { return };
        connection.framing = Framing::default();
        connection.outstanding -= 1;
        if reply.is_last {
            connection.state = State::Last;
        }
        self.progress = now;
        self.meter.answered(request.due, reply, now);
        match (connection.state, self.options.mode) {
            (State::Last, _) if connection.outstanding == 0 || reply.is_last => self.leave(stack, id, now),
            (State::Open, Mode::Closed { think }) if self.phase == Phase::Running => {
                if !think.is_zero() {
                    self.thinking.push_back((now.after(think), id));
                } else if !self.send(stack, id, now, now) {
                    self.table.enqueue(id);
                }
            }
            (State::Open, _) => self.table.enqueue(id),
            _ => {}
        }
    }

    /// A reply is wrong: what follows on its connection cannot be told apart.
    #[cold]
    fn wrong(&mut self, stack: &mut impl Calls, id: ConnectionId, wrong: WrongReply, now: Time) {
        let Some(connection) = self.table.get_mut(id) else { return };
        self.meter.wrong_reply.get_or_insert_with(|| wrong.to_string());
        if let Some(request) = self.pending.pop(&mut connection.last) {
            self.meter.failed(request.due, Failure::WrongReply, now);
        }
        self.meter.connections.lost.add(Failure::WrongReply);
        self.end(id, Failure::Aborted, State::Closing, now);
        stack.abort(id);
    }
}
