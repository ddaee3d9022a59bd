//! Auxiliary connections (OpenFlow 1.3.5, 6.3.7).

use crate::client::{Client, add};
use agent::{Auxiliary, Kind, SessionError, SessionId};
use flow::PortNo;
use openflow::{AsyncConfig, Message, Role, RoleMessage, RoleStatus, SwitchConfig, Version};
use port::{Context, PortId, PuntReason, Punted};

fn packet(client: &mut Client) {
    let context = Context::received(PortId(0), client.rig.now);
    let packet = Punted { context, reason: PuntReason::NoMatch, note: None, frame: [7; 60].into() };
    client.rig.agent.punted(PortNo(1), &packet);
}

fn is_packet(messages: &[Message]) -> bool {
    matches!(messages, [Message::PacketIn(_)])
}

fn role(role: Role, generation: u64) -> Message {
    Message::RoleRequest(RoleMessage { role, generation })
}

/// A controller with two auxiliary connections.
fn client(version: Version) -> Client {
    let mut client = Client::new(version);
    client.open_auxiliary(2, 1);
    client
}

#[test]
fn features_tell_the_connections_of_a_controller_apart() {
    let mut client = client(Version::V13);
    for (id, auxiliary) in [(1, 0), (2, 1)] {
        let answer = client.send(id, &Message::FeaturesRequest);
        let [Message::FeaturesReply(features)] = &answer[..] else { panic!("{answer:?}") };
        assert_eq!((features.auxiliary, features.datapath_id), (auxiliary, 0x1234));
    }
    assert!(client.send(2, &add(1, 2)).is_empty(), "every message is accepted");
    assert_eq!(client.flows(), 1);
}

#[test]
fn packets_come_through_the_auxiliary_connection_and_other_notices_through_the_main_one() {
    let mut client = client(Version::V14);
    packet(&mut client);
    assert!(client.take(1).is_empty() && is_packet(&client.take(2)));
    let port = agent::Datapath::ports(&client.rig.switch)[0].clone();
    client.rig.agent.port_changed(openflow::PortReason::Modify, &port);
    assert!(client.take(2).is_empty() && matches!(client.take(1)[..], [Message::PortStatus(_)]));
    client.rig.agent.close(SessionId(2));
    packet(&mut client);
    assert!(is_packet(&client.take(1)), "without it, through the main one");
}

#[test]
fn role_and_settings_are_those_of_all_connections() {
    let mut client = client(Version::V13);
    client.open(3, Kind::Controller, Version::V13);
    assert_eq!(client.send(2, &role(Role::Primary, 5)).len(), 1);
    let roles = |client: &Client| client.rig.agent.sessions().map(|session| session.role).collect::<Vec<_>>();
    assert_eq!(roles(&client), [Role::Primary, Role::Primary, Role::Equal]);
    client.send(3, &role(Role::Primary, 6));
    assert_eq!(roles(&client), [Role::Secondary, Role::Secondary, Role::Primary]);
    let status = RoleStatus { role: Role::Secondary, reason: 0, generation: 6 };
    assert_eq!((client.take(1), client.take(2)), (vec![Message::RoleStatus(status)], vec![]));
    assert!(matches!(client.send(2, &add(1, 2))[..], [Message::Error(_)]), "it is secondary");
    client.send(2, &role(Role::Equal, 0));
    client.send(2, &Message::SetConfig(SwitchConfig { flags: 0, miss_send_len: 77 }));
    let config = client.send(1, &Message::GetConfigRequest);
    assert_eq!(config, [Message::GetConfigReply(SwitchConfig { flags: 0, miss_send_len: 77 })]);
    let mut none = AsyncConfig::default();
    none.masks[0] = [Some(0); 2];
    client.send(2, &Message::SetAsync(none));
    packet(&mut client);
    assert!(client.take(1).is_empty() && client.take(2).is_empty());
}

#[test]
fn an_auxiliary_connection_ends_with_its_main_one() {
    let mut client = client(Version::V13);
    let reported = client.rig.agent.sessions().find(|session| session.id == SessionId(2)).unwrap();
    assert_eq!(reported.auxiliary, Some(Auxiliary { main: SessionId(1), number: 1 }));
    client.rig.agent.close(SessionId(1));
    let (ended, _) = client.rig.agent.tick(client.rig.now);
    assert_eq!(ended, [(SessionId(2), SessionError::Main)]);
    assert!(!client.rig.agent.has_controller());
    client.rig.agent.close(SessionId(2));
    let place = Auxiliary { main: SessionId(1), number: 1 };
    client.rig.agent.open_auxiliary(SessionId(4), place, client.rig.now);
    assert_eq!(client.rig.agent.tick(client.rig.now).0, [(SessionId(4), SessionError::Main)], "too late");
}

#[test]
fn only_the_version_of_the_main_connection_is_agreed_on() {
    let mut client = Client::new(Version::V13);
    client.rig.open_auxiliary(2, 1, Version::V14);
    let versions: Vec<_> = client.rig.agent.sessions().map(|session| session.version).collect();
    assert_eq!(versions, [Some(Version::V13)], "refused");
}
