//! Services with two workers each.

use crate::pair::{CLIENT, LIMIT, Pair, SERVER, address, exchange};
use host::{Activity, Indirection};
use service::ServiceOptions;
use service::net::{TcpListener, TcpStream};
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::Duration;

fn pair() -> Pair {
    Pair::with(ServiceOptions::default(), 2, None)
}

/// Both ends of connections to a listener of the server, in the same order.
fn connections(pair: &Pair, listener: &TcpListener, count: usize) -> Vec<(TcpStream, TcpStream)> {
    let client = pair.1.client();
    let ours: Vec<_> =
        (0..count).map(|_| client.connect_tcp(listener.local_addr().unwrap()).unwrap()).collect();
    let mut theirs: Vec<_> = (0..count).map(|_| listener.accept().unwrap()).collect();
    let mut other_end = |stream: &TcpStream| {
        let local = stream.local_addr().unwrap();
        let at = theirs.iter().position(|(_, from)| *from == local).unwrap();
        theirs.swap_remove(at).0
    };
    let both: Vec<_> = ours.into_iter().map(|stream| (other_end(&stream), stream)).collect();
    for stream in both.iter().flat_map(|(theirs, ours)| [theirs, ours]) {
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_write_timeout(Some(LIMIT)).unwrap();
    }
    both
}

#[test]
fn connections_of_both_workers_pass_bytes_unchanged() {
    let pair = pair();
    let server = pair.0.client();
    let listener = server.bind_tcp(address(SERVER[0], 90)).unwrap();
    let all = connections(&pair, &listener, 32);
    std::thread::scope(|scope| {
        for (theirs, ours) in all.iter().take(8) {
            scope.spawn(|| exchange(ours, theirs, 1 << 20));
        }
    });
    drop((all, listener, server));
    let (clients, accepted) = pair.0.stop_workers();
    let (_, connected) = pair.1.stop_workers();
    assert_eq!(clients.clients, 1);
    let accepted: Vec<_> = accepted.iter().map(|worker| worker.accepted).collect();
    assert!(accepted.iter().sum::<u64>() == 32 && !accepted.contains(&0), "{accepted:?}");
    let connected: Vec<_> = connected.iter().map(|worker| worker.connected).collect();
    assert_eq!(connected, [16, 16], "active opens take turns");
}

#[test]
fn active_workers_have_new_connections_and_others_keep_theirs() {
    let activities = [(); 2].map(|()| Arc::new(Activity::new(1..=2, None)));
    let options = activities
        .each_ref()
        .map(|activity| ServiceOptions { activity: Some(activity.clone()), ..ServiceOptions::default() });
    let pair = Pair::of(options, 2, None);
    let server = pair.0.client();
    let listener = server.bind_tcp(address(SERVER[0], 93)).unwrap();
    let flows = Indirection::symmetric(2);
    let (mut all, mut at_second) = (Vec::new(), 0);
    for (active, count) in [(1, 16), (2, 32), (1, 16)] {
        for activity in &activities {
            activity.set_active(active);
        }
        let new = connections(&pair, &listener, count);
        // The local port of an active open names its worker.
        let ports = new.iter().map(|(_, ours)| ours.local_addr().unwrap().port());
        assert_eq!(ports.filter(|port| port % 2 == 1).count(), count / 2 * (active - 1));
        let ends = new.iter().map(|(theirs, _)| (theirs.local_addr().unwrap(), theirs.peer_addr().unwrap()));
        let of_second = ends.filter(|(local, remote)| flows.worker((*local).into(), (*remote).into()) == 1);
        at_second += of_second.count() * (active - 1);
        all.extend(new);
        // Those of before as well, wherever they are.
        for (theirs, ours) in &mut all {
            let mut received = [0; 5];
            ours.write_all(b"there").unwrap();
            theirs.read_exact(&mut received).unwrap();
            theirs.write_all(&received).unwrap();
            ours.read_exact(&mut received).unwrap();
            assert_eq!(&received, b"there");
        }
    }
    drop((all, listener, server));
    let accepted: Vec<_> = pair.0.stop_workers().1.iter().map(|worker| worker.accepted).collect();
    assert!(at_second > 0 && accepted == [64 - at_second as u64, at_second as u64], "{accepted:?}");
    let connected: Vec<_> = pair.1.stop_workers().1.iter().map(|worker| worker.connected).collect();
    assert_eq!(connected, [48, 16]);
}

#[test]
fn a_client_learns_a_change_of_the_active_workers() {
    let activity = Arc::new(Activity::new(1..=2, None));
    let of_client = ServiceOptions { activity: Some(activity.clone()), ..ServiceOptions::default() };
    let pair = Pair::of([ServiceOptions::default(), of_client], 2, None);
    let server = pair.0.client();
    let listener = server.bind_tcp(address(SERVER[0], 94)).unwrap();
    let client = pair.1.client();
    let worker = || {
        let stream = client.connect_tcp(listener.local_addr().unwrap()).unwrap();
        stream.local_addr().unwrap().port() % 2
    };
    assert_eq!([worker(), worker(), worker()], [0; 3]);
    activity.set_active(2);
    while worker() == 0 {
        std::thread::yield_now();
    }
    activity.set_active(1);
    // Turns of two workers would alternate.
    while [worker(), worker(), worker()] != [0; 3] {
        std::thread::yield_now();
    }
}

