//! What the study varies, and the variants by name.

use serde::{Deserialize, Serialize};

use crate::cache::memory::Copying;

/// Which of the two copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the host's buffer to the guest's
    HostToGuest,
    /// From the guest's buffer to the host's
    GuestToHost,
}

/// One experiment.
// Independent switches of a list of experiments.
#[allow(clippy::struct_excessive_bools)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Bytes of a packet
    pub size: u64,
    /// The guest writes the whole packet anew; else it only reads it
    pub edited: bool,
    /// The first lines of a batch's guest buffers are asked for before the first is copied
    pub prefetch: bool,
    /// Bytes that a copy's destination lies behind the beginning of a line
    pub offset: u64,
    /// How bytes are moved
    pub how: Copying,
    /// The guest runs, and has its memory, on another socket
    pub far: bool,
    /// A few packets are copied again and again, twice before it counts: both sides are in the host's first level
    pub warm: bool,
    /// Buffers in each pool
    pub buffers: u64,
}

impl Default for Setting {
    fn default() -> Self {
        Setting {
            size: 64,
            edited: true,
            prefetch: true,
            offset: 0,
            how: Copying::Avx2,
            far: false,
            warm: false,
            buffers: 256,
        }
    }
}

/// Sizes of packets, in bytes, as the study has them.
pub const SIZES: [u64; 7] = [64, 128, 256, 512, 1024, 1280, 1518];

/// A named change of the base.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// As results carry it
    pub name: &'static str,
    change: fn(&mut Setting),
}

impl Variant {
    /// The base with this change, for packets of so many bytes.
    pub fn setting(&self, size: u64) -> Setting {
        let mut setting = Setting { size, ..Setting::default() };
        (self.change)(&mut setting);
        setting
    }
}

const fn variant(name: &'static str, change: fn(&mut Setting)) -> Variant {
    Variant { name, change }
}

/// All variants; those that begin with `warm` are copies whose both sides are in the host's first level.
pub const VARIANTS: [Variant; 15] = [
    variant("base", |_| {}),
    variant("read-only", |s| s.edited = false),
    variant("no-prefetch", |s| s.prefetch = false),
    variant("unaligned", |s| s.offset = 1),
    variant("sse", |s| s.how = Copying::Sse),
    variant("avx512", |s| s.how = Copying::Avx512),
    variant("non-temporal", |s| s.how = Copying::NonTemporal),
    variant("rep-movsb", |s| s.how = Copying::RepMovsb),
    variant("libc", |s| s.how = Copying::Libc),
    variant("other-node", |s| s.far = true),
    variant("warm", |s| s.warm = true),
    variant("warm-sse", |s| (s.warm, s.how) = (true, Copying::Sse)),
    variant("warm-avx512", |s| (s.warm, s.how) = (true, Copying::Avx512)),
    variant("warm-libc", |s| (s.warm, s.how) = (true, Copying::Libc)),
    variant("warm-unaligned", |s| (s.warm, s.offset) = (true, 1)),
];
