//! Hosts on several threads: connections on every worker, over a port with a queue pair for each and over one with a
//! single queue, and the counts of packets between workers.

use host::{
    Activity, App, Buffer, DistributorCounts, FlowSteering, Indirection, Options, Report, SteeringOptions,
    Threads, Workers,
};
use port::PortControl;
use port::memif;
use port::patch::{Exchange, Patch};
use port::vhost_user::{self, VhostUser};
use port::virtio_user::{self, VirtioUser};
use serve::{Echo, Served, Server};
use stack::ip::InterfaceConfig;
use stack::tcp::ConnectionId;
use stack::{Address, Cidr, Closed, Endpoint, Event, Slice, Stack, Time};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use wire::MacAddress;

const PORT: u16 = 7;
pub(crate) const ADDRESSES: [&str; 2] = ["10.9.0.1/24", "10.9.0.2/24"];
pub(crate) const WORKERS: usize = 2;

/// Sends bytes on each connection, closes, and compares what comes back.
struct Client {
    received: HashMap<ConnectionId, Vec<u8>>,
    data: Arc<[u8]>,
    /// Connections of all workers that are not complete.
    open: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

impl App for Client {
    fn event(&mut self, stack: &mut Stack<Buffer>, event: Event<Buffer>, _now: Time) {
        match event {
            Event::Connected { connection } => {
                stack.send(connection, Slice::new(self.data.clone().into())).unwrap();
                stack.close(connection);
            }
            Event::Data { connection, data } => {
                self.received.entry(connection).or_default().extend(data.to_vec());
                stack.consumed(connection, data.len());
            }
            Event::Finished { connection } => {
                assert!(**self.received.get(&connection).unwrap() == *self.data, "{connection:?}");
                if self.open.fetch_sub(1, Ordering::Relaxed) == 1 {
                    self.stop.store(true, Ordering::Relaxed);
                }
            }
            Event::Closed { reason, .. } => assert_eq!(reason, Closed::Normally),
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn workers(
    count: usize,
    end: usize,
    control: Box<dyn PortControl>,
    steering: &SteeringOptions,
) -> Workers {
    let mut options = Options::new().unwrap();
    // Ports are the same in each run.
    options.stack.secret = [7; 16];
    if end == 1 {
        // The server has to wait for space.
        options.stack.limits.send_buffer = 1 << 17;
    }
    let config = InterfaceConfig { mac: MacAddress::new([2, 0, 0, 0, 0, end as u8]), mtu: 1500, vlan: None };
    let mut workers = Workers::open(count, &options, ("port", control), &config, steering).unwrap();
    for host in workers.hosts() {
        let now = host.now();
        host.stack().add_address(Workers::interface(), ADDRESSES[end].parse().unwrap(), now);
    }
    workers
}

/// Two ends of a link.
pub(crate) type Ends = [Box<dyn PortControl>; 2];

/// A vhost-user socket with this many queue pairs.
fn pairs(folder: &tempfile::TempDir, queue_pairs: u16) -> Ends {
    let path = folder.path().join("socket");
    let options = vhost_user::Options { queue_pairs, ..vhost_user::Options::default() };
    let back = VhostUser::listen(&path, options).unwrap();
    let options = virtio_user::Options { queue_pairs, ..virtio_user::Options::default() };
    [Box::new(VirtioUser::connect(&path, options, Instant::now()).unwrap()), Box::new(back)]
}

/// A wire in memory with a single queue.
pub(crate) fn single() -> Ends {
    let exchange = Exchange::default();
    [("a", "b"), ("b", "a")].map(|(name, peer)| -> Box<dyn PortControl> {
        Box::new(Patch::new(name, peer, memif::Options::default(), &exchange).unwrap())
    })
}

/// Counters of one end, by worker.
struct Counted {
    reports: Vec<Report>,
    served: Vec<Served>,
}

impl Counted {
    fn counts(&self) -> DistributorCounts {
        let mut sum = DistributorCounts::default();
        self.reports.iter().for_each(|report| sum.add(&report.distributor));
        sum
    }

    /// Every packet is kept, handed over or dropped by name, and every packet handed over arrives.
    fn check(&self) {
        let sum = self.counts();
        assert_eq!(
            sum.received + sum.copied + sum.forwarded,
            sum.kept + sum.handed_over + sum.handoff_full,
            "{sum:?}"
        );
        // Packets of the last round may still be in a handoff queue.
        assert!(sum.handed_over - sum.taken < 64, "{sum:?}");
        for report in &self.reports {
            let DistributorCounts { kept, taken, forwarded, unsettled, .. } = report.distributor;
            assert_eq!(report.counters.frames_in, kept + taken - forwarded - unsettled, "{report:?}");
            assert_eq!(report.faults, 0, "{report:?}");
        }
    }
}

/// Opens `connections` connections on each of `clients` workers, echoes `len` bytes on each and compares them.
fn run(
    [front, back]: Ends,
    clients: usize,
    (steering, threads): (&SteeringOptions, Threads),
    connections: usize,
    len: usize,
) -> [Counted; 2] {
    let stop = Arc::new(AtomicBool::new(false));
    let mut server = workers(WORKERS, 1, back, steering);
    let of_client = SteeringOptions { activity: None, ..steering.clone() };
    let mut client = workers(clients, 0, front, &of_client);
    let server = std::thread::spawn({
        let stop = stop.clone();
        move || {
            let mut echoes: Vec<_> = (0..WORKERS).map(|_| Echo::default()).collect();
            for (host, echo) in server.hosts().iter_mut().zip(&mut echoes) {
                echo.listen(host.stack(), Endpoint::new(Address::v4([0; 4]), PORT)).unwrap();
            }
            assert!(server.connect(&stop));
            match threads {
                Threads::Unified => server.run(&mut echoes, |_, _| (), &stop),
                other => {
                    let yields = other == Threads::Merge;
                    server.run_split(&mut echoes, yields, |_, _| (), &stop).unwrap();
                }
            }
            let served = echoes.iter().map(Echo::served).collect();
            Counted { reports: server.close(), served }
        }
    });
    assert!(client.connect(&stop));
    let open = Arc::new(AtomicUsize::new(clients * connections));
    let to: Cidr = ADDRESSES[1].parse().unwrap();
    for host in client.hosts() {
        let now = host.now();
        for _ in 0..connections {
            let (any, options) = (Endpoint::new(Address::v4([0; 4]), 0), stack::tcp::Options::default());
            host.stack().connect(any, Endpoint::new(to.address, PORT), options, now).unwrap();
        }
    }
    let watchdog = stop.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_mins(1));
        watchdog.store(true, Ordering::Relaxed);
    });
    let data: Arc<[u8]> = (0..len).map(|i| (i % 251) as u8).collect();
    let app =
        || Client { received: HashMap::new(), data: data.clone(), open: open.clone(), stop: stop.clone() };
    let mut apps: Vec<_> = (0..clients).map(|_| app()).collect();
    client.run(&mut apps, |_, _| (), &stop);
    assert_eq!(open.load(Ordering::Relaxed), 0, "connections that are not complete");
    let counted = [Counted { reports: client.close(), served: Vec::new() }, server.join().unwrap()];
    counted.iter().for_each(Counted::check);
    let bytes: u64 = counted[1].served.iter().map(|served| served.received).sum();
    assert_eq!(bytes, (clients * connections * len) as u64);
    counted
}

#[test]
fn every_worker_serves_connections_on_its_own_queue_pair() {
    for rule in [FlowSteering::Hash, FlowSteering::Arrival] {
        let (folder, steering) =
            (tempfile::tempdir().unwrap(), SteeringOptions { rule, ..SteeringOptions::default() });
        let [_, server] = run(pairs(&folder, 2), WORKERS, (&steering, Threads::Unified), 8, 500_000);
        assert!(server.served.iter().all(|served| served.connections > 0), "{:?}", server.served);
        // Each client worker sends on its own pair.
        assert!(rule == FlowSteering::Hash || server.counts().crossed == 0, "{:?}", server.counts());
    }
}

#[test]
fn software_distributes_a_port_with_a_single_queue() {
    for clients in [1, WORKERS] {
        let [_, server] = run(single(), clients, (&SteeringOptions::default(), Threads::Unified), 8, 500_000);
        assert!(server.served.iter().all(|served| served.connections > 0), "{:?}", server.served);
        let counts: Vec<_> = server.reports.iter().map(|report| report.distributor).collect();
        assert!(counts[0].handed_over > 0 && counts[1].received == 0, "one worker receives: {counts:?}");
    }
}

#[test]
fn connections_survive_changes_of_the_active_workers() {
    let folder = tempfile::tempdir().unwrap();
    for (ends, is_single) in [(single(), true), (pairs(&folder, 2), false)] {
        let activity = Arc::new(Activity::new(1..=WORKERS, None));
        let (steering, done) = (
            SteeringOptions { activity: Some(activity.clone()), ..SteeringOptions::default() },
            AtomicBool::new(false),
        );
        let [_, server] = std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in (1..=WORKERS).cycle() {
                    activity.set_active(n);
                    std::thread::sleep(Duration::from_millis(3));
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            let _end = SetOnDrop(&done);
            run(ends, WORKERS, (&steering, Threads::Unified), 64, 200_000)
        });
        assert_eq!(server.served.iter().map(|served| served.aborted).sum::<u64>(), 0);
        // The first worker receives the segments of all connections, also of those that the second one has.
        let are_divided = server.served.iter().all(|served| served.connections > 0);
        assert!(!is_single || !are_divided || server.counts().crossed > 0, "{:?}", server.counts());
    }
}

