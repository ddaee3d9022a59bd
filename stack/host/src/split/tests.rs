//! Both sides over a real stack, on one thread and in simulated time: clients and a server are one application, whose
//! connections pass the stack's loopback.

use super::remote::FIRST_LISTENER;
use super::*;
use proptest::prelude::*;
use ring::spsc::Consumer;
use stack::ip::InterfaceConfig;
use stack::{Address, Cidr, Config, Recorder, send_cost};
use std::collections::HashMap;
use wire::MacAddress;

const ADDRESS: Address = Address::v4([10, 0, 0, 1]);
const PORT: u16 = 7;
const BUFFER: usize = 64 << 10;
const LIMITS: RemoteLimits = RemoteLimits { send_buffer: BUFFER, connections: 32 };

static STOP: AtomicBool = AtomicBool::new(false);

/// A connection that the application opened.
#[derive(Debug, Default)]
struct Client {
    sent: Vec<u8>,
    received: Vec<u8>,
    is_connected: bool,
    is_closed: bool,
    is_aborted: bool,
}

/// Clients, and a server that returns what it receives.
#[derive(Default)]
struct Peers {
    /// Connections that have not ended; `None` for one that was accepted.
    live: HashMap<ConnectionId, Option<Client>>,
    ended: Vec<(Client, stack::Closed)>,
    failed: Vec<ConnectError>,
    listeners: Vec<ListenerId>,
    refused: Vec<(ListenerId, ListenError)>,
}

impl App<Remote> for Peers {
    fn event(&mut self, remote: &mut Remote, event: Event<Buffer>, _: Time) {
        match event {
            Event::Accepted { connection, listener, .. } => {
                assert!(self.live.insert(connection, None).is_none());
                self.listeners.push(listener);
            }
            Event::Connected { connection } => {
                let client = self.live.get_mut(&connection).unwrap().as_mut().unwrap();
                assert!(!std::mem::replace(&mut client.is_connected, true));
            }
            Event::Data { connection, data } => {
                remote.consumed(connection, data.len());
                match self.live.get_mut(&connection).unwrap() {
                    Some(client) => client.received.extend(data.to_vec()),
                    None => remote.send(connection, data).unwrap(),
                }
            }
            Event::Finished { connection } => {
                assert!(self.live.contains_key(&connection));
                remote.close(connection);
            }
            Event::Closed { connection, reason } => {
                let ended = self.live.remove(&connection).unwrap();
                self.ended.extend(ended.map(|client| (client, reason)));
            }
            other => panic!("{other:?}"),
        }
    }

    fn connect_failed(&mut self, _: &mut Remote, connection: ConnectionId, error: ConnectError, _: Time) {
        assert!(!self.live.remove(&connection).unwrap().unwrap().is_connected);
        self.failed.push(error);
    }

    fn listen_failed(&mut self, _: &mut Remote, listener: ListenerId, error: ListenError, _: Time) {
        self.refused.push((listener, error));
    }
}

struct World {
    stack: Stack<Buffer>,
    of_stack: StackSide<'static>,
    messages: Consumer<Message>,
    remote: Remote,
    peers: Peers,
    now: Time,
}

fn remote() -> (Remote, Consumer<Call>, Arc<Doorbell>) {
    let ((calls, from_app), doorbell) = (ring::spsc::ring(RING), Arc::new(Doorbell::new().unwrap()));
    (Remote::new(calls, doorbell.clone(), LIMITS, Arc::default()), from_app, doorbell)
}

impl World {
    /// A world whose server listens, if `listens`, before the application starts.
    fn new(listens: bool) -> Self {
        let mut config = Config::new([7; 16]);
        config.limits.send_buffer = BUFFER as u32;
        let mut stack = Stack::new(config, Time::default());
        let mac = MacAddress::new([2, 0, 0, 0, 0, 1]);
        let interface = stack.add_interface(InterfaceConfig { mac, mtu: 1500, vlan: None });
        stack.add_address(interface, Cidr::new(ADDRESS, 24).unwrap(), Time::default());
        if listens {
            stack.listen(Endpoint::new(ADDRESS, PORT), options()).unwrap();
        }
        let (messages, from_stack) = ring::spsc::ring(RING);
        let (remote, from_app, doorbell) = remote();
        let of_stack = StackSide::new(messages, from_app, (doorbell.clone(), doorbell), false, &STOP);
        Self { stack, of_stack, messages: from_stack, remote, peers: Peers::default(), now: Time(1) }
    }

