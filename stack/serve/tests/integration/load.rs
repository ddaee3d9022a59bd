//! The load client and the echo server at the two ends of one wire in shared memory.

use crate::workers::{single, workers};
use crate::{MODELS, drive};
use engine::LocalPort;
use host::{Host, Indirection, Options, SteeringOptions, Threads};
use port::memif;
use port::patch::{Exchange, Patch};
use serve::load::{EchoLoad, Load, LoadOptions, Mode, Results, Spacing, Team};
use serve::{Echo, Served, Server as _};
use stack::ip::InterfaceConfig;
use stack::{Address, Cidr, Endpoint};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wire::MacAddress;

const SERVER: Endpoint = Endpoint::new(Address::v4([10, 9, 0, 1]), 7);

fn source(n: u8) -> Address {
    Address::v4([10, 9, 0, 2 + n])
}

fn host(name: &str, peer: &str, exchange: &Exchange, addresses: &[Address], connections: u32) -> Host {
    let mut options = Options::new().unwrap();
    options.stack.limits.connections = connections + connections / 8 + 4096;
    let mut host = Host::new(options).unwrap();
    let patch = Patch::new(name, peer, memif::Options::default(), exchange).unwrap();
    let mac = MacAddress::new([2, 0, 0, 0, 0, name.as_bytes()[0]]);
    let config = InterfaceConfig { mac, mtu: 1500, vlan: None };
    let interface = host.add_port(LocalPort::new(name, Box::new(patch)), config);
    let now = host.now();
    for address in addresses {
        host.stack().add_address(interface, Cidr::new(*address, 16).unwrap(), now);
    }
    host
}

/// Runs the client against an echo server on another thread.
fn run(size: u32, options: LoadOptions) -> (Results, Served) {
    run_in(Threads::Unified, size, options)
}

/// As [`run`], with the client in a thread model.
fn run_in(threads: Threads, size: u32, options: LoadOptions) -> (Results, Served) {
    let (exchange, stop, done) =
        (Exchange::default(), Arc::new(AtomicBool::new(false)), AtomicBool::new(false));
    let (connections, sources) = (options.connections, options.sources.clone());
    let sources = if sources.is_empty() { vec![source(0)] } else { sources };
    let mut server = host("a", "b", &exchange, &[SERVER.address], connections);
    let mut client = host("b", "a", &exchange, &sources, connections);
    std::thread::scope(|scope| {
        let served = scope.spawn(|| {
            let mut echo = Echo::default();
            echo.listen(server.stack(), Endpoint::new(Address::v4([0; 4]), SERVER.port)).unwrap();
            assert!(server.connect(&AtomicBool::new(false)));
            server.run(&mut echo, &done);
            server.close();
            echo.served()
        });
        assert!(client.connect(&AtomicBool::new(false)));
        let now = client.now();
        let mut load =
            Load::new(EchoLoad::new(size, true), options, stop.clone(), client.stack(), now).unwrap();
        drive(&mut client, &mut load, threads, &stop);
        done.store(true, Ordering::Relaxed);
        assert_eq!(load.error(), None);
        let results = load.results(client.now());
        let report = client.close();
        assert_eq!((report.faults, report.counters.tcp_checksum_errors), (0, 0));
        (results, served.join().unwrap())
    })
}

fn closed(connections: u32) -> LoadOptions {
    LoadOptions::closed(SERVER, connections, Duration::from_millis(200))
}

/// Checks that all requests were answered and all connections are counted.
fn check(results: &Results, served: Served) {
    let (requests, connections) = (&results.requests, &results.connections);
    assert!(results.is_complete && requests.answered > 0, "{results:?}");
    assert_eq!(requests.sent, requests.answered + requests.failed.total() + requests.outstanding);
    assert_eq!((requests.failed.total(), requests.outstanding), (0, 0), "{requests:?}");
    assert_eq!((connections.failed.total(), connections.lost.total()), (0, 0), "{connections:?}");
    assert_eq!(connections.established, connections.open + connections.ended);
    assert_eq!((served.connections, served.aborted), (connections.attempted, 0));
}

