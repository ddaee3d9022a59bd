//! One connection: bytes between a socket and the agent.

use super::bridge::Bridge;
use super::handle::Session;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until, timeout};

/// Bytes that are received at once.
const READ: usize = 16 << 10;
/// Time in which a peer must read [`PROGRESS`] bytes, or all that was sent.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
const PROGRESS: usize = 4 << 10;
/// Unsent bytes above which the peer is slow, so that it may be silent while it reads.
const BACKLOG: usize = 64 << 10;
/// Time in which a peer must read why its session ends.
const FAREWELL: Duration = Duration::from_secs(1);

/// A byte stream to a peer.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

/// Output that was taken from the agent.
struct Sending {
    bytes: Vec<u8>,
    /// Bytes that the connection has taken.
    sent: usize,
    is_flushed: bool,
    /// Bytes that were sent at the last progress, and when the next one is due.
    progress: usize,
    deadline: Instant,
}

impl Sending {
    fn new(bytes: Vec<u8>) -> Self {
        let deadline = Instant::now() + WRITE_TIMEOUT;
        Self { is_flushed: bytes.is_empty(), bytes, sent: 0, progress: 0, deadline }
    }

    fn is_done(&self) -> bool {
        self.is_flushed
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Writes or flushes once. Returns the number of written bytes. Nothing is lost if it is cancelled.
    async fn step(&self, stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<usize> {
        match self.rest() {
            [] => stream.flush().await.map(|()| 0),
            rest => match stream.write(rest).await? {
                0 => Err(io::ErrorKind::WriteZero.into()),
                written => Ok(written),
            },
        }
    }

    /// Counts a step. Returns whether the peer has made progress with much output.
    fn advance(&mut self, written: usize) -> bool {
        self.is_flushed = written == 0;
        self.sent += written;
        let progresses = self.rest().is_empty() || self.sent - self.progress >= PROGRESS;
        if progresses {
            (self.progress, self.deadline) = (self.sent, Instant::now() + WRITE_TIMEOUT);
        }
        progresses && self.rest().len() >= BACKLOG
    }
}

/// Exchanges messages until the connection ends. Returns the reason.
///
/// A peer is read while it is sent to, unless its requests wait for their turn, or for their answers to be read.
pub(super) async fn converse(stream: Box<dyn Stream>, bridge: &Bridge, session: &Session) -> String {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let (mut buffer, mut sending) = (vec![0; READ], Sending::new(Vec::new()));
    // Whether the agent has not processed all of what was received.
    let mut waits = false;
    loop {
        if sending.is_done() {
            sending = Sending::new(bridge.output(session.id));
        }
        let received = if waits && !bridge.is_full(session.id) {
            0
        } else {
            tokio::select! {
                () = session.woken() => match session.take_end() {
                    Some(reason) => return reason,
                    None => continue,
                },
                read = reader.read(&mut buffer), if !waits => match read {
                    Ok(0) => return "the peer closed the connection".to_owned(),
                    Ok(len) => len,
                    Err(error) => return error.to_string(),
                },
                written = sending.step(&mut writer), if !sending.is_done() => match written {
                    Ok(written) => {
                        if sending.advance(written) {
                            bridge.progressed(session.id);
                        }
                        continue;
                    }
                    Err(error) => return error.to_string(),
                },
                () = sleep_until(sending.deadline), if !sending.is_done() => {
                    return "the peer does not read its messages".to_owned();
                }
            }
        };
        if let Err(error) = bridge.receive(session.id, &buffer[..received]) {
            // Contains the reason for the peer. The connection ends with or without it.
            let _ = timeout(FAREWELL, finish(&mut writer, &sending, bridge.output(session.id))).await;
            return error.to_string();
        }
        waits = bridge.waits(session.id);
        // Other sessions have their turn.
        yield_now().await;
    }
}

/// Sends what is left.
async fn finish(
    stream: &mut (impl AsyncWrite + Unpin),
    sending: &Sending,
    output: Vec<u8>,
) -> io::Result<()> {
    stream.write_all(sending.rest()).await?;
    stream.write_all(&output).await?;
    stream.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::controllers::{LiveQueues, Plane};
    use crate::event_log::recorded;
    use crate::settings::openflow::OpenflowSettings;
    use agent::{Kind, SessionId};
    use flow::{FlowCommand, FlowMod, FlowSwitch, Match, PortNo, TableId};
    use openflow::{FlowModRequest, Hello, Message, Version, encode};
    use port::{Context, Now, Pipeline, Pipelines, PortId, PuntReason, Punted};
    use std::rc::Rc;
    use std::sync::Arc;
    use tokio::io::{DuplexStream, duplex};
    use tokio::task::{JoinHandle, LocalSet, spawn_local};
    use tokio::time::sleep;

    /// Stands for the learning bridge, which gets no packets.
    struct NoPackets;

    impl Pipelines for NoPackets {
        fn worker(&self, _: usize) -> Box<dyn Pipeline> {
            panic!("there are no workers")
        }
    }

    /// A session of a controller that has sent its HELLO.
    struct Lab {
        bridge: Rc<Bridge>,
        switch: Arc<FlowSwitch>,
        peer: DuplexStream,
        ended: JoinHandle<String>,
    }

    impl Lab {
        async fn start() -> Self {
            let switch = Arc::new(FlowSwitch::new(Arc::new(NoPackets)));
            switch.add_bridge("br0").unwrap();
            let (start, live) = (std::time::Instant::now(), Arc::new(Vec::new));
            let queues: LiveQueues = Arc::new(|_| Vec::new());
            let (switch_of_plane, events) = (switch.clone(), Arc::default());
            let plane = Plane { switch: switch_of_plane, start, events, live, queues };
            let bridge = Rc::new(Bridge::new("br0", OpenflowSettings::default(), plane, Vec::new()));
            let (peer, stream) = duplex(1024);
            let (of, session) = (bridge.clone(), bridge.open(Kind::Controller, "user 7, process 8"));
            let ended = spawn_local(async move { converse(Box::new(stream), &of, &session).await });
            let mut lab = Self { bridge, switch, peer, ended };
            lab.send(&Message::Hello(Hello::new(&[Version::V13]))).await;
            // Until everything waits.
            sleep(Duration::from_millis(1)).await;
            lab
        }

        async fn send(&mut self, message: &Message) {
            let mut bytes = Vec::new();
            encode(message, Version::V13, 1, &mut bytes).unwrap();
            self.peer.write_all(&bytes).await.unwrap();
        }

        /// More packets than may wait.
        fn flood(&self) {
            let context = Context::received(PortId(0), Now(0));
            let (reason, frame) = (PuntReason::NoMatch, vec![0; 1500].into());
            let packet = Punted { context, reason, note: None, frame };
            (0..1000).for_each(|_| self.bridge.punted(PortNo(1), &packet));
        }
    }

    /// Runs a test in simulated time.
    fn run(test: impl Future<Output = ()>) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        LocalSet::new().block_on(&runtime, test);
    }

    #[test]
    fn a_controller_that_does_not_read_its_packets_can_end_their_flow() {
        run(async {
            let mut lab = Lab::start().await;
            lab.flood();
            let flow = FlowMod::new(FlowCommand::Add, &Match::any(), 1);
            lab.send(&Message::FlowMod(Box::new(FlowModRequest { flow, buffer: None }))).await;
            while lab.switch.tables("br0").unwrap().is_empty(TableId(0)) {
                assert!(!lab.ended.is_finished());
                lab.flood();
                sleep(Duration::from_millis(1)).await;
            }
        });
    }

    #[test]
    fn changes_of_flows_are_logged_with_their_peer() {
        let events = recorded(|| {
            run(async {
                let mut lab = Lab::start().await;
                for command in [FlowCommand::Add, FlowCommand::Delete] {
                    let flow = FlowMod::new(command, &Match::any(), 1);
                    lab.send(&Message::FlowMod(Box::new(FlowModRequest { flow, buffer: None }))).await;
                }
                // Until everything waits.
                sleep(Duration::from_millis(1)).await;
                let Lab { bridge, peer, ended, .. } = lab;
                drop(peer);
                ended.await.unwrap();
                bridge.close(SessionId(1));
            });
        });
        let events = events.after(0, 9).events;
        let [event] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!(
            (event.message.as_str(), event.subject.as_deref()),
            ("changed over OpenFlow", Some("bridge br0"))
        );
        assert_eq!((&event.fields["peer"], &event.fields["flows"]), (&"user 7, process 8".into(), &2.into()));
        assert!(!event.fields.contains_key("groups"), "{event:?}");
    }

    #[test]
    fn a_peer_that_reads_nothing_or_little_is_disconnected_and_a_slow_one_is_not() {
        for (bytes, seconds, is_kept) in [(0, 1, false), (100, 29, false), (PROGRESS, 10, true)] {
            run(async move {
                let mut lab = Lab::start().await;
                lab.flood();
                let mut buffer = vec![0; bytes];
                for _ in 0..20 {
                    // Reading nothing takes time too.
                    sleep(Duration::from_secs(seconds)).await;
                    if bytes > 0 && lab.peer.read_exact(&mut buffer).await.is_err() {
                        break;
                    }
                }
                sleep(Duration::from_secs(if is_kept { 0 } else { 60 })).await;
                assert_eq!(lab.ended.is_finished(), !is_kept, "{bytes} bytes in {seconds} s");
                if !is_kept {
                    assert_eq!(lab.ended.await.unwrap(), "the peer does not read its messages");
                }
            });
        }
    }

    #[test]
    fn progress_with_much_output_is_told_from_that_with_little() {
        let mut sending = Sending::new(vec![0; BACKLOG + 3 * PROGRESS]);
        assert!(!sending.advance(PROGRESS - 1), "too little");
        assert!(sending.advance(1));
        assert!(sending.advance(2 * PROGRESS));
        assert!(!sending.advance(PROGRESS), "little is left");
        assert!(!sending.is_done());
        sending.advance(sending.rest().len());
        sending.advance(0);
        assert!(sending.is_done());
    }
}
