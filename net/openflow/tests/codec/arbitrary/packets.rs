//! Ports, packets, and notices of removed flows.

use super::actions::actions;
use super::changes::durations;
use super::matching::{matches, metadata, ports};
use flow::{Field, Match, TableId};
use openflow::*;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use wire::MacAddress;

pub(super) fn port(version: Version) -> BoxedStrategy<Port> {
    (ports(), any::<[u8; 6]>(), "[a-z0-9]{0,15}", any::<[u32; 8]>())
        .prop_map(move |(number, address, name, bits)| {
            let is_old = version == Version::V10;
            let features = |bits: u32| if is_old { bits & 0xf87f } else { bits };
            let [config, state, current, advertised, supported, peer, now, most] = bits;
            let speed = |speed: u32| if is_old { 0 } else { speed };
            Port {
                number,
                address: MacAddress::new(address),
                name,
                config,
                state,
                current: features(current),
                advertised: features(advertised),
                supported: features(supported),
                peer: features(peer),
                current_speed: speed(now),
                max_speed: speed(most),
            }
        })
        .boxed()
}

pub(super) fn packet_in(version: Version) -> BoxedStrategy<Message> {
    let numbers = (of(0..9_u32), any::<u16>(), any::<u8>(), any::<u8>(), any::<u64>());
    let data = (vec(any::<u8>(), 0..60), vec(any::<u8>(), 0..9));
    (select(PacketInFormat::ALL.to_vec()), numbers, metadata(), data)
        .prop_map(move |(format, (buffer, len, reason, table, cookie), metadata, (data, userdata))| {
            let mut packet = PacketIn {
                format,
                buffer,
                total_len: u32::from(len),
                reason,
                table: TableId(table),
                cookie,
                metadata,
                data,
                userdata,
            };
            if format != PacketInFormat::Nicira2 {
                packet.userdata.clear();
            }
            if format == PacketInFormat::Standard && version == Version::V10 {
                (packet.table, packet.cookie) = (TableId(0), NO_COOKIE);
                let port = packet.metadata.exact(Field::InPort).unwrap();
                packet.metadata = Match::any().with(Field::InPort, port);
            }
            Message::PacketIn(Box::new(packet))
        })
        .boxed()
}

pub(super) fn packet_out(version: Version) -> BoxedStrategy<Message> {
    (of(0..9_u32), metadata(), actions(version), vec(any::<u8>(), 0..60))
        .prop_map(move |(buffer, metadata, actions, data)| {
            let port = metadata.exact(Field::InPort).unwrap();
            let metadata =
                if version >= Version::V15 { metadata } else { Match::any().with(Field::InPort, port) };
            Message::PacketOut(Box::new(PacketOut { buffer, metadata, actions, data }))
        })
        .boxed()
}

pub(super) fn removed(version: Version, is_nicira: bool) -> BoxedStrategy<Message> {
    let numbers = (any::<[u16; 3]>(), any::<u8>(), any::<[u64; 3]>(), durations());
    let reasons = select(RemovedReason::ALL.to_vec());
    (matches(), numbers, reasons)
        .prop_map(move |(matching, numbers, reason)| {
            let ([priority, idle, hard], table, [cookie, packets, bytes], duration) = numbers;
            let is_old = version == Version::V10;
            let removed = FlowRemoved {
                table: TableId(if is_old && !is_nicira { 0 } else { table % 255 }),
                matching: if is_old && !is_nicira { Match::any().with(Field::InPort, 3) } else { matching },
                priority,
                cookie,
                reason,
                duration,
                idle_timeout: idle,
                hard_timeout: if is_old { 0 } else { hard },
                packets,
                bytes,
            };
            let removed = Box::new(removed);
            if is_nicira { Message::NxFlowRemoved(removed) } else { Message::FlowRemoved(removed) }
        })
        .boxed()
}
