//! The thread of a client: takes completions from the rings of all workers and changes the state of sockets.
//!
//! It polls for a short time after the last completion and then sleeps. It must not wait for a lock that another thread
//! holds while it waits for this thread.

use super::group::UNAWAITED;
use super::placement::Placement;
use super::socket::{Handle, Socket};
use super::state::{Datagram, Phase, State};
use super::{Core, Shared, lock};
use crate::chunks::ArenaRange;
use crate::entry::{Command, Completion};
use crate::ring::Consumer;
use crate::{Reason, handshake};
use mem::SharedRange;
use rustix::event::{PollFd, PollFlags, Timespec};
use stack::Endpoint;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, Weak};
use std::time::Duration;

/// Looks at an empty ring before the thread sleeps.
const LOOKS: u32 = 200;
/// Maximum sleep while commands wait for room in the ring, which the service does not announce.
const OVERFLOW_INTERVAL: Duration = Duration::from_millis(1);
/// Maximum sleep otherwise.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// The thread's state.
pub(super) struct Dispatcher {
    shared: Arc<Shared>,
    core: Weak<Core>,
    /// By worker.
    completions: Vec<Consumer<SharedRange>>,
}

impl Dispatcher {
    pub(super) fn new(shared: Arc<Shared>, completions: Vec<SharedRange>, core: Weak<Core>) -> Self {
        let completions = completions.into_iter().map(|ring| Consumer::new(ring, shared.sizes.ring));
        let completions = completions.collect();
        Self { shared, core, completions }
    }

    /// Runs until the last handle is dropped or the service ends.
    pub(super) fn run(mut self) {
        self.work();
        // Sockets refer to the shared state, which closes the connection with the service when it is dropped.
        lock(&self.shared.sockets).by_id.clear();
        self.shared.lanes.iter().for_each(|lane| lock(&lane.arena).starved.clear());
    }

    fn work(&mut self) {
        let mut looks = 0;
        loop {
            let Some(count) = self.take() else { return self.end() };
            let is_flushed = self.shared.lanes.iter().filter(|lane| !lane.flush()).count() == 0;
            looks = if count > 0 { 0 } else { looks + 1 };
            if looks < LOOKS {
                std::hint::spin_loop();
                continue;
            }
            if self.shared.stop.load(Ordering::SeqCst) && is_flushed {
                return;
            }
            self.sleep(if is_flushed { MAX_SLEEP } else { OVERFLOW_INTERVAL });
            looks = 0;
            if handshake::has_ended(&self.shared.socket) {
                // Completions that the service reported before its end are still taken.
                let _ = self.take();
                return self.end();
            }
        }
    }

    /// Takes completions of all workers, at most a ring of each. Returns their number, or `None` if the service
    /// violates the protocol.
    fn take(&mut self) -> Option<u64> {
        (0..self.completions.len()).try_fold(0, |all, worker| Some(all + self.take_from(worker)?))
    }

    fn take_from(&mut self, worker: usize) -> Option<u64> {
        let (mut count, size) = (0_u64, u64::from(self.shared.sizes.ring));
        while count < size
            && let Some(words) = self.completions[worker].pop().ok()?
        {
            let completion = Completion::decode(&words)?;
            self.is_inside(worker, completion).then(|| self.completion(worker, completion))?;
            count += 1;
            if count.is_multiple_of(64) {
                self.completions[worker].release();
            }
        }
        self.completions[worker].release();
        if count > size / 2 {
            // The service may wait for room in the ring.
            self.shared.lanes[worker].wake();
        }
        Some(count)
    }

    /// Whether the range of a completion is in the worker's arena, and the worker that it names exists.
    fn is_inside(&self, worker: usize, completion: Completion) -> bool {
        match completion {
            Completion::Data { range, .. } | Completion::Datagram { range, .. } => {
                let inbound = &self.shared.lanes[worker].inbound;
                inbound.slice(range.offset as usize, range.len as usize).is_some()
            }
            Completion::Elsewhere { worker, .. } => (worker as usize) < self.shared.lanes.len(),
            Completion::Active { workers } => (1..=self.shared.lanes.len()).contains(&(workers as usize)),
            _ => true,
        }
    }

