//! OpenFlow bridges in a running engine, in every execution model: packet-outs, learned flows, and guests that
//! disconnect.

use engine::{Engine, EngineConfig, HandoffConfig, Model, PipelineConfig, Role, Roles, Rss, WorkerConfig};
use flow::tables::Modification;
use flow::text::{NoNames, parse_flow, parse_group};
use flow::{Action, FlowSwitch, GroupCommand, PacketOutError, PortNo, TableId};
use port::stream::{SocketAddress, Stream};
use port::{Burst, Context, DropReason, Now, Pipeline, Pipelines, PortId, Verdicts};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longer than any test here takes, so that a hang fails.
const LIMIT: Duration = Duration::from_secs(30);
const PORTS: u16 = 3;

/// In place of the learning bridge, which these tests do not use.
struct Drops;

impl Pipelines for Drops {
    fn worker(&self, _: usize) -> Box<dyn Pipeline> {
        Box::new(Self)
    }
}

impl Pipeline for Drops {
    fn process(&mut self, burst: &mut Burst, _: &Context, verdicts: &mut Verdicts) {
        (0..burst.len()).for_each(|i| verdicts.drop(i, DropReason::NoDestination));
    }
}

fn models() -> [Model; 4] {
    let roles = vec![Roles { rx: true, work: false, tx: true }, Roles::only(Role::Work)];
    [
        Model::RunToCompletion,
        Model::Stealing,
        Model::SoftwareRss(HandoffConfig::default()),
        Model::Pipeline(PipelineConfig { roles, handoffs: HandoffConfig::default() }),
    ]
}

/// The thread that adds learned flows.
struct Control {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    fn start(switch: &Arc<FlowSwitch>, start: Instant) -> Self {
        let (stop, switch) = (Arc::new(AtomicBool::new(false)), switch.clone());
        let (stopped, learning) = (stop.clone(), switch.clone());
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                learning.learn(Now(start.elapsed().as_nanos() as u64));
                // Only the waker ends this.
                std::thread::park();
            }
        });
        let waked = thread.thread().clone();
        switch.set_waker(move || waked.unpark());
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().unwrap();
        thread.thread().unpark();
        thread.join().unwrap();
    }
}

/// A bridge with three ports, each with a guest.
struct Bench {
    folder: tempfile::TempDir,
    engine: Engine,
    switch: Arc<FlowSwitch>,
    start: Instant,
    guests: Vec<UnixStream>,
    _control: Control,
}

impl Bench {
    fn new(model: Model, changes: &[Modification]) -> Self {
        let (folder, start) = (tempfile::tempdir().unwrap(), Instant::now());
        let switch = Arc::new(FlowSwitch::new(Arc::new(Drops)));
        switch.add_bridge("br0").unwrap();
        switch.modify("br0", changes, Now(0)).unwrap();
        let config =
            EngineConfig { workers: vec![WorkerConfig::default(); 2], max_ports: 4, rss: Rss::default() };
        let engine = Engine::start_as(config, model, &*switch).unwrap();
        let injector = engine.injector();
        switch.connect(move |port, frame, stage| injector.inject_at(port, frame, stage));
        let control = Control::start(&switch, start);
        let mut bench = Self { folder, engine, switch, start, guests: Vec::new(), _control: control };
        for n in 0..PORTS {
            let id = bench.engine.reserve(&format!("port{n}")).unwrap();
            assert_eq!(bench.switch.add_port(id, "br0", None).unwrap(), PortNo(u32::from(n) + 1));
            bench.switch.set_live(id, false);
            let port = Stream::listen(&SocketAddress::Unix(bench.path(n))).unwrap();
            bench.engine.add_reserved(id, Box::new(port)).unwrap();
            let guest = connect(&bench.path(n));
            bench.guests.push(guest);
            bench.wait_up(n, true);
        }
        bench
    }

    fn path(&self, port: u16) -> PathBuf {
        self.folder.path().join(format!("port{port}.sock"))
    }

    fn wait_up(&self, port: u16, is_up: bool) {
        until(&format!("port {port} to be {is_up}"), || {
            let events = self.switch.take_port_events();
            events.iter().any(|event| (event.port, event.is_up) == (PortId(port), is_up))
        });
    }

