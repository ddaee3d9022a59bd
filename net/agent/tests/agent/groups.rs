use crate::client::{Client, flow, flow_mod, in_port};
use agent::Kind;
use flow::{
    Action, Band, Bucket, BucketPlace, FlowCommand, GroupCommand, GroupKind, GroupMod, MeterCommand,
    MeterFlags, MeterMod, PortNo,
};
use openflow::{
    ALL_GROUPS, ALL_METERS, AsyncConfig, ErrorCode, Message, MultipartReply, MultipartRequest, Version,
};
use std::time::Duration;

pub(crate) fn group(command: GroupCommand, id: u32, actions: Vec<Action>) -> Message {
    let bucket = Bucket { id: 0, weight: 0, watch_port: None, watch_group: None, actions };
    let buckets = if command == GroupCommand::Delete { vec![] } else { vec![bucket] };
    Message::GroupMod(GroupMod { command, kind: GroupKind::Indirect, id, buckets })
}

fn meter(command: MeterCommand, id: u32, rate: u32) -> Message {
    let bands =
        if command == MeterCommand::Delete { vec![] } else { vec![Band { rate, burst: 0, remark: None }] };
    Message::MeterMod(MeterMod { command, flags: MeterFlags::default(), id, bands })
}

fn output(port: u32) -> Vec<Action> {
    vec![Action::Output { port: PortNo(port), max_len: 0 }]
}

#[test]
fn groups_are_changed_and_described() {
    for version in Version::ALL {
        let mut client = Client::new(version);
        client.does(&group(GroupCommand::Add, 2, output(1)));
        client.does(&group(GroupCommand::Add, 1, vec![Action::Group(2)]));
        let MultipartReply::GroupDesc(groups) = client.part(MultipartRequest::GroupDesc(ALL_GROUPS)) else {
            panic!()
        };
        let found: Vec<_> = groups.iter().map(|group| (group.id, group.buckets[0].actions.clone())).collect();
        assert_eq!(found, [(1, vec![Action::Group(2)]), (2, output(1))]);
        let MultipartReply::GroupFeatures(features) = client.part(MultipartRequest::GroupFeatures) else {
            panic!()
        };
        assert_eq!((features.kinds, features.max_groups), (0xf, [65536; 4]));
    }
}

#[test]
fn statistics_of_groups_count_references() {
    let mut client = Client::new(Version::V13);
    client.does(&group(GroupCommand::Add, 2, output(1)));
    let mut flow = flow(FlowCommand::Add, in_port(1), 1);
    flow.instructions.apply = vec![Action::Group(2)];
    client.does(&flow_mod(flow));
    client.rig.now.0 += 2_000_000_000;
    client.does(&group(GroupCommand::Modify, 2, output(3)));
    let MultipartReply::Group(groups) = client.part(MultipartRequest::Group(ALL_GROUPS)) else { panic!() };
    let [group] = &groups[..] else { panic!("{groups:?}") };
    assert_eq!((group.id, group.references, group.packets, group.buckets.len()), (2, 1, 0, 1));
    let tables = agent::Datapath::tables(&client.rig.switch);
    tables.group(2).unwrap().counter().add(3, 180);
    tables.group(2).unwrap().bucket_counter(0).unwrap().add(3, 180);
    client.does(&super::groups::group(GroupCommand::Add, 1, vec![Action::Group(2)]));
    let MultipartReply::Group(counted) = client.part(MultipartRequest::Group(2)) else { panic!() };
    assert_eq!((counted[0].references, counted[0].packets, counted[0].buckets[0].bytes), (2, 3, 180));
    assert_eq!(group.duration, Duration::from_secs(2), "a modification does not change the age");
    assert_eq!(client.part(MultipartRequest::Group(9)), MultipartReply::Group(vec![]));
}

