//! A capture from its start to its end: one thread writes what the loops of the hosts add.

use super::{CaptureFilter, InspectError, Inspector};
use port::pcap::{CaptureCounts, CaptureFile, CreateError, Output};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum time between two looks at the limits.
const INTERVAL: Duration = Duration::from_millis(50);
/// Time without a look at the status after which a capture ends: the program that asked for it has gone.
const LEASE: Duration = Duration::from_secs(10);

/// Settings of a capture.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// Packets.
    pub filter: CaptureFilter,
    /// File.
    pub output: Output,
    /// Maximum number of bytes kept per packet; `None`: all.
    pub snap: Option<u32>,
    /// Maximum number of packets.
    pub packets: u64,
    /// Maximum time.
    pub duration: Duration,
}

/// Reason why a capture did not start.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file cannot be created.
    #[error(transparent)]
    File(#[from] CreateError),
    /// A host does not answer.
    #[error(transparent)]
    Host(#[from] InspectError),
    /// The kernel has no thread.
    #[error(transparent)]
    Thread(#[from] std::io::Error),
}

/// State of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureStatus {
    /// Counts.
    pub counts: CaptureCounts,
    /// Whether the file is complete.
    pub has_ended: bool,
}

/// State shared with the writing thread.
#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    status: Mutex<CaptureStatus>,
    asked: Mutex<Instant>,
}

/// A capture. Ends at a limit, if the status is not looked at for ten seconds, or when it is dropped.
#[derive(Debug)]
pub struct Recording {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Recording {
    /// Starts a capture at all of these hosts, which must not have another one.
    ///
    /// # Errors
    /// If the file cannot be created, or a host does not answer. There is no file then.
    pub fn start(hosts: &[Inspector], options: &CaptureOptions) -> Result<Self, CaptureError> {
        let file = CaptureFile::create(&options.output, "stack", options.snap)?;
        let left = Arc::new(AtomicU64::new(options.packets));
        let asked = Mutex::new(Instant::now());
        let shared = Shared { stop: AtomicBool::new(false), status: Mutex::default(), asked };
        let (shared, hosts) = (Arc::new(shared), Attached(hosts.to_vec()));
        for host in &hosts.0 {
            host.start_capture(options.filter, file.feed(), left.clone())?;
        }
        let writer =
            Writer { file, hosts, left, shared: shared.clone(), until: Instant::now() + options.duration };
        let thread = std::thread::Builder::new().name("capture".to_owned()).spawn(|| writer.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// State of the capture.
    pub fn status(&self) -> CaptureStatus {
        *lock(&self.shared.asked) = Instant::now();
        lock(&self.shared.status).clone()
    }

    /// Ends the capture and returns its last state.
    pub fn stop(mut self) -> CaptureStatus {
        self.end();
        self.status()
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of that thread was already printed.
            let _ = thread.join();
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.end();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hosts with a capture, which ends when this is dropped.
struct Attached(Vec<Inspector>);

impl Drop for Attached {
    fn drop(&mut self) {
        for host in &self.0 {
            // A host that has ended adds nothing, and the feed of one that does not answer has ended.
            let _ = host.stop_capture();
        }
    }
}

/// The writing thread.
struct Writer {
    file: CaptureFile,
    hosts: Attached,
    left: Arc<AtomicU64>,
    shared: Arc<Shared>,
    until: Instant,
}

impl Writer {
    fn run(mut self) {
        // At least once, because the first write keeps the file.
        loop {
            self.file.write(INTERVAL.min(self.until.saturating_duration_since(Instant::now())));
            lock(&self.shared.status).counts = self.file.counts();
            if self.is_over() {
                break;
            }
        }
        drop(self.hosts);
        let counts = self.file.close();
        *lock(&self.shared.status) = CaptureStatus { counts, has_ended: true };
    }

    fn is_over(&self) -> bool {
        let shared = &self.shared;
        shared.stop.load(Ordering::Relaxed)
            || self.left.load(Ordering::Relaxed) == 0
            || Instant::now() >= self.until
            || lock(&shared.status).counts.failure.is_some()
            || lock(&shared.asked).elapsed() > LEASE
    }
}
