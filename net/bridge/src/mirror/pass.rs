//! One burst with mirrors: its verdicts, and copies of its packets.

use super::copies::{Copies, Source};
use super::table::Mirrors;
use crate::ports::PortTable;
use port::{Burst, Context, DropReason, Pipeline, PortId, Verdicts};

/// Processes a burst of a bridge with mirrors, which received it on its port `received`.
#[inline(never)]
pub(crate) fn process(
    (inner, copies): (&mut dyn Pipeline, &mut Copies),
    (table, mirrors): (&PortTable, &Mirrors),
    burst: &mut Burst,
    (context, received): (&Context, PortId),
    verdicts: &mut Verdicts,
) {
    let is_received = context.stage == 0;
    if is_received && mirrors.reserved().contains(&received) {
        return (0..burst.len()).for_each(|i| verdicts.drop(i, DropReason::MirrorPort));
    }
    inner.process(burst, context, verdicts);
    mirrors.reserved().iter().for_each(|port| verdicts.revoke(*port, DropReason::MirrorPort));
    copies.begin(burst);
    let mut source = Source { burst, mirrors, table, verdicts };
    if is_received {
        copies.receive(&source, received);
    }
    copies.send(&source);
    copies.emit(&mut source);
}
