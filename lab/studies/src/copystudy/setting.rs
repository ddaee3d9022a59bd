//! Varied parameters of the study, and its variants by name.

use serde::{Deserialize, Serialize};

use sim::memory::Copying;

/// One of the two copies, or both together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the host's buffer to the guest's
    HostToGuest,
    /// From the guest's buffer to the host's
    GuestToHost,
    /// Both copies of a packet: the sum
    Both,
}

impl Direction {
    /// All directions, in result order.
    pub const ALL: [Direction; 3] = [Direction::HostToGuest, Direction::GuestToHost, Direction::Both];

    /// Display name.
    pub fn name(self) -> &'static str {
        match self {
            Direction::HostToGuest => "host to guest",
            Direction::GuestToHost => "guest to host",
            Direction::Both => "both copies",
        }
    }

    /// Returns the costs of the three directions.
    pub(super) fn costs([to, from]: [f64; 2]) -> [f64; 3] {
        [to, from, to + from]
    }
}

/// Parameters of one experiment.
#[expect(clippy::struct_excessive_bools, reason = "independent switches of a list of experiments")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Packet size in bytes
    pub size: u64,
    /// The guest rewrites the whole packet; otherwise it only reads it
    pub edited: bool,
    /// The first lines of a batch's guest buffers are prefetched before the first copy
    pub prefetch: bool,
    /// Offset of a copy's destination from the start of a line, in bytes
    pub offset: u64,
    /// Copy method
    pub how: Copying,
    /// The guest and its memory are on another socket
    pub far: bool,
    /// A few packets are copied repeatedly, twice before timing: both sides are in the host's first level
    pub warm: bool,
    /// Buffers per pool
    pub buffers: u64,
    /// Displacement of each pool in bytes, which changes only the cache sets
    pub moved: u64,
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
            moved: 0,
        }
    }
}

/// Packet sizes of the study, in bytes.
pub const SIZES: [u64; 7] = [64, 128, 256, 512, 1024, 1280, 1518];

/// A named change of the base.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// Name in results
    pub name: &'static str,
    /// Description of the change
    pub title: &'static str,
    change: fn(&mut Setting),
}

impl Variant {
    /// Returns the base with this change, for packets of `size` bytes.
    pub fn setting(&self, size: u64) -> Setting {
        let mut setting = Setting { size, ..Setting::default() };
        (self.change)(&mut setting);
        setting
    }

    /// Whether copies are warm: both sides in the host's first level.
    pub fn is_warm(&self) -> bool {
        self.setting(SIZES[0]).warm
    }

    /// Name of the reference variant: the base, or the base's warm copies.
    pub fn reference(&self) -> &'static str {
        if self.is_warm() { WARM } else { BASE }
    }

    /// Whether the variant changes nothing: its distance from its reference is noise.
    pub fn is_control(&self) -> bool {
        [BASE_AGAIN, WARM_AGAIN].contains(&self.name)
    }
}

const fn variant(name: &'static str, title: &'static str, change: fn(&mut Setting)) -> Variant {
    Variant { name, title, change }
}

/// Bytes that a buffer has room for in any setting.
pub const MAX_SIZE: u64 = 2048;

/// Reference of cold copies.
pub const BASE: &str = "base";
/// Reference of warm copies.
pub const WARM: &str = "warm";
/// Repetition of the base.
pub const BASE_AGAIN: &str = "base-again";
/// Repetition of the base's warm copies.
pub const WARM_AGAIN: &str = "warm-again";

/// All variants; in those that begin with `warm`, both sides of a copy are in the host's first level.
pub const VARIANTS: [Variant; 17] = [
    variant(BASE, "edited by the guest, prefetched, aligned, 256 bits at a time, same node", |_| {}),
    variant(BASE_AGAIN, "the same again: a control", |_| {}),
    variant("read-only", "the guest only reads", |s| s.edited = false),
    variant("no-prefetch", "no software prefetch", |s| s.prefetch = false),
    variant("unaligned", "destinations a byte behind a line's beginning", |s| s.offset = 1),
    variant("sse", "128 bits at a time", |s| s.how = Copying::Sse),
    variant("avx512", "512 bits at a time", |s| s.how = Copying::Avx512),
    variant("non-temporal", "256 bits at a time, past the caches", |s| s.how = Copying::NonTemporal),
    variant("rep-movsb", "one string instruction", |s| s.how = Copying::RepMovsb),
    variant("libc", "the C library's memcpy", |s| s.how = Copying::Libc),
    variant("other-node", "the guest and its memory on another node", |s| s.far = true),
    variant(WARM, "the base, both sides in the host's first level", |s| s.warm = true),
    variant(WARM_AGAIN, "the same again: a control", |s| s.warm = true),
    variant("warm-sse", "128 bits at a time, warm", |s| (s.warm, s.how) = (true, Copying::Sse)),
    variant("warm-avx512", "512 bits at a time, warm", |s| (s.warm, s.how) = (true, Copying::Avx512)),
    variant("warm-libc", "the C library's memcpy, warm", |s| (s.warm, s.how) = (true, Copying::Libc)),
    variant("warm-unaligned", "destinations a byte behind a line's beginning, warm", |s| {
        (s.warm, s.offset) = (true, 1);
    }),
];

/// Variants and sizes to run: every variant at every size.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Packet sizes in bytes, ascending
    pub sizes: Vec<u64>,
    /// Variants in list order, including their references and controls
    pub variants: Vec<Variant>,
}

impl Default for Selection {
    fn default() -> Self {
        Selection { sizes: SIZES.to_vec(), variants: VARIANTS.to_vec() }
    }
}

/// Unknown variant name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown variant `{name}`: the nearest is `{nearest}`")]
pub struct UnknownVariant {
    /// Requested name
    pub name: String,
    /// Nearest known name
    pub nearest: &'static str,
}

impl Selection {
    /// Selects variants (default: all) and sizes (default: the study's); returns an error for the first unknown name.
    pub fn of<S: AsRef<str>>(names: &[S], sizes: &[u64]) -> Result<Selection, UnknownVariant> {
        let mut all = Selection::default();
        if !sizes.is_empty() {
            all.sizes = sizes.to_vec();
            all.sizes.sort_unstable();
            all.sizes.dedup();
        }
        if names.is_empty() {
            return Ok(all);
        }
        let asked = names.iter().map(|name| find(name.as_ref())).collect::<Result<Vec<_>, _>>()?;
        let needs = |variant: &Variant| {
            asked.iter().any(|other| {
                let same_kind = other.is_warm() == variant.is_warm();
                other.name == variant.name
                    || same_kind && (variant.is_control() || variant.name == other.reference())
            })
        };
        all.variants.retain(needs);
        Ok(all)
    }

    /// Returns each variant at each size.
    pub(super) fn cells(&self) -> Vec<(Variant, u64)> {
        self.variants.iter().flat_map(|variant| self.sizes.iter().map(|size| (*variant, *size))).collect()
    }
}

fn find(name: &str) -> Result<Variant, UnknownVariant> {
    let like = |variant: &&Variant| (strsim::jaro_winkler(name, variant.name) * 1e6) as u64;
    let nearest = || VARIANTS.iter().max_by_key(like).map_or(BASE, |variant| variant.name);
    let found = VARIANTS.iter().find(|variant| variant.name == name).copied();
    found.ok_or_else(|| UnknownVariant { name: name.to_owned(), nearest: nearest() })
}