/// Ends a thread, also if a test fails.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn home_ports_keep_segments_on_their_core() {
    let crossed = |arrivals| {
        let (folder, steering) =
            (tempfile::tempdir().unwrap(), SteeringOptions { arrivals, ..SteeringOptions::default() });
        let ends = run(pairs(&folder, 2), WORKERS, (&steering, Threads::Unified), 32, 10_000);
        ends.map(|end| end.counts()).map(|sum| sum.crossed as f64 / sum.received as f64)
    };
    // Any own port: (n-1)/n of the segments arrive at another worker than their owner's.
    for share in crossed(None) {
        assert!((0.3..0.7).contains(&share), "{share}");
    }
    let home = crossed(Some(Arc::new(Indirection::symmetric(WORKERS as u16))));
    assert!(home.iter().all(|share| *share == 0.0), "{home:?}");
}

#[test]
fn applications_on_threads_of_their_own_return_the_same_bytes() {
    for threads in [Threads::Split, Threads::Merge] {
        let steering = SteeringOptions::default();
        let [_, server] = run(single(), 1, (&steering, threads), 8, 500_000);
        assert!(server.served.iter().all(|served| served.connections > 0), "{:?}", server.served);
        assert_eq!(server.served.iter().map(|served| served.aborted).sum::<u64>(), 0);
    }
}
