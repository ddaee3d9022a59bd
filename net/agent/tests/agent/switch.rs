use crate::client::{Client, add};
use agent::{Datapath, Kind};
use flow::{OptionChange, PacketOutError, PortNo};
use openflow::{
    AsyncConfig, ErrorCode, ExperimenterData, Message, MultipartRequest, PacketOut, PortMod, PortReason,
    PortStatus, SwitchConfig, Version,
};

#[test]
fn probes_and_barriers_are_answered() {
    for version in Version::ALL {
        let mut client = Client::new(version);
        assert_eq!(client.ask(&Message::EchoRequest(vec![1, 2])), Message::EchoReply(vec![1, 2]));
        assert_eq!(client.ask(&Message::BarrierRequest), Message::BarrierReply);
    }
}

#[test]
fn features_state_what_each_version_has() {
    for (version, capabilities, ports) in
        [(Version::V10, 0xc7, 4), (Version::V13, 0x4f, 0), (Version::V14, 0x64f, 0), (Version::V15, 0x64f, 0)]
    {
        let mut client = Client::new(version);
        let Message::FeaturesReply(features) = client.ask(&Message::FeaturesRequest) else { panic!() };
        assert_eq!((features.datapath_id, features.tables, features.buffers), (0x1234, 255, 0));
        assert_eq!((features.capabilities, features.ports.len()), (capabilities, ports));
    }
}

#[test]
fn the_configuration_is_that_of_the_session_and_of_the_switch() {
    let mut client = Client::new(Version::V13);
    client.open(2, Kind::Service, Version::V10);
    let get = |client: &mut Client, id| client.send(id, &Message::GetConfigRequest).remove(0);
    let reply = |flags, miss_send_len| Message::GetConfigReply(SwitchConfig { flags, miss_send_len });
    assert_eq!((get(&mut client, 1), get(&mut client, 2)), (reply(0, 128), reply(0, 0)));
    client.does(&Message::SetConfig(SwitchConfig { flags: 3, miss_send_len: 0xffff }));
    assert_eq!((get(&mut client, 1), get(&mut client, 2)), (reply(3, 0xffff), reply(3, 0)));
    client.send(2, &Message::SetConfig(SwitchConfig { flags: 4, miss_send_len: 9 }));
    assert_eq!((get(&mut client, 1), get(&mut client, 2)), (reply(0, 0xffff), reply(4, 9)));
    client.does(&Message::SetConfig(SwitchConfig { flags: 1, miss_send_len: 0 }));
    assert!(client.rig.switch.tables().drops_fragments());
    client.does(&Message::SetConfig(SwitchConfig { flags: 0, miss_send_len: 0 }));
    assert!(!client.rig.switch.tables().drops_fragments());
    for flags in [2, 4, 8] {
        let set = Message::SetConfig(SwitchConfig { flags, miss_send_len: 0 });
        assert_eq!(client.error(&set), ErrorCode::ConfigBadFlags);
    }
}

#[test]
fn messages_of_a_switch_and_of_experimenters_are_refused() {
    let mut client = Client::new(Version::V13);
    assert_eq!(client.error(&Message::BarrierReply), ErrorCode::RequestBadType);
    let data = ExperimenterData { experimenter: 7, kind: 1, data: vec![] };
    assert_eq!(client.error(&Message::Experimenter(data.clone())), ErrorCode::RequestBadExperimenter);
    let request = Message::MultipartRequest(MultipartRequest::Experimenter(data), false);
    assert_eq!(client.error(&request), ErrorCode::RequestBadExperimenter);
}

#[test]
fn connections_of_a_zone_are_forgotten() {
    for version in Version::ALL {
        let mut client = Client::new(version);
        client.does(&Message::CtFlushZone(7));
        assert_eq!(client.rig.switch.flushed, [7]);
    }
}

#[test]
fn invalid_messages_are_answered_with_their_start() {
    let mut client = Client::new(Version::V13);
    let request = [&[4, 14, 0, 100, 0, 0, 0, 9][..], &[0xff; 92]].concat();
    assert!(client.rig.receive(1, &request));
    let answers = client.rig.messages(1, Version::V13);
    let [(9, Message::Error(error))] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(error.data, request[..64]);
}

#[test]
fn errors_are_never_answered() {
    let mut client = Client::new(Version::V13);
    assert!(client.rig.receive(1, &[4, 1, 0, 9, 0, 0, 0, 1, 0]));
    assert_eq!(client.take(1), []);
}

fn port_mod(number: u32, last: u8, config: u32) -> Message {
    Message::PortMod(PortMod {
        number: PortNo(number),
        address: [2, 0, 0, 0, 0, last].into(),
        config,
        mask: config,
        advertise: 0,
    })
}

