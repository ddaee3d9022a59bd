//! The attacks: name, description and the plans of the devices.

use super::back_end::Violation;
use super::frames::{HEADER, Header, TCP4, plain, tcp4, tcp6, tso4, tso6, uso};
use super::memif::RingAttack;
use super::other::Via;
use super::plan::{Need, Piece, Plan, Receive, Target, one_byte_pieces, pages};
use port::vhost::Features;

const CSUM: Need = (Features::CSUM, "checksum offload");
const TSO4: Need = (Features::HOST_TSO4, "TCP segmentation over IPv4");
const TSO6: Need = (Features::HOST_TSO6, "TCP segmentation over IPv6");
const USO: Need = (Features::HOST_USO, "UDP segmentation");
const TABLES: Need = (Features::INDIRECT_DESC, "indirect descriptors");
const GUEST_TSO4: Need =
    (Features::GUEST_CSUM | Features::GUEST_TSO4, "TCP segmentation over IPv4 for received frames");
const MERGEABLE: Need = (Features::MRG_RXBUF, "mergeable receive buffers");

/// The largest ring and the largest table.
const MAX_ENTRIES: u16 = 32_768;
/// A TCP frame whose payload is 1016 segments of 64 bytes.
const MAX_FRAME: usize = TCP4 + SEGMENTS * SEGMENT;
const SEGMENTS: usize = 1016;
const SEGMENT: usize = 64;
/// Length of a long frame without segmentation offload.
const LONG: usize = 65_000;
const BROADCAST: [u8; 6] = [0xff; 6];

/// An attack on a switch.
#[derive(Clone, Copy, Debug)]
pub struct Attack {
    /// Name on the command line.
    pub name: &'static str,
    /// One-line description.
    pub about: &'static str,
    /// Whether the attack needs a second device.
    pub needs_receiver: bool,
    pub(super) send: fn(&Target) -> Plan,
    pub(super) receive: fn(&Target) -> Plan,
    /// Whether the attack only connects and disconnects.
    pub(super) reconnects: bool,
    pub(super) via: Via,
}

const fn attack(name: &'static str, about: &'static str, send: fn(&Target) -> Plan) -> Attack {
    Attack { name, about, needs_receiver: false, send, receive: receiver, reconnects: false, via: Via::Vhost }
}

/// An attack on the driver of a virtio-user port.
const fn back_end(
    name: &'static str,
    about: &'static str,
    violation: Violation,
    send: fn(&Target) -> Plan,
) -> Attack {
    Attack { via: Via::BackEnd(violation), ..attack(name, about, send) }
}

/// An attack on a memif port, by a client that writes its rings directly.
const fn memif(name: &'static str, about: &'static str, writing: RingAttack) -> Attack {
    Attack { via: Via::RawMemif(writing), ..attack(name, about, greedy) }
}

impl Attack {
    /// Whether the attack targets no other guest, so that it needs no address.
    pub fn needs_no_victim(&self) -> bool {
        matches!(self.name, "kicks" | "reconnect" | "mac-theft") || self.name.ends_with("-broadcast")
    }

    /// Whether the device supports only the connecting side of its socket.
    pub fn only_connects(&self) -> bool {
        !matches!(self.via, Via::Vhost | Via::BackEnd(_))
    }

    /// Whether the attack uses the address of another guest.
    pub fn uses_victim_address(&self) -> bool {
        self.name == "mac-theft"
    }
}