    fn rounds(&mut self, count: usize) {
        for _ in 0..count {
            let Self { stack, of_stack, messages, remote, peers, now } = self;
            while let Some(event) = stack.poll_event() {
                of_stack.event(stack, event, *now);
            }
            of_stack.poll(stack, *now);
            stack.advance(*now);
            // Packets to other hosts are lost.
            stack.transmit(&mut Recorder::default(), *now);
            of_stack.push();
            messages.drain(BATCH).for_each(|message| remote.deliver(message, peers, *now));
            remote.publish();
            now.0 += 100_000;
        }
    }

    fn connect(&mut self, to: Address, port: u16) -> Option<ConnectionId> {
        let any = Endpoint::new(Address::v4([0; 4]), 0);
        let name = self.remote.connect(any, Endpoint::new(to, port), options(), self.now).ok()?;
        assert!(self.peers.live.insert(name, Some(Client::default())).is_none());
        Some(name)
    }
}

fn options() -> Options {
    Options { no_delay: true, ..Options::default() }
}

/// Something that the application does to one of its connections.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// To the server, to a port without one, or to a network without a route.
    Connect(u8),
    Send(prop::sample::Index, usize),
    Close(prop::sample::Index),
    Abort(prop::sample::Index),
    Rounds(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..6_u8).prop_map(Step::Connect),
        6 => (any::<prop::sample::Index>(), 1..700_usize).prop_map(|(at, len)| Step::Send(at, len)),
        1 => any::<prop::sample::Index>().prop_map(Step::Close),
        1 => any::<prop::sample::Index>().prop_map(Step::Abort),
        3 => (0..8_usize).prop_map(Step::Rounds),
    ]
}

impl World {
    fn step(&mut self, step: Step, clients: &mut Vec<ConnectionId>) {
        let pick = |at: prop::sample::Index| clients.get(at.index(clients.len().max(1))).copied();
        match step {
            Step::Connect(1) => {
                self.connect(Address::v4([192, 0, 2, 1]), PORT);
            }
            Step::Connect(to) => {
                clients.extend(self.connect(ADDRESS, if to == 2 { 9 } else { PORT }));
            }
            Step::Send(at, len) => {
                let Some(name) = pick(at) else { return };
                let Some(Some(client)) = self.peers.live.get_mut(&name) else {
                    // A name that is not valid any more has no effect, also if its number is used again.
                    assert_eq!(self.remote.send(name, data(0, len)), Err(SendError::Closed));
                    return;
                };
                if self.remote.send(name, data(client.sent.len(), len)).is_ok() {
                    client.sent.extend(data(client.sent.len(), len).to_vec());
                }
            }
            Step::Close(at) => {
                let Some(name) = pick(at) else { return };
                self.remote.close(name);
                if let Some(Some(client)) = self.peers.live.get_mut(&name) {
                    // Without data, this ends a handshake.
                    client.is_aborted |= !client.is_connected;
                    client.is_closed = true;
                }
            }
            Step::Abort(at) => {
                let Some(name) = pick(at) else { return };
                self.remote.abort(name);
                if let Some(Some(client)) = self.peers.live.get_mut(&name) {
                    client.is_aborted = true;
                }
            }
            Step::Rounds(count) => self.rounds(count),
        }
    }
}

fn data(from: usize, len: usize) -> Slice<Buffer> {
    let bytes: Vec<u8> = (from..from + len).map(|at| (at % 251) as u8).collect();
    Slice::new(bytes.into())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Each posted call has one result, each connection one end, and streams have no gap.
    #[test]
    fn posted_calls_have_the_effect_of_calls(steps in prop::collection::vec(step(), 0..80)) {
        let (mut world, mut clients) = (World::new(true), Vec::new());
        for step in steps {
            world.step(step, &mut clients);
        }
        world.rounds(600);
        let live: Vec<_> = world.peers.live.keys().copied().collect();
        for name in live {
            world.remote.close(name);
        }
        world.rounds(600);
        prop_assert!(world.peers.live.is_empty() && world.remote.connections() == 0);
        prop_assert!(world.peers.failed.iter().all(|error| *error == ConnectError::NoRoute));
        for (client, reason) in &world.peers.ended {
            prop_assert!(client.sent.starts_with(&client.received), "{client:?}");
            if client.is_connected && !client.is_aborted {
                prop_assert!(*reason == stack::Closed::Normally && client.sent == client.received, "{client:?}");
            }
        }
    }
}

