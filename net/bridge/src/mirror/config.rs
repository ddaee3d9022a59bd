//! Configuration of mirrors, and their counters.

use crate::VlanSet;
use crate::error::UnknownBridge;
use port::{PortId, Remedy};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::VlanId;

/// Configuration of a mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorConfig {
    /// Name, unique on its bridge.
    pub name: String,
    /// Ports whose received packets are copied.
    pub sources: Vec<PortId>,
    /// Ports whose sent packets are copied.
    pub destinations: Vec<PortId>,
    /// Whether packets of all ports are copied, received and sent.
    pub all: bool,
    /// VLANs of the packets that are copied; `None`: all, and packets without one.
    pub vlans: Option<VlanSet>,
    /// Where copies go; `None`: nowhere, until the output exists.
    pub output: Option<MirrorOutput>,
    /// Bytes of a copy; `None`: all. [`MirrorConfig::SNAP_LENGTH`].
    pub snap_length: Option<u16>,
}

impl MirrorConfig {
    /// Allowed values of [`MirrorConfig::snap_length`], in bytes.
    pub const SNAP_LENGTH: RangeInclusive<u16> = 14..=u16::MAX;
    /// Mirrors of one bridge.
    pub const MAX: usize = 32;
}

/// Where the copies of a mirror go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirrorOutput {
    /// To a port, which is reserved for mirrors. Without effect as long as the bridge does not have the port.
    Port(PortId),
    /// To all ports that carry a VLAN, with its tag in place of another one. Packets of this VLAN, and those to
    /// reserved groups (IEEE 802.1Q, table 8-1), are not copied.
    Vlan(VlanId),
}

/// Mirrors were not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MirrorError {
    /// No bridge has this name.
    #[error(transparent)]
    Unknown(#[from] UnknownBridge),
    /// Two mirrors have one name.
    #[error("bridge `{0}` has two mirrors `{1}`")]
    Exists(String, String),
    /// The maximum number is exceeded.
    #[error("bridge `{0}` would have more than {max} mirrors", max = MirrorConfig::MAX)]
    TooMany(String),
    /// The length of copies is out of range.
    #[error("invalid snap length {1} of mirror `{0}`: expected at least 14 bytes")]
    SnapLength(String, u16),
}

impl Remedy for MirrorError {
    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some(match self {
            Self::Unknown(_) => "name a bridge of this switch".into(),
            Self::Exists(..) => "choose another name, or remove the other mirror first".into(),
            Self::TooMany(_) => "remove another mirror first".into(),
            Self::SnapLength(..) => "copy at least an Ethernet header".into(),
        })
    }
}

/// Counters of a mirror.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirrorStatistics {
    /// Name.
    pub name: String,
    /// Whether its output exists.
    pub is_active: bool,
    /// Packets that were copied. One with several copies for a VLAN, or with an offload, counts once.
    pub packets: u64,
    /// Bytes of these packets, before their copies are truncated.
    pub bytes: u64,
}

/// A mirror. Its counters outlive changes of other mirrors and of ports.
#[derive(Debug)]
pub(crate) struct Mirror {
    pub(crate) config: MirrorConfig,
    counters: Arc<Counters>,
}

/// Added to by workers, once for each burst with copies.
#[derive(Debug, Default)]
pub(super) struct Counters {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Mirror {
    /// Mirrors of a bridge; one that was there `before` keeps its counters.
    pub(crate) fn all(
        bridge: &str,
        configs: &[MirrorConfig],
        before: &[Arc<Self>],
    ) -> Result<Vec<Arc<Self>>, MirrorError> {
        if configs.len() > MirrorConfig::MAX {
            return Err(MirrorError::TooMany(bridge.to_owned()));
        }
        let made = configs.iter().enumerate().map(|(i, config)| {
            let name = &config.name;
            if configs[..i].iter().any(|other| other.name == *name) {
                return Err(MirrorError::Exists(bridge.to_owned(), name.clone()));
            }
            let bad = config.snap_length.filter(|length| !MirrorConfig::SNAP_LENGTH.contains(length));
            if let Some(length) = bad {
                return Err(MirrorError::SnapLength(name.clone(), length));
            }
            let old = before.iter().find(|old| old.config.name == *name);
            let counters = old.map_or_else(Arc::default, |old| old.counters.clone());
            Ok(Arc::new(Self { config: config.clone(), counters }))
        });
        made.collect()
    }

    pub(super) fn counters(&self) -> Arc<Counters> {
        self.counters.clone()
    }

    pub(crate) fn statistics(&self, is_active: bool) -> MirrorStatistics {
        let [packets, bytes] =
            [&self.counters.packets, &self.counters.bytes].map(|n| n.load(Ordering::Relaxed));
        MirrorStatistics { name: self.config.name.clone(), is_active, packets, bytes }
    }
}

impl Counters {
    pub(super) fn add(&self, packets: u64, bytes: u64) {
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