/// All attacks. The first one is the baseline for the others.
pub static ATTACKS: &[Attack] = &[
    attack("greedy", "64 B frames at the highest rate: a well-behaved neighbour, as a baseline", greedy),
    attack("tso-pieces", "TSO frames of 64 KiB in as many one-byte buffers as the ring holds", tso_pieces),
    attack("tso-pieces-broadcast", "The same, to the broadcast address", |t| {
        tso_pieces(&broadcast_target(t))
    }),
    attack("tso-segments", "TSO frames of 64 KiB that make 1016 segments of 64 B each", tso_segments),
    attack("tso-segments-broadcast", "The same, to the broadcast address", |t| {
        tso_segments(&broadcast_target(t))
    }),
    attack("long-frames", "Plain frames of 65,000 B", long_frames),
    attack("chains", "Chains of one-byte buffers as long as the ring, over 8 memory regions", chains),
    attack(
        "indirect",
        "Indirect tables of as many one-byte buffers as the ring has entries, over 8 memory regions",
        indirect,
    ),
    Attack {
        receive: tiny_buffers,
        needs_receiver: true,
        ..attack(
            "tiny-buffers",
            "Frames of 65,000 B to a receiver with mergeable one-byte buffers",
            long_frames,
        )
    },
    Attack {
        receive: hold_buffers,
        needs_receiver: true,
        ..attack("no-drain", "64 B frames to a receiver that never returns a buffer", greedy)
    },
    attack("mac-theft", "10 frames a second with the source address of another guest (--peer)", mac_theft),
    attack("random-macs", "64 B frames, each with a random source address", random_macs),
    attack(
        "bad-mss",
        "Offload headers that contradict themselves or their frames: MSS 65,535, 1 and 0",
        bad_mss,
    ),
    attack("bad-headers", "Frames whose offload headers cannot be satisfied, and nothing else", bad_headers),
    attack("uso", "UDP frames of 64 KiB that make as many segments of 64 B as there are", uso_segments),
    attack("kicks", "Kicks as fast as it can, without a packet", kicks),
    Attack {
        reconnects: true,
        ..attack("reconnect", "Connects, shares memory and disconnects in a loop", |_| Plan::default())
    },
    Attack {
        via: Via::Memif(128),
        ..attack(
            "memif-chains",
            "Frames of 8,192 B in chains of 64 buffers of 128 B, at a memif port",
            chained,
        )
    },
    Attack {
        via: Via::Memif(65_536),
        ..attack("memif-long", "Frames of 65,000 B in one buffer each, at a memif port", long_frames)
    },
    memif(
        "memif-pieces",
        "Frames of 64 B in chains of 128 buffers of one byte or none, at a memif port",
        RingAttack::Pieces,
    ),
    memif("memif-empty", "Frames without a byte, at a memif port", RingAttack::Empty),
    memif("memif-loop", "Chains of buffers that never end, at a memif port", RingAttack::Loop),
    memif("memif-offsets", "Buffers outside the shared memory, at a memif port", RingAttack::Offsets),
    memif("memif-index", "An index further ahead than the ring is long, at a memif port", RingAttack::Index),
    Attack {
        send: |t| receiver(&t.reversed()),
        receive: |t| long_frames(&t.reversed()),
        needs_receiver: true,
        ..memif(
            "memif-tiny-buffers",
            "A memif port with receive buffers of one byte or none, and frames of 65,000 B to it",
            RingAttack::TinyBuffers,
        )
    },
    back_end(
        "backend-long",
        "As the back end of a virtio-user port: frames of 65,000 B in many merged buffers",
        Violation::None,
        merged_frames,
    ),
    back_end(
        "backend-segments",
        "As the back end of a virtio-user port: TSO frames that make 1016 segments of 64 B each",
        Violation::None,
        tso_back,
    ),
    Attack {
        receive: |t| greedy(&t.reversed()),
        needs_receiver: true,
        ..back_end(
            "backend-no-drain",
            "As the back end of a virtio-user port: returns no buffer of the 64 B frames that are sent to it",
            Violation::None,
            |t| hold_buffers(&t.reversed()),
        )
    },
    back_end(
        "backend-ids",
        "As the back end of a virtio-user port: used entries under wrong identifiers, or twice under one",
        Violation::Ids,
        greedy,
    ),
    back_end(
        "backend-lengths",
        "As the back end of a virtio-user port: used lengths beyond the buffer",
        Violation::Lengths,
        greedy,
    ),
    back_end(
        "backend-index",
        "As the back end of a virtio-user port: more used entries than the ring has",
        Violation::Index,
        greedy,
    ),
    back_end(
        "backend-buffers",
        "As the back end of a virtio-user port: frames with a buffer count of 0, 65 or 65,535",
        Violation::Buffers,
        greedy,
    ),
    back_end(
        "backend-headers",
        "As the back end of a virtio-user port: frames whose offload headers cannot be satisfied",
        Violation::None,
        |t| Plan { needs: &[GUEST_TSO4], ..bad_headers(t) },
    ),
    back_end(
        "backend-calls",
        "As the back end of a virtio-user port: interrupts on every poll, and invalid requests for notifications",
        Violation::Calls,
        greedy,
    ),
    Attack {
        via: Via::Stream,
        ..attack("stream-long", "Frames of 65,000 B, at a port of kind stream", long_frames)
    },
];

