//! Clients that violate the protocol, over their own memory.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

use super::fuzz::{self, Raw, Setup};
use super::*;
use crate::DatagramOptions;
use crate::chunks::{ArenaRange, CHUNK};
use crate::entry::{ACCEPTED, Command, Completion, GroupChange, StreamOptions};
use crate::ring::Words;
use proptest::prelude::*;
use stack::Address;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

fn end(text: &str) -> Endpoint {
    text.parse::<SocketAddr>().unwrap().into()
}

fn listen(id: u32, port: u16) -> Words {
    let local = end(&format!("10.0.0.1:{port}"));
    Command::Listen { id, local, shares: false }.encode()
}

fn connect(id: u32) -> Words {
    let (local, remote) = (end("0.0.0.0:0"), end("10.0.0.2:1"));
    Command::Connect { id, local, remote, options: StreamOptions::default() }.encode()
}

/// Runs a hostile client beside an honest one. Returns the named reason of its removal.
fn removed_for(attack: impl FnOnce(&mut Raw)) -> Fault {
    let mut setup = Setup::new(2);
    let (mut honest, mut hostile) = (Raw::new(&mut setup), Raw::new(&mut setup));
    for lane in 0..2 {
        honest.lanes[lane].send(&listen(1, 80));
        hostile.lanes[lane].send(&listen(1, 81));
        hostile.lanes[lane].send(&connect(2));
    }
    setup.run();
    for lane in &mut hostile.lanes {
        assert!(matches!(lane.next(), Some(Completion::Bound { id: 1, .. })));
    }
    attack(&mut hostile);
    setup.run();
    assert_eq!(setup.slow_path.clients(), 1);
    for (service, stack) in &setup.workers {
        assert_eq!((service.clients.len(), stack.connections().count()), (1, 0), "on every worker");
    }
    // The endpoint of the hostile client is free, and the honest one keeps its own.
    for lane in &mut honest.lanes {
        lane.send(&listen(2, 81));
        lane.send(&listen(3, 80));
    }
    setup.run();
    for lane in &mut honest.lanes {
        assert!(matches!(
            lane.rest()[..],
            [
                Completion::Bound { id: 1, .. },
                Completion::Bound { id: 2, .. },
                Completion::Failed { id: 3, reason: Reason::InUse }
            ]
        ));
    }
    let left = &setup.slow_path.statistics().left;
    assert_eq!(left.len(), 1, "{left:?}");
    *left.keys().next().unwrap()
}

#[test]
fn a_client_that_violates_the_protocol_loses_its_own_sockets_only() {
    let send = |id, offset, len| Command::Send { id, range: ArenaRange { offset, len } }.encode();
    let attacks: [(Fault, Vec<Words>); 9] = [
        (Fault::Command, vec![[0xff; 8]]),
        (Fault::Range, vec![send(2, 4 * CHUNK, 1)]),
        (Fault::Range, vec![send(2, u32::MAX, u32::MAX)]),
        (Fault::Range, vec![send(2, 0, 0)]),
        (Fault::Number, vec![connect(2)]),
        (Fault::Number, vec![listen(ACCEPTED, 90)]),
        (Fault::Returned, vec![Command::Consumed { id: 2, bytes: 1 }.encode()]),
        (Fault::Left, vec![]),
        (Fault::Ring, vec![]),
    ];
    for (fault, words) in attacks {
        for lane in 0..2 {
            let found = removed_for(|hostile| match fault {
                Fault::Left => hostile.socket.shutdown(std::net::Shutdown::Both).unwrap(),
                Fault::Ring => hostile.lanes[lane].parts.commands.store(0, 1 << 40, Ordering::Release),
                _ => words.iter().for_each(|words| hostile.lanes[lane].send(words)),
            });
            assert_eq!(found, fault);
        }
    }
}

#[test]
fn addresses_of_a_client_that_ended_are_free_before_its_removal() {
    let mut setup = Setup::new(2);
    let bind = |client: &mut Raw| {
        let udp = Command::UdpBind { id: 2, local: end("10.0.0.1:53") }.encode();
        client
            .lanes
            .iter_mut()
            .for_each(|lane| [listen(1, 80), udp].iter().for_each(|words| lane.send(words)));
    };
    let [mut first, mut second, mut third] = [(); 3].map(|()| Raw::new(&mut setup));
    bind(&mut first);
    setup.run();
    // The slow path does not report the end before the next client binds.
    drop(first);
    bind(&mut second);
    setup.serve();
    for lane in &mut second.lanes {
        let answers = lane.rest();
        assert!(
            matches!(answers[..], [Completion::Bound { id: 1, .. }, Completion::Bound { id: 2, .. }]),
            "{answers:?}"
        );
    }
    bind(&mut third);
    setup.run();
    for lane in &mut third.lanes {
        let in_use = [1, 2].map(|id| Completion::Failed { id, reason: Reason::InUse });
        assert_eq!(lane.rest(), in_use, "a client that runs keeps its sockets");
    }
    assert_eq!(setup.slow_path.clients(), 2);
}

