//! Programs of futures.

use crate::hosts::{PORT, Wire, bytes, connected, pair, server};
use api::aio::{Handle, Runtime, TcpListener, TcpStream, TimedOut, UdpSocket};
use futures_util::future::join;
use futures_util::{AsyncReadExt, AsyncWriteExt, poll};
use host::{Host, Report};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io::{ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::mpsc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

const BYTES: usize = 12 << 20;
const SHORT: Duration = Duration::from_millis(30);
const LIMIT: Duration = Duration::from_mins(1);

/// Returns what it receives, in buffers of the caller, until the peer finishes.
async fn echo(stream: TcpStream) -> std::io::Result<()> {
    let (mut reader, mut writer) = stream.split();
    futures_util::io::copy(&mut reader, &mut writer).await?;
    writer.close().await
}

/// Serves all connections on a thread, until `done` has a message.
fn serve(host: Host, done: mpsc::Receiver<()>) -> thread::JoinHandle<Option<Report>> {
    thread::spawn(move || {
        let runtime = Runtime::new(connected(host)).unwrap();
        let net = runtime.handle();
        let accepting = net.clone();
        let listener = TcpListener::bind(&net, SocketAddr::from(([0, 0, 0, 0], PORT))).unwrap();
        let udp = UdpSocket::bind(&net, SocketAddr::from(([0, 0, 0, 0], PORT))).unwrap();
        let datagrams = async move {
            while let Ok((from, data)) = udp.receive().await {
                udp.send_to(&data.to_vec(), from).unwrap();
            }
        };
        net.spawn(datagrams).detach();
        let connections = async move {
            while let Ok((stream, _)) = listener.accept().await {
                accepting.spawn(echo(stream)).detach();
            }
        };
        net.spawn(connections).detach();
        runtime.block_on(async {
            while done.try_recv() == Err(mpsc::TryRecvError::Empty) {
                net.sleep(Duration::from_millis(5)).await;
            }
        });
        drop(net);
        runtime.close(Duration::from_secs(5))
    })
}

/// Runs `client` beside a server over a wire.
fn with_server<F: Future<Output = ()>>(wire: Wire, client: impl FnOnce(Handle) -> F) {
    let (first, second, _folder) = pair(wire);
    let (done, receiver) = mpsc::channel();
    let serving = serve(first, receiver);
    let runtime = Runtime::new(connected(second)).unwrap();
    let net = runtime.handle();
    let limited = async { net.timeout(LIMIT, client(net.clone())).await };
    assert_eq!(runtime.block_on(limited), Ok(()));
    // The server ends first: a peer that closes its port would be a fault.
    done.send(()).unwrap();
    runtime.block_on(async {
        while !serving.is_finished() {
            net.sleep(Duration::from_millis(5)).await;
        }
    });
    let report = serving.join().unwrap().unwrap();
    assert_eq!((report.faults, report.counters.tcp_checksum_errors), (0, 0));
    drop(net);
    assert!(runtime.close(Duration::from_secs(5)).is_some());
}

/// Sends a stream, closes the sending side, and compares what returns.
async fn exchange(net: Handle) {
    let stream = TcpStream::connect(&net, server()).await.unwrap();
    assert_eq!(stream.peer_addr().unwrap(), server());
    let sent = bytes(BYTES);
    let writing = async {
        let mut writer = &stream;
        // Pieces of odd lengths, gathered.
        let (head, rest) = sent.split_at(1001);
        let (middle, rest) = rest.split_at(70_003);
        let mut pieces = [IoSlice::new(head), IoSlice::new(middle)];
        let mut pieces = &mut pieces[..];
        while !pieces.is_empty() {
            let n = writer.write_vectored(pieces).await.unwrap();
            IoSlice::advance_slices(&mut pieces, n);
        }
        writer.write_all(rest).await.unwrap();
        writer.close().await.unwrap();
        assert_eq!(writer.write(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    };
    let reading = async {
        // Not read_to_end, which fills the rest of its buffer with zeros at each wake-up.
        let (mut reader, mut received, mut part) = (&stream, Vec::with_capacity(BYTES), vec![0; 1 << 16]);
        loop {
            match reader.read(&mut part).await.unwrap() {
                0 => break,
                n => received.extend_from_slice(&part[..n]),
            }
        }
        assert!(received == sent, "{} of {BYTES} bytes, or others", received.len());
    };
    join(writing, reading).await;
}

#[test]
fn streams_carry_megabytes() {
    for wire in [Wire::Patch, Wire::VhostUser] {
        with_server(wire, |net| async move {
            let tasks: Vec<_> = (0..3).map(|_| net.spawn(exchange(net.clone()))).collect();
            for task in tasks {
                task.await;
            }
        });
    }
}

#[test]
fn writers_wait_for_readers_and_dropped_streams_end() {
    with_server(Wire::Patch, |net| async move {
        let stream = TcpStream::connect(&net, server()).await.unwrap();
        let big = bytes(64 << 20);
        let mut writer = &stream;
        // The server stops reading when nothing is read here.
        let blocked = net.timeout(Duration::from_millis(300), writer.write_all(&big)).await;
        assert_eq!(blocked.unwrap_err(), TimedOut);
        let mut read = vec![0; 1 << 20];
        (&stream).read_exact(&mut read).await.unwrap();
        assert!(read == big[..1 << 20]);
        stream.abort();

        // Dropping a future cancels it; the stream can be used again.
        let stream = TcpStream::connect(&net, server()).await.unwrap();
        assert!(net.timeout(SHORT, (&stream).read(&mut [0; 8])).await.is_err());
        (&stream).write_all(b"again").await.unwrap();
        let mut short = [0; 5];
        (&stream).read_exact(&mut short).await.unwrap();
        assert_eq!(&short, b"again");
        drop(stream);

        let mut refused = server();
        refused.set_port(9);
        let error = TcpStream::connect(&net, refused).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        // No host answers: the attempt ends with its future.
        let silent = net.timeout(SHORT, TcpStream::connect(&net, "10.9.0.77:7".parse().unwrap())).await;
        assert_eq!(silent.unwrap_err(), TimedOut);
    });
}

#[test]
fn datagrams_return_to_their_sender() {
    with_server(Wire::VhostUser, |net| async move {
        let socket = UdpSocket::bind(&net, "10.9.0.2:0".parse().unwrap()).unwrap();
        socket.connect(server()).unwrap();
        for len in [0, 1, 1472, 5000] {
            let (sent, mut received) = (bytes(len), vec![0; 65_536]);
            socket.send(&sent).unwrap();
            let (n, from) = socket.recv_from(&mut received).await.unwrap();
            assert_eq!((&received[..n], from), (&sent[..], server()));
        }
    });
}

#[test]
fn groups_are_received_until_they_are_left() {
    let (first, second, _folder) = pair(Wire::Patch);
    let group = std::net::IpAddr::from([239, 1, 2, 3]);
    let (joined, wait_joined) = mpsc::channel();
    let serving = thread::spawn(move || {
        let runtime = Runtime::new(connected(first)).unwrap();
        let socket = UdpSocket::bind(&runtime.handle(), SocketAddr::from(([0, 0, 0, 0], PORT))).unwrap();
        socket.join(group, None).unwrap();
        assert_eq!(socket.join(group, None).unwrap_err().kind(), ErrorKind::AddrInUse);
        joined.send(()).unwrap();
        runtime.block_on(async {
            let (from, data) = socket.receive().await.unwrap();
            assert_eq!(data.to_vec(), b"1");
            socket.leave(group, None).unwrap();
            assert_eq!(socket.leave(group, None).unwrap_err().kind(), ErrorKind::AddrNotAvailable);
            socket.send_to(b"left", from).unwrap();
            assert_eq!(socket.receive().await.unwrap().1.to_vec(), b"3", "the second one went to the group");
            socket.send_to(b"end", from).unwrap();
            // The last one leaves with the next round.
            runtime.handle().sleep(SHORT).await;
        });
    });
    let runtime = Runtime::new(connected(second)).unwrap();
    let net = runtime.handle();
    wait_joined.recv().unwrap();
    let exchange = async {
        let socket = UdpSocket::bind(&net, SocketAddr::from(([0, 0, 0, 0], 0))).unwrap();
        socket.set_group_hop_limit(2).unwrap();
        let to_group = SocketAddr::new(group, PORT);
        socket.send_to(b"1", to_group).unwrap();
        assert_eq!(socket.receive().await.unwrap().1.to_vec(), b"left");
        socket.send_to(b"2", to_group).unwrap();
        socket.send_to(b"3", server()).unwrap();
        assert_eq!(socket.receive().await.unwrap().1.to_vec(), b"end");
    };
    assert_eq!(runtime.block_on(async { net.timeout(LIMIT, exchange).await }), Ok(()));
    serving.join().unwrap();
}

/// A runtime whose host has no ports.
fn alone() -> Runtime {
    Runtime::new(Host::new(host::Options::new().unwrap()).unwrap()).unwrap()
}

#[test]
fn timers_end_in_order_and_when_dropped() {
    let runtime = alone();
    let (net, order) = (runtime.handle(), Rc::new(Cell::new(0)));
    let tasks: Vec<_> = [40_u64, 10, 20]
        .into_iter()
        .map(|millis| {
            let (sleep, order) = (net.sleep(Duration::from_millis(millis)), order.clone());
            net.spawn(async move {
                sleep.await;
                order.set(order.get() * 100 + millis);
            })
        })
        .collect();
    drop(net.spawn(net.sleep(Duration::from_hours(1))));
    runtime.block_on(async {
        for task in tasks {
            task.await;
        }
    });
    assert_eq!(order.get(), 102_040);
}

#[test]
fn a_waker_on_another_thread_ends_the_sleep() {
    let runtime = alone();
    let mut is_woken = false;
    let mut thread = None;
    runtime.block_on(poll_fn(|context| {
        if std::mem::replace(&mut is_woken, true) {
            return Poll::Ready(());
        }
        let waker = context.waker().clone();
        thread = Some(thread::spawn(move || {
            // The runtime sleeps by now; if it does not, the test is still right.
            thread::sleep(Duration::from_millis(20));
            waker.wake();
        }));
        Poll::Pending
    }));
    thread.unwrap().join().unwrap();
}

#[test]
fn tasks_end_with_their_runtime() {
    let runtime = alone();
    let net = runtime.handle();
    let held = Rc::new(());
    let (task_net, task_held) = (net.clone(), held.clone());
    let endless = async move {
        task_net.sleep(Duration::from_hours(1)).await;
        drop(task_held);
    };
    net.spawn(endless).detach();
    let mut pending: Pin<Box<dyn Future<Output = ()>>> = Box::pin(net.sleep(Duration::from_hours(1)));
    runtime.block_on(async { assert!(poll!(&mut pending).is_pending()) });
    drop(runtime);
    assert_eq!(Rc::strong_count(&held), 1);
    let late = net.spawn(async move { drop(held) });
    drop((pending, late));
}
