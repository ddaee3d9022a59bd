//! Which class of a port a packet belongs to.

use crate::dscp::{priority, traffic_class};
use port::{Burst, Rss, Steering};

/// No class.
const NONE: u8 = u8::MAX;

/// Class of each packet: that of the queue which a flow selected, else by PCP, else by DSCP, else the default.
#[derive(Debug)]
pub struct ClassMap {
    by_queue: [u8; 256],
    by_pcp: [u8; 8],
    by_dscp: [u8; 64],
    default: u8,
    steering: Steering,
}

impl ClassMap {
    /// All packets in the class with this index.
    pub fn new(default: u8) -> Self {
        Self {
            by_queue: [NONE; 256],
            by_pcp: [NONE; 8],
            by_dscp: [NONE; 64],
            default,
            steering: Steering::new(Rss::Symmetric),
        }
    }

    /// Packets for which a flow has selected queue `queue` belong to class `class`.
    pub fn set_queue(&mut self, queue: u8, class: u8) {
        self.by_queue[usize::from(queue)] = class;
    }

    /// Packets with this priority of the VLAN tag belong to class `class`.
    pub fn set_pcp(&mut self, pcp: u8, class: u8) {
        self.by_pcp[usize::from(pcp & 7)] = class;
    }

    /// Packets with this DSCP belong to class `class`.
    pub fn set_dscp(&mut self, dscp: u8, class: u8) {
        self.by_dscp[usize::from(dscp & 63)] = class;
    }

    /// Class of packet `i`, and the hash of its flow. Heads must be loaded.
    pub(crate) fn classify(&self, burst: &Burst, i: usize) -> (usize, u32) {
        let (head, noted) = (burst.head(i), burst.notes(i).class);
        let by_queue = || noted.checked_sub(1).map(|queue| self.by_queue[usize::from(queue)]);
        let by_pcp = || priority(head).map(|pcp| self.by_pcp[usize::from(pcp)]);
        let by_dscp = || traffic_class(head).map(|class| self.by_dscp[usize::from(class >> 2)]);
        let known = |class: &u8| *class != NONE;
        let class = by_queue().filter(known).or_else(|| by_pcp().filter(known));
        let class = class.or_else(|| by_dscp().filter(known)).unwrap_or(self.default);
        (class.into(), self.steering.hash(head).unwrap_or(0).wrapping_mul(0x9e37_79b1))
    }
}
