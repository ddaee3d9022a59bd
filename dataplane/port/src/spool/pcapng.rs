//! pcapng output (draft-ietf-opsawg-pcapng): a section header, an interface, and an enhanced packet block per packet,
//! with nanosecond time stamps. Interface statistics follow when packets were missed: readers take the last ones of an
//! interface. All numbers are little-endian, all blocks padded to four bytes.

use super::{Direction, Outcome, Record};
use crate::Offload;
use std::fmt::Write;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
/// Byte-order magic (section 4.1).
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const ETHERNET: u16 = 1;

/// `opt_endofopt`
const END: u16 = 0;
/// `opt_comment`
const COMMENT: u16 = 1;
/// `shb_userappl`
const APPLICATION: u16 = 4;
/// `if_name`
const NAME: u16 = 2;
/// `if_tsresol`
const RESOLUTION: u16 = 9;
/// `epb_flags`
const FLAGS: u16 = 2;
/// `isb_ifdrop`
const DROPPED: u16 = 5;

/// File header: packets of at most `snap` bytes from the interfaces `names`; 0 for no limit.
pub(super) fn head(names: &[&str], snap: u32, comment: Option<&str>) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    block(&mut out, SECTION, |out| {
        out.extend(BYTE_ORDER.to_le_bytes());
        out.extend([1, 0, 0, 0]);
        // Section length: unknown.
        out.extend(u64::MAX.to_le_bytes());
        if let Some(comment) = comment {
            option(out, COMMENT, comment.as_bytes());
        }
        option(out, APPLICATION, concat!("linerate ", env!("CARGO_PKG_VERSION")).as_bytes());
        option(out, END, &[]);
    });
    for name in names {
        block(&mut out, INTERFACE, |out| {
            out.extend(ETHERNET.to_le_bytes());
            out.extend([0, 0]);
            out.extend(snap.to_le_bytes());
            option(out, NAME, name.as_bytes());
            option(out, RESOLUTION, &[9]);
            option(out, END, &[]);
        });
    }
    out
}

/// Appends one packet, of which `bytes` were kept, at `time` nanoseconds since the Unix epoch.
pub(super) fn packet(out: &mut Vec<u8>, time: u64, record: &Record, bytes: &[u8]) {
    block(out, PACKET, |out| {
        let words =
            [record.interface.into(), (time >> 32) as u32, time as u32, bytes.len() as u32, record.len];
        out.extend(words.into_iter().flat_map(u32::to_le_bytes));
        padded(out, bytes);
        options(out, record, bytes);
    });
}

/// Appends the number of packets of an interface that were missed until `time`.
pub(super) fn statistics(out: &mut Vec<u8>, time: u64, interface: u32, missed: u64) {
    block(out, STATISTICS, |out| {
        let words = [interface, (time >> 32) as u32, time as u32];
        out.extend(words.into_iter().flat_map(u32::to_le_bytes));
        option(out, DROPPED, &missed.to_le_bytes());
        option(out, END, &[]);
    });
}

fn options(out: &mut Vec<u8>, record: &Record, bytes: &[u8]) {
    let flags: u32 = match record.direction {
        Direction::Only => 0,
        Direction::In => 1,
        Direction::Out => 2,
    };
    let fate = match record.fate {
        Outcome::Lost(reason) => Some(format!("dropped: {}", reason.name())),
        Outcome::Queued => Some("queued: the port sends or drops it later".to_owned()),
        Outcome::Moved => None,
    };
    let step = record.trace.map(|step| {
        format!(
            "trace {}: {} ns after its reception, verdict after {} ns; {} packets skipped before",
            step.number, step.since_ns, step.verdict_ns, step.skipped
        )
    });
    let comments: Vec<String> = step.into_iter().chain(fate).chain(work(record, bytes.len())).collect();
    if flags == 0 && comments.is_empty() {
        return;
    }
    for comment in comments {
        option(out, COMMENT, comment.as_bytes());
    }
    if flags != 0 {
        option(out, FLAGS, &flags.to_le_bytes());
    }
    option(out, END, &[]);
}

/// Pending offloads of the packet, as text.
fn work(record: &Record, stored: usize) -> Option<String> {
    let offload = Offload::validate(record.offload, stored.max(record.len as usize)).ok()?;
    let (start, offset) = offload.checksum()?;
    let mut text = format!("checksum at byte {} is not filled in yet", start + offset);
    if let Some(kind) = offload.segmentation() {
        // Writing to a String cannot fail.
        let _ = write!(text, "; {kind:?} to be cut into segments of {} bytes", offload.segment());
    }
    Some(text)
}

/// Appends a block of type `kind` with the body written by `body`.
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend(kind.to_le_bytes());
    out.extend([0; 4]);
    body(out);
    let len = (out.len() - start + 4) as u32;
    out.extend(len.to_le_bytes());
    out[start + 4..start + 8].copy_from_slice(&len.to_le_bytes());
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    // Values are far shorter than 64 KiB; a port name is the longest.
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    out.extend(code.to_le_bytes());
    out.extend((value.len() as u16).to_le_bytes());
    padded(out, value);
}

fn padded(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
    out.extend_from_slice(&[0; 3][..bytes.len().wrapping_neg() % 4]);
}