#[test]
fn ports_are_changed_and_reported() {
    for (version, own) in [(Version::V10, 0), (Version::V14, 0), (Version::V15, 1)] {
        let mut client = Client::new(version);
        client.open(2, Kind::Controller, Version::V13);
        assert_eq!(client.send(1, &port_mod(2, 2, 1)).len(), own);
        let status = client.take(2);
        let [Message::PortStatus(status)] = &status[..] else { panic!("{status:?}") };
        assert_eq!(
            (status.reason, status.port.number, status.port.config),
            (PortReason::Modify, PortNo(2), 1)
        );
        assert_eq!(client.send(1, &port_mod(2, 2, 1)), [], "nothing changes");
        assert_eq!(client.error(&port_mod(9, 2, 1)), ErrorCode::PortModBadPort);
        assert_eq!(client.error(&port_mod(2, 3, 1)), ErrorCode::PortModBadHwAddr);
    }
    let mut client = Client::new(Version::V13);
    assert_eq!(client.error(&port_mod(2, 2, 4)), ErrorCode::PortModBadConfig);
}

#[test]
fn port_events_reach_sessions_that_want_them() {
    let mut client = Client::new(Version::V10);
    client.open(2, Kind::Service, Version::V13);
    client.open(3, Kind::Controller, Version::V13);
    let masks = [[None; 2], [Some(1), Some(0)], [None; 2], [None; 2], [None; 2], [None; 2]];
    client.send(3, &Message::SetAsync(AsyncConfig { masks }));
    let ports = client.rig.switch.ports.clone();
    for (reason, port) in
        [(PortReason::Add, &ports[0]), (PortReason::Delete, &ports[1]), (PortReason::Add, &ports[4])]
    {
        client.rig.agent.port_changed(reason, port);
    }
    let status =
        |reason, i: usize| Message::PortStatus(Box::new(PortStatus { reason, port: ports[i].clone() }));
    let first = client.take(1);
    assert_eq!(first.len(), 2, "OpenFlow 1.0 cannot name port 65536: {first:?}");
    assert_eq!(client.take(2), []);
    assert_eq!(client.take(3), [status(PortReason::Add, 0), status(PortReason::Add, 4)]);
}

fn packet_out(port: PortNo, buffer: Option<u32>, data: &[u8]) -> Message {
    let metadata = flow::Match::any().with(flow::Field::InPort, port.0.into());
    let actions = vec![flow::Action::Output { port: PortNo(2), max_len: 0 }];
    Message::PacketOut(Box::new(PacketOut { buffer, metadata, actions, data: data.to_vec() }))
}

#[test]
fn packet_outs_are_executed_or_refused() {
    for version in Version::ALL {
        let mut client = Client::new(version);
        for port in [PortNo(1), PortNo::CONTROLLER, PortNo::LOCAL, PortNo::ANY] {
            client.does(&packet_out(port, None, &[5; 60]));
        }
        let sent = &client.rig.switch.sent;
        assert_eq!(
            (sent.len(), sent[0].0, sent[3].0, &sent[0].2[..]),
            (4, PortNo(1), PortNo::ANY, &[5; 60][..])
        );
        let buffered = packet_out(PortNo(1), Some(3), &[]);
        assert_eq!(client.error(&buffered), ErrorCode::RequestBufferUnknown);
        assert_eq!(client.error(&packet_out(PortNo::FLOOD, None, &[5; 60])), ErrorCode::RequestBadPort);
    }
    let mut client = Client::new(Version::V13);
    assert_eq!(client.error(&packet_out(PortNo(1), None, &[5; 13])), ErrorCode::RequestBadPacket);
    client.rig.switch.refusal = Some(flow::tables::ActionError::OutPort(PortNo(2)).into());
    assert_eq!(client.error(&packet_out(PortNo(1), None, &[5; 60])), ErrorCode::ActionBadOutPort);
    client.rig.switch.refusal = Some(PacketOutError::Busy);
    client.does(&packet_out(PortNo(1), None, &[5; 60]));
    assert_eq!(client.rig.agent.sessions().next().unwrap().counters.discarded, 1);
}

#[test]
fn a_secondary_controller_cannot_write() {
    let mut client = Client::new(Version::V13);
    let role = openflow::RoleMessage { role: openflow::Role::Secondary, generation: 1 };
    client.send(1, &Message::RoleRequest(role));
    let writes = [
        add(1, 2),
        port_mod(2, 2, 1),
        packet_out(PortNo(1), None, &[5; 60]),
        Message::CtFlushZone(1),
        Message::TlvTableMod(OptionChange::Clear),
    ];
    for write in writes {
        assert_eq!(client.error(&write), ErrorCode::RequestIsSecondary, "{write:?}");
    }
    assert_eq!((client.flows(), client.rig.switch.sent.len()), (0, 0));
    client.list(MultipartRequest::Table);
}
