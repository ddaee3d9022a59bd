//! Copies between private memory, as [`slice::copy_from_slice`]: without a call for the lengths of headers and short
//! messages.

/// Copies `from` to `to`.
///
/// # Panics
/// If the lengths differ.
#[inline]
pub fn copy_private(to: &mut [u8], from: &[u8]) {
    match from.len() {
        32..64 => ends::<32>(to, from),
        64..=128 => ends::<64>(to, from),
        _ => to.copy_from_slice(from),
    }
}

/// Copies the first and the last `N` bytes, which together are all.
#[inline]
fn ends<const N: usize>(to: &mut [u8], from: &[u8]) {
    assert_eq!(to.len(), from.len(), "copy between slices of different lengths");
    if let (Some(to), Some(from)) = (to.first_chunk_mut::<N>(), from.first_chunk()) {
        *to = *from;
    }
    if let (Some(to), Some(from)) = (to.last_chunk_mut::<N>(), from.last_chunk()) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_every_length_are_complete() {
        let from: Vec<u8> = (0..200).collect();
        for len in 0..=from.len() {
            let mut to = vec![0xff; len];
            copy_private(&mut to, &from[..len]);
            assert_eq!(to, from[..len]);
        }
    }
}
