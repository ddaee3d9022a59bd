//! Why control operations are refused.

use crate::tables::{ModificationError, RestoreError};
use port::{PortId, Remedy};
use std::borrow::Cow;

/// No OpenFlow bridge has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no OpenFlow bridge \"{0}\"")]
pub struct UnknownBridge(pub String);

/// Why a bridge is not added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddBridgeError {
    /// The name is in use.
    #[error("there is an OpenFlow bridge \"{0}\" already")]
    Exists(String),
    /// No further number is free.
    #[error("there are too many OpenFlow bridges for \"{0}\"")]
    TooMany(String),
}

/// Why a port is not added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddPortError {
    /// See [`UnknownBridge`].
    #[error(transparent)]
    Bridge(#[from] UnknownBridge),
    /// It is on a bridge.
    #[error("port {0:?} is on an OpenFlow bridge already")]
    Member(PortId),
    /// The number is in use, 0, or reserved.
    #[error("number {0} of bridge \"{1}\" is in use, or not one of a port")]
    Number(u32, String),
}

impl Remedy for AddPortError {
    fn remedy(&self) -> Option<Cow<'static, str>> {
        let remedy = match self {
            Self::Bridge(_) => "name a bridge with `pipeline = \"openflow\"`",
            Self::Member(_) => "remove it from its bridge first",
            Self::Number(..) => "choose another number, from 1 to 4294967040",
        };
        Some(remedy.into())
    }
}

/// Why changes of tables are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// See [`UnknownBridge`].
    #[error(transparent)]
    Bridge(#[from] UnknownBridge),
    /// The change at this position is not valid.
    #[error("change {0}: {1}")]
    Invalid(usize, ModificationError),
}

/// Why tables of another process are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreTablesError {
    /// See [`UnknownBridge`].
    #[error(transparent)]
    Bridge(#[from] UnknownBridge),
    /// See [`RestoreError`].
    #[error(transparent)]
    Tables(#[from] RestoreError),
}