/// Finds an attack by name.
pub fn find(name: &str) -> Option<&'static Attack> {
    ATTACKS.iter().find(|attack| attack.name == name)
}

fn broadcast_target(target: &Target) -> Target {
    Target { to: BROADCAST, ..*target }
}

fn entries(target: &Target, default: u16) -> u16 {
    target.queue_size.unwrap_or(default)
}

/// Announces its address twice a second, to avoid flooding, and accepts all frames.
fn receiver(target: &Target) -> Plan {
    let hello = plain(BROADCAST, target.to, 64, 0);
    Plan { per_second: Some(2), needs: &[], ..Plan::of(vec![hello]) }
}

fn tiny_buffers(target: &Target) -> Plan {
    let receive = Receive { entries: entries(target, MAX_ENTRIES), bytes: 1, returns: true };
    Plan { receive, needs: &[MERGEABLE], ..receiver(target) }
}

fn hold_buffers(target: &Target) -> Plan {
    Plan { receive: Receive { returns: false, ..Receive::default() }, ..receiver(target) }
}

fn greedy(target: &Target) -> Plan {
    Plan { entries: entries(target, 1024), ..Plan::of(vec![plain(target.to, target.own, 64, 1)]) }
}

fn tso_pieces(target: &Target) -> Plan {
    let size = entries(target, MAX_ENTRIES);
    let frame = tso4(1448).before(&tcp4(target.to, target.own, MAX_FRAME));
    let plan = Plan::cut(vec![frame], |at, len| one_byte_pieces(at, len, TCP4, size));
    Plan { entries: size, needs: &[CSUM, TSO4], ..plan }
}

fn tso_segments(target: &Target) -> Plan {
    let frame = tso4(SEGMENT as u16).before(&tcp4(target.to, target.own, MAX_FRAME));
    let plan = Plan::cut(vec![frame], |at, len| pages(at, len, 4096));
    Plan { entries: entries(target, 256), needs: &[CSUM, TSO4], ..plan }
}

fn uso_segments(target: &Target) -> Plan {
    let frame = uso(SEGMENT as u16).before(&plain(target.to, target.own, MAX_FRAME, 1)[HEADER..]);
    let plan = Plan::cut(vec![frame], |at, len| pages(at, len, 4096));
    Plan { entries: entries(target, 256), needs: &[CSUM, USO], ..plan }
}

fn long_frames(target: &Target) -> Plan {
    let plan = Plan::cut(vec![plain(target.to, target.own, LONG, 1)], |at, len| pages(at, len, 4096));
    Plan { entries: entries(target, 256), ..plan }
}

fn merged_frames(target: &Target) -> Plan {
    Plan { needs: &[MERGEABLE], ..long_frames(target) }
}

fn tso_back(target: &Target) -> Plan {
    Plan { needs: &[MERGEABLE, GUEST_TSO4], ..tso_segments(target) }
}

/// As many buffers of 128 B as `port::memif::Endpoint` puts into a chain.
fn chained(target: &Target) -> Plan {
    Plan::of(vec![plain(target.to, target.own, 64 * 128, 1)])
}

/// A plain frame in one-byte buffers: `count` buffers, the virtio-net header included.
fn single_bytes(target: &Target, count: u16) -> Plan {
    let len = usize::from(count).saturating_sub(HEADER).max(SEGMENT);
    let single = |at, len| (0..len).map(|k| Piece { at: at + k, len: 1 }).collect();
    Plan { regions: 8, ..Plan::cut(vec![plain(target.to, target.own, len, 1)], single) }
}

