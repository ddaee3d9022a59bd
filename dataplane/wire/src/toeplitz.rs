//! Toeplitz hash for receive-side scaling ("Verifying the RSS Hash Calculation", Microsoft; VIRTIO 1.2 section
//! 5.1.6.4.3): all packets of a flow have the same hash.
//!
//! The key is expanded to one table of 256 words per input byte, so that each byte costs one lookup. With a key of
//! repeated 16-bit words, exchanging source and destination does not change the hash ("Scalable TCP session monitoring
//! with symmetric receive-side scaling", Woo and Park, 2012), so both directions of a flow have the same hash.

use crate::Layers;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Key length in bytes: 36 bytes of input (IPv6 addresses and ports) plus four.
pub const KEY_LEN: usize = 40;

/// Maximum input length in bytes.
const MAX_INPUT: usize = 36;

/// Default key of Microsoft's published examples and of many NICs.
pub const DEFAULT_KEY: [u8; KEY_LEN] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
    0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
    0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// Key for which both directions of a flow have the same hash.
pub const SYMMETRIC_KEY: [u8; KEY_LEN] = symmetric();

const fn symmetric() -> [u8; KEY_LEN] {
    let mut key = [0x5a; KEY_LEN];
    let mut at = 0;
    while at < KEY_LEN {
        key[at] = 0x6d;
        at += 2;
    }
    key
}

/// An expanded key.
#[derive(Clone)]
pub struct Toeplitz {
    tables: Vec<[u32; 256]>,
}

impl core::fmt::Debug for Toeplitz {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Toeplitz").finish_non_exhaustive()
    }
}

impl Toeplitz {
    /// Expands a key to 36 KiB of tables.
    pub fn new(key: &[u8; KEY_LEN]) -> Self {
        let mut tables = vec![[0; 256]; MAX_INPUT];
        for (at, table) in tables.iter_mut().enumerate() {
            for (byte, word) in table.iter_mut().enumerate() {
                *word = (0..8)
                    .filter(|bit| byte >> (7 - bit) & 1 == 1)
                    .map(|bit| window(key, at * 8 + bit))
                    .fold(0, |a, b| a ^ b);
            }
        }
        Self { tables }
    }

    /// Hash of at most 36 bytes; further bytes are ignored.
    pub fn hash(&self, input: impl IntoIterator<Item = u8>) -> u32 {
        self.tables.iter().zip(input).fold(0, |hash, (table, byte)| hash ^ table[usize::from(byte)])
    }

    /// Flow hash of a frame: addresses, and ports if present. Returns `None` if the frame is not IP.
    pub fn of_frame(&self, frame: &[u8]) -> Option<u32> {
        let layers = Layers::of(frame)?;
        let ports = layers.ports(frame).into_iter().flatten();
        Some(self.hash(layers.addresses(frame).iter().chain(ports).copied()))
    }
}

/// The hash under [`SYMMETRIC_KEY`], with two tables of 256 words. That key repeats every 16 bits, so the input words
/// are combined with XOR first and only the result is hashed.
#[derive(Clone)]
pub struct Symmetric {
    tables: Box<[[u32; 256]; 2]>,
}

impl core::fmt::Debug for Symmetric {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Symmetric").finish_non_exhaustive()
    }
}

impl Default for Symmetric {
    fn default() -> Self {
        let whole = Toeplitz::new(&SYMMETRIC_KEY);
        Self { tables: Box::new([whole.tables[0], whole.tables[1]]) }
    }
}

impl Symmetric {
    /// Hash of 16-bit words.
    pub fn hash<'a>(&self, words: impl IntoIterator<Item = &'a [u8; 2]>) -> u32 {
        let [high, low] = words.into_iter().fold([0; 2], |sum, word| [sum[0] ^ word[0], sum[1] ^ word[1]]);
        self.tables[0][usize::from(high)] ^ self.tables[1][usize::from(low)]
    }

    /// See [`Toeplitz::of_frame`].
    pub fn of_frame(&self, frame: &[u8]) -> Option<u32> {
        let layers = Layers::of(frame)?;
        let ports = layers.ports(frame).map_or(&[][..], |ports| ports.as_chunks().0);
        Some(self.hash(layers.addresses(frame).as_chunks().0.iter().chain(ports)))
    }
}

