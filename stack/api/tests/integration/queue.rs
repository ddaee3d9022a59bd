//! Completion queues at both ends of a wire in shared memory, on one thread, which makes the batches repeatable.

use api::queue::{Completion, MAX_BATCH, Queue};
use engine::{LocalPort, Polling};
use host::{Buffer, Host, Options};
use port::memif;
use port::patch::{Exchange, Patch};
use stack::ip::{InterfaceConfig, InterfaceId};
use stack::tcp;
use stack::{Address, Closed, Endpoint, Event, Slice, UdpError, UdpOptions};
use std::time::Duration;
use wire::MacAddress;

const PORT: u16 = 7;
const ANY: Endpoint = Endpoint::new(Address::v4([0; 4]), 0);
const SERVER: Endpoint = Endpoint::new(Address::v4([10, 9, 0, 1]), PORT);
/// Turns after which a test fails.
const TURNS: usize = 100_000;

fn queue(name: &str, peer: &str, last: u8, exchange: &Exchange, polling: Polling) -> Queue {
    let mut host = Host::new(Options { polling, ..Options::new().unwrap() }).unwrap();
    let patch = Patch::new(name, peer, memif::Options::default(), exchange).unwrap();
    let config = InterfaceConfig { mac: MacAddress::new([2, 0, 0, 0, 0, last]), mtu: 1500, vlan: None };
    let interface = host.add_port(LocalPort::new(name, Box::new(patch)), config);
    let now = host.now();
    let address = format!("10.9.0.{last}/24").parse().unwrap();
    host.stack().add_address(interface, address, now);
    Queue::new(host)
}

/// Server and client.
fn pair(polling: Polling) -> [Queue; 2] {
    let exchange = Exchange::default();
    let mut queues =
        [("a", "b", 1), ("b", "a", 2)].map(|(name, peer, last)| queue(name, peer, last, &exchange, polling));
    while queues.iter_mut().any(|queue| queue.host().not_ready().is_some()) {
        for queue in &mut queues {
            let now = queue.now();
            queue.host().control(now);
        }
    }
    queues
}

/// Completions of one batch.
fn batch(queue: &mut Queue, max: usize) -> Vec<Completion> {
    let expected = queue.wait(max, Duration::ZERO);
    let got: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
    assert_eq!(got.len(), expected);
    assert!(got.len() <= max);
    got
}

/// Batches of one end until it has a completion for which `found` returns a result.
fn until<T>(queues: &mut [Queue; 2], at: usize, found: impl Fn(&Completion) -> Option<T>) -> T {
    for _ in 0..TURNS {
        batch(&mut queues[1 - at], MAX_BATCH);
        let got = batch(&mut queues[at], 1);
        if let Some(result) = got.iter().find_map(&found) {
            return result;
        }
    }
    panic!("no such completion");
}

/// Echoes what a batch brings. Returns its length.
fn echo(server: &mut Queue, max: usize) -> usize {
    let got = batch(server, max);
    for completion in &got {
        match &completion.event {
            Event::Accepted { connection, .. } => {
                assert_eq!(completion.user, 1);
                assert!(server.set_user(*connection, 1000 + connection.index() as u64));
            }
            Event::Data { connection, data } => {
                server.stack().send(*connection, data.clone()).unwrap();
                server.stack().consumed(*connection, data.len());
            }
            Event::Finished { connection } => server.stack().close(*connection),
            Event::Closed { connection, reason } => {
                assert_eq!(*reason, Closed::Normally);
                assert_eq!(completion.user, 1000 + connection.index() as u64);
            }
            other => panic!("{other:?}"),
        }
    }
    got.len()
}

