//! Versions of the protocol, and options that a connection agrees on.

use std::fmt;

/// A version of OpenFlow that this crate speaks. Its number is the first byte of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Version {
    /// 1.0.
    V10 = 1,
    /// 1.3.
    V13 = 4,
    /// 1.4.
    V14 = 5,
    /// 1.5.
    V15 = 6,
}

impl Version {
    /// All versions, oldest first.
    pub const ALL: [Self; 4] = [Self::V10, Self::V13, Self::V14, Self::V15];

    /// The version of a number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|version| *version as u8 == number)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V10 => "OpenFlow 1.0",
            Self::V13 => "OpenFlow 1.3",
            Self::V14 => "OpenFlow 1.4",
            Self::V15 => "OpenFlow 1.5",
        })
    }
}

/// How messages of one connection are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// Version that the hello messages agreed on.
    pub version: Version,
    /// Whether commands of flow changes in OpenFlow 1.0 contain a table (`NXT_FLOW_MOD_TABLE_ID`).
    pub table_ids: bool,
}

impl From<Version> for Dialect {
    fn from(version: Version) -> Self {
        Self { version, table_ids: false }
    }
}
