//! Test harness: a switch that moves no packets, in a separate thread, and a guest's memory.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test uses its own part; a failure here is the test's"
)]

use mem::RegionSpec;
use port::vhost_user::fake::{FakeEngine, QUEUES};
use port::vhost_user::{Options, VhostUser};
use port::virtio_user::{SharedRegion, VringSetup};
use port::{PortControl, PortStatus};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::MemfdFlags;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longer than any reply takes, so that a hang fails the test.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// Closure to run on the switch's thread.
pub(crate) type Request = Box<dyn FnOnce(&VhostUser, &FakeEngine) + Send>;

/// A port in a separate thread.
pub(crate) struct Switch {
    requests: Sender<Request>,
    thread: Option<JoinHandle<()>>,
}

impl Switch {
    pub(crate) fn listen(path: &Path, options: Options) -> Self {
        Self::run(VhostUser::listen_with(path, options, QUEUES).unwrap())
    }

    /// Listens with the queues of the fast path.
    pub(crate) fn listen_for_real(path: &Path, options: Options) -> Self {
        Self::run(VhostUser::listen(path, options).unwrap())
    }

    pub(crate) fn connect(path: &Path, options: Options) -> Self {
        Self::run(VhostUser::connect_with(path, options, Instant::now(), QUEUES).unwrap())
    }

    fn run(port: VhostUser) -> Self {
        let (requests, received) = channel();
        let thread = Some(std::thread::spawn(move || serve(port, &received)));
        Self { requests, thread }
    }

    pub(crate) fn query<T: Send + 'static>(
        &self,
        query: impl FnOnce(&VhostUser, &FakeEngine) -> T + Send + 'static,
    ) -> T {
        let (answer, answered) = channel();
        self.requests.send(Box::new(move |port, engine| answer.send(query(port, engine)).unwrap())).unwrap();
        answered.recv_timeout(TIMEOUT).unwrap()
    }

    pub(crate) fn status(&self) -> PortStatus {
        self.query(|port, _| port.status())
    }

    /// Waits until the port's status satisfies `wanted`.
    pub(crate) fn wait(&self, condition: &str, wanted: impl Fn(&PortStatus) -> bool) -> PortStatus {
        let start = Instant::now();
        loop {
            let status = self.status();
            if wanted(&status) {
                return status;
            }
            assert!(start.elapsed() < TIMEOUT, "waiting for: {condition}; the port is {status:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Pairs of the running receive and transmit queues.
    pub(crate) fn running(&self) -> (Vec<u16>, Vec<u16>) {
        self.query(|_, engine| (engine.rx.keys().copied().collect(), engine.tx.keys().copied().collect()))
    }
}

fn serve(mut port: VhostUser, requests: &Receiver<Request>) {
    let mut engine = FakeEngine::default();
    loop {
        let timeout = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        if let Some(fd) = port.poll_fd() {
            rustix::event::poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)).unwrap();
        }
        port.handle(Instant::now(), &mut engine);
        for fault in std::mem::take(&mut engine.faults) {
            port.fault(Instant::now(), fault, &mut engine);
        }
        loop {
            match requests.try_recv() {
                Ok(question) => question(&port, &engine),
                Err(std::sync::mpsc::TryRecvError::Empty) => break,
                Err(std::sync::mpsc::TryRecvError::Disconnected) => {
                    port.close(&mut engine);
                    assert!(engine.rx.is_empty() && engine.tx.is_empty());
                    return;
                }
            }
        }
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let (closed, _) = channel();
        self.requests = closed;
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            ended.unwrap().unwrap();
        }
    }
}

/// Memory and event descriptors of a guest with two rings.
pub(crate) struct Guest {
    pub(crate) memory: OwnedFd,
    pub(crate) spec: RegionSpec,
    pub(crate) kick: OwnedFd,
    pub(crate) call: OwnedFd,
}

impl Guest {
    pub(crate) fn new() -> Self {
        let memory = rustix::fs::memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
        let spec = RegionSpec { guest: 0x10_0000, user: 0x7f12_3400_0000, len: 1 << 20, offset: 0 };
        rustix::fs::ftruncate(&memory, spec.len).unwrap();
        let event = || rustix::event::eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        Self { memory, spec, kick: event(), call: event() }
    }

    pub(crate) fn region(&self) -> SharedRegion<'_> {
        SharedRegion { file: self.memory.as_fd(), spec: self.spec }
    }

    pub(crate) fn ring(&self, index: u64, base: u32) -> VringSetup<'_> {
        let at = self.spec.user + index * 0x8000;
        VringSetup {
            size: 256,
            descriptors: at,
            driver: at + 0x2000,
            device: at + 0x4000,
            base,
            kick: Some(self.kick.as_fd()),
            call: Some(self.call.as_fd()),
        }
    }
}

/// Open descriptors and mappings of shared memory of this process.
pub(crate) fn footprint() -> (usize, usize) {
    port::vhost_user::fuzz::footprint().unwrap()
}