#[test]
fn echo_is_complete_at_every_size_of_a_batch() {
    // As many as may wait for a neighbour's address.
    const CONNECTIONS: usize = 16;
    for max in [1, 3, 8, MAX_BATCH] {
        let [mut server, mut client] = pair(Polling::Busy);
        server.listen(SERVER, tcp::Options::default(), 1).unwrap();
        for user in 0..CONNECTIONS {
            client.connect((ANY, SERVER), tcp::Options::default(), user as u64).unwrap();
        }
        let bytes = |user: u64| -> Vec<u8> { (0..3000).map(|i| (i * (user + 1) % 251) as u8).collect() };
        let (mut received, mut ended, mut longest) = (vec![Vec::new(); CONNECTIONS], 0, 0);
        for _ in 0..TURNS {
            longest = longest.max(echo(&mut server, max));
            for Completion { user, event } in batch(&mut client, MAX_BATCH) {
                match event {
                    Event::Connected { connection } => {
                        client.stack().send(connection, Slice::new(bytes(user).into())).unwrap();
                        client.stack().close(connection);
                    }
                    Event::Data { connection, data } => {
                        received[user as usize].extend(data.to_vec());
                        client.stack().consumed(connection, data.len());
                    }
                    Event::Finished { .. } => ended += 1,
                    Event::Closed { reason, .. } => assert_eq!(reason, Closed::Normally),
                    other => panic!("{other:?}"),
                }
            }
            if ended == CONNECTIONS {
                break;
            }
        }
        assert_eq!((ended, longest), (CONNECTIONS, longest.min(max)));
        assert!(max > CONNECTIONS || longest == max, "no batch was full: {longest} of {max}");
        received.iter().zip(0..).for_each(|(got, user)| assert!(*got == bytes(user), "{user}"));
    }
}

#[test]
fn user_data_applies_to_the_rest_of_the_batch() {
    let mut queues = pair(Polling::Busy);
    queues[0].listen(SERVER, tcp::Options::default(), 7).unwrap();
    let connection = queues[1].connect((ANY, SERVER), tcp::Options::default(), 5).unwrap();
    queues[1].stack().send(connection, Slice::new(b"hello".to_vec().into())).unwrap();
    // Its first segment completes the handshake and has the data, so two completions are pending before one is taken.
    for _ in 0..100 {
        for queue in &mut queues {
            queue.wait(MAX_BATCH, Duration::ZERO);
        }
        let connected = std::iter::from_fn(|| queues[1].pop()).last();
        assert!(connected.is_none_or(|completion| completion.user == 5));
        if queues[0].stack().pending_events() >= 2 {
            break;
        }
    }
    let server = &mut queues[0];
    let accepted = server.pop().unwrap();
    let Event::Accepted { connection, .. } = accepted.event else { panic!("{accepted:?}") };
    assert_eq!(accepted.user, 7);
    server.set_user(connection, 70);
    let more: Vec<_> = std::iter::from_fn(|| server.pop()).collect();
    assert!(!more.is_empty() && more.iter().all(|completion| completion.user == 70), "{more:?}");
}

#[test]
fn failed_connections_close_with_their_user_data() {
    let mut queues = pair(Polling::Busy);
    queues[1].connect((ANY, SERVER), tcp::Options::default(), 9).unwrap();
    let reason = until(&mut queues, 1, |completion| match completion.event {
        Event::Closed { reason, .. } if completion.user == 9 => Some(reason),
        _ => None,
    });
    assert_eq!(reason, Closed::Refused);
    let [_, client] = &mut queues;
    let connection = client.connect((ANY, SERVER), tcp::Options::default(), 10).unwrap();
    client.stack().abort(connection);
    // The number of the connection is used again while its last completion is pending.
    let next = client.connect((ANY, SERVER), tcp::Options::default(), 11).unwrap();
    assert_eq!(next.index(), connection.index());
    assert!(!client.set_user(connection, 12));
    let ends: Vec<_> = (0..2).map(|_| until(&mut queues, 1, |completion| Some(completion.user))).collect();
    assert_eq!(ends, [10, 11]);
}

#[test]
fn datagrams_have_the_user_data_of_their_socket() {
    let mut queues = pair(Polling::Busy);
    let server = queues[0].udp_bind(SERVER, UdpOptions::default(), 3).unwrap();
    let client = queues[1].udp_bind(ANY, UdpOptions::default(), 4).unwrap();
    let now = queues[1].now();
    let hello = || vec![Slice::<Buffer>::new(b"hello".to_vec().into())];
    queues[1].stack().udp_send(client, Some(SERVER), hello(), now).unwrap();
    let datagram = |completion: &Completion| match &completion.event {
        Event::Datagram { from, data, .. } => Some((completion.user, *from, data.to_vec())),
        _ => None,
    };
    let (user, from, data) = until(&mut queues, 0, datagram);
    assert_eq!((user, &data[..]), (3, &b"hello"[..]));
    let now = queues[0].now();
    queues[0].stack().udp_send(server, Some(from), hello(), now).unwrap();
    assert_eq!(until(&mut queues, 1, datagram).0, 4);
}