fn chains(target: &Target) -> Plan {
    let size = entries(target, MAX_ENTRIES);
    Plan { entries: size, ..single_bytes(target, size) }
}

/// An indirect table has at most as many entries as the ring.
fn indirect(target: &Target) -> Plan {
    let size = entries(target, MAX_ENTRIES);
    Plan { entries: size, tables: true, needs: &[TABLES], ..single_bytes(target, size) }
}

fn mac_theft(target: &Target) -> Plan {
    let victim = target.victim.unwrap_or(target.to);
    Plan { per_second: Some(10), ..Plan::of(vec![plain(target.own, victim, 64, 1)]) }
}

fn random_macs(target: &Target) -> Plan {
    let frames = (0..256).map(|flow| plain(target.to, target.own, 64, flow)).collect();
    Plan { random_source: true, ..Plan::of(frames) }
}

fn bad_mss(target: &Target) -> Plan {
    let &Target { own, to, .. } = target;
    let (four, six) = (tcp4(to, own, MAX_FRAME), tcp6(to, own, 65_550));
    let headers = [tso4(1), tso4(0), tso4(65_535), Header { flags: 0, ..tso4(1448) }];
    let far = Header { csum_start: 65_535, csum_offset: 65_535, ..tso4(1448) };
    let inside = Header { hdr_len: 3, csum_start: 2, ..tso4(1448) };
    let of_four = headers.into_iter().chain([far, inside, tso6(1448), uso(1), uso(0)]);
    let mut frames: Vec<_> = of_four.map(|header| header.before(&four)).collect();
    frames.extend([tso6(65_535), tso6(1), tso6(0), tso4(1448)].map(|header| header.before(&six)));
    // Shorter than its stated headers; unknown GSO type.
    frames.push(tso4(1448).before(&four[..TCP4 - 10]));
    frames.push(Header { gso_type: 0x7f, ..tso4(1448) }.before(&four));
    Plan { needs: &[CSUM, TSO4, TSO6], ..Plan::of(frames) }
}

/// Frames that are always dropped because of their headers.
fn bad_headers(target: &Target) -> Plan {
    let frame = tcp4(target.to, target.own, 1514);
    let far = Header { csum_start: 65_535, csum_offset: 65_535, ..tso4(1448) };
    let (no_checksum, unknown) = (Header { flags: 0, ..tso4(1448) }, Header { gso_type: 0x7f, ..tso4(1448) });
    // The count divides the ring size, so a back end writes each frame into a buffer once.
    let headers = [tso4(1), far, no_checksum, unknown];
    let frames = headers.map(|header| header.before(&frame)).to_vec();
    Plan { entries: entries(target, 1024), needs: &[CSUM, TSO4], ..Plan::of(frames) }
}

fn kicks(_: &Target) -> Plan {
    Plan { kicks: true, ..Plan::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        Target { own: [2, 0, 0, 0, 0, 1], to: [2, 0, 0, 0, 0, 2], victim: None, queue_size: None }
    }

    #[test]
    fn attack_names_are_distinct_and_chains_fit_their_image() {
        for (n, attack) in ATTACKS.iter().enumerate() {
            assert!(ATTACKS[..n].iter().all(|other| other.name != attack.name));
            for plan in [(attack.send)(&target()), (attack.receive)(&target())] {
                let ends = plan.variants.iter().flatten().map(|piece| piece.at + piece.len);
                assert!(ends.max().unwrap_or(0) as usize <= plan.image.len(), "{}", attack.name);
            }
        }
        assert!(find("greedy").is_some() && find("polite").is_none());
    }

    #[test]
    fn chains_fill_rings_of_any_size() {
        for size in [256, 1024, MAX_ENTRIES] {
            let target = Target { queue_size: Some(size), ..target() };
            for plan in [tso_pieces(&target), chains(&target)] {
                assert_eq!((plan.entries, plan.variants[0].len()), (size, usize::from(size)));
            }
        }
        assert_eq!(indirect(&target()).variants[0].len(), usize::from(MAX_ENTRIES));
    }
}
