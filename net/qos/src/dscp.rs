//! Traffic class of IP packets: DSCP (RFC 2474) and ECN (RFC 3168), read and written in the first bytes of a frame.

use crate::policer::Colour;

/// Offset of the Ethernet type.
const ETHERTYPE: usize = 12;
/// Tags of a frame behind which an IP header is found.
const MAX_TAGS: usize = 2;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TAGS: [u16; 2] = [0x8100, 0x88a8];

/// ECN field: congestion experienced.
const CE: u8 = 3;

/// Colour of each DSCP.
#[derive(Clone, Copy, Debug)]
pub struct Colours {
    yellow: u64,
    red: u64,
}

impl Colours {
    /// The drop precedences of assured forwarding (RFC 2597): precedence 2 is yellow, 3 red, everything else green.
    pub const ASSURED: Self = {
        let (mut yellow, mut red, mut class) = (0, 0, 1);
        while class <= 4 {
            yellow |= 1 << (class << 3 | 4);
            red |= 1 << (class << 3 | 6);
            class += 1;
        }
        Self { yellow, red }
    };

    /// Colour of a DSCP.
    #[inline]
    pub fn of(&self, dscp: u8) -> Colour {
        let bit = 1 << (dscp & 63);
        match (self.yellow & bit, self.red & bit) {
            (0, 0) => Colour::Green,
            (_, 0) => Colour::Yellow,
            _ => Colour::Red,
        }
    }
}

/// An IP header in a frame.
#[derive(Clone, Copy)]
enum Ip {
    V4(usize),
    V6(usize),
}

fn find(frame: &[u8]) -> Option<Ip> {
    let kind = |at: usize| frame.get(at..at + 2).map(|kind| u16::from_be_bytes([kind[0], kind[1]]));
    let mut at = ETHERTYPE;
    for _ in 0..MAX_TAGS {
        at += if TAGS.contains(&kind(at)?) { 4 } else { 0 };
    }
    let header = at + 2;
    match (kind(at)?, frame.get(header)? >> 4) {
        (IPV4, 4) if frame.len() >= header + 20 => Some(Ip::V4(header)),
        (IPV6, 6) if frame.len() >= header + 40 => Some(Ip::V6(header)),
        _ => None,
    }
}

/// Traffic class of an IPv4 or IPv6 frame behind at most two VLAN tags: DSCP in the upper six bits, ECN in the lower.
#[inline]
pub fn traffic_class(frame: &[u8]) -> Option<u8> {
    match find(frame)? {
        Ip::V4(at) => frame.get(at + 1).copied(),
        Ip::V6(at) => Some(frame.get(at)? << 4 | frame.get(at + 1)? >> 4),
    }
}

/// Replaces the DSCP and keeps ECN. Returns whether the frame changed.
pub fn set_dscp(frame: &mut [u8], dscp: u8) -> bool {
    let Some(old) = traffic_class(frame) else { return false };
    let new = dscp << 2 | old & 3;
    new != old && set_traffic_class(frame, new)
}

/// Marks congestion (RFC 3168, section 5). Returns `false` if the transport of the packet is not ECN-capable.
pub fn mark_congestion(frame: &mut [u8]) -> bool {
    match traffic_class(frame) {
        Some(class) if class & 3 == CE => true,
        Some(class) if class & 3 != 0 => set_traffic_class(frame, class | CE),
        _ => false,
    }
}

/// PCP of the outermost VLAN tag.
pub fn priority(frame: &[u8]) -> Option<u8> {
    let kind = frame.get(ETHERTYPE..ETHERTYPE + 2)?;
    let is_tagged = TAGS.contains(&u16::from_be_bytes([kind[0], kind[1]]));
    is_tagged.then(|| frame.get(ETHERTYPE + 2).map(|byte| byte >> 5))?
}

fn set_traffic_class(frame: &mut [u8], class: u8) -> bool {
    match find(frame) {
        Some(Ip::V4(at)) => set_v4(&mut frame[at..], class),
        Some(Ip::V6(at)) => {
            frame[at] = frame[at] & 0xf0 | class >> 4;
            frame[at + 1] = frame[at + 1] & 0x0f | class << 4;
        }
        None => return false,
    }
    true
}

/// Also updates the checksum.
fn set_v4(header: &mut [u8], class: u8) {
    let (old, new) = ([header[0], header[1]], [header[0], class]);
    let sum = wire::checksum::update([header[10], header[11]], &old, &new);
    header[1] = class;
    header[10..12].copy_from_slice(&sum);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::checksum::{Sum, fold};

    /// A frame with `tags` VLAN tags of PCP 5, and an IP header of this traffic class.
    fn frame(tags: usize, is_v4: bool, class: u8) -> Vec<u8> {
        let mut frame = vec![2; 12];
        for _ in 0..tags {
            frame.extend([0x81, 0, 0xa0, 7]);
        }
        if is_v4 {
            let mut header = [0x45, class, 0, 28, 1, 2, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
            let sum = !fold(Sum::of(&header).total());
            header[10..12].copy_from_slice(&sum.to_ne_bytes());
            frame.extend([8, 0]);
            frame.extend(header);
        } else {
            frame.extend([0x86, 0xdd, 0x60 | class >> 4, class << 4 | 0xa, 0xbc, 0xde]);
            frame.extend([0; 36]);
        }
        frame.extend([0; 8]);
        frame
    }

    #[test]
    fn assured_forwarding_classes_have_three_colours() {
        // RFC 2597, section 6.
        for [low, medium, high] in [[10, 12, 14], [18, 20, 22], [26, 28, 30], [34, 36, 38]] {
            assert_eq!(Colours::ASSURED.of(low), Colour::Green);
            assert_eq!(Colours::ASSURED.of(medium), Colour::Yellow);
            assert_eq!(Colours::ASSURED.of(high), Colour::Red);
        }
        let other = (0..64).filter(|&dscp| Colours::ASSURED.of(dscp) != Colour::Green).count();
        assert_eq!(other, 8);
    }

    #[test]
    fn priority_is_that_of_the_outer_tag() {
        assert_eq!((priority(&frame(1, true, 0)), priority(&frame(0, true, 0))), (Some(5), None));
        assert_eq!((priority(&[0; 13]), traffic_class(&frame(3, true, 8))), (None, None));
    }

    proptest! {
        #[test]
        fn changes_keep_the_rest_of_the_header(tags in 0usize..3, is_v4: bool, class: u8, dscp in 0u8..64) {
            let before = frame(tags, is_v4, class);
            let mut after = before.clone();
            prop_assert_eq!(traffic_class(&before), Some(class));
            prop_assert_eq!(set_dscp(&mut after, dscp), dscp != class >> 2);
            prop_assert_eq!(&after, &frame(tags, is_v4, dscp << 2 | class & 3));
            let mut marked = before;
            prop_assert_eq!(mark_congestion(&mut marked), class & 3 != 0);
            let expected = if class & 3 == 0 { class } else { class | 3 };
            prop_assert_eq!(&marked, &frame(tags, is_v4, expected));
        }

        #[test]
        fn arbitrary_bytes_are_read_within_bounds(mut bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            traffic_class(&bytes);
            priority(&bytes);
            set_dscp(&mut bytes, 46);
            mark_congestion(&mut bytes);
        }
    }
}
