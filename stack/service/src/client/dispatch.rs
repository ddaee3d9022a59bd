//! The thread of a client: takes completions from the ring and changes the state of sockets.
//!
//! It polls for a short time after the last completion and then sleeps. It must not wait for a lock that another thread
//! holds while it waits for this thread.

use super::socket::{Handle, Socket};
use super::state::{Datagram, Phase, State};
use super::{Core, Shared, lock};
use crate::chunks::ArenaRange;
use crate::entry::Completion;
use crate::ring::Consumer;
use crate::{Reason, handshake};
use mem::SharedRange;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::AsFd;
use stack::Endpoint;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
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
    completions: Consumer<SharedRange>,
}

impl Dispatcher {
    pub(super) fn new(shared: Arc<Shared>, completions: SharedRange, core: Weak<Core>) -> Self {
        let completions = Consumer::new(completions, shared.sizes.ring);
        Self { shared, core, completions }
    }

    /// Runs until the last handle is dropped or the service ends.
    pub(super) fn run(mut self) {
        self.work();
        // Sockets refer to the shared state, which closes the connection with the service when it is dropped.
        lock(&self.shared.sockets).by_id.clear();
        lock(&self.shared.arena).starved.clear();
    }

    fn work(&mut self) {
        let mut looks = 0;
        loop {
            let Some(count) = self.take() else { return self.end() };
            let is_flushed = self.shared.flush(&mut lock(&self.shared.sender));
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
                // What the service reported before its end is still taken.
                let _ = self.take();
                return self.end();
            }
        }
    }

    /// Takes all completions. Returns their number, or `None` if the service violates the protocol.
    fn take(&mut self) -> Option<u64> {
        let mut count = 0_u64;
        while let Some(words) = self.completions.pop().ok()? {
            let completion = Completion::decode(&words)?;
            self.is_inside(completion).then(|| self.completion(completion))?;
            count += 1;
            if count.is_multiple_of(64) {
                self.completions.release();
            }
        }
        self.completions.release();
        if count > u64::from(self.shared.sizes.ring) / 2 {
            // The service may wait for room in the ring.
            port::eventfd::signal(self.shared.to_service.as_fd());
        }
        Some(count)
    }

    /// Whether the range of a completion is in the arena.
    fn is_inside(&self, completion: Completion) -> bool {
        match completion {
            Completion::Data { range, .. } | Completion::Datagram { range, .. } => {
                self.shared.inbound.slice(range.offset as usize, range.len as usize).is_some()
            }
            _ => true,
        }
    }

    fn sleep(&mut self, limit: Duration) {
        if self.completions.prepare_sleep() {
            let Shared { to_client, socket, .. } = &*self.shared;
            let mut fds = [PollFd::new(to_client, PollFlags::IN), PollFd::new(socket, PollFlags::IN)];
            let limit =
                Timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: limit.subsec_nanos().into() };
            // An interrupted sleep counts as a wake-up.
            let _ = rustix::event::poll(&mut fds, Some(&limit));
        }
        self.completions.resume();
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
            self.closed(socket, Reason::Service);
        }
    }

    fn completion(&self, completion: Completion) {
        if let Completion::Accepted { listener, id, local, remote } = completion {
            return self.accepted(listener, id, (local, remote));
        }
        let Some(socket) = self.shared.find(completion.id()) else { return };
        match completion {
            Completion::Failed { reason, .. } | Completion::Closed { reason, .. } => {
                self.closed(&socket, reason);
            }
            Completion::Sent { bytes, .. } => self.sent(&socket, bytes),
            other => {
                let mut state = socket.lock();
                update(&mut state, other);
                socket.notify(&state);
            }
        }
    }

    fn accepted(&self, listener: u32, id: u32, (local, remote): (Endpoint, Endpoint)) {
        let Some(core) = self.core.upgrade() else { return };
        let socket = Arc::new(Socket::new(id, self.shared.clone()));
        {
            let mut state = socket.lock();
            (state.phase, state.local, state.remote) = (Phase::Open, local, Some(remote));
        }
        lock(&self.shared.sockets).by_id.insert(id, socket.clone());
        // Dropped, which closes it, if the listener was closed meanwhile.
        let handle = Handle { socket, _core: core };
        let Some(listener) = self.shared.find(listener) else { return };
        let mut state = listener.lock();
        if state.is_released {
            drop(state);
            return drop(handle);
        }
        state.receiving.accepted.push_back(handle);
        state.receiving.arrivals += 1;
        listener.notify(&state);
    }

    fn sent(&self, socket: &Socket, bytes: u32) {
        let mut state = socket.lock();
        let starved = {
            let mut arena = lock(&self.shared.arena);
            state.acknowledge(&mut arena.free, bytes);
            std::mem::take(&mut arena.starved)
        };
        socket.notify(&state);
        drop(state);
        wake(&starved);
    }

    fn closed(&self, socket: &Socket, reason: Reason) {
        let mut state = socket.lock();
        state.closed = Some(reason);
        if reason != Reason::Normally {
            state.error = Some(reason);
        }
        let starved = {
            let mut arena = lock(&self.shared.arena);
            state.sending.stream.clear(&mut arena.free);
            std::mem::take(&mut arena.starved)
        };
        socket.notify(&state);
        let is_released = state.is_released;
        drop(state);
        if is_released {
            self.shared.forget(socket.id);
        }
        wake(&starved);
    }
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
fn update(state: &mut State, completion: Completion) {
    let receiving = &mut state.receiving;
    receiving.arrivals += 1;
    match completion {
        Completion::Bound { local, .. } => (state.phase, state.local) = (Phase::Open, local),
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
                receiving.datagrams.push_back(Datagram { from, pieces });
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
