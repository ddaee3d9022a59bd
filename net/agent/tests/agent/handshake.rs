use crate::client::{Client, add, code};
use agent::fuzz::Rig;
use agent::{Kind, SessionError, SessionId};
use openflow::{ErrorCode, FramingError, Hello, Message, Version, decode, encode};
use port::Now;

fn encoded(message: &Message, version: Version) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(message, version, 7, &mut bytes).unwrap();
    bytes
}

fn opened(kind: Kind) -> Rig {
    let mut rig = Rig::new();
    rig.agent.open(SessionId(1), kind, rig.now);
    rig
}

fn receive(rig: &mut Rig, bytes: &[u8]) -> Result<(), SessionError> {
    rig.agent.receive(SessionId(1), bytes, &mut rig.switch, rig.now)
}

#[test]
fn the_highest_common_version_is_used() {
    for (hello, version) in [
        (Hello::new(&[Version::V10]), Version::V10),
        (Hello::new(&[Version::V10, Version::V13]), Version::V13),
        (Hello { version: 4, versions: None }, Version::V13),
        (Hello { version: 99, versions: Some(0x70) }, Version::V15),
    ] {
        let mut rig = opened(Kind::Controller);
        assert!(!rig.agent.has_controller());
        receive(&mut rig, &encoded(&Message::Hello(hello), Version::V13)).unwrap();
        let session = rig.agent.sessions().next().unwrap();
        assert_eq!((session.version, session.kind), (Some(version), Kind::Controller));
        assert!(rig.agent.has_controller());
        let hello = rig.messages(1, version);
        assert_eq!(hello, [(0, Message::Hello(Hello::new(&Version::ALL)))]);
    }
}

#[test]
fn a_handshake_in_pieces_is_complete_at_its_last_byte() {
    let mut rig = opened(Kind::Service);
    for byte in encoded(&Message::Hello(Hello::new(&[Version::V14])), Version::V14) {
        assert_eq!(rig.agent.sessions().next().unwrap().version, None);
        receive(&mut rig, &[byte]).unwrap();
    }
    assert_eq!(rig.agent.sessions().next().unwrap().version, Some(Version::V14));
    assert!(!rig.agent.has_controller(), "a management client is no controller");
}

#[test]
fn other_versions_are_refused_with_an_error() {
    let mut rig = opened(Kind::Controller);
    let hello = encoded(&Message::Hello(Hello { version: 3, versions: None }), Version::V13);
    assert_eq!(receive(&mut rig, &hello), Err(SessionError::NoVersion(3)));
    let output = rig.agent.output(SessionId(1));
    let error = decode(&output[16..], Version::V10).unwrap();
    assert_eq!(code(&error, Version::V10), ErrorCode::HelloIncompatible);
}

#[test]
fn a_session_starts_with_hello() {
    let mut rig = opened(Kind::Controller);
    let request = encoded(&Message::FeaturesRequest, Version::V13);
    assert_eq!(receive(&mut rig, &request), Err(SessionError::NoHello(5)));
    let mut rig = opened(Kind::Controller);
    assert_eq!(receive(&mut rig, &[4, 0, 0, 4, 0, 0, 0, 0]), Err(FramingError::Length(4).into()));
}

#[test]
fn messages_of_another_version_are_refused() {
    let mut client = Client::new(Version::V13);
    let request = encoded(&Message::FeaturesRequest, Version::V10);
    assert_eq!(receive(&mut client.rig, &request), Ok(()));
    let [answer] = &client.take(1)[..] else { panic!() };
    assert_eq!(code(answer, Version::V13), ErrorCode::RequestBadVersion);
    client.does(&add(1, 2));
    // Nothing answers an error.
    let error = openflow::DecodeError::new(ErrorCode::RequestBadType, &request).message(Version::V10);
    assert_eq!(receive(&mut client.rig, &encoded(&Message::Error(error), Version::V10)), Ok(()));
    assert_eq!(client.take(1), []);
}

#[test]
fn silent_peers_are_probed_and_then_end() {
    let mut client = Client::new(Version::V13);
    client.open(2, Kind::Service, Version::V13);
    client.open(3, Kind::Management, Version::V13);
    let start = client.rig.now.0;
    for probe in 1..=3 {
        let at = Now(start + probe * 5_000_000_000);
        let (ended, next) = client.rig.agent.tick(Now(at.0 - 1));
        assert_eq!((ended, next), (vec![], Some(at)));
        assert_eq!(client.rig.agent.tick(at).0, []);
        for session in [1, 2] {
            assert_eq!(client.take(session), [Message::EchoRequest(vec![])]);
        }
        assert_eq!(client.take(3), []);
    }
    let (ended, _) = client.rig.agent.tick(Now(start + 20_000_000_000));
    assert_eq!(ended, [1, 2].map(|id| (SessionId(id), SessionError::Silent)));
    for id in [1, 2] {
        client.rig.agent.close(SessionId(id));
    }
    client.rig.agent.tick(Now(start + 60_000_000_000));
    assert_eq!(client.take(3), [Message::EchoRequest(vec![])]);
}

#[test]
fn bytes_without_a_message_do_not_keep_a_session() {
    let mut client = Client::new(Version::V13);
    let message = encoded(&Message::EchoRequest(vec![0; 100]), Version::V13);
    for second in 0..20 {
        assert_eq!(receive(&mut client.rig, &message[second..=second]), Ok(()));
        client.rig.now.0 += 1_000_000_000;
        assert_eq!(client.rig.agent.tick(client.rig.now).0.len(), usize::from(second == 19), "{second}");
    }
}

#[test]
fn an_answer_to_a_probe_keeps_the_session() {
    let mut client = Client::new(Version::V10);
    client.rig.now.0 += 15_000_000_000;
    client.rig.agent.tick(client.rig.now);
    client.take(1);
    client.does(&Message::EchoReply(vec![]));
    client.rig.now.0 += 4_999_999_999;
    assert_eq!(client.rig.agent.tick(client.rig.now), (vec![], Some(Now(client.rig.now.0 + 1))));
}

#[test]
fn a_session_without_hello_ends() {
    let mut rig = opened(Kind::Service);
    let hello = encoded(&Message::Hello(Hello::new(&Version::ALL)), Version::V13);
    for byte in &hello[..5] {
        assert_eq!(receive(&mut rig, &[*byte]), Ok(()));
        assert_eq!(rig.agent.tick(rig.now).0, []);
        rig.now.0 += 2_000_000_000;
    }
    assert_eq!(rig.agent.tick(rig.now).0, [(SessionId(1), SessionError::Handshake)]);
}

#[test]
fn sessions_are_counted() {
    let mut client = Client::new(Version::V13);
    client.does(&add(1, 2));
    client.error(&add(1, 0xffff_fff0));
    let counters = client.rig.agent.sessions().next().unwrap().counters;
    assert_eq!((counters.received, counters.sent, counters.errors, counters.discarded), (3, 1, 1, 0));
    client.rig.agent.close(SessionId(1));
    assert_eq!(client.rig.agent.sessions().count(), 0);
}
