//! Captures of packets at running ports, each to a pipe that a client reads.
//!
//! A thread writes the file of a capture. It ends with its limit, when the reader closes the pipe, with the switch, or
//! when another process has taken over. That process has begun a capture with the same parameters before its ports run,
//! whose packets wait in its rings until the client has connected again.

use super::capture_report::{CaptureEnd, CaptureRequest, Captured, Continuation, time_of_day};
use super::interface::DataPlaneError;
use crate::settings::MAX_PORTS;
use console::Diagnostic;
use engine::{CaptureOptions, CapturedPort, CapturedPorts, Engine, TraceOptions};
use port::PortId;
use port::pcap::CaptureFile;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::pipe::{PipeFlags, pipe_with};
use std::collections::HashMap;
use std::fs::File;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// Captures at one time. Each has rings of 4 MiB for each worker.
const MOST: usize = 4;
/// Interval in which the end of a capture is noticed.
const INTERVAL: Duration = Duration::from_millis(10);
/// Time for workers to drop their ends.
const DRAIN: Duration = Duration::from_secs(1);
/// How long a capture of the process before waits for its client.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a capture of the process before may need to begin. It needs longer if its head does not fit into the pipe.
const BEGINNING: Duration = Duration::from_millis(100);

/// The running captures of a switch.
#[derive(Default)]
pub(super) struct Captures {
    /// Why all of them end.
    stop: Arc<OnceLock<Stop>>,
    running: Mutex<Vec<Running>>,
}

/// Why all captures end.
#[derive(Clone, Copy, Debug)]
enum Stop {
    /// The switch ends.
    End,
    /// Another process has taken over, at this time of day.
    HandedOver(u64),
}

struct Running {
    key: u64,
    /// Parameters for a process that takes over.
    query: Option<String>,
    thread: JoinHandle<()>,
    waiting: Waiting,
    interfaces: Interfaces,
}

/// The interfaces of a file. Those of ports have the names of the ports when the capture began.
struct Interfaces {
    by_name: HashMap<String, CapturedPort>,
    ports: Arc<CapturedPorts>,
}

/// A capture of the process before until its client has connected again, or its thread has waited too long.
type Waiting = Arc<Mutex<Option<(Sender<Begin>, Captured)>>>;

/// The beginning of the file.
#[derive(Clone, Copy)]
struct Begin {
    limit: Option<u64>,
    before: Continuation,
}

/// The ports that a capture has in its file, and whether their received packets are selected.
pub(super) type Sources = Vec<(PortId, String, bool)>;

/// What the thread of a capture needs.
struct Task {
    key: u64,
    engine: Arc<Engine>,
    options: CaptureOptions,
    /// Receives a message when workers know of the capture.
    known: Sender<()>,
    begin: Receiver<Begin>,
    waiting: Waiting,
    stop: Arc<OnceLock<Stop>>,
    end: Arc<OnceLock<CaptureEnd>>,
}

impl Captures {
    /// Starts a capture, or returns the one that was prepared for the client. Returns the end to be read.
    pub(super) fn start(
        &self,
        engine: &Arc<Engine>,
        request: &CaptureRequest,
        sources: &Sources,
    ) -> Result<Captured, DataPlaneError> {
        let before = request.continues.unwrap_or_default();
        let limit = request.limit.map(|limit| limit.saturating_sub(before.packets));
        let begin = Begin { limit, before };
        if let Some(prepared) = self.prepared(begin) {
            return Ok(prepared);
        }
        let now = time_of_day();
        let interruption =
            request.continues.map(|before| Duration::from_nanos(now.saturating_sub(before.time)));
        let comment = interruption.map(|missing| interrupted(before.time, missing));
        let (sender, captured, _) = self.spawn(now, engine, request, sources, comment)?;
        // The thread waits for it.
        let _ = sender.send(begin);
        Ok(Captured { interruption, ..captured })
    }

    /// Starts a capture of the process before, which waits for its client. Workers know of it afterwards, so that they
    /// begin it before the ports that start later: the caller waits for the message that says so
    /// ([`wait_until_known`]).
    pub(super) fn prepare(
        &self,
        key: u64,
        engine: &Arc<Engine>,
        request: &CaptureRequest,
        sources: &Sources,
    ) -> Result<Receiver<()>, DataPlaneError> {
        let (sender, captured, known) = self.spawn(key, engine, request, sources, None)?;
        if let Some(running) = self.running().iter_mut().find(|running| running.key == key) {
            *locked(&running.waiting) = Some((sender, captured));
        }
        Ok(known)
    }

    /// The capture that waits for this client.
    fn prepared(&self, begin: Begin) -> Option<Captured> {
        let mut running = self.running();
        let found = running.iter_mut().find(|running| running.key == begin.before.key)?;
        let (sender, captured) = locked(&found.waiting).take()?;
        // Fails if it has waited too long.
        sender.send(begin).ok().map(|()| captured)
    }

