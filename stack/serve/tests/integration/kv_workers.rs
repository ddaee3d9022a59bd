//! A store on several workers: pipelined requests of many connections, over keys of all workers.

use crate::MODELS;
use crate::workers::{ADDRESSES, WORKERS, single, workers};
use host::{App, Buffer, SteeringOptions, Threads, Workers};
use serve::{Kv, KvLinks, KvOptions, Served, Server};
use stack::tcp::ConnectionId;
use stack::{Address, Cidr, Closed, Endpoint, Event, Slice, Stack, Time};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const CONNECTIONS: usize = 16;
/// Keys of a connection.
const KEYS: usize = 200;

/// Value of a key; some are as long as the send buffer permits.
fn value(connection: usize, key: usize) -> String {
    let len = match key % 50 {
        7 => 100_000,
        8 => 1024,
        9 => 20_000,
        other => other,
    };
    format!("{connection}-{key}-{}", "v".repeat(len))
}

/// Requests of a connection in one stream, and all replies.
fn conversation(connection: usize) -> (String, String) {
    let (mut requests, mut replies) = (String::new(), String::new());
    let name = |key: usize| format!("c{connection}k{key}");
    let hit = |key: usize| {
        let value = value(connection, key);
        format!("VALUE {} {key} {}\r\n{value}\r\n", name(key), value.len())
    };
    for key in 0..KEYS {
        let value = value(connection, key);
        let silent = key % 3 == 0;
        let noreply = if silent { " noreply" } else { "" };
        write!(requests, "set {} {key} 0 {}{noreply}\r\n{value}\r\n", name(key), value.len()).unwrap();
        replies += if silent { "" } else { "STORED\r\n" };
        write!(requests, "get {}\r\n", name(key)).unwrap();
        write!(replies, "{}END\r\n", hit(key)).unwrap();
    }
    let all: Vec<_> = (0..KEYS).map(name).collect();
    write!(requests, "get {} none\r\n", all.join(" ")).unwrap();
    write!(replies, "{}END\r\n", (0..KEYS).map(hit).collect::<Vec<_>>().concat()).unwrap();
    for key in &all {
        write!(requests, "delete {key}\r\nincr {key} 1\r\n").unwrap();
        replies += "DELETED\r\nNOT_FOUND\r\n";
    }
    (requests, replies)
}

/// A connection of the client.
struct Talk {
    requests: Vec<u8>,
    sent: usize,
    replies: Vec<u8>,
    received: Vec<u8>,
}

struct Client {
    waiting: Vec<Talk>,
    talks: HashMap<ConnectionId, Talk>,
    complete: usize,
    stop: Arc<AtomicBool>,
}

impl Client {
    fn send(&mut self, stack: &mut Stack<Buffer>, id: ConnectionId) {
        let Some(talk) = self.talks.get_mut(&id) else { return };
        while talk.sent < talk.requests.len() {
            let rest = &talk.requests[talk.sent..];
            // An odd length, so that requests are split anywhere.
            let part = &rest[..rest.len().min(4001)];
            if stack.send(id, Slice::new(part.to_vec().into())).is_err() {
                return;
            }
            talk.sent += part.len();
        }
    }
}

impl App for Client {
    fn event(&mut self, stack: &mut Stack<Buffer>, event: Event<Buffer>, _now: Time) {
        match event {
            Event::Connected { connection } => {
                self.talks.insert(connection, self.waiting.pop().unwrap());
                self.send(stack, connection);
            }
            Event::Writable { connection } => self.send(stack, connection),
            Event::Data { connection, data } => {
                let talk = self.talks.get_mut(&connection).unwrap();
                talk.received.extend(data.to_vec());
                stack.consumed(connection, data.len());
                let expected = &talk.replies[..talk.received.len().min(talk.replies.len())];
                assert!(talk.received == expected, "replies in the order of the requests");
                if talk.received.len() == talk.replies.len() {
                    stack.close(connection);
                }
            }
            Event::Finished { .. } => {}
            Event::Closed { reason, .. } => {
                assert_eq!(reason, Closed::Normally);
                self.complete += 1;
                self.stop.store(self.complete == CONNECTIONS, Ordering::Relaxed);
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Serves until `stop` is set. Returns the counts of each worker, and the numbers of forwarded requests.
fn serve(mut server: Workers, threads: Threads, stop: &Arc<AtomicBool>) -> (Vec<Served>, Vec<u64>) {
    let options = KvOptions { memory: 64 << 20, connections: 100, epoch: Duration::from_secs(1_000_000) };
    let links = KvLinks::connect(WORKERS).unwrap();
    let mut stores: Vec<_> = links.into_iter().map(|links| Kv::sharded(options, links)).collect();
    for (host, store) in server.hosts().iter_mut().zip(&mut stores) {
        store.listen(host.stack(), Endpoint::new(Address::v4([0; 4]), Kv::TCP_PORT)).unwrap();
    }
    assert!(server.connect(stop));
    match threads {
        Threads::Unified => server.run(&mut stores, |_, _| (), stop),
        other => server.run_split(&mut stores, other == Threads::Merge, |_, _| (), stop).unwrap(),
    }
    for report in server.close() {
        assert_eq!(report.faults, 0, "{report:?}");
    }
    let forwarded = stores.iter().flat_map(Server::named).map(|(_, count)| count).collect();
    (stores.iter().map(Server::served).collect(), forwarded)
}

#[test]
fn connections_of_every_worker_reach_keys_of_every_worker_in_order() {
    MODELS.into_iter().for_each(converse);
}

fn converse(threads: Threads) {
    let (stop, [front, back]) = (Arc::new(AtomicBool::new(false)), single());
    let steering = SteeringOptions::default();
    let (server, mut client) = (workers(WORKERS, 1, back, &steering), workers(1, 0, front, &steering));
    let serving = std::thread::spawn({
        let stop = stop.clone();
        move || serve(server, threads, &stop)
    });
    assert!(client.connect(&stop));
    let to: Cidr = ADDRESSES[1].parse().unwrap();
    for host in client.hosts() {
        let now = host.now();
        for _ in 0..CONNECTIONS {
            let (any, options) = (Endpoint::new(Address::v4([0; 4]), 0), stack::tcp::Options::default());
            host.stack().connect(any, Endpoint::new(to.address, Kv::TCP_PORT), options, now).unwrap();
        }
    }
    let watchdog = stop.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_mins(1));
        watchdog.store(true, Ordering::Relaxed);
    });
    let waiting = (0..CONNECTIONS).map(|connection| {
        let (requests, replies) = conversation(connection);
        Talk { requests: requests.into(), sent: 0, replies: replies.into(), received: Vec::new() }
    });
    let (waiting, talks) = (waiting.collect(), HashMap::new());
    let mut clients = [Client { waiting, talks, complete: 0, stop: stop.clone() }];
    client.run(&mut clients, |_, _| (), &stop);
    client.close();
    assert_eq!(clients[0].complete, CONNECTIONS, "connections that are not complete");
    let (served, forwarded) = serving.join().unwrap();
    assert!(served.iter().all(|served| served.connections > 0 && served.aborted == 0), "{served:?}");
    // Half of the keys belong to the other worker.
    assert!(forwarded.iter().all(|count| *count > 500), "{forwarded:?}");
}
