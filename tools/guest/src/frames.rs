//! Frames that a guest generates: UDP over IPv4 over Ethernet, of given sizes.

use wire::checksum::Sum;

/// An Ethernet address.
pub type Mac = [u8; 6];

/// Frame sizes to cycle through, in bytes without the frame check sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameSizes(Vec<u16>);

/// The simple Internet mix: seven of 64, four of 570, one of 1514 bytes.
const MIX: [u16; 12] = [64, 570, 64, 64, 570, 64, 1514, 64, 570, 64, 64, 570];

/// The shortest frame with the headers written here.
const MIN_FRAME: u16 = 60;

impl FrameSizes {
    /// A single size, at least 60 bytes.
    pub fn fixed(size: u16) -> Self {
        Self(vec![size.max(MIN_FRAME)])
    }

    /// The simple Internet mix.
    pub fn mix() -> Self {
        Self(MIX.to_vec())
    }

    /// The size of packet number `n`.
    pub fn nth(&self, n: usize) -> usize {
        usize::from(self.0[n % self.0.len()])
    }

    /// The largest size.
    pub fn largest(&self) -> usize {
        self.0.iter().copied().max().map_or(0, usize::from)
    }
}

/// A frame of `size` bytes from `source` to `destination`; `flow` becomes the UDP source port.
pub(super) fn frame(size: usize, destination: Mac, source: Mac, flow: u16) -> Vec<u8> {
    let mut f = vec![0u8; size];
    f[0..6].copy_from_slice(&destination);
    f[6..12].copy_from_slice(&source);
    f[12..14].copy_from_slice(&[0x08, 0x00]);
    let ip_len = (size - 14) as u16;
    f[14] = 0x45;
    f[16..18].copy_from_slice(&ip_len.to_be_bytes());
    f[22] = 64;
    f[23] = 17;
    f[26..30].copy_from_slice(&[198, 18, 0, 1]);
    f[30..34].copy_from_slice(&[198, 19, 0, 1]);
    let sum = Sum::of(&f[14..34]).finish();
    f[24..26].copy_from_slice(&sum);
    f[34..36].copy_from_slice(&flow.to_be_bytes());
    f[36..38].copy_from_slice(&9u16.to_be_bytes());
    f[38..40].copy_from_slice(&(ip_len - 20).to_be_bytes());
    f
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_has_a_valid_ip_header_and_the_requested_size() {
        let f = frame(64, [2; 6], [4; 6], 7);
        assert_eq!((f.len(), &f[..6], &f[6..12]), (64, &[2u8; 6][..], &[4u8; 6][..]));
        assert_eq!(Sum::of(&f[14..34]).partial(), [0xff, 0xff]);
    }

    #[test]
    fn mix_has_twelve_packets_of_three_sizes() {
        let mix = FrameSizes::mix();
        let count = |size| (0..12).filter(|&n| mix.nth(n) == size).count();
        assert_eq!([64, 570, 1514].map(count), [7, 4, 1]);
    }
}
