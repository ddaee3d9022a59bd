//! A host on a granted port: it stops when the switch ends the grant, and its connections end with an error.

use engine::LocalPort;
use host::{App, Buffer, Host, Options, Report, SteeringOptions, Workers};
use port::PortControl;
use port::vhost_user::{self, VhostUser};
use port::virtio_user::{self, VirtioUser};
use serve::{Echo, Server};
use stack::ip::InterfaceConfig;
use stack::{Address, Cidr, Closed, Endpoint, Event, Slice, Stack, Time};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use wire::MacAddress;

const PORT: u16 = 7;
const ADDRESSES: [&str; 2] = ["10.9.0.1/24", "10.9.0.2/24"];

/// An echo server that records how its connections and its port end.
#[derive(Default)]
struct Watched {
    echo: Echo,
    closed: Vec<Closed>,
    lost: Option<String>,
}

impl App for Watched {
    fn event(&mut self, stack: &mut Stack<Buffer>, event: Event<Buffer>, now: Time) {
        if let Event::Closed { reason, .. } = &event {
            self.closed.push(*reason);
        }
        self.echo.event(stack, event, now);
    }

    fn port_lost(&mut self, name: &str, state: &str) {
        self.lost = Some(format!("{name}: {state}"));
    }
}

/// Stops once the server has echoed data.
struct Opener(Arc<AtomicBool>);

impl App for Opener {
    fn event(&mut self, stack: &mut Stack<Buffer>, event: Event<Buffer>, _now: Time) {
        match event {
            Event::Connected { connection } => {
                let data: Arc<[u8]> = [7; 100].into();
                stack.send(connection, Slice::new(data.into())).unwrap();
            }
            Event::Data { .. } => self.0.store(true, Ordering::Relaxed),
            other => panic!("{other:?}"),
        }
    }
}

/// The end of the switch, and that of the application.
fn granted() -> [Box<dyn PortControl>; 2] {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    theirs.set_nonblocking(true).unwrap();
    let (now, offer) = (Instant::now(), vhost_user::Options::default());
    let back = VhostUser::over(ours.into(), "application".into(), offer, now).unwrap();
    let front = VirtioUser::over(theirs.into(), "switch".into(), virtio_user::Options::default(), now);
    [Box::new(back), Box::new(front.unwrap())]
}

fn interface(end: usize) -> InterfaceConfig {
    InterfaceConfig { mac: MacAddress::new([2, 0, 0, 0, 0, end as u8]), mtu: 1500, vlan: None }
}

fn address(end: usize) -> Cidr {
    ADDRESSES[end].parse().unwrap()
}

/// Opens a connection from the switch's end of the port, and revokes the grant while it is open.
fn connect_and_revoke(back: Box<dyn PortControl>) {
    let mut host = Host::new(Options::new().unwrap()).unwrap();
    let own = host.add_port(LocalPort::new("far", back), interface(0));
    let (now, stop) = (host.now(), Arc::new(AtomicBool::new(false)));
    host.stack().add_address(own, address(0), now);
    assert!(host.connect(&stop));
    let server = Endpoint::new(address(1).address, PORT);
    let any = Endpoint::new(Address::v4([0; 4]), 0);
    host.stack().connect(any, server, stack::tcp::Options::default(), now).unwrap();
    host.run(&mut Opener(stop.clone()), &stop);
    // Closes the port, as `ports remove` does.
    assert_eq!(host.close().ended, None);
}

fn check(report: &Report, served: &Watched) {
    let ended = report.ended.as_deref().unwrap();
    assert_eq!(ended, "the grant ended: revoked by the switch, at switch");
    assert_eq!(served.lost.as_deref(), Some("web: the grant ended: revoked by the switch, at switch"));
}

#[test]
fn revoked_host_stops_and_its_connections_end() {
    let [back, front] = granted();
    let (mut served, stop) = (Watched::default(), AtomicBool::new(false));
    let far = std::thread::spawn(|| connect_and_revoke(back));
    let mut host = Host::new(Options::new().unwrap()).unwrap();
    let own = host.add_port(LocalPort::new("web", front), interface(1));
    let now = host.now();
    host.stack().add_address(own, address(1), now);
    served.echo.listen(host.stack(), Endpoint::new(Address::v4([0; 4]), PORT)).unwrap();
    assert!(host.connect(&stop));
    host.run(&mut served, &stop);
    far.join().unwrap();
    assert!(stop.load(Ordering::Relaxed), "other threads of the program stop too");
    assert_eq!(served.closed, [Closed::Aborted]);
    assert_eq!(host.stack().connections().count(), 0);
    check(&host.close(), &served);
}

#[test]
fn revoked_workers_stop() {
    let [back, front] = granted();
    let stop = AtomicBool::new(false);
    let far = std::thread::spawn(|| connect_and_revoke(back));
    let options = Options::new().unwrap();
    let mut workers =
        Workers::open(2, &options, ("web", front), &interface(1), &SteeringOptions::default()).unwrap();
    let mut apps = [Watched::default(), Watched::default()];
    for (host, app) in workers.hosts().iter_mut().zip(&mut apps) {
        let now = host.now();
        host.stack().add_address(Workers::interface(), address(1), now);
        app.echo.listen(host.stack(), Endpoint::new(Address::v4([0; 4]), PORT)).unwrap();
    }
    assert!(workers.connect(&stop));
    workers.run(&mut apps, |_, _| (), &stop);
    far.join().unwrap();
    let reports = workers.close();
    assert!(reports.iter().any(|report| report.ended.is_some()), "{reports:?}");
    let closed: usize = apps.iter().map(|app| app.closed.len()).sum();
    let ended = reports.iter().filter(|report| report.ended.is_some()).count();
    assert!(closed <= 1 && ended >= 1);
}

#[test]
fn host_that_waits_for_a_revoked_port_returns() {
    let [back, front] = granted();
    drop(back);
    let mut host = Host::new(Options::new().unwrap()).unwrap();
    host.add_port(LocalPort::new("web", front), interface(1));
    assert!(!host.connect(&AtomicBool::new(false)));
    assert_eq!(host.close().ended.unwrap(), "the grant ended: the switch disconnected, at switch");
}
