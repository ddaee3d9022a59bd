//! Captures of packets at running ports, each to a pipe that a client reads.
//!
//! A thread writes the file of a capture. It ends with its limit, when the reader closes the pipe, or with the switch.

use super::interface::DataPlaneError;
use super::report::{CaptureRequest, Captured};
use console::Diagnostic;
use engine::{CaptureOptions, Engine, TraceOptions};
use port::pcap::CaptureFile;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Captures at one time. Each has rings of 4 MiB for each worker.
const MOST: usize = 4;
/// Interval in which the end of a capture is noticed.
const INTERVAL: Duration = Duration::from_millis(100);
/// Time for workers to drop their ends.
const DRAIN: Duration = Duration::from_secs(1);

/// The running captures of a switch.
#[derive(Default)]
pub(super) struct Captures {
    stop: Arc<AtomicBool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Captures {
    /// Starts a capture of `ports`, which are numbers and names; packets are followed that the ports `from` have
    /// received. Returns the end to be read.
    pub(super) fn start(
        &self,
        engine: &Arc<Engine>,
        request: &CaptureRequest,
        ports: &[(u16, String)],
        from: Option<Vec<u16>>,
    ) -> Result<Captured, DataPlaneError> {
        let failed = |e: &dyn std::fmt::Display| {
            let remedy = "end other captures, or raise the limits on threads and descriptors";
            DataPlaneError::Refused(Diagnostic::failed("capture", e, remedy))
        };
        let mut threads = self.threads();
        threads.retain(|thread| !thread.is_finished());
        if threads.len() >= MOST {
            return Err(failed(&format!("there are {MOST} captures already, which is the maximum")));
        }
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| failed(&e))?;
        let watched = write.try_clone().map_err(|e| failed(&e))?;
        let (options, names) = options(request, ports, from);
        let (snap, limit) = (request.snap, request.limit);
        let (engine, stop) = (engine.clone(), self.stop.clone());
        let failure = Arc::<OnceLock<String>>::default();
        let known = failure.clone();
        let run = move || {
            // The head of a file with many ports does not fit into the pipe, so it is written once there is a reader.
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            match CaptureFile::stream(File::from(write), &names, snap, limit) {
                Ok(file) => run(&engine, file, options, (&watched, &stop), &known),
                Err(error) => broke_off(&known, error.to_string()),
            }
            // Only now the reader sees the end, and knows why.
            drop(watched);
        };
        threads.push(Builder::new().name("capture".to_owned()).spawn(run).map_err(|e| failed(&e))?);
        Ok(Captured { pipe: read, failure })
    }

    /// Ends all captures.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads().drain(..) {
            // A panic of the thread was printed already.
            let _ = thread.join();
        }
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Options of the engine, and the names of the file's interfaces. A capture of all ports has one more interface, for
/// ports that are added later.
fn options(
    request: &CaptureRequest,
    ports: &[(u16, String)],
    from: Option<Vec<u16>>,
) -> (CaptureOptions, Vec<String>) {
    let mut names: Vec<String> = ports.iter().map(|(_, name)| name.clone()).collect();
    let other = (request.ports.is_empty() || request.trace.is_some()).then_some(names.len() as u16);
    let numbers = ports.iter().map(|(id, _)| usize::from(*id)).max().map_or(1, |most| most + 2);
    let mut interfaces = vec![other; numbers];
    for (index, (id, _)) in ports.iter().enumerate() {
        interfaces[usize::from(*id)] = Some(index as u16);
    }
    names.extend(other.map(|_| "ports added later".to_owned()));
    let CaptureRequest { received, sent, dropped, .. } = *request;
    let trace = request.trace.map(|rate| TraceOptions { rate, ports: from, numbers: Arc::default() });
    (CaptureOptions { interfaces, received, sent, dropped, filter: request.filter.clone(), trace }, names)
}

/// Writes packets until the capture ends.
fn run(
    engine: &Engine,
    mut file: CaptureFile,
    options: CaptureOptions,
    (pipe, stop): (&OwnedFd, &AtomicBool),
    failure: &OnceLock<String>,
) {
    let id = engine.start_capture(options, || file.feed());
    while !file.has_ended() && !is_closed(pipe) && !stop.load(Ordering::Relaxed) {
        file.write(INTERVAL);
    }
    engine.stop_capture(id);
    let until = Instant::now() + DRAIN;
    while file.has_feeds() && Instant::now() < until && !is_closed(pipe) {
        file.write(Duration::from_millis(1));
    }
    let counts = file.close();
    tracing::info!(packets = counts.written, missed = counts.missed, "a capture has ended");
    // A reader that has enough closes the pipe.
    if let Some(reason) = counts.failure.filter(|_| !is_closed(pipe)) {
        broke_off(failure, reason);
    }
}

fn broke_off(failure: &OnceLock<String>, reason: String) {
    tracing::warn!(%reason, "a capture broke off");
    // It is empty until here.
    let _ = failure.set(reason);
}

/// Whether the reader has closed the pipe.
fn is_closed(pipe: &OwnedFd) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().contains(PollFlags::ERR)
}
