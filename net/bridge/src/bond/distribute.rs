//! The member for each packet to a bond, after a pipeline has given its verdicts.

use super::shared::{Bond, Hashing};
use crate::config::Vlan;
use crate::key::Key;
use crate::vlan::{Form, NO_VLAN};
use port::{Burst, DropReason, Rss, Steering, Verdicts};
use std::sync::Arc;
use wire::Ethernet;

/// State of one worker for the distribution of packets to members.
pub(crate) struct Distribution {
    worker: usize,
    steering: Steering,
}

impl Distribution {
    pub(crate) fn new(worker: usize, rss: Rss) -> Self {
        Self { worker, steering: Steering::new(rss) }
    }

    /// Allocates the counters of new bonds, which packets must not do.
    pub(crate) fn prepare(&self, bonds: &[Arc<Bond>]) {
        for bond in bonds {
            let _ = bond.load(self.worker);
        }
    }

    /// Sends the packets to bonds to their members. `vlan` is the mode of the port that received them, on a bridge that
    /// evaluates tags.
    #[inline(never)]
    pub(crate) fn run(
        &self,
        bonds: &[Arc<Bond>],
        burst: &mut Burst,
        vlan: Option<&Vlan>,
        out: &mut Verdicts,
    ) {
        for bond in bonds {
            let load = bond.load(self.worker);
            out.redirect(bond.port, DropReason::BondDown, |i| {
                let bucket = self.bucket(bond, burst, i, vlan);
                let member = bond.member(bucket)?;
                if let Some(load) = load {
                    load.add(bucket, burst.frame_len(i));
                }
                Some(member)
            });
        }
    }

    /// The bucket of packet `i`.
    fn bucket(&self, bond: &Bond, burst: &mut Burst, i: usize, vlan: Option<&Vlan>) -> u8 {
        let source = |burst: &Burst| {
            let Ok(frame) = Ethernet::new(burst.head(i)) else { return 0 };
            let form = vlan.and_then(|vlan| Form::of(&frame, vlan).ok());
            bond.of_source(Key::new(frame.source(), form.map_or(NO_VLAN, Form::vlan)))
        };
        match bond.hashing {
            Hashing::One => 0,
            Hashing::Source => source(burst),
            Hashing::Flow => match burst.rss_hash(i, &self.steering) {
                Some(hash) => bond.of_flow(hash),
                None => source(burst),
            },
        }
    }
}
