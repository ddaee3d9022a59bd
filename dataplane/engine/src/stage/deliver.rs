//! Pipeline of a Tx stage: sends each packet to its destination, which was already decided.

use port::{Burst, Context, EditId, Pipeline, Verdicts};

/// Sends every packet to the destination port of its burst.
pub(crate) struct Deliver;

impl Pipeline for Deliver {
    fn process(&mut self, burst: &mut Burst, _: &Context, verdicts: &mut Verdicts) {
        let to = burst.route().to;
        verdicts.emit_run(0..burst.len(), to, EditId::NONE);
    }

    fn needs_heads(&self) -> bool {
        false
    }
}
