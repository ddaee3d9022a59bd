//! Keys of each section of a configuration file. The keys of a kind of port are in the file of that kind.

mod bridge;
mod flows;
mod port;
mod switch;

pub(crate) use bridge::{BRIDGE, MIRROR, STATIC};
pub(crate) use flows::{ACL, CONNTRACK, FLOW, UNDERLAY};
pub(crate) use port::{BOND, GRANT, MEMBERSHIP, POLICY, PORT, TREE, WRAPPERS};
pub(crate) use switch::{PLACEMENT, SWITCH, WORKER, WORKERS};