    fn spawn(
        &self,
        key: u64,
        engine: &Arc<Engine>,
        request: &CaptureRequest,
        sources: &Sources,
        comment: Option<String>,
    ) -> Result<(Sender<Begin>, Captured, Receiver<()>), DataPlaneError> {
        let failed = |e: &dyn std::fmt::Display| {
            let remedy = "end other captures, or raise the limits on threads and descriptors";
            DataPlaneError::Refused(Diagnostic::failed("capture", e, remedy))
        };
        let mut running = self.running();
        running.retain(|running| !running.thread.is_finished());
        if running.len() >= MOST {
            return Err(failed(&format!("there are {MOST} captures already, which is the maximum")));
        }
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| failed(&e))?;
        let watched = write.try_clone().map_err(|e| failed(&e))?;
        let (options, interfaces, names) = options(request, sources);
        let (snap, (sender, begin), (known, when_known)) = (request.snap, channel(), channel());
        let (stop, end) = (self.stop.clone(), Arc::<OnceLock<CaptureEnd>>::default());
        let waiting = Waiting::default();
        let task = Task {
            key,
            engine: engine.clone(),
            options,
            known,
            begin,
            waiting: waiting.clone(),
            stop,
            end: end.clone(),
        };
        let run = move || {
            // The head of a file with many ports does not fit into the pipe, so it is written once there is a reader.
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            match CaptureFile::stream(File::from(write), &names, snap, comment.as_deref()) {
                Ok(file) => task.run(file, &watched),
                Err(error) => task.broke_off(error.to_string()),
            }
            // Only now the reader sees the end, and knows why.
            drop(watched);
        };
        let thread = Builder::new().name("capture".to_owned()).spawn(run).map_err(|e| failed(&e))?;
        running.push(Running { key, query: request.query.clone(), thread, waiting, interfaces });
        Ok((sender, Captured { pipe: read, end, interruption: None }, when_known))
    }

    /// A port is added, perhaps with the number of one that was removed. Must be called before its queues start.
    pub(super) fn add_port(&self, id: PortId, name: &str) {
        self.running().iter().for_each(|running| running.interfaces.add_port(id, name));
    }

    /// Captures that another process can continue: their keys, and the parameters of their requests.
    pub(super) fn handed_over(&self) -> Vec<(u64, String)> {
        let mut running = self.running();
        running.retain(|running| !running.thread.is_finished());
        let handed = running.iter().filter(|running| locked(&running.waiting).is_none());
        handed.filter_map(|one| Some((one.key, one.query.clone()?))).collect()
    }

    /// Ends all captures, because another process has taken over.
    pub(super) fn hand_over(&self) {
        // It is set once.
        let _ = self.stop.set(Stop::HandedOver(time_of_day()));
    }

    /// Ends all captures.
    pub(super) fn stop(&self) {
        // Fails if another process has taken over.
        let _ = self.stop.set(Stop::End);
        for Running { thread, waiting, .. } in self.running().drain(..) {
            drop(locked(&waiting).take());
            // A panic of the thread was printed already.
            let _ = thread.join();
        }
    }

    /// How the first capture has a port.
    #[cfg(test)]
    pub(super) fn captured_port(&self, id: PortId) -> CapturedPort {
        self.running()[0].interfaces.ports.get(id)
    }

    fn running(&self) -> MutexGuard<'_, Vec<Running>> {
        locked(&self.running)
    }
}

/// Waits until workers know of a prepared capture. Without an answer in time, packets may be missing, as if the client
/// had started another capture.
pub(super) fn wait_until_known(known: &Receiver<()>) {
    let _ = known.recv_timeout(BEGINNING);
}

/// A poisoned lock is valid: the value changes in one step.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Comment of a file that does not continue at the end of the part before.
fn interrupted(since: u64, missing: Duration) -> String {
    let since = humantime::format_rfc3339_micros(UNIX_EPOCH + Duration::from_nanos(since));
    let ms = missing.as_secs_f64() * 1000.0;
    format!("the switch was replaced: packets are missing from {since} on, for {ms:.3} ms")
}

/// Options of the engine, and the file's interfaces and their names. A capture of all ports has one more interface, for
/// ports that are added later.
fn options(request: &CaptureRequest, sources: &Sources) -> (CaptureOptions, Interfaces, Vec<String>) {
    let mut names: Vec<String> = sources.iter().map(|(_, name, _)| name.clone()).collect();
    let is_all = request.ports.is_empty();
    let other = (is_all || request.trace.is_some()).then_some(names.len() as u16);
    names.extend(other.map(|_| "ports added later".to_owned()));
    let others = CapturedPort { interface: other, is_followed: is_all };
    let ports = Arc::new(CapturedPorts::new(MAX_PORTS, others));
    let port = |(index, (_, name, is_followed)): (usize, &(PortId, String, bool))| {
        (name.clone(), CapturedPort { interface: Some(index as u16), is_followed: *is_followed })
    };
    let by_name = sources.iter().enumerate().map(port).collect();
    let interfaces = Interfaces { by_name, ports: ports.clone() };
    for (id, name, _) in sources {
        interfaces.add_port(*id, name);
    }
    let CaptureRequest { received, sent, dropped, .. } = *request;
    let trace = request.trace.map(TraceOptions::new);
    let filter = request.filter.clone();
    (CaptureOptions { ports, received, sent, dropped, filter, trace }, interfaces, names)
}