#[test]
fn a_client_that_takes_no_completions_is_not_served_and_others_are() {
    let mut setup = Setup::new(1);
    let (mut slow, mut honest) = (Raw::new(&mut setup), Raw::new(&mut setup));
    let (slow, honest) = (slow.lane(), honest.lane());
    let mut sent = 0;
    // Each fails, which is a completion: the address is not one of the stack.
    let command = Command::UdpBind { id: 1, local: end("192.0.2.1:1") }.encode();
    for _ in 0..200 {
        sent += usize::from(slow.commands.push(&command) == Ok(true));
        slow.commands.publish();
        setup.run();
    }
    assert_eq!(sent, 64 + 64 + 1, "both rings and one command whose result waits");
    let client = &setup.service().clients[0];
    assert_eq!((client.outbox.len(), client.fault), (1, None));
    honest.send(&listen(1, 80));
    setup.run();
    assert!(matches!(honest.next(), Some(Completion::Bound { .. })));
    let mut received = 0;
    while let Some(completion) = slow.next() {
        assert_eq!(completion, Completion::Failed { id: 1, reason: Reason::NotLocal });
        received += 1;
        setup.run();
    }
    assert_eq!(received, sent);
}

#[test]
fn a_client_has_at_most_its_number_of_sockets() {
    let mut setup = Setup::new(1);
    let mut client = Raw::new(&mut setup);
    let client = client.lane();
    (0..9).for_each(|i| client.send(&listen(i, 80 + i as u16)));
    setup.run();
    assert_eq!(client.rest().last(), Some(&Completion::Failed { id: 8, reason: Reason::TooMany }));
    client.send(&Command::Close { id: 3 }.encode());
    client.send(&listen(9, 99));
    setup.run();
    assert!(matches!(client.rest()[..], [Completion::Closed { id: 3, .. }, Completion::Bound { id: 9, .. }]));
}

#[test]
fn commands_that_open_are_limited_in_a_round_and_each_client_has_its_turn() {
    let mut setup = Setup::new(1);
    let mut clients: Vec<_> = (0..3).map(|_| Raw::new(&mut setup)).collect();
    let control = Limits::default().control;
    // Each fails, because the address is not one of the stack.
    let open = Command::UdpBind { id: 1, local: end("192.0.2.1:1") }.encode();
    let data = Command::Shutdown { id: 9 }.encode();
    for client in &mut clients {
        (0..40).for_each(|_| client.lane().send(&open));
        client.lane().send(&data);
    }
    let (service, stack) = &mut setup.workers[0];
    let mut answers = [0; 3];
    for round in 1..=12 {
        assert!(service.poll(stack, Time(round * 2 * ORDER_INTERVAL)));
        let new: Vec<_> = clients.iter_mut().map(|client| client.lane().rest().len() as u32).collect();
        answers.iter_mut().zip(&new).for_each(|(all, new)| *all += new);
        assert!(new.iter().sum::<u32>() <= control);
        assert!(round != 3 || answers.iter().all(|all| *all == control), "{answers:?}");
        if answers == [40; 3] {
            return assert!(service.prepare_sleep(), "all commands are done");
        }
    }
    panic!("{answers:?}");
}

#[test]
fn a_port_that_belongs_to_another_worker_is_refused() {
    let mut setup = Setup::new(2);
    let mut client = Raw::new(&mut setup);
    for (id, port) in [(1, 50_000), (2, 50_001), (3, 1000)] {
        let (local, remote) = (end(&format!("0.0.0.0:{port}")), end("10.0.0.2:1"));
        let command = Command::Connect { id, local, remote, options: StreamOptions::default() };
        client.lanes.iter_mut().for_each(|lane| lane.send(&command.encode()));
    }
    setup.run();
    for (lane, owned) in client.lanes.iter_mut().zip([1, 2]) {
        let opened: Vec<_> = lane
            .rest()
            .into_iter()
            .filter(|answer| matches!(answer, Completion::Connecting { .. }))
            .map(Completion::id)
            .collect();
        assert_eq!(opened, [owned]);
    }
}