    fn sleep(&mut self, limit: Duration) {
        if self.completions.iter_mut().all(Consumer::prepare_sleep) {
            let Shared { to_client, socket, .. } = &*self.shared;
            let mut fds = [PollFd::new(to_client, PollFlags::IN), PollFd::new(socket, PollFlags::IN)];
            let limit =
                Timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: limit.subsec_nanos().into() };
            // An interrupted sleep counts as a wake-up.
            let _ = rustix::event::poll(&mut fds, Some(&limit));
        }
        self.completions.iter_mut().for_each(Consumer::resume);
        port::eventfd::clear(&self.shared.to_client);
    }

    /// All sockets fail.
    fn end(&self) {
        let sockets: Vec<_> = {
            let sockets = lock(&self.shared.sockets);
            self.shared.ended.store(true, Ordering::SeqCst);
            sockets.by_id.values().cloned().collect()
        };
        for socket in &sockets {
            let mut state = socket.lock();
            state.placement = Placement::default();
            self.closed(socket, state, Reason::Service);
        }
    }

    fn completion(&self, worker: usize, completion: Completion) {
        if let Completion::Accepted { listener, id, local, remote } = completion {
            return self.accepted((worker, listener), id, (local, remote));
        }
        if let Completion::Active { workers } = completion {
            return self.shared.active.store(workers as usize, Ordering::Relaxed);
        }
        let Some(socket) = self.shared.find(worker, completion.id()) else { return };
        let mut state = socket.lock();
        match completion {
            Completion::Bound { local, .. } => bound(&socket, &mut state, worker, local),
            Completion::Failed { reason, .. } => {
                state.placement.ended(worker);
                let others = state.placement.close();
                if !state.is_released {
                    socket.request(others, Command::Close { id: socket.id });
                }
                self.closed(&socket, state, reason);
            }
            Completion::Closed { reason, .. } => {
                state.placement.ended(worker);
                self.closed(&socket, state, reason);
            }
            Completion::Elsewhere { worker: other, .. } => {
                state.placement.ended(worker);
                let is_opening = !state.is_released && state.phase == Phase::Opening;
                if !is_opening || !socket.move_to(&mut state, other as usize) {
                    self.closed(&socket, state, Reason::NotLocal);
                }
            }
            // A change of a group that was undone.
            Completion::Answer { request: UNAWAITED, .. } => {}
            Completion::Datagram { .. } | Completion::Answer { .. } => {
                update(&mut state, worker, completion);
                socket.notify(&state);
            }
            // Other workers receive datagrams and answer requests only.
            _ if worker != socket.home() => {}
            Completion::Sent { bytes, .. } => sent(&socket, state, bytes),
            other => {
                update(&mut state, worker, other);
                socket.notify(&state);
            }
        }
    }

    fn accepted(&self, (worker, listener): (usize, u32), id: u32, (local, remote): (Endpoint, Endpoint)) {
        let Some(core) = self.core.upgrade() else { return };
        let socket = Arc::new(Socket::new(id, worker, self.shared.clone()));
        {
            let mut state = socket.lock();
            (state.phase, state.local, state.remote) = (Phase::Open, local, Some(remote));
            state.placement = Placement::at(worker);
        }
        lock(&self.shared.sockets).by_id.insert(super::key(worker, id), socket.clone());
        // Dropped, which closes it, if the listener was closed meanwhile.
        let handle = Handle { socket, _core: core };
        let Some(listener) = self.shared.find(worker, listener) else { return };
        let mut state = listener.lock();
        if state.is_released {
            drop(state);
            return drop(handle);
        }
        state.receiving.accepted.push_back(handle);
        state.receiving.arrivals += 1;
        listener.notify(&state);
    }

    /// The socket has ended, at a worker or at all.
    fn closed(&self, socket: &Socket, mut state: MutexGuard<'_, State>, reason: Reason) {
        // The end of the other parts follows that of the first one.
        if state.closed.is_none() {
            state.closed = Some(reason);
            state.error = Some(reason).filter(|reason| *reason != Reason::Normally).or(state.error);
        }
        let starved = {
            let mut arena = lock(&socket.lane().arena);
            state.sending.stream.clear(&mut arena.free);
            std::mem::take(&mut arena.starved)
        };
        socket.notify(&state);
        let is_free = state.is_released && state.placement.parts().is_empty();
        drop(state);
        if is_free {
            self.shared.forget(socket);
        }
        wake(&starved);
    }
}

/// A worker has bound the socket's address.
fn bound(socket: &Socket, state: &mut State, worker: usize, local: Endpoint) {
    if let Some((followers, command)) = state.placement.bound(worker) {
        socket.request(followers, command);
    }
    if state.closed.is_none() && state.placement.is_complete() {
        (state.phase, state.local) = (Phase::Open, local);
        state.receiving.arrivals += 1;
        socket.notify(state);
    }
}

fn sent(socket: &Socket, mut state: MutexGuard<'_, State>, bytes: u32) {
    let starved = {
        let mut arena = lock(&socket.lane().arena);
        let is_valid = state.acknowledge(&mut arena.free, bytes);
        debug_assert!(is_valid, "the service has acknowledged more bytes than were sent");
        std::mem::take(&mut arena.starved)
    };
    socket.notify(&state);
    drop(state);
    wake(&starved);
}

/// Wakes sockets that waited for a chunk.
fn wake(starved: &[Arc<Socket>]) {
    for socket in starved {
        let mut state = socket.lock();
        state.sending.is_blocked = false;
        socket.notify(&state);
    }
}

/// Changes a state that no other socket depends on.
fn update(state: &mut State, worker: usize, completion: Completion) {
    let receiving = &mut state.receiving;
    receiving.arrivals += 1;
    match completion {
        Completion::Connected { local, remote, .. } => {
            (state.phase, state.local, state.remote) = (Phase::Open, local, Some(remote));
        }
        Completion::Connecting { local, remote, .. } => {
            (state.phase, state.local, state.remote) = (Phase::Connecting, local, Some(remote));
        }
        Completion::Data { range, .. } => merge(&mut receiving.data, range),
        Completion::Finished { .. } => receiving.is_finished = true,
        Completion::Datagram { from, range, is_last, .. } => {
            receiving.pieces.push(range);
            if is_last {
                let pieces = std::mem::take(&mut receiving.pieces);
                receiving.datagrams.push_back(Datagram { worker, from, pieces });
            }
        }
        Completion::DatagramFailed { reason, .. } => state.error = Some(reason),
        Completion::Answer { request, reason, .. } => state.answer = Some((request, reason)),
        _ => {}
    }
}

/// Adds a range, which often follows the last one.
fn merge(data: &mut std::collections::VecDeque<ArenaRange>, range: ArenaRange) {
    match data.back_mut() {
        Some(last) if last.offset + last.len == range.offset => last.len += range.len,
        _ => data.push_back(range),
    }
}
