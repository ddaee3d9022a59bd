//! Indirect descriptor tables (VIRTIO 1.2 sections 2.7.5.3 and 2.8.7).

use crate::chain::{DESC, INDIRECT, MAX_CHAIN, NEXT, PACKED_ENTRY, WRITE};
use crate::{Descriptor, RingFault};
use core::sync::atomic::Ordering::Relaxed;
use mem::{Translator, VolatileSlice};

/// Order of table entries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Joined {
    /// Linked by `next`, from entry 0 (split rings).
    ByNext,
    /// All entries in sequence (packed rings).
    InSequence,
}

/// Appends the descriptors of the table at `head` to `chain`.
pub(super) fn walk(
    head: Descriptor,
    joined: Joined,
    translator: &mut Translator,
    chain: &mut Vec<Descriptor>,
) -> Result<(), RingFault> {
    if head.flags & NEXT != 0 {
        return Err(RingFault::IndirectWithNext);
    }
    let entries = head.len as usize / DESC;
    if entries == 0 || !(head.len as usize).is_multiple_of(DESC) || entries > MAX_CHAIN {
        return Err(RingFault::IndirectLength(head.len));
    }
    let mut at = 0;
    for _ in 0..entries {
        let d = entry(head, at, joined, translator)?;
        if d.flags & INDIRECT != 0 {
            return Err(RingFault::IndirectNested);
        }
        chain.push(d);
        at = match joined {
            Joined::InSequence => at + 1,
            Joined::ByNext if d.flags & NEXT == 0 => return Ok(()),
            Joined::ByNext if usize::from(d.link) < entries => usize::from(d.link),
            Joined::ByNext => return Err(RingFault::NoSuchDescriptor(d.link)),
        };
    }
    match joined {
        Joined::InSequence => Ok(()),
        Joined::ByNext => Err(RingFault::ChainTooLong),
    }
}

/// Reads entry `at` once. A table, or an entry, may span several regions.
fn entry(
    head: Descriptor,
    at: usize,
    joined: Joined,
    translator: &mut Translator,
) -> Result<Descriptor, RingFault> {
    let outside = RingFault::Outside { address: head.address, len: head.len };
    let address = head.address.checked_add((at * DESC) as u64).ok_or(outside)?;
    let (low, high) = match translator.translate(address, DESC as u32) {
        Some(seg) if seg.addr().is_multiple_of(8) => words(seg, translator),
        _ => unaligned_words(address, translator).ok_or(outside)?,
    };
    Ok(match joined {
        Joined::ByNext => Descriptor::split(low, high),
        // The other flags are reserved (VIRTIO 1.2 section 2.8.7).
        Joined::InSequence => {
            let entry = Descriptor::packed(low, high);
            Descriptor { flags: entry.flags & (WRITE | INDIRECT) | PACKED_ENTRY, ..entry }
        }
    })
}

fn words(seg: VolatileSlice, _owner: &Translator) -> (u64, u64) {
    // SAFETY: the translator that made the segment keeps its memory table alive; 16 bytes were translated, aligned to
    // 8.
    unsafe { (seg.load_u64(0, Relaxed), seg.load_u64(8, Relaxed)) }
}

#[cold]
fn unaligned_words(address: u64, translator: &mut Translator) -> Option<(u64, u64)> {
    let (mut bytes, mut at) = ([0u8; DESC], 0);
    translator.pieces(address, DESC as u32, |seg| {
        let to = &mut bytes[at..at + seg.len()];
        // SAFETY: the translator keeps the memory table alive, and the slice has the segment's length.
        unsafe { seg.copy_out::<mem::copy::Portable>(to) };
        at += seg.len();
        true
    })?;
    let word = |from: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[from + i]));
    Some((word(0), word(8)))
}
