//! Back ends that disconnect and return: the device is set up again after a growing pause, for both connection modes. A
//! device whose queues no worker takes does not count as running.

use port::vhost_user::fake::FakeEngine;
use port::vhost_user::{self, VhostUser};
use port::virtio_user::{Options, VirtioUser};
use port::{PortControl, PortFault, PortState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Rounds after which the port is considered busy forever.
const ROUNDS: usize = 1000;
const SHORT_PAUSE: Duration = Duration::from_millis(1);

/// Side that connects.
#[derive(Clone, Copy, Debug)]
enum Mode {
    Listens,
    Connects,
}

/// A back end with its own engine.
struct Back {
    port: VhostUser,
    engine: FakeEngine,
}

/// A port, its engine, and the time passed to it.
struct Front {
    mode: Mode,
    path: PathBuf,
    port: VirtioUser,
    engine: FakeEngine,
    now: Instant,
}

impl Front {
    fn new(mode: Mode, dir: &Path) -> Self {
        let (path, now) = (dir.join("s"), Instant::now());
        let options = Options { queue_size: 128, queue_pairs: 2, ..Default::default() };
        let port = match mode {
            Mode::Listens => VirtioUser::listen(&path, options),
            Mode::Connects => VirtioUser::connect(&path, options, now),
        };
        Self { mode, path, port: port.unwrap(), engine: FakeEngine::default(), now }
    }

    /// Starts a back end that replies to everything.
    fn back(&self) -> Back {
        let offer = vhost_user::Options { queue_pairs: 2, ..Default::default() };
        let port = match self.mode {
            Mode::Listens => VhostUser::connect(&self.path, offer, self.now),
            Mode::Connects => VhostUser::listen(&self.path, offer),
        };
        let mut back = Back { port: port.unwrap(), engine: FakeEngine::default() };
        back.port.handle(self.now, &mut back.engine);
        back
    }

    /// Whether the engine would call the port now.
    fn is_called(&self) -> bool {
        let fd = self.port.poll_fd().unwrap();
        let readable = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&Timespec::default())).unwrap() > 0;
        readable || self.port.deadline().is_some_and(|at| at <= self.now)
    }

    /// Runs both sides at the current time until the port has nothing left to do.
    fn run(&mut self, mut back: Option<&mut Back>) {
        for _ in 0..ROUNDS {
            // Twice: a back end that has just accepted a connection reads messages on the next call.
            if let Some(back) = &mut back {
                (0..2).for_each(|_| back.port.handle(self.now, &mut back.engine));
            }
            if !self.is_called() {
                return;
            }
            self.port.handle(self.now, &mut self.engine);
        }
        panic!("the port never rests: {:?}", self.port.status());
    }

    fn runs(&self) -> bool {
        let status = self.port.status();
        let queues = status.queues.iter().filter(|queue| queue.rx_running && queue.tx_running).count();
        assert_eq!((self.engine.rx.len(), self.engine.tx.len()), (queues, queues), "{status:?}");
        queues == 2
    }

    /// Lets the device run with `back` for `time` and disconnects. Returns the port's pause afterwards.
    fn visit(&mut self, mut back: Back, time: Duration) -> Duration {
        self.run(Some(&mut back));
        assert!(self.runs(), "{:?}", self.port.status());
        self.now += time;
        drop(back);
        self.run(None);
        assert!(!self.runs());
        assert!(matches!(self.port.status().state, PortState::Waiting(_)));
        self.port.deadline().unwrap() - self.now
    }
}

#[test]
fn flapping_back_end_is_reconnected_with_growing_back_off() {
    for mode in [Mode::Listens, Mode::Connects] {
        let dir = tempfile::tempdir().unwrap();
        let mut front = Front::new(mode, dir.path());
        let (mut pauses, mut back) = (vec![], front.back());
        for n in 1..=7 {
            let backoff = front.visit(back, Duration::ZERO);
            back = front.back();
            front.now += backoff.saturating_sub(SHORT_PAUSE);
            front.run(Some(&mut back));
            let status = front.port.status();
            assert_eq!((status.connects, status.memory), (n, (0, 0)), "{mode:?}: it is not let in yet");
            front.now += SHORT_PAUSE;
            pauses.push(backoff.as_millis());
        }
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 2000, 2000], "{mode:?}");
    }
}

#[test]
fn early_peer_is_served_after_the_back_off() {
    for mode in [Mode::Listens, Mode::Connects] {
        let dir = tempfile::tempdir().unwrap();
        let mut front = Front::new(mode, dir.path());
        let backoff = front.visit(front.back(), Duration::ZERO);
        let mut early = front.back();
        front.run(Some(&mut early));
        assert!(!front.runs(), "{mode:?}");
        front.now += backoff;
        front.run(Some(&mut early));
        assert!(front.runs(), "{mode:?}: {:?}", front.port.status());
        assert_eq!(front.port.status().connects, 2);
    }
}

#[test]
fn back_off_resets_only_after_a_long_connection() {
    for mode in [Mode::Listens, Mode::Connects] {
        let dir = tempfile::tempdir().unwrap();
        let mut front = Front::new(mode, dir.path());
        let long = Duration::from_secs(2);
        let times = [
            Duration::ZERO,
            SHORT_PAUSE,
            long.saturating_sub(SHORT_PAUSE),
            long,
            long.saturating_sub(SHORT_PAUSE),
            100 * long,
        ];
        let pauses = times.map(|time| {
            let backoff = front.visit(front.back(), time);
            front.now += backoff;
            backoff.as_millis()
        });
        assert_eq!(pauses, [100, 200, 400, 100, 200, 100], "{mode:?}");
    }
}

#[test]
fn port_without_a_responsive_worker_names_it_and_retries() {
    let hung = PortFault::WorkerHung(1);
    for mode in [Mode::Listens, Mode::Connects] {
        let dir = tempfile::tempdir().unwrap();
        let mut front = Front::new(mode, dir.path());
        front.engine.failure = Some(hung.clone());
        for backoff in [100, 200] {
            let mut back = front.back();
            front.run(Some(&mut back));
            let status = front.port.status();
            assert_eq!(status.state, PortState::Faulted(hung.clone()), "{mode:?}");
            assert_eq!((status.queues.len(), status.memory), (0, (0, 0)), "{mode:?}");
            let left = matches!(back.port.status().state, PortState::Waiting(_));
            assert!(left, "{mode:?}: its connection was ended");
            assert!(back.engine.rx.is_empty() && !front.runs());
            assert_eq!(front.port.deadline(), Some(front.now + Duration::from_millis(backoff)));
            front.now += Duration::from_millis(backoff);
        }
        front.engine.failure = None;
        let mut back = front.back();
        front.run(Some(&mut back));
        let status = front.port.status();
        assert!(front.runs(), "{mode:?}: {status:?}");
        assert_eq!(status.state, PortState::Connected);
    }
}