#[test]
fn groups_are_received_until_they_are_left() {
    let mut queues = pair(Polling::Busy);
    let group = Endpoint::new(Address::v4([239, 1, 2, 3]), PORT);
    let any = Endpoint::new(Address::v4([0; 4]), PORT);
    let server = queues[0].udp_bind(any, UdpOptions::default(), 3).unwrap();
    let client = queues[1].udp_bind(ANY, UdpOptions::default(), 4).unwrap();
    let send = |queues: &mut [Queue; 2], to, byte: u8| {
        let now = queues[1].now();
        queues[1].stack().udp_send(client, Some(to), vec![Slice::new(vec![byte].into())], now).unwrap();
        until(queues, 0, |completion| match &completion.event {
            Event::Datagram { to, data, .. } => Some((completion.user, *to, data.to_vec())),
            _ => None,
        })
    };
    let now = queues[0].now();
    let stack = queues[0].stack();
    let interface = stack.interface_of(SERVER.address).unwrap();
    assert_eq!(stack.udp_join(server, None, group.address, now), Ok(true));
    assert_eq!(stack.udp_join(server, Some(interface), group.address, now), Ok(false));
    assert_eq!(stack.udp_join(server, None, SERVER.address, now), Err(UdpError::InvalidAddress));
    assert_eq!(stack.interface_of(group.address), None);
    assert_eq!(send(&mut queues, group, 1), (3, group, vec![1]));
    let (stack, other) = (queues[0].stack(), InterfaceId(interface.0 + 1));
    assert_eq!(stack.udp_leave(server, Some(other), group.address, now), Ok(false));
    assert_eq!(stack.udp_leave(server, None, group.address, now), Ok(true));
    assert_eq!(stack.udp_leave(server, None, group.address, now), Ok(false));
    let now = queues[1].now();
    // Neither reaches the socket: the group was left, and a hop limit of 0 keeps a datagram.
    let stack = queues[1].stack();
    let datagram = || vec![Slice::<Buffer>::new(vec![2].into())];
    stack.udp_send(client, Some(group), datagram(), now).unwrap();
    let options = UdpOptions { group_hop_limit: 0, ..stack.udp_options(client).unwrap() };
    stack.udp_set_options(client, options).unwrap();
    let sent = stack.counters().udp_out;
    stack.udp_send(client, Some(group), datagram(), now).unwrap();
    assert_eq!(stack.counters().udp_out, sent);
    assert_eq!(send(&mut queues, SERVER, 3), (3, SERVER, vec![3]));
}

#[test]
fn idle_queue_sleeps_and_wakes_for_frames() {
    let [mut server, mut client] = pair(Polling::Adaptive);
    server.listen(SERVER, tcp::Options::default(), 0).unwrap();
    let thread = std::thread::spawn(move || {
        while server.wait(1, Duration::from_secs(30)) > 0 {
            if let Some(Completion { event: Event::Data { .. }, .. }) = server.pop() {
                break;
            }
        }
        server.into_host().close().rounds.2
    });
    client.connect((ANY, SERVER), tcp::Options::default(), 0).unwrap();
    assert_eq!(client.wait(1, Duration::from_secs(30)), 1);
    let connected = client.pop().unwrap().event;
    let Event::Connected { connection } = connected else { panic!("{connected:?}") };
    // The server has nothing to do meanwhile.
    assert_eq!(client.wait(1, Duration::from_millis(100)), 0);
    client.stack().send(connection, Slice::new(b"x".to_vec().into())).unwrap();
    while !thread.is_finished() {
        client.wait(1, Duration::from_millis(1));
    }
    assert!(thread.join().unwrap() > 0);
}

#[test]
fn queues_of_two_cores_listen_for_themselves() {
    std::thread::scope(|scope| {
        for core in 1..=2 {
            scope.spawn(move || {
                let mut queues = pair(Polling::Busy);
                // The same address and port on each core.
                queues[0].listen(SERVER, tcp::Options::default(), core).unwrap();
                queues[1].connect((ANY, SERVER), tcp::Options::default(), 0).unwrap();
                let user = until(&mut queues, 0, |completion| match completion.event {
                    Event::Accepted { .. } => Some(completion.user),
                    _ => None,
                });
                assert_eq!(user, core);
            });
        }
    });
}