impl Interfaces {
    /// A port with another name has the interface for ports that are added later, if there is one.
    fn add_port(&self, id: PortId, name: &str) {
        let port = self.by_name.get(name).copied();
        self.ports.set(id, port.unwrap_or_else(|| self.ports.others()));
    }
}

impl Task {
    /// Writes packets until the capture ends.
    fn run(&self, mut file: CaptureFile, pipe: &OwnedFd) {
        let id = self.engine.start_capture(self.options.clone(), file.feeds());
        // Only a capture of the process before is waited for.
        let _ = self.known.send(());
        let before = self.begin.recv_timeout(PATIENCE).map(|Begin { limit, before }| {
            file.limit(limit);
            while !file.has_ended() && !is_closed(pipe) && self.stop.get().is_none() {
                file.write(INTERVAL);
            }
            before
        });
        self.engine.stop_capture(id);
        let Ok(before) = before else {
            // The pipe is closed.
            drop(locked(&self.waiting).take());
            return tracing::info!("a capture ends, because its client is gone");
        };
        let until = Instant::now() + DRAIN;
        while file.has_feeds() && Instant::now() < until && !is_closed(pipe) {
            file.write(Duration::from_millis(1));
        }
        let is_complete = file.has_ended();
        let counts = file.close();
        // The counts before are those of a request.
        let packets = before.packets.saturating_add(counts.written);
        let missed = before.missed.saturating_add(counts.missed);
        // A reader that has enough closes the pipe.
        if let Some(reason) = counts.failure.filter(|_| !is_closed(pipe)) {
            return self.broke_off(reason);
        }
        match self.stop.get() {
            Some(&Stop::HandedOver(time)) if !is_complete => {
                tracing::info!(packets, missed, "a capture goes on in another process");
                // It is empty until here.
                let end = CaptureEnd::Continues(Continuation { key: self.key, packets, missed, time });
                let _ = self.end.set(end);
            }
            _ => tracing::info!(packets, missed, "a capture has ended"),
        }
    }

    fn broke_off(&self, reason: String) {
        tracing::warn!(%reason, "a capture broke off");
        // It is empty until here.
        let _ = self.end.set(CaptureEnd::BrokeOff(reason));
    }
}

/// Whether the reader has closed the pipe.
fn is_closed(pipe: &OwnedFd) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().contains(PollFlags::ERR)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The interfaces of `web0`, `web1` and two new ports: `db1` with the number of `web0`, and `web0` with another.
    fn interfaces(request: &CaptureRequest) -> [CapturedPort; 4] {
        let wanted = |name: &str| request.ports.is_empty() || request.ports.iter().any(|port| port == name);
        let sources = [(PortId(3), "web0"), (PortId(4), "web1")].into_iter();
        let sources = sources.filter(|(_, name)| request.trace.is_some() || wanted(name));
        let sources = sources.map(|(id, name)| (id, name.to_owned(), wanted(name))).collect();
        let (_, interfaces, _) = options(request, &sources);
        let before = [3, 4].map(|id| interfaces.ports.get(PortId(id)));
        interfaces.add_port(PortId(3), "db1");
        interfaces.add_port(PortId(5), "web0");
        let after = [3, 5].map(|id| interfaces.ports.get(PortId(id)));
        [before[0], before[1], after[0], after[1]]
    }

    #[test]
    fn a_port_with_the_number_of_a_removed_one_is_not_captured_in_its_place() {
        let port = |interface, is_followed| CapturedPort { interface, is_followed };
        let one = CaptureRequest { ports: vec!["web0".to_owned()], ..CaptureRequest::default() };
        let (web0, none) = (port(Some(0), true), port(None, false));
        assert_eq!(interfaces(&one), [web0, none, none, web0]);
        let (web1, later) = (port(Some(1), true), port(Some(2), true));
        assert_eq!(interfaces(&CaptureRequest::default()), [web0, web1, later, web0]);
        let (web1, later) = (port(Some(1), false), port(Some(2), false));
        let followed = CaptureRequest { trace: Some(100), ..one };
        assert_eq!(interfaces(&followed), [web0, web1, later, web0]);
    }

    #[test]
    fn an_interruption_is_named_with_its_beginning_and_length() {
        let comment = interrupted(1_790_000_000_000_250_000, Duration::from_micros(2_500));
        let expected =
            "the switch was replaced: packets are missing from 2026-09-21T14:13:20.000250Z on, for 2.500 ms";
        assert_eq!(comment, expected);
    }
}