#[test]
fn connections_are_limited_on_the_applications_side() {
    let mut world = World::new(true);
    let opened: Vec<_> = (0..40).map_while(|_| world.connect(ADDRESS, PORT)).collect();
    assert_eq!(opened.len(), LIMITS.connections);
    world.remote.abort(opened[0]);
    assert!(world.connect(ADDRESS, PORT).is_none(), "the end of the first one was not reported");
    world.rounds(100);
    // The accepted ends count too.
    assert!(world.remote.connections() > LIMITS.connections && world.connect(ADDRESS, PORT).is_none());
}

#[test]
fn listeners_have_the_identifiers_that_the_application_chose() {
    let mut world = World::new(false);
    let listen = |world: &mut World| world.remote.listen(Endpoint::new(ADDRESS, PORT), options()).unwrap();
    let (first, second) = (listen(&mut world), listen(&mut world));
    assert_eq!(first.to_bits(), FIRST_LISTENER);
    world.connect(ADDRESS, PORT).unwrap();
    world.rounds(100);
    assert_eq!(world.peers.listeners, [first]);
    assert_eq!(world.peers.refused, [(second, ListenError::InUse)]);
    world.remote.unlisten(first);
    world.connect(ADDRESS, PORT).unwrap();
    world.rounds(100);
    assert!(matches!(world.peers.ended[..], [(_, stack::Closed::Refused)]), "{:?}", world.peers.ended);
}

/// Takes no events.
struct Deaf(Vec<Event<Buffer>>);

impl App<Remote> for Deaf {
    fn event(&mut self, _: &mut Remote, event: Event<Buffer>, _: Time) {
        self.0.push(event);
    }
}

/// A piece of data is never sent if the stack's buffer could refuse it, because the stream would have a gap, and never
/// refused if the stack would take it.
#[test]
fn short_pieces_take_as_much_space_as_in_the_stack() {
    let ((mut remote, _from_app, _doorbell), mut app) = (remote(), Deaf(Vec::new()));
    let connection = ConnectionId::from_bits(1);
    remote.deliver(Message::Event(Event::Connected { connection }), &mut app, Time(0));
    let Some(Event::Connected { connection: name }) = app.0.pop() else { panic!("no event") };
    let mut deliver = |remote: &mut Remote, space: usize| {
        let event = Event::Acknowledged { connection, bytes: 1, space: space as u32 };
        remote.deliver(Message::Event(event), &mut app, Time(0));
        app.0.pop()
    };
    assert!(remote.send(name, data(0, 300)).is_ok());
    let pieces = (BUFFER - 300) / send_cost(1);
    assert!((0..pieces).all(|_| remote.send(name, data(0, 1)).is_ok()));
    // The rest is shorter than a short piece, and usable for one whose bytes fit.
    let left = remote.send_space(name);
    assert!((101..send_cost(1)).contains(&left));
    assert_eq!(remote.send(name, data(0, left + 1)), Err(SendError::Full));
    assert!(remote.send(name, data(0, 100)).is_ok());
    assert_eq!((remote.send(name, data(0, 1)), remote.send_space(name)), (Err(SendError::Full), 0));
    // A part of a buffer is acknowledged, which frees nothing, and then half of the rest.
    assert!(deliver(&mut remote, 0).is_none());
    assert_eq!(remote.send(name, data(0, 1)), Err(SendError::Full));
    let writable = deliver(&mut remote, BUFFER / 2 + send_cost(1));
    assert!(matches!(writable, Some(Event::Writable { connection }) if connection == name), "{writable:?}");
    assert!(remote.send(name, data(0, BUFFER / 2)).is_ok());
    assert_eq!(remote.send(name, data(0, send_cost(1))), Err(SendError::Full));
    // Acknowledgements are reported on request, before the space.
    remote.report_acks(name, true);
    assert!(matches!(deliver(&mut remote, 1), Some(Event::Acknowledged { space: 1, .. })));
}