    fn send(&mut self, guest: u16, frame: &[u8]) {
        let prefix = (frame.len() as u32).to_be_bytes();
        self.guests[usize::from(guest)].write_all(&[&prefix, frame].concat()).unwrap();
    }

    /// The next frame of a guest.
    fn receive(&mut self, guest: u16) -> Vec<u8> {
        let (guest, mut prefix) = (&mut self.guests[usize::from(guest)], [0; 4]);
        guest.read_exact(&mut prefix).unwrap();
        let mut frame = vec![0; u32::from_be_bytes(prefix) as usize];
        guest.read_exact(&mut frame).unwrap();
        frame
    }
}

fn connect(path: &Path) -> UnixStream {
    let guest = UnixStream::connect(path).unwrap();
    guest.set_read_timeout(Some(LIMIT)).unwrap();
    guest
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LIMIT, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn flows(texts: &[&str]) -> Vec<Modification> {
    let flow = |text: &&str| Modification::Flow(Box::new(parse_flow(text, None, &NoNames).unwrap()));
    texts.iter().map(flow).collect()
}

/// A frame from one host to another, with a number.
fn frame(source: u8, destination: u8, number: u16, len: usize) -> Vec<u8> {
    let mut frame = vec![0; len];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, destination, 2, 0, 0, 0, 0, source, 0x88, 0xb5]);
    frame[14..16].copy_from_slice(&number.to_be_bytes());
    frame
}

#[test]
fn packet_outs_reach_guests_in_order() {
    for model in models() {
        let mut bench = Bench::new(model, &[]);
        let actions = [Action::Output { port: PortNo(2), max_len: 0 }];
        for number in 0..200 {
            let frame = frame(1, 2, number, if number % 2 == 0 { 60 } else { 1400 });
            let now = Now(bench.start.elapsed().as_nanos() as u64);
            let sent = bench.switch.packet_out("br0", PortNo::CONTROLLER, &actions, &frame, now);
            assert_eq!(sent, Ok(()));
            // A guest's socket may be full otherwise.
            assert_eq!(bench.receive(1), frame);
        }
        bench.engine.stop().unwrap();
        let after = bench.switch.packet_out("br0", PortNo(1), &actions, &[0; 60], Now(0));
        assert_eq!(after, Err(PacketOutError::Busy));
    }
}

#[test]
fn learned_flows_are_used_by_the_next_packets() {
    for model in models() {
        let mut bench = Bench::new(
            model,
            &flows(&[
                "actions=learn(table=1,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[]),resubmit(,1)",
                "table=1,priority=1,actions=flood",
            ]),
        );
        let first = frame(1, 2, 0, 60);
        bench.send(0, &first);
        assert_eq!((bench.receive(1), bench.receive(2)), (first.clone(), first));
        let switch = bench.switch.clone();
        until("the flow", || switch.tables("br0").unwrap().len(TableId(1)) == 2);
        let (answer, other) = (frame(2, 1, 1, 60), frame(2, 9, 2, 60));
        bench.send(1, &answer);
        assert_eq!(bench.receive(0), answer);
        bench.send(1, &other);
        assert_eq!((bench.receive(0), bench.receive(2)), (other.clone(), other), "only this was flooded");
        bench.engine.stop().unwrap();
    }
}

#[test]
fn a_fast_failover_group_follows_the_connections_of_guests() {
    for model in models() {
        let text =
            "group_id=1,type=ff,bucket=watch_port:2,actions=output:2,bucket=watch_port:3,actions=output:3";
        let group = Modification::Group(parse_group(text, GroupCommand::Add, &NoNames).unwrap());
        let mut bench = Bench::new(model, &[&[group], &flows(&["in_port=1,actions=group:1"])[..]].concat());
        let pass = |bench: &mut Bench, to: u16| {
            let frame = frame(1, 2, to, 60);
            bench.send(0, &frame);
            assert_eq!(bench.receive(to), frame);
        };
        pass(&mut bench, 1);
        bench.guests[1].shutdown(std::net::Shutdown::Both).unwrap();
        bench.wait_up(1, false);
        pass(&mut bench, 2);
        bench.guests[1] = connect(&bench.path(1));
        bench.wait_up(1, true);
        pass(&mut bench, 1);
        bench.engine.stop().unwrap();
    }
}
