use crate::client::{Client, add};
use agent::Kind;
use openflow::{AsyncConfig, ErrorCode, Message, Role, RoleMessage, RoleStatus, Version};

fn request(role: Role, generation: u64) -> Message {
    Message::RoleRequest(RoleMessage { role, generation })
}

fn reply(role: Role, generation: u64) -> Message {
    Message::RoleReply(RoleMessage { role, generation })
}

#[test]
fn one_controller_is_primary() {
    let mut client = Client::new(Version::V13);
    client.open(2, Kind::Controller, Version::V14);
    assert_eq!(client.ask(&request(Role::NoChange, 0)), reply(Role::Equal, u64::MAX));
    assert_eq!(client.ask(&request(Role::Primary, 5)), reply(Role::Primary, 5));
    assert_eq!(client.send(2, &request(Role::Primary, 6)), [reply(Role::Primary, 6)]);
    let status = RoleStatus { role: Role::Secondary, reason: 0, generation: 6 };
    assert_eq!(client.take(1), [Message::RoleStatus(status)]);
    let roles: Vec<_> = client.rig.agent.sessions().map(|session| session.role).collect();
    assert_eq!(roles, [Role::Secondary, Role::Primary]);
    assert_eq!(client.error(&add(1, 2)), ErrorCode::RequestIsSecondary);
    assert_eq!(client.ask(&request(Role::Equal, 0)), reply(Role::Equal, 6));
    client.does(&add(1, 2));
}

#[test]
fn stale_generations_are_refused_also_after_a_wrap() {
    let mut client = Client::new(Version::V13);
    let last = u64::MAX - 1;
    assert_eq!(client.ask(&request(Role::Secondary, last)), reply(Role::Secondary, last));
    assert_eq!(client.error(&request(Role::Primary, last - 1)), ErrorCode::RoleStale);
    assert_eq!(client.ask(&request(Role::Primary, 1)), reply(Role::Primary, 1));
    assert_eq!(client.error(&request(Role::Secondary, last)), ErrorCode::RoleStale);
    assert_eq!(client.ask(&request(Role::NoChange, 0)), reply(Role::Primary, 1));
}

#[test]
fn nicira_roles_have_no_generation() {
    let mut client = Client::new(Version::V10);
    client.open(2, Kind::Controller, Version::V13);
    client.send(2, &request(Role::Primary, 9));
    assert_eq!(client.ask(&request(Role::Primary, 0)), reply(Role::Primary, 0));
    let status = RoleStatus { role: Role::Secondary, reason: 0, generation: 9 };
    assert_eq!(client.take(2), [Message::RoleStatus(status)]);
    assert_eq!(client.ask(&request(Role::Secondary, 0)), reply(Role::Secondary, 0));
}

#[test]
fn choices_of_messages_are_kept_and_checked() {
    let defaults = |masks: [[u32; 2]; 6], known: usize| {
        let mut config = AsyncConfig::default();
        for (own, mask) in config.masks[..known].iter_mut().zip(masks) {
            *own = mask.map(Some);
        }
        Message::GetAsyncReply(config)
    };
    let zero = [0; 2];
    let mut client = Client::new(Version::V13);
    let expected = defaults([[3, 0], [7, 7], [0xf, 0], zero, zero, zero], 3);
    assert_eq!(client.ask(&Message::GetAsyncRequest), expected);
    let mut client = Client::new(Version::V14);
    let expected = defaults([[0x3b, 0], [7, 7], [0x3f, 0], [7, 7], [0x18, 0], zero], 6);
    assert_eq!(client.ask(&Message::GetAsyncRequest), expected);

    let mut change = AsyncConfig::default();
    change.masks[0] = [Some(4), None];
    client.does(&Message::SetAsync(change));
    let expected = defaults([[4, 0], [7, 7], [0x3f, 0], [7, 7], [0x18, 0], zero], 6);
    assert_eq!(client.ask(&Message::GetAsyncRequest), expected);
    change.masks[1] = [Some(8), None];
    assert_eq!(client.error(&Message::SetAsync(change)), ErrorCode::AsyncInvalid);
    assert_eq!(client.ask(&Message::GetAsyncRequest), expected);
}
