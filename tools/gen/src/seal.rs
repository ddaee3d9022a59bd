//! Checksum of a tag: CRC-32C of two words, continued from a key.
//!
//! It is computed for every frame sent and received. A library call for arbitrary lengths takes a hundred instructions
//! for these sixteen bytes; the processor's own instructions take two. Without them the library is used.

/// Checksum of two words in network byte order.
#[inline(always)]
pub(super) fn of(key: u32, first: u64, second: u64) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if is_x86_feature_detected!("sse4.2") {
        return by_instruction(key, first, second);
    }
    by_library(key, first, second)
}

fn by_library(key: u32, first: u64, second: u64) -> u32 {
    let both = (u128::from(first) << 64) | u128::from(second);
    crc32c::crc32c_append(key, &both.to_be_bytes())
}

/// The instruction processes the lowest byte of a word first.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn by_instruction(key: u32, first: u64, second: u64) -> u32 {
    let mut sum = u64::from(!key);
    // SAFETY: the caller has checked that the instruction exists; it changes one register only.
    unsafe {
        core::arch::asm!(
            "crc32 {sum}, {first}", "crc32 {sum}, {second}",
            sum = inout(reg) sum, first = in(reg) first.swap_bytes(), second = in(reg) second.swap_bytes(),
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    !(sum as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn library_and_instruction_agree(key: u32, first: u64, second: u64) {
            prop_assert_eq!(of(key, first, second), by_library(key, first, second));
        }
    }
}
