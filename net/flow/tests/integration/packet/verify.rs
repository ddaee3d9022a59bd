//! Checksums of a frame, computed from scratch.

use flow::packet::Layout;
use flow::{Field, Key};
use wire::checksum::{Sum, protocol};

/// Asserts that all checksums of the packet are valid. A fragment counts as a complete packet.
pub(crate) fn assert_sums(frame: &[u8], key: &Key, layout: &Layout) {
    let (network, transport) = (usize::from(layout.network), usize::from(layout.transport));
    let ethertype = key.get(Field::EthType);
    if network == 0 || !matches!(ethertype, 0x0800 | 0x86dd) {
        return;
    }
    let addresses = if ethertype == 0x0800 {
        let header = usize::from(frame[network] & 15) * 4;
        assert_eq!(Sum::of(&frame[network..network + header]).finish(), [0, 0], "IPv4 header");
        &frame[network + 12..network + 20]
    } else {
        &frame[network + 8..network + 40]
    };
    if transport == 0 {
        return;
    }
    let protocol = key.get(Field::IpProto) as u8;
    let packet = &frame[transport..layout.end as usize];
    let mut sum = match protocol {
        protocol::UDP if packet[6..8] == [0, 0] => return,
        protocol::TCP | protocol::UDP | protocol::ICMPV6 => {
            Sum::pseudo(addresses, protocol, packet.len() as u32)
        }
        protocol::ICMP => Sum::default(),
        protocol::SCTP => {
            let mut zeroed = packet.to_vec();
            zeroed[8..12].fill(0);
            assert_eq!(packet[8..12], crc32c::crc32c(&zeroed).to_le_bytes(), "SCTP");
            return;
        }
        _ => return,
    };
    sum.add(packet);
    assert_eq!(sum.finish(), [0, 0], "protocol {protocol}");
}