#[test]
fn an_address_is_bound_on_all_workers_or_on_none() {
    let pair = pair();
    let (first, second) = (pair.0.client(), pair.0.client());
    let end = address(SERVER[0], 91);
    let listener = first.bind_tcp(end).unwrap();
    assert_eq!(second.bind_tcp(end).unwrap_err().kind(), ErrorKind::AddrInUse);
    drop(listener);
    let listener = loop {
        match second.bind_tcp(end) {
            Ok(listener) => break listener,
            Err(error) => assert_eq!(error.kind(), ErrorKind::AddrInUse, "the other client closes it"),
        }
    };
    assert_eq!(connections(&pair, &listener, 16).len(), 16);
    // Of several clients that bind an address at the same time, one has it.
    for port in 100..130 {
        let end = address(SERVER[0], port);
        let bound = std::thread::scope(|scope| {
            let threads = [&first, &second].map(|client| scope.spawn(move || client.bind_tcp(end)));
            threads.map(|thread| thread.join().unwrap())
        });
        let listener = match bound {
            [Ok(listener), Err(error)] | [Err(error), Ok(listener)] => {
                assert_eq!(error.kind(), ErrorKind::AddrInUse);
                listener
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(connections(&pair, &listener, 4).len(), 4);
    }
}

#[test]
fn a_listener_with_a_port_of_the_stack_is_reached() {
    let pair = pair();
    let server = pair.0.client();
    for _ in 0..4 {
        let listener = server.bind_tcp(address(SERVER[1], 0)).unwrap();
        assert!(listener.local_addr().unwrap().port() >= 49_152);
        assert_eq!(connections(&pair, &listener, 4).len(), 4);
    }
}

#[test]
fn a_chosen_local_port_is_on_the_worker_of_its_flow() {
    let pair = pair();
    let server = pair.0.client();
    let client = pair.1.client();
    for (ip, own) in SERVER.into_iter().zip(CLIENT) {
        let listener = server.bind_tcp(address(ip, 92)).unwrap();
        // The stack chooses the address of every second one.
        let any = if own.contains(':') { "::" } else { "0.0.0.0" };
        let ports = (50_000..50_002).chain(1000..1016);
        for (port, from) in ports.zip([own, any].into_iter().cycle()) {
            let options = service::StreamOptions::default();
            let opened = client.open_stream(address(from, port).into(), address(ip, 92).into(), options);
            let handle = opened.unwrap();
            handle.wait_open(Some(LIMIT)).unwrap();
            let (mut stream, remote) = listener.accept().unwrap();
            assert_eq!((remote, handle.local().port), (address(own, port), port));
            stream.write_all(b"to its worker").unwrap();
            let mut received = [0; 13];
            assert_eq!(handle.read(&mut received, false, Some(LIMIT)).unwrap(), 13);
        }
        let again = client.open_stream(
            address(own, 1000).into(),
            address(ip, 9).into(),
            service::StreamOptions::default(),
        );
        let refused = again.unwrap().wait_open(Some(LIMIT)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    }
    let (_, workers) = pair.1.stop_workers();
    assert!(workers.iter().all(|worker| worker.connected > 2), "{workers:?}");
}

#[test]
fn datagrams_to_one_socket_arrive_at_both_workers() {
    let pair = pair();
    let (server, client) = (pair.0.client(), pair.1.client());
    let server = server.bind_udp(address(SERVER[0], 53)).unwrap();
    server.set_read_timeout(Some(LIMIT)).unwrap();
    let sockets: Vec<_> = (0..16).map(|_| client.bind_udp(address(CLIENT[0], 0)).unwrap()).collect();
    let mut buffer = [0; 6000];
    for (i, socket) in sockets.iter().enumerate() {
        socket.connect(server.local_addr().unwrap()).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        // The last one in fragments, which come to one worker, independent of the worker that has the socket.
        for len in [0, 1, 1452, 5000] {
            let bytes = vec![i as u8; len];
            assert_eq!(socket.send(&bytes).unwrap(), len);
            let (n, from) = server.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..n], from), (&*bytes, socket.local_addr().unwrap()));
            server.send_to(&buffer[..n], from).unwrap();
            assert_eq!(socket.recv(&mut buffer).unwrap(), len);
            assert_eq!(buffer[..len], bytes);
        }
    }
    server.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    assert_eq!(server.recv_from(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock, "none came twice");
}

#[test]
fn a_group_is_joined_and_left_on_both_workers() {
    let pair = pair();
    let (server, client) = (pair.0.client(), pair.1.client());
    let server = server.bind_udp("0.0.0.0:54".parse().unwrap()).unwrap();
    server.set_read_timeout(Some(LIMIT)).unwrap();
    let (group, any) = ([239, 1, 2, 3].into(), [0; 4].into());
    let kind = |changed: std::io::Result<()>| changed.map_err(|error| error.kind());
    assert_eq!(kind(server.join_multicast_v4(&group, &any)), Ok(()));
    assert_eq!(kind(server.join_multicast_v4(&group, &any)), Err(ErrorKind::AddrInUse));
    // The hash of their ports selects either worker.
    let sockets: Vec<_> = (0..16).map(|_| client.bind_udp(address(CLIENT[0], 0)).unwrap()).collect();
    let send = || {
        for socket in &sockets {
            assert_eq!(socket.send_to(&[7], (group, 54).into()).unwrap(), 1);
        }
    };
    send();
    let mut buffer = [0; 8];
    assert!((0..sockets.len()).all(|_| server.recv_from(&mut buffer).unwrap().0 == 1));
    assert_eq!(kind(server.leave_multicast_v4(&group, &any)), Ok(()));
    assert_eq!(kind(server.leave_multicast_v4(&group, &any)), Err(ErrorKind::AddrNotAvailable));
    send();
    server.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert_eq!(server.recv_from(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
}
