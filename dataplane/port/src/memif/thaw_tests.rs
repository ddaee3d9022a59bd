//! Freezes and thaws rings of both ends of a memif connection under traffic.

use super::joined::Joined;
use super::options::Options;
use super::queue::States;
use crate::state::tests::{Ends, stream};
use crate::{MemifQueue, PortFault, QueueState};

fn joined() -> Joined {
    let options = Options { ring_size: 128, buffer_size: 512, ..Options::default() };
    Joined::new(options).unwrap().0
}

/// The transmit queue of end `which` (0 is the client) and the receive queue of the other.
fn ends(joined: &Joined, which: usize, (tx, rx): (QueueState, QueueState)) -> Ends {
    let [client, server] = joined.rings().unwrap();
    let (sender, receiver) = if which == 0 { (client, server) } else { (server, client) };
    let (_, mut tx) = sender.thaw((vec![], vec![tx])).unwrap();
    let (mut rx, _) = receiver.thaw((vec![rx], vec![])).unwrap();
    (tx.remove(0), rx.remove(0))
}

#[test]
fn rings_resume_at_any_point() {
    // Frames in one buffer each, and in up to three.
    for (which, longest) in [(0, 500), (0, 1400), (1, 500), (1, 1400)] {
        let joined = joined();
        let fresh = ends(&joined, which, Default::default());
        stream(fresh, longest, |_, (tx, rx): Ends| ends(&joined, which, (tx.freeze(), rx.freeze())));
    }
}

#[test]
fn mismatching_state_is_rejected() {
    let joined = joined();
    let thaw = |which: usize, states: States| {
        joined.rings().unwrap().into_iter().nth(which).unwrap().thaw(states).err()
    };
    let memif = |at, done, held: Vec<u16>| QueueState::Memif(Box::new(MemifQueue { at, done, held }));
    let all: Vec<u16> = (0..128).collect();
    assert_eq!(thaw(0, (vec![memif(7, 7, all.clone())], vec![memif(9, 9, vec![])])), None);
    assert_eq!(thaw(1, (vec![memif(7, 7, vec![])], vec![memif(9, 9, vec![])])), None);
    let mut twice = all.clone();
    twice[3] = 4;
    let mut outside = all.clone();
    outside[3] = 128;
    for rx in [
        memif(7, 7, vec![]),
        memif(200, 7, all.clone()),
        memif(7, 8, all.clone()),
        memif(0, 0, twice),
        memif(0, 0, outside),
        QueueState::Ring { base: 0 },
    ] {
        let refused = thaw(0, (vec![rx.clone()], vec![]));
        assert!(matches!(refused, Some(PortFault::State(_))), "{rx:?}: {refused:?}");
    }
    for (which, states) in [
        (1, (vec![memif(7, 6, vec![])], vec![])),
        (1, (vec![memif(7, 7, all)], vec![])),
        (0, (vec![], vec![memif(7, 6, vec![])])),
        (1, (vec![], vec![QueueState::Ring { base: 0 }])),
    ] {
        let refused = thaw(which, states);
        assert!(matches!(refused, Some(PortFault::State(_))), "{refused:?}");
    }
}