#[test]
fn memory_of_a_client_that_left_is_unmapped_when_the_stack_has_sent_it() {
    let mut setup = Setup::new(2);
    let mut client = Raw::new(&mut setup);
    client.lane().send(&connect(1));
    setup.run();
    // As the stack holds bytes that are not acknowledged.
    let bytes = setup.service().clients[0].channel.outbound(ArenaRange { offset: 0, len: 10 });
    drop(client);
    setup.run();
    assert_eq!((setup.slow_path.clients(), setup.slow_path.retired()), (0, 1));
    assert!(setup.is_empty());
    drop(bytes);
    setup.run();
    assert_eq!(setup.slow_path.retired(), 0);
}

fn join(id: u32, request: u32, group: u8, joins: bool) -> Words {
    let change =
        GroupChange { request, group: Address::v4([239, 0, 0, group]), local: Address::UNSPECIFIED, joins };
    Command::UdpGroup { id, change }.encode()
}

/// Reasons of the answers to requests, in order.
fn answers(setup: &mut Setup, client: &mut Raw) -> Vec<Option<Reason>> {
    setup.run();
    let reason = |reply| if let Completion::Answer { reason, .. } = reply { Some(reason) } else { None };
    client.lane().rest().into_iter().filter_map(reason).collect()
}

#[test]
fn clients_have_at_most_their_number_of_groups() {
    let mut setup = Setup::new(1);
    setup.workers[0].0.options.limits.groups = (3, 4);
    let [mut first, mut second] = [(); 2].map(|()| Raw::new(&mut setup));
    for client in [&mut first, &mut second] {
        let local = end("0.0.0.0:0");
        (1..=2).for_each(|id| client.lane().send(&Command::UdpBind { id, local }.encode()));
    }
    // The limit counts all sockets of a client, and no membership twice.
    for (id, group) in [(1, 1), (1, 1), (2, 1), (2, 2), (1, 3)] {
        first.lane().send(&join(id, 0, group, true));
    }
    let expected = [None, Some(Reason::InUse), None, None, Some(Reason::TooMany)];
    assert_eq!(answers(&mut setup, &mut first), expected);
    // That of all clients leaves one to the second client.
    (1..=2).for_each(|group| second.lane().send(&join(1, 0, group, true)));
    assert_eq!(answers(&mut setup, &mut second), [None, Some(Reason::TooMany)]);
    // Remaining blocks, and those that end with their socket, are free again.
    first.lane().send(&join(2, 0, 2, false));
    first.lane().send(&join(2, 0, 2, false));
    first.lane().send(&Command::Close { id: 1 }.encode());
    assert_eq!(answers(&mut setup, &mut first), [None, Some(Reason::NotLocal)]);
    (1..=3).for_each(|group| second.lane().send(&join(2, 0, group, true)));
    assert_eq!(answers(&mut setup, &mut second), [None, None, Some(Reason::TooMany)]);
}

#[test]
fn requests_for_groups_are_validated_and_answered_by_number() {
    let mut setup = Setup::new(1);
    let mut client = Raw::new(&mut setup);
    client.lane().send(&listen(1, 80));
    client.lane().send(&Command::UdpBind { id: 2, local: end("0.0.0.0:0") }.encode());
    client.lane().send(&join(1, 7, 1, true));
    client.lane().send(&join(9, 8, 1, true));
    let (any, foreign) = (Address::UNSPECIFIED, end("10.0.0.9:0").address);
    for (request, group, local) in [(9, foreign, any), (10, end("[ff05::7]:0").address, any), (11, any, any)]
    {
        let change = GroupChange { request, group, local, joins: true };
        client.lane().send(&Command::UdpGroup { id: 2, change }.encode());
    }
    let change = GroupChange { request: 12, group: end("239.0.0.1:0").address, local: foreign, joins: true };
    client.lane().send(&Command::UdpGroup { id: 2, change }.encode());
    let options = DatagramOptions { hop_limit: 0, group_hop_limit: 0, group_source: Some(foreign) };
    for id in [1, 2, 9] {
        client.lane().send(&Command::UdpSetOptions { id, options }.encode());
    }
    setup.run();
    let replies: Vec<_> = std::iter::from_fn(|| client.lane().next()).collect();
    let answers = replies.iter().filter_map(|reply| match reply {
        Completion::Answer { id, request, reason } => Some((*id, *request, reason.unwrap())),
        _ => None,
    });
    let expected = [
        (1, 7, Reason::NotConnected),
        (9, 8, Reason::NotConnected),
        (2, 9, Reason::InvalidAddress),
        (2, 10, Reason::NoRoute),
        (2, 11, Reason::InvalidAddress),
        (2, 12, Reason::NotLocal),
    ];
    assert_eq!(answers.collect::<Vec<_>>(), expected);
    assert_eq!(setup.slow_path.clients(), 1);
}

proptest! {
    #[test]
    fn no_sequence_of_entries_stops_the_service(script in prop::collection::vec(any::<u8>(), 0..2000)) {
        fuzz::fuzz_client(&script);
    }
}
