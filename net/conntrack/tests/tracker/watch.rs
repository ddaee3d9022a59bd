//! Connections that are forwarded outside.

use crate::{ACK, FIN, Lab, RST, SECOND, SYN, commit, look, v4, v6};
use conntrack::bits::{ESTABLISHED, REPLY, TRACKED};
use conntrack::{Config, Direction, Helper, Nat, Request, Timeouts, Timer, Tuple, sample};
use std::sync::{Arc, Mutex};

/// A tracker, and the watches whose end was told.
struct Watching {
    lab: Lab,
    ended: Arc<Mutex<Vec<u16>>>,
}

impl Watching {
    fn new(config: &Config) -> Self {
        let (lab, ended) = (Lab::with(config), Arc::<Mutex<Vec<u16>>>::default());
        let list = ended.clone();
        lab.tracker.on_end(move |number| list.lock().unwrap().push(number));
        Self { lab, ended }
    }

    /// Whether the end of this watch was told since the last call.
    fn has_ended(&self, number: u16) -> bool {
        std::mem::take(&mut *self.ended.lock().unwrap()).contains(&number)
    }

    /// Number and state bits of a watch.
    fn watch(&self, tuple: &Tuple, number: u16) -> Option<(u16, u32)> {
        let watched = self.lab.tracker.watch(tuple, number, self.lab.now)?;
        Some((watched.number, watched.state.bits & !TRACKED))
    }

    fn udp(&self, tuple: &Tuple, request: &Request) {
        self.lab.send(&sample::udp(tuple, &[]), request);
        self.lab.send(&sample::udp(&tuple.reversed(), &[]), &look());
    }
}

fn without_window_check() -> Config {
    Config { checks_window: false, ..Config::default() }
}

#[test]
fn open_connections_of_udp_are_watched_in_both_directions() {
    for tuple in [v4(17), v6(17)] {
        let (site, tuple) = (Watching::new(&Config::default()), tuple.with_ports(5000, 53));
        assert_eq!(site.watch(&tuple, 7), None, "there is no connection");
        site.lab.send(&sample::udp(&tuple, &[]), &commit());
        assert_eq!(site.watch(&tuple, 7), None, "it is new");
        site.lab.send(&sample::udp(&tuple.reversed(), &[]), &look());
        assert_eq!(site.watch(&tuple, 7), Some((7, ESTABLISHED)));
        assert_eq!(site.watch(&tuple.reversed(), 8), Some((7, ESTABLISHED | REPLY)));
        site.udp(&tuple, &commit());
        assert!(!site.has_ended(7), "nothing has changed");
        site.udp(&tuple, &Request { mark: (1, 1), ..commit() });
        assert!(site.has_ended(7), "the mark is another one");
        assert_eq!(site.lab.tracker.flush(None), 1);
        assert!(site.has_ended(7));
        assert_eq!(site.watch(&tuple, 7), None);
    }
}

#[test]
fn segments_that_change_a_connection_end_its_watch() {
    for flags in [FIN | ACK, RST] {
        let site = Watching::new(&without_window_check());
        let tuple = v4(6).with_ports(5000, 80);
        let there =
            |flags, numbers| site.lab.send(&sample::tcp(&tuple, flags, numbers, &[]), &commit()).effort;
        let back = sample::tcp(&tuple.reversed(), SYN | ACK, (900, 101), &[]);
        there(SYN, (100, 0));
        site.lab.send(&back, &look());
        assert_eq!(site.watch(&tuple, 3), None, "the handshake is not complete");
        there(ACK, (101, 901));
        assert_eq!(site.watch(&tuple, 3), Some((3, ESTABLISHED)));
        there(ACK, (50_101, 901));
        assert!(!site.has_ended(3), "data that was forwarded outside is missing");
        there(flags, (90_101, 901));
        assert!(site.has_ended(3), "{flags:#x}");
        assert_eq!(site.watch(&tuple, 4), None);
    }
}

#[test]
fn connections_with_more_than_a_state_are_not_watched() {
    let tuple = v4(17).with_ports(5000, 69);
    let nat = Nat {
        direction: Some(Direction::Source),
        addresses: Some(([10, 0, 0, 9].into(), [10, 0, 0, 9].into())),
        ports: None,
        is_random: false,
        is_persistent: false,
    };
    let site = Watching::new(&Config::default());
    site.udp(&tuple, &Request { helper: Helper::Tftp, ..commit() });
    assert_eq!(site.watch(&tuple, 1), None, "a helper reads its packets");
    let other = tuple.with_ports(5000, 53);
    site.lab.send(&sample::udp(&other, &[]), &Request { nat: Some(nat), ..commit() });
    let reply = Tuple::new(([10, 0, 0, 2].into(), [10, 0, 0, 9].into()), 17, 0).with_ports(53, 5000);
    site.lab.send(&sample::udp(&reply, &[]), &look());
    assert_eq!(site.watch(&other, 1), None, "it is translated");
    let stream = v4(6).with_ports(5000, 80);
    for (from, flags, numbers) in
        [(stream, SYN, (100, 0)), (stream.reversed(), SYN | ACK, (900, 101)), (stream, ACK, (101, 901))]
    {
        site.lab.send(&sample::tcp(&from, flags, numbers, &[]), &commit());
    }
    assert_eq!(site.watch(&stream, 1), None, "each segment has to be in the window");
    site.lab.tracker.configure(&without_window_check());
    assert_eq!(site.watch(&stream, 1), Some((1, ESTABLISHED)));
    site.lab.tracker.configure(&Config::default());
    let late = sample::tcp(&stream, ACK, (900_000_101, 901), &[]);
    assert_eq!(
        site.lab.bits(&late, &look()),
        ESTABLISHED,
        "segments that were forwarded outside are missing"
    );
}

#[test]
fn packets_outside_keep_a_connection() {
    let timeouts = Timeouts::default().with(Timer::UdpMultiple, 10);
    let mut site = Watching::new(&Config { timeouts, ..Config::default() });
    let tuple = v4(17).with_ports(5000, 53);
    site.udp(&tuple, &commit());
    site.lab.wait(9);
    site.lab.tracker.confirm(&tuple.reversed(), site.lab.now);
    site.lab.wait(9);
    assert_eq!(site.watch(&tuple, 1), Some((1, ESTABLISHED)));
    site.lab.now += SECOND;
    site.lab.tracker.confirm(&tuple, site.lab.now);
    assert_eq!(site.watch(&tuple, 1), None, "its time has passed");
    site.lab.tracker.unwatch(&tuple);
    site.lab.tracker.flush(None);
    assert!(!site.has_ended(1), "it is not watched any more");
}
