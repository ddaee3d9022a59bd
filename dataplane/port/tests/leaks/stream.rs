//! A stream peer leaves no resources behind, at any stage at which it disconnects.

use crate::common::footprint;
use port::stream::{SocketAddress, Stream};
use port::vhost_user::fake::FakeEngine;
use port::{PortControl, PortState};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longer than the maximum pause between peers.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A port, its engine, and the time passed to it.
struct Bench {
    port: Stream,
    engine: FakeEngine,
    now: Instant,
}

impl Bench {
    fn new(port: Stream, now: Instant) -> Self {
        Self { port, engine: FakeEngine::default(), now }
    }

    fn step(&mut self) {
        self.now += Duration::from_millis(1);
        self.port.handle(self.now, &mut self.engine);
    }

    /// Lets the port handle a disconnected peer until the next one can connect.
    fn calm(&mut self) {
        for _ in 0..3 {
            self.now += RECONNECT_TIMEOUT;
            self.port.handle(self.now, &mut self.engine);
        }
        assert_ne!(self.port.status().state, PortState::Connected);
        assert_eq!((self.engine.rx.len(), self.engine.tx.len()), (0, 0));
    }
}

fn stream(server: &mut Bench, path: &Path, how_far: usize) {
    let mut peer = UnixStream::connect(path).unwrap();
    server.step();
    let words = [&60_u32.to_be_bytes()[..], &[7; 60], &u32::MAX.to_be_bytes()].concat();
    peer.write_all(&words[..how_far.min(words.len())]).unwrap();
    drop(peer);
    // A worker receives, and detects a fault or the end of the stream.
    let found = server.engine.rx.get_mut(&0).map(|queue| crate::hand::receive(queue.as_mut()));
    match found {
        Some(Err(fault)) => server.port.fault(server.now, fault, &mut server.engine),
        Some(Ok((burst, _))) => {
            let queue = server.engine.rx.get_mut(&0).unwrap();
            queue.complete(burst.buf_ids());
            // The end of the stream is detected after the frames.
            let _ = crate::hand::receive(queue.as_mut()).map(|(burst, _)| queue.complete(burst.buf_ids()));
        }
        None => {}
    }
    server.calm();
}

pub(crate) fn stream_peers_leave_no_resources() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mut server = Bench::new(Stream::listen(&SocketAddress::Unix(path.clone())).unwrap(), Instant::now());
    stream(&mut server, &path, 100);
    let before = footprint();
    for n in 0..1000 {
        stream(&mut server, &path, n % 80);
    }
    assert_eq!(footprint(), before, "open descriptors and mapped memory files");
    assert_eq!(server.port.status().connects, 1001);
}
