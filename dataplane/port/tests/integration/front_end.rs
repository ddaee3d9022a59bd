//! The vhost-user front end against the vhost-user back end of this crate, over real sockets.

use crate::common::{Guest, Switch, TIMEOUT};
use port::vhost_user::Options;
use port::virtio_user::{
    Features, FrontEnd, FrontEndError, FrontEndListener, ProtocolFeatures, SharedRegion,
};
use port::{PortFault, PortState};

const ALL: Features = Features(u64::MAX);

fn options() -> Options {
    Options { queue_pairs: 2, mtu: Some(9000), ..Options::default() }
}

#[test]
fn guest_connects_stops_and_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let switch = Switch::listen(&path, options());
    let guest = Guest::new();
    let mut front = FrontEnd::connect(&path, TIMEOUT).unwrap();
    let agreed = front.negotiate(ALL).unwrap();
    assert!(
        agreed.features.has(Features::VERSION_1 | Features::RING_PACKED | Features::MQ | Features::NET_MTU)
    );
    assert!(agreed.protocol.has(ProtocolFeatures::STATUS | ProtocolFeatures::REPLY_ACK));
    assert_eq!((agreed.queue_pairs, agreed.memory_slots), (2, 509));
    front.set_mtu(1500).unwrap();
    assert!(matches!(front.set_mtu(9001), Err(FrontEndError::Refused("NET_SET_MTU"))));
    front.share(&[guest.region()]).unwrap();
    let fresh = front.fresh_base();
    front.start(&[0, 1, 2, 3].map(|n| guest.ring(n, fresh))).unwrap();
    assert_eq!(switch.running(), (vec![0, 1], vec![0, 1]));
    let status = switch.status();
    assert_eq!((status.state, status.memory, status.connects), (PortState::Connected, (1, 1 << 20), 1));
    assert!(status.features.contains(&"ring-packed"));
    let bases = front.stop().unwrap();
    assert_eq!(bases, [0x8003_8003; 4]);
    assert_eq!(switch.running(), (vec![], vec![]));
    front.start(&[guest.ring(0, bases[0]), guest.ring(1, bases[1])]).unwrap();
    assert_eq!(switch.running(), (vec![0], vec![0]));
    assert_eq!(front.stop().unwrap(), [0x8006_8006; 2]);
    drop(front);
    switch.wait("the end", |s| matches!(s.state, PortState::Waiting(_)) && s.memory == (0, 0));
}

#[test]
fn running_rings_can_be_disabled_enabled_and_get_new_eventfds() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let switch = Switch::listen(&path, options());
    let guest = Guest::new();
    let mut front = FrontEnd::connect(&path, TIMEOUT).unwrap();
    front.negotiate(Features(ALL.0 & !Features::RING_PACKED)).unwrap();
    front.share_table(&[guest.region()]).unwrap();
    front.start(&[guest.ring(0, 0), guest.ring(1, 0)]).unwrap();
    front.enable(1, false).unwrap();
    assert_eq!(switch.running(), (vec![], vec![0]));
    front.enable(1, true).unwrap();
    front.set_call(0, None).unwrap();
    front.set_kick(1, None).unwrap();
    assert_eq!(switch.running(), (vec![0], vec![0]));
    assert!(switch.query(|_, engine| engine.rx[&0].kick_fd().is_none()), "the queue must be polled");
    front.announce([2, 0, 0, 0, 0, 1]).unwrap();
    assert_eq!(switch.query(|_, engine| engine.injected.len()), 1);
    front.reset().unwrap();
    assert_eq!(switch.running(), (vec![], vec![]));
}

#[test]
fn memory_is_added_and_removed_while_rings_run() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let switch = Switch::listen(&path, options());
    let (guest, hotplug) = (Guest::new(), Guest::new());
    let mut front = FrontEnd::connect(&path, TIMEOUT).unwrap();
    front.negotiate(ALL).unwrap();
    front.share(&[guest.region()]).unwrap();
    let fresh = front.fresh_base();
    front.start(&[guest.ring(0, fresh), guest.ring(1, fresh)]).unwrap();
    for n in 1..40 {
        let mut spec = hotplug.spec;
        (spec.guest, spec.user) = (spec.guest + n * spec.len, spec.user + n * spec.len);
        let region = SharedRegion { spec, ..hotplug.region() };
        front.add_region(region).unwrap();
        // Adding the same region again is accepted; a different region at the same address is rejected.
        front.add_region(region).unwrap();
        spec.user += 1;
        let other = SharedRegion { spec, ..region };
        assert!(matches!(front.add_region(other), Err(FrontEndError::Refused("ADD_MEM_REG"))));
        spec.user -= 1;
        if n % 2 == 0 {
            front.remove_region(spec).unwrap();
        }
    }
    assert_eq!(switch.status().memory.0, 21);
    assert_eq!(switch.running(), (vec![0], vec![0]));
    front.remove_region(guest.spec).unwrap();
    let status = switch.wait("the fault", |s| matches!(s.state, PortState::Faulted(_)));
    assert!(matches!(status.state.reason(), Some(PortFault::RingOutside(_))));
    assert!(front.is_closed());
}

#[test]
fn listening_guest_survives_a_switch_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let listener = FrontEndListener::bind(&path).unwrap();
    let guest = Guest::new();
    for _ in 0..3 {
        let switch = Switch::connect(&path, options());
        let mut front = listener.accept(TIMEOUT).unwrap();
        front.negotiate(ALL).unwrap();
        front.share(&[guest.region()]).unwrap();
        let fresh = front.fresh_base();
        front.start(&[guest.ring(0, fresh), guest.ring(1, fresh)]).unwrap();
        assert_eq!(switch.running(), (vec![0], vec![0]));
        drop(switch);
        assert!(front.is_closed());
    }
}

#[test]
fn connecting_switch_reconnects_to_a_restarted_guest() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let switch = Switch::connect(&path, options());
    for n in 1..4 {
        let listener = FrontEndListener::bind(&path).unwrap();
        let mut front = listener.accept(TIMEOUT).unwrap();
        front.negotiate(ALL).unwrap();
        assert_eq!(switch.status().connects, n);
    }
}

#[test]
fn queues_start_and_stop_at_the_requested_base() {
    for packed in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let switch = Switch::listen_for_real(&path, options());
        let guest = Guest::new();
        let mut front = FrontEnd::connect(&path, TIMEOUT).unwrap();
        front.negotiate(Features(if packed { u64::MAX } else { !Features::RING_PACKED })).unwrap();
        front.share(&[guest.region()]).unwrap();
        let fresh = front.fresh_base();
        for _ in 0..2 {
            front.start(&[guest.ring(0, fresh), guest.ring(1, fresh)]).unwrap();
            assert_eq!(switch.running(), (vec![0], vec![0]));
            assert_eq!(front.stop().unwrap(), [fresh; 2]);
        }
        let mut outside = guest.ring(0, fresh);
        outside.descriptors = guest.spec.user + guest.spec.len - 16;
        assert!(front.start(&[outside]).is_err());
        let status = switch.wait("the fault", |s| matches!(s.state, PortState::Faulted(_)));
        assert_eq!(status.memory, (0, 0));
    }
}