/// The 32 key bits from bit `at` on.
fn window(key: &[u8; KEY_LEN], at: usize) -> u32 {
    let byte = |i: usize| u64::from(key.get(at / 8 + i).copied().unwrap_or(0));
    let wide = (0..5).fold(0, |wide, i| wide << 8 | byte(i));
    (wide >> (8 - at % 8)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::prelude::v1::*;

    /// Input of a published example: addresses, and ports.
    fn published(
        source: &str,
        source_port: u16,
        destination: &str,
        destination_port: u16,
    ) -> (Vec<u8>, Vec<u8>) {
        let bytes = |text: &str| match text.parse::<core::net::IpAddr>().unwrap() {
            core::net::IpAddr::V4(v4) => v4.octets().to_vec(),
            core::net::IpAddr::V6(v6) => v6.octets().to_vec(),
        };
        let addresses = [bytes(source), bytes(destination)].concat();
        let ports = [source_port.to_be_bytes(), destination_port.to_be_bytes()].concat();
        (addresses, ports)
    }

    #[test]
    fn matches_the_published_examples() {
        let hash = Toeplitz::new(&DEFAULT_KEY);
        for (source, from, destination, to, addresses_only, with_ports) in [
            ("66.9.149.187", 2794, "161.142.100.80", 1766, 0x323e_8fc2, 0x51cc_c178),
            ("199.92.111.2", 14230, "65.69.140.83", 4739, 0xd718_262a, 0xc626_b0ea),
            ("24.19.198.95", 12898, "12.22.207.184", 38024, 0xd2d0_a5de, 0x5c2b_394a),
            ("38.27.205.30", 48228, "209.142.163.6", 2217, 0x8298_9176, 0xafc7_327f),
            ("153.39.163.191", 44251, "202.188.127.2", 1303, 0x5d18_09c5, 0x10e8_28a2),
            ("3ffe:501:8::260:97ff:fe40:efab", 14230, "ff02::1", 4739, 0x0f0c_461c, 0xdde5_1bbf),
            (
                "3ffe:1900:4545:3:200:f8ff:fe21:67cf",
                44251,
                "fe80::200:f8ff:fe21:67cf",
                38024,
                0x4b61_e985,
                0x02d1_feef,
            ),
            ("3ffe:2501:200:1fff::7", 2794, "3ffe:2501:200:3::1", 1766, 0x2cc1_8cd5, 0x4020_7d3d),
        ] {
            let (addresses, ports) = published(source, from, destination, to);
            assert_eq!(hash.hash(addresses.iter().copied()), addresses_only, "{source}");
            assert_eq!(hash.hash([addresses, ports].concat()), with_ports, "{source}");
        }
    }

    /// Bit by bit, as in the specification.
    fn textbook(key: &[u8; KEY_LEN], input: &[u8]) -> u32 {
        (0..input.len() * 8)
            .filter(|bit| input[bit / 8] >> (7 - bit % 8) & 1 == 1)
            .fold(0, |hash, bit| hash ^ window(key, bit))
    }

    proptest! {
        #[test]
        fn tables_and_bits_agree(key in prop::array::uniform32(any::<u8>()), input in prop::collection::vec(any::<u8>(), 0..=36)) {
            let mut long = [7; KEY_LEN];
            long[..32].copy_from_slice(&key);
            prop_assert_eq!(Toeplitz::new(&long).hash(input.iter().copied()), textbook(&long, &input));
        }

        #[test]
        fn symmetric_key_hashes_both_directions_equally(a in any::<[u8; 4]>(), b in any::<[u8; 4]>(), p in any::<[u8; 2]>(), q in any::<[u8; 2]>()) {
            let hash = Toeplitz::new(&SYMMETRIC_KEY);
            let there = [&a[..], &b, &p, &q].concat();
            let back = [&b[..], &a, &q, &p].concat();
            prop_assert_eq!(hash.hash(there.clone()), hash.hash(back.clone()));
            let short = Symmetric::default();
            prop_assert_eq!(short.hash(there.as_chunks().0), hash.hash(there));
            prop_assert_eq!(short.hash(back.as_chunks().0), hash.hash(back));
        }
    }
}
