//! What frames look like: checked views first, then their meaning.
//!
//! A view is made by a constructor that checks every length once; after that its accessors cannot fail. Nothing
//! here allocates on the way of a packet, keeps state between packets, or knows of ports, bursts or time.
#![forbid(unsafe_code)]

mod ethernet;
mod mac;
mod vlan;

pub use ethernet::{EtherType, Ethernet, HEADER_LEN, TooShort};
pub use mac::{MacAddress, ParseMacError};
pub use vlan::{ParseVlanError, TAG_LEN, Tag, VlanId, insert_tag, remove_tag, write_tag};
