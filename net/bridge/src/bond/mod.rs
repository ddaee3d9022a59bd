//! Bonds: several ports as one port of a bridge (link aggregation, IEEE 802.1AX; modes as in Open vSwitch).
//!
//! A bond has a port number of its own, at which stations are learned and to which packets are sent. Workers read three
//! words of a bond (`shared`): whether a member accepts a packet, the bucket of a packet, and the member of that
//! bucket. Control decides about them: which members are enabled and active (`members`), how buckets are distributed
//! (`balance`), and what LACP says, all for one bond (`aggregate`) at the events and times that `control` has. Packets
//! of other ports are not affected: a worker looks at bonds only for ports that are on no bridge. `distribute` sends
//! packets that a pipeline sends to a bond to its members.

mod aggregate;
mod balance;
mod config;
mod control;
mod distribute;
mod members;
mod report;
mod shared;

pub use config::{BondConfig, BondMode, MAX_MEMBERS, MemberConfig};
pub(crate) use control::{Announcement, BondEvent, Bonds, learning_packet};
pub(crate) use distribute::Distribution;
pub use report::{BondStatistics, BucketStatistics, LacpStatus, MemberLacp, MemberStatistics};
pub(crate) use shared::{Admission, Bond, Link};