#[test]
fn single_buckets_change_in_openflow_1_5() {
    let mut client = Client::new(Version::V15);
    for (id, version) in [(2, Version::V15), (3, Version::V14)] {
        client.open(id, Kind::Controller, version);
        let mut wants = AsyncConfig::default();
        wants.masks[5] = [Some(3), Some(3)];
        assert_eq!(client.send(id, &Message::SetAsync(wants)), []);
    }
    let bucket = |id| Bucket { id, weight: 0, watch_port: None, watch_group: None, actions: output(id) };
    let change = |command, ids: &[u32]| GroupMod {
        command,
        kind: GroupKind::All,
        id: 1,
        buckets: ids.iter().map(|id| bucket(*id)).collect(),
    };
    client.does(&Message::GroupMod(change(GroupCommand::Add, &[1])));
    for id in [2, 3] {
        client.take(id);
    }
    let insert = change(GroupCommand::InsertBuckets(BucketPlace::Last), &[2]);
    client.does(&Message::GroupMod(insert.clone()));
    let forwarded = |messages: Vec<Message>| match &messages[..] {
        [Message::RequestForward { request, .. }] => (**request).clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(forwarded(client.take(2)), Message::GroupMod(insert));
    let Message::GroupMod(whole) = forwarded(client.take(3)) else { panic!() };
    assert_eq!((whole.command, whole.buckets.len()), (GroupCommand::Modify, 2));
    let remove = |at| Message::GroupMod(change(GroupCommand::RemoveBuckets(at), &[]));
    assert_eq!(client.error(&remove(BucketPlace::Bucket(9))), ErrorCode::GroupModUnknownBucket);
    let twice = change(GroupCommand::InsertBuckets(BucketPlace::First), &[2]);
    assert_eq!(client.error(&Message::GroupMod(twice)), ErrorCode::GroupModBucketExists);
    client.does(&remove(BucketPlace::First));
    let MultipartReply::GroupDesc(groups) = client.part(MultipartRequest::GroupDesc(1)) else { panic!() };
    assert_eq!(groups[0].buckets, [bucket(2)]);
}

#[test]
fn refused_groups_have_the_errors_of_the_specification() {
    let mut client = Client::new(Version::V13);
    client.does(&group(GroupCommand::Add, 2, output(1)));
    client.does(&group(GroupCommand::Add, 1, vec![Action::Group(2)]));
    for (change, code) in [
        (group(GroupCommand::Add, 2, output(1)), ErrorCode::GroupModExists),
        (group(GroupCommand::Modify, 9, output(1)), ErrorCode::GroupModUnknownId),
        (group(GroupCommand::Modify, 2, vec![Action::Group(1)]), ErrorCode::GroupModLoop),
        (group(GroupCommand::Add, 3, vec![Action::Group(8)]), ErrorCode::ActionBadOutGroup),
        (group(GroupCommand::Add, 0xffff_ff01, output(1)), ErrorCode::GroupModInvalid),
        (group(GroupCommand::Delete, 2, vec![]), ErrorCode::GroupModChainedGroup),
    ] {
        assert_eq!(client.error(&change), code, "{change:?}");
    }
    client.does(&group(GroupCommand::Delete, ALL_GROUPS, vec![]));
    client.does(&group(GroupCommand::Delete, 2, vec![]));
}

#[test]
fn meters_are_changed_and_described() {
    let mut client = Client::new(Version::V13);
    client.does(&meter(MeterCommand::Add, 3, 100));
    client.does(&meter(MeterCommand::Add, 1, 200));
    client.rig.now.0 += 2_000_000_000;
    let MultipartReply::MeterConfig(meters) = client.part(MultipartRequest::MeterConfig(ALL_METERS)) else {
        panic!()
    };
    assert_eq!(
        meters.iter().map(|meter| (meter.id, meter.bands[0].rate)).collect::<Vec<_>>(),
        [(1, 200), (3, 100)]
    );
    let MultipartReply::Meter(meters) = client.part(MultipartRequest::Meter(3)) else { panic!() };
    let [stats] = &meters[..] else { panic!("{meters:?}") };
    assert_eq!((stats.id, stats.duration, stats.bands.len()), (3, Duration::from_secs(2), 1));
    let MultipartReply::MeterFeatures(features) = client.part(MultipartRequest::MeterFeatures) else {
        panic!()
    };
    assert_eq!(
        (features.max_meters, features.bands, features.capabilities, features.max_bands),
        (65536, 6, 15, 16)
    );
    for (change, code) in [
        (meter(MeterCommand::Add, 3, 1), ErrorCode::MeterExists),
        (meter(MeterCommand::Modify, 4, 1), ErrorCode::MeterUnknownId),
        (meter(MeterCommand::Add, 0, 1), ErrorCode::MeterInvalid),
        (meter(MeterCommand::Add, 5, 0), ErrorCode::MeterBadRate),
    ] {
        assert_eq!(client.error(&change), code, "{change:?}");
    }
    let unknown = Message::MultipartRequest(MultipartRequest::Meter(9), false);
    assert_eq!(client.error(&unknown), ErrorCode::MeterUnknownId);
    client.does(&meter(MeterCommand::Delete, 9, 0));
}

#[test]
fn requests_are_forwarded_to_sessions_that_want_them() {
    let mut client = Client::new(Version::V14);
    client.open(2, agent::Kind::Controller, Version::V14);
    client.open(3, agent::Kind::Controller, Version::V13);
    let mut masks = [[None; 2]; 6];
    masks[5] = [Some(1), Some(0)];
    for id in [1, 2] {
        client.send(id, &Message::SetAsync(AsyncConfig { masks }));
    }
    let change = group(GroupCommand::Add, 2, output(1));
    let xid = client.post(1, &change);
    client.post(1, &meter(MeterCommand::Add, 3, 100));
    assert_eq!((client.take(1), client.take(3)), (vec![], vec![]));
    assert_eq!(client.take(2), [Message::RequestForward { xid, request: Box::new(change) }]);
    assert_eq!(client.error(&group(GroupCommand::Add, 2, output(1))), ErrorCode::GroupModExists);
    assert_eq!(client.take(2), []);
}
