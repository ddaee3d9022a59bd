//! Offloads of a simulated port: checksums completed and segments cut on transmit (TSO), segments merged on receive
//! (LRO).

use super::packet::{ETHERNET, Packet};
use super::segment::{Segment, flag};
use stack::{Segmentation, TxOffload};
use wire::checksum::Sum;

/// Completes the offloads of a sent frame: one frame, or its segments.
///
/// # Panics
/// If the offload does not describe the frame.
pub(crate) fn complete(frame: &[u8], offload: &TxOffload) -> Vec<Vec<u8>> {
    let Some((start, field)) = offload.checksum else {
        assert!(offload.segments.is_none(), "segmentation requires checksum offload");
        return vec![frame.to_vec()];
    };
    let (start, field) = (usize::from(start), usize::from(field));
    check_partial(frame, start, field);
    let Some((kind, size)) = offload.segments else {
        return vec![with_checksum(frame.to_vec(), start, field)];
    };
    let parts = cut(frame, kind, usize::from(size), start, offload.ecn);
    parts.into_iter().map(|part| with_checksum(part, start, field)).collect()
}

/// Checks that the checksum field holds the sum of the pseudo header, whose length is that of the transport packet.
fn check_partial(frame: &[u8], start: usize, field: usize) {
    let packet = Packet::decode(frame).expect("checksum offload of a frame that is not an IP packet");
    assert_eq!(start, ETHERNET + packet.network.len(), "start of the checksum");
    assert_eq!(frame.len(), start + packet.transport.len(), "padding behind a frame with checksum offload");
    assert_eq!(frame[start + field..start + field + 2], pseudo(frame, start), "partial checksum");
}

fn pseudo(frame: &[u8], start: usize) -> [u8; 2] {
    let (addresses, protocol) = match frame[ETHERNET] >> 4 {
        4 => (&frame[ETHERNET + 12..ETHERNET + 20], frame[ETHERNET + 9]),
        _ => (&frame[ETHERNET + 8..ETHERNET + 40], frame[ETHERNET + 6]),
    };
    Sum::pseudo(addresses, protocol, (frame.len() - start) as u32).partial()
}

fn with_checksum(mut frame: Vec<u8>, start: usize, field: usize) -> Vec<u8> {
    let pseudo = pseudo(&frame, start);
    frame[start + field..start + field + 2].copy_from_slice(&pseudo);
    let sum = Sum::of(&frame[start..]).finish();
    frame[start + field..start + field + 2].copy_from_slice(&sum);
    frame
}

/// Cuts a frame into segments with `size` bytes of payload.
fn cut(frame: &[u8], kind: Segmentation, size: usize, start: usize, has_ecn: bool) -> Vec<Vec<u8>> {
    let header = match kind {
        Segmentation::Udp => start + 8,
        Segmentation::Tcp4 | Segmentation::Tcp6 => start + usize::from(frame[start + 12] >> 4) * 4,
    };
    let is_v4 = frame[ETHERNET] >> 4 == 4;
    assert!(kind == Segmentation::Udp || is_v4 == (kind == Segmentation::Tcp4), "version of the segments");
    assert!(size > 0 && frame.len() > header, "segments of {size} bytes");
    let parts = frame[header..].chunks(size);
    let last = parts.len() - 1;
    parts
        .enumerate()
        .map(|(number, payload)| {
            let mut part = [&frame[..header], payload].concat();
            write_lengths(&mut part, start, number as u16);
            if kind == Segmentation::Udp {
                let len = (part.len() - start) as u16;
                part[start + 4..start + 6].copy_from_slice(&len.to_be_bytes());
            } else {
                write_tcp(&mut part[start..], (number, last), size, has_ecn);
            }
            part
        })
        .collect()
}

fn write_lengths(part: &mut [u8], start: usize, number: u16) {
    if part[ETHERNET] >> 4 == 4 {
        let len = (part.len() - ETHERNET) as u16;
        let identification = u16::from_be_bytes([part[ETHERNET + 4], part[ETHERNET + 5]]);
        wire::rewrite_ipv4(&mut part[ETHERNET..], len, identification.wrapping_add(number));
    } else {
        let len = (part.len() - start) as u16 + (start - ETHERNET - 40) as u16;
        part[ETHERNET + 4..ETHERNET + 6].copy_from_slice(&len.to_be_bytes());
    }
}

/// Sequence number and flags of one segment: FIN and PSH belong to the last, CWR with `has_ecn` to the first.
fn write_tcp(tcp: &mut [u8], (number, last): (usize, usize), size: usize, has_ecn: bool) {
    let seq = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]).wrapping_add((number * size) as u32);
    tcp[4..8].copy_from_slice(&seq.to_be_bytes());
    if number < last {
        tcp[13] &= !(flag::FIN | flag::PSH);
    }
    if has_ecn && number > 0 {
        tcp[13] &= !flag::CWR;
    }
}

