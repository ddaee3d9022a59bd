//! The pipeline of a Tx stage: where a packet goes has been decided, so it goes there.

use port::{Burst, Now, Outputs, Pipeline, PortId};

/// Sends every packet to the port that its burst is for.
pub(crate) struct Deliver;

impl Pipeline for Deliver {
    fn process(&mut self, burst: &mut Burst, _from: PortId, _now: Now, out: &mut Outputs) {
        let to = burst.route().to;
        for i in 0..burst.len() {
            out.send(i, to);
        }
    }

    fn looks(&self) -> bool {
        false
    }
}
