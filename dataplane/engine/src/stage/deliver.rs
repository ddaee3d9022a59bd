//! The pipeline of a Tx stage: where a packet goes has been decided, so it goes there.

use port::{Burst, Context, EditId, Pipeline, Verdicts};

/// Sends every packet to the port that its burst is for.
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
