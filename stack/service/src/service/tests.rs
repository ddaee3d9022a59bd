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
    let mut setup = Setup::new();
    let (mut honest, mut hostile) = (Raw::new(&mut setup.service), Raw::new(&mut setup.service));
    honest.send(&listen(1, 80));
    hostile.send(&listen(1, 81));
    hostile.send(&connect(2));
    setup.run();
    assert!(matches!(hostile.next(), Some(Completion::Bound { id: 1, .. })));
    attack(&mut hostile);
    setup.run();
    assert_eq!((setup.service.clients(), setup.stack.connections().count()), (1, 0));
    // The endpoint of the hostile client is free, and the honest one keeps its own.
    honest.send(&listen(2, 81));
    honest.send(&listen(3, 80));
    setup.run();
    let replies: Vec<_> = std::iter::from_fn(|| honest.next()).collect();
    assert!(matches!(
        replies[..],
        [
            Completion::Bound { id: 1, .. },
            Completion::Bound { id: 2, .. },
            Completion::Failed { id: 3, reason: Reason::InUse }
        ]
    ));
    *setup.service.statistics().left.keys().next().unwrap()
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
        let found = removed_for(|hostile| match fault {
            Fault::Left => hostile.socket.shutdown(std::net::Shutdown::Both).unwrap(),
            Fault::Ring => hostile.parts.commands.store(0, 1 << 40, Ordering::Release),
            _ => words.iter().for_each(|words| hostile.send(words)),
        });
        assert_eq!(found, fault);
    }
}

#[test]
fn a_client_that_takes_no_completions_is_not_served_and_others_are() {
    let mut setup = Setup::new();
    let (mut slow, mut honest) = (Raw::new(&mut setup.service), Raw::new(&mut setup.service));
    let mut sent = 0;
    // Each fails, which is a completion: the address is not one of the stack.
    let command = Command::UdpBind { id: 1, local: end("192.0.2.1:1") }.encode();
    for _ in 0..200 {
        sent += usize::from(slow.commands.push(&command) == Ok(true));
        slow.commands.publish();
        setup.run();
    }
    assert_eq!(sent, 64 + 64 + 1, "both rings and one command whose result waits");
    let client = &setup.service.clients[0];
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
    let mut setup = Setup::new();
    let mut client = Raw::new(&mut setup.service);
    (0..9).for_each(|i| client.send(&listen(i, 80 + i as u16)));
    setup.run();
    let last = std::iter::from_fn(|| client.next()).last();
    assert_eq!(last, Some(Completion::Failed { id: 8, reason: Reason::TooMany }));
    client.send(&Command::Close { id: 3 }.encode());
    client.send(&listen(9, 99));
    setup.run();
    let replies: Vec<_> = std::iter::from_fn(|| client.next()).collect();
    assert!(matches!(replies[..], [Completion::Closed { id: 3, .. }, Completion::Bound { id: 9, .. }]));
}

fn join(id: u32, request: u32, group: u8, joins: bool) -> Words {
    let change =
        GroupChange { request, group: Address::v4([239, 0, 0, group]), local: Address::UNSPECIFIED, joins };
    Command::UdpGroup { id, change }.encode()
}

/// Reasons of the answers to requests, in order.
fn answers(setup: &mut Setup, client: &mut Raw) -> Vec<Option<Reason>> {
    setup.run();
    let replies = std::iter::from_fn(|| client.next());
    let reason = |reply| if let Completion::Answer { reason, .. } = reply { Some(reason) } else { None };
    replies.filter_map(reason).collect()
}

#[test]
fn clients_have_at_most_their_number_of_groups() {
    let mut setup = Setup::new();
    setup.service.options.limits.groups = (3, 4);
    let [mut first, mut second] = [(); 2].map(|()| Raw::new(&mut setup.service));
    for client in [&mut first, &mut second] {
        let local = end("0.0.0.0:0");
        (1..=2).for_each(|id| client.send(&Command::UdpBind { id, local }.encode()));
    }
    // The limit counts all sockets of a client, and no membership twice.
    for (id, group) in [(1, 1), (1, 1), (2, 1), (2, 2), (1, 3)] {
        first.send(&join(id, 0, group, true));
    }
    let expected = [None, Some(Reason::InUse), None, None, Some(Reason::TooMany)];
    assert_eq!(answers(&mut setup, &mut first), expected);
    // That of all clients leaves one to the second client.
    (1..=2).for_each(|group| second.send(&join(1, 0, group, true)));
    assert_eq!(answers(&mut setup, &mut second), [None, Some(Reason::TooMany)]);
    // What is left, or ends with its socket, is free again.
    first.send(&join(2, 0, 2, false));
    first.send(&join(2, 0, 2, false));
    first.send(&Command::Close { id: 1 }.encode());
    assert_eq!(answers(&mut setup, &mut first), [None, Some(Reason::NotLocal)]);
    (1..=3).for_each(|group| second.send(&join(2, 0, group, true)));
    assert_eq!(answers(&mut setup, &mut second), [None, None, Some(Reason::TooMany)]);
}

#[test]
fn requests_for_groups_are_validated_and_answered_by_number() {
    let mut setup = Setup::new();
    let mut client = Raw::new(&mut setup.service);
    client.send(&listen(1, 80));
    client.send(&Command::UdpBind { id: 2, local: end("0.0.0.0:0") }.encode());
    client.send(&join(1, 7, 1, true));
    client.send(&join(9, 8, 1, true));
    let (any, foreign) = (Address::UNSPECIFIED, end("10.0.0.9:0").address);
    for (request, group, local) in [(9, foreign, any), (10, end("[ff05::7]:0").address, any), (11, any, any)]
    {
        let change = GroupChange { request, group, local, joins: true };
        client.send(&Command::UdpGroup { id: 2, change }.encode());
    }
    let change = GroupChange { request: 12, group: end("239.0.0.1:0").address, local: foreign, joins: true };
    client.send(&Command::UdpGroup { id: 2, change }.encode());
    let options = DatagramOptions { hop_limit: 0, group_hop_limit: 0, group_source: Some(foreign) };
    [1, 2, 9].iter().for_each(|&id| client.send(&Command::UdpSetOptions { id, options }.encode()));
    setup.run();
    let replies: Vec<_> = std::iter::from_fn(|| client.next()).collect();
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
    assert_eq!(setup.service.clients(), 1);
}

proptest! {
    #[test]
    fn no_sequence_of_entries_stops_the_service(script in prop::collection::vec(any::<u8>(), 0..2000)) {
        fuzz::fuzz_client(&script);
    }
}