/// Merges frames that continue each other, as LRO and GRO do. Frames of a merge are at most `max` bytes. Returns each
/// frame with the number of its segments.
pub(crate) fn merge(frames: Vec<Vec<u8>>, max: usize) -> Vec<(Vec<u8>, usize)> {
    let mut merged: Vec<(Vec<u8>, usize)> = Vec::new();
    let mut last: Option<Segment> = None;
    for frame in frames {
        let segment = Segment::decode(&frame).and_then(Result::ok);
        let joins = matches!((&last, &segment), (Some(a), Some(b)) if continues(a, b));
        match (merged.last_mut(), segment) {
            (Some((into, count)), Some(next)) if joins && into.len() + next.payload.len() <= max => {
                let previous = last.as_mut().expect("a segment before");
                append(into, previous, &next);
                *count += 1;
            }
            (_, segment) => {
                merged.push((frame, 1));
                last = segment;
            }
        }
    }
    merged
}

/// Whether `b` continues `a` and both differ in nothing that the receiver must see for each segment.
fn continues(a: &Segment, b: &Segment) -> bool {
    let plain = |segment: &Segment| segment.flags & !flag::PSH == flag::ACK && !segment.payload.is_empty();
    let same = (a.source, a.destination, a.ack, a.ecn, a.window, &a.options)
        == (b.source, b.destination, b.ack, b.ecn, b.window, &b.options);
    plain(a) && plain(b) && same && !a.has(flag::PSH) && a.seq.wrapping_add(a.payload.len() as u32) == b.seq
}

/// Appends the payload of `next`, without padding, to the frame of `previous`.
fn append(frame: &mut Vec<u8>, previous: &mut Segment, next: &Segment) {
    previous.payload.extend(&next.payload);
    previous.flags |= next.flags;
    let macs = (frame[..6].try_into().expect("six bytes"), frame[6..12].try_into().expect("six bytes"));
    *frame = previous.encode(macs.0, macs.1);
}

#[cfg(test)]
mod tests {
    use super::super::packet::transport_sum;
    use super::super::segment::TcpOption;
    use super::*;
    use stack::Endpoint;
    use std::net::IpAddr;
    use wire::checksum::protocol;

    fn long(source: &str, destination: &str, len: usize) -> Segment {
        let end = |text: &str| Endpoint::new(text.parse::<IpAddr>().unwrap().into(), 77);
        Segment {
            source: end(source),
            destination: end(destination),
            ecn: 2,
            flags: flag::ACK | flag::PSH | flag::FIN | flag::CWR,
            seq: u32::MAX - 2000,
            ack: 1,
            window: 9,
            urgent: 0,
            options: vec![TcpOption::Nop, TcpOption::Nop, TcpOption::Timestamps(1, 2)],
            payload: (0..len).map(|at| (at % 251) as u8).collect(),
        }
    }

    fn offloaded(segment: &Segment, kind: Segmentation) -> (Vec<u8>, TxOffload) {
        let mut frame = segment.encode([2; 6], [4; 6]);
        let start = if kind == Segmentation::Tcp4 { 34 } else { 54 };
        let partial = pseudo(&frame, start);
        frame[start + 16..start + 18].copy_from_slice(&partial);
        (frame, TxOffload { checksum: Some((start as u16, 16)), segments: Some((kind, 1000)), ecn: true })
    }

    #[test]
    fn cut_segments_carry_the_stream_with_valid_checksums() {
        for (source, destination, kind) in
            [("10.0.0.1", "10.0.0.2", Segmentation::Tcp4), ("fd00::1", "fd00::2", Segmentation::Tcp6)]
        {
            let whole = long(source, destination, 4500);
            let (frame, offload) = offloaded(&whole, kind);
            let parts: Vec<Segment> = complete(&frame, &offload)
                .iter()
                .map(|part| Segment::decode(part).unwrap().unwrap())
                .collect();
            assert_eq!(
                parts.iter().map(|part| part.payload.len()).collect::<Vec<_>>(),
                [1000, 1000, 1000, 1000, 500]
            );
            assert_eq!(parts.iter().flat_map(|part| part.payload.clone()).collect::<Vec<_>>(), whole.payload);
            for (number, part) in parts.iter().enumerate() {
                assert_eq!(part.seq, whole.seq.wrapping_add(number as u32 * 1000));
                assert_eq!(
                    (part.has(flag::CWR), part.has(flag::FIN | flag::PSH)),
                    (number == 0, number == 4)
                );
            }
        }
    }

    #[test]
    fn merged_segments_equal_the_original_packet() {
        let mut whole = long("10.0.0.1", "10.0.0.2", 4500);
        whole.flags = flag::ACK | flag::PSH;
        let (frame, offload) = offloaded(&whole, Segmentation::Tcp4);
        let merged = merge(complete(&frame, &offload), 65535);
        assert_eq!(merged.len(), 1);
        assert_eq!(Segment::decode(&merged[0].0), Some(Ok(whole)));
    }

    #[test]
    fn checksum_offload_gives_the_checksum_of_software() {
        let segment = long("10.0.0.1", "10.0.0.2", 999);
        let (frame, offload) = offloaded(&segment, Segmentation::Tcp4);
        let complete = complete(&frame, &TxOffload { segments: None, ecn: false, ..offload });
        assert_eq!(complete, [segment.encode([2; 6], [4; 6])]);
        let packet = Packet::decode(&complete[0]).unwrap();
        assert_eq!(transport_sum(packet.source, packet.destination, protocol::TCP, packet.transport), [0, 0]);
    }
}