#[test]
fn requests_of_all_lengths_are_echoed() {
    for (size, depth) in [(1, 1), (1_460, 8), (100_000, 2)] {
        let (results, served) = run(size, LoadOptions { depth, ..closed(16) });
        check(&results, served);
        assert!(served.sent >= results.requests.answered * u64::from(size));
    }
}

#[test]
fn an_open_loop_sleeps_until_its_requests_are_due() {
    let mode = Mode::Open { rate: 500.0, spacing: Spacing::Constant };
    let (results, served) = run(64, LoadOptions { mode, warm_up: Duration::from_millis(50), ..closed(4) });
    check(&results, served);
    assert_eq!((results.requests.due, results.requests.unsent), (100, 0));
}

#[test]
fn short_connections_use_all_sources() {
    let sources = vec![source(0), source(1), source(2)];
    let (results, served) = run(10, LoadOptions { requests_per_connection: Some(1), sources, ..closed(8) });
    check(&results, served);
    assert!(results.connections.ended > 8, "{:?}", results.connections);
}

#[test]
fn thread_models_answer_all_requests() {
    for threads in MODELS {
        let (results, served) = run_in(threads, 30_000, LoadOptions { depth: 4, ..closed(8) });
        check(&results, served);
        // Source ports are used again, also those of connections that have not ended.
        let sources = vec![source(0)];
        let short = LoadOptions { requests_per_connection: Some(2), sources, ..closed(8) };
        let (results, served) = run_in(threads, 10, short);
        check(&results, served);
        assert!(results.connections.ended > 8, "{threads:?}: {:?}", results.connections);
    }
}

/// Runs a client on two workers against an echo server on two workers. Returns the results of both.
fn run_workers(threads: Threads) -> [Results; 2] {
    let (stop, done, [front, back]) = (Arc::default(), Arc::new(AtomicBool::new(false)), single());
    let arrivals = Some(Arc::new(Indirection::symmetric(2)));
    let steering = SteeringOptions { arrivals, ..SteeringOptions::default() };
    let (mut client, mut server) = (workers(2, 0, front, &steering), workers(2, 1, back, &steering));
    let serving = std::thread::spawn({
        let done = done.clone();
        move || {
            let mut echoes = [Echo::default(), Echo::default()];
            for (host, echo) in server.hosts().iter_mut().zip(&mut echoes) {
                echo.listen(host.stack(), Endpoint::new(Address::v4([0; 4]), 7)).unwrap();
            }
            assert!(server.connect(&done));
            server.run(&mut echoes, |_, _| (), &done);
        }
    });
    assert!(client.connect(&done));
    let server = Endpoint::new(Address::v4([10, 9, 0, 2]), 7);
    let sources = vec![Address::v4([10, 9, 0, 1])];
    let options =
        LoadOptions { sources, rounds: 2, ..LoadOptions::closed(server, 40, Duration::from_millis(100)) };
    let (team, mut loads) = (Team::new(2, Arc::clone(&stop)), Vec::new());
    for host in client.hosts() {
        let (now, workload) = (host.now(), EchoLoad::new(100, true));
        loads.push(Load::of_team(workload, options.clone(), team.clone(), host.stack(), now).unwrap());
    }
    match threads {
        Threads::Unified => client.run(&mut loads, |_, _| (), &stop),
        other => client.run_split(&mut loads, other == Threads::Merge, |_, _| (), &stop).unwrap(),
    }
    done.store(true, Ordering::Relaxed);
    serving.join().unwrap();
    assert!(loads.iter().all(|load| load.error().is_none()));
    // The run has ended, so the time has no effect.
    [0, 1].map(|worker: usize| loads[worker].results(stack::Time::default()))
}

#[test]
fn workers_of_a_client_have_connections_of_their_own_and_one_result() {
    for threads in [Threads::Unified, Threads::Split] {
        let [mut one, other] = run_workers(threads);
        for results in [&one, &other] {
            assert!(results.is_complete && results.requests.answered > 0, "{threads:?}: {results:?}");
            assert_eq!((results.connections.attempted, results.connections.open), (40, 40), "{results:?}");
        }
        let answered = one.requests.answered + other.requests.answered;
        one.join(&other);
        assert_eq!((one.latency_ns.count, one.rounds.len()), (answered, 2));
        assert_eq!((one.connections.open, one.requests.failed.total()), (80, 0));
    }
}
