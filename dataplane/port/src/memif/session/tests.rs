use super::*;
use crate::memif::Options;
use crate::memif::message::{Hello, VERSION};
use rustix::fd::AsFd;

fn options() -> Options {
    Options { ring_size: 128, queue_pairs: 2, ..Options::default() }
}

fn hello(max_ring: u16, max_log2_ring_size: u8) -> Message {
    Message::Hello(Hello {
        name: field("test"),
        min_version: VERSION,
        max_version: VERSION,
        max_region: 0,
        max_to_client: max_ring,
        max_to_server: max_ring,
        max_log2_ring_size,
    })
}

fn fault(end: End) -> PortFault {
    match end {
        End::Fault(fault) => fault,
        End::Closed => panic!("no fault but a close"),
    }
}

/// Runs both ends in memory: passes the messages of each to the other, until the rings run.
fn converse(server: Options, client: Options) -> (Rings, Rings) {
    let mut server = Session::Server(ServerSession::new(server));
    let mut client = Session::Client(ClientSession::new(client));
    let mut outgoing = server.first_message().unwrap();
    let mut at_server = None;
    loop {
        match client.receive(outgoing, vec![]).unwrap() {
            Step::Run(rings, None) => return (at_server.unwrap(), rings),
            Step::Send(message, attached) => {
                let file = client.file(attached).map(|fd| rustix::io::dup(fd).unwrap());
                outgoing = match server.receive(message, file.into_iter().collect()).unwrap() {
                    Step::Send(answer, _) => answer,
                    Step::Run(rings, Some(last)) => {
                        at_server = Some(rings);
                        last
                    }
                    other => panic!("the server sent no reply to {message:?}: {other:?}"),
                };
            }
            other => panic!("the client sent no message: {other:?}"),
        }
    }
}

#[test]
fn ends_agree_on_the_minimum() {
    let large = Options { ring_size: 1024, queue_pairs: 3, ..options() };
    for (server, client) in [(options(), large), (large, options()), (options(), options())] {
        let (Rings::Server(from, to), Rings::Client(back, there)) = converse(server, client) else {
            panic!("each end has its own")
        };
        assert_eq!([from.len(), to.len(), back.len(), there.len()], [2; 4]);
        assert!(from.iter().chain(&to).all(|queue| queue.ring.size() == 128));
    }
}

#[test]
fn client_accepts_messages_in_order_only() {
    for (message, expected) in [
        (Message::Ack, "unexpected ACK: expected HELLO"),
        (Message::Connected(field("x")), "unexpected CONNECTED: expected HELLO"),
        (Message::AddRegion(0, 1), "unexpected ADD_REGION: expected HELLO"),
    ] {
        let mut client = ClientSession::new(options());
        let end = client.receive(message, &[]).unwrap_err();
        assert_eq!(fault(end), PortFault::Peer(expected.into()));
    }
    let mut client = ClientSession::new(options());
    client.receive(hello(255, 14), &[]).unwrap();
    let end = client.receive(Message::Connected(field("x")), &[]).unwrap_err();
    assert_eq!(fault(end), PortFault::Peer("unexpected CONNECTED: expected ACK".into()));
    let mut client = ClientSession::new(options());
    let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
    let end = client.receive(hello(255, 14), &[event]).unwrap_err();
    assert_eq!(fault(end), PortFault::Peer("HELLO came with a descriptor".into()));
}

#[test]
fn wrong_version_or_disconnect_reason_is_a_rejection() {
    let mut client = ClientSession::new(options());
    let Message::Hello(mut other) = hello(0, 10) else { unreachable!("made above") };
    (other.min_version, other.max_version) = (VERSION + 1, VERSION + 9);
    let end = client.receive(Message::Hello(other), &[]).unwrap_err();
    assert_eq!(fault(end), PortFault::Refused("it does not speak version 2.0 of memif".into()));
    let mut client = ClientSession::new(options());
    client.receive(hello(0, 10), &[]).unwrap();
    let end = client.receive(Message::disconnect("Incorrect secret"), &[]).unwrap_err();
    assert_eq!(fault(end), PortFault::Refused("the peer reported \"Incorrect secret\"".into()));
}

#[test]
fn client_sends_exactly_the_announced_descriptors() {
    let mut client = ClientSession::new(options());
    assert!(client.file(Attached::Memory).is_none(), "there is nothing yet");
    let mut attached = vec![];
    let mut step = client.receive(hello(255, 14), &[]).unwrap();
    while let Step::Send(message, file) = step {
        assert_eq!(client.file(file).is_some(), file != Attached::Nothing);
        if let Some(fd) = client.file(file) {
            assert!(rustix::fs::fstat(fd.as_fd()).is_ok());
        }
        attached.push(file);
        if matches!(message, Message::Connect(_)) {
            break;
        }
        step = client.receive(Message::Ack, &[]).unwrap();
    }
    let rings = (0..4).map(Attached::Ring);
    let expected: Vec<_> =
        [Attached::Nothing, Attached::Memory].into_iter().chain(rings).chain([Attached::Nothing]).collect();
    assert_eq!(attached, expected);
    assert_eq!(client.awaits(), Some("CONNECTED"));
}
