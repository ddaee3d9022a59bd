//! Mirrors: copies of selected packets for a port (SPAN), or for all ports of a VLAN (RSPAN).
//!
//! The rules are those of the table `Mirror` in ovs-vswitchd.conf.db(5): a mirror gets each packet once; its output
//! port is reserved, so that packets received there are dropped, and only copies are sent there; packets that are
//! dropped later are copied too. A copy has the packet as it was received or as it is sent, without the translation of
//! its VLAN for the output port.
//!
//! A mirror reads the verdicts of any pipeline, so that it knows each output, also that of a learning bridge behind
//! flow tables. It costs one check for a burst of a bridge without mirrors. It must never change what happens to the
//! packet itself.

mod config;
mod copies;
mod pass;
mod table;

pub use config::{MirrorConfig, MirrorError, MirrorOutput, MirrorStatistics};

pub(crate) use config::Mirror;
pub(crate) use copies::Copies;
pub(crate) use pass::process;
pub(crate) use table::{Mirrors, is_active, reserved};
