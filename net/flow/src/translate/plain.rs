//! Packets that a table only forwards: their result without a translation.

use super::Environment;
use super::pipeline::UNSET;
use crate::action::{Action, Instructions};
use crate::field::Field;
use crate::key::Key;
use crate::modify::{PortNo, TableId};
use crate::tables::{Entry, Tables};
use std::sync::Arc;

/// Sets the fields of a received packet that no header has.
pub(crate) fn enter(key: &mut Key, in_port: PortNo) {
    key.set(Field::InPort, in_port.0.into());
    key.set(Field::ActsetOutput, UNSET);
}

/// The flow and the output of a packet, whose key has passed [`enter`], if its translation executes one flow, which is
/// an output to a port that is no tunnel. Otherwise `None`.
pub(crate) fn plain<'a>(
    tables: &'a Tables,
    key: &Key,
    environment: &impl Environment,
) -> Option<(&'a Arc<Entry>, PortNo)> {
    if tables.drops_fragments() {
        return None;
    }
    let mut bits = Key::ZERO;
    let flow = tables.find(TableId(0), key, &mut bits)?;
    let Instructions { meter: None, apply, clear: false, write, metadata: None, goto: None } =
        &**flow.instructions()
    else {
        return None;
    };
    let [Action::Output { port, .. }] = apply.as_slice() else { return None };
    let is_other = u128::from(port.0) != key.get(Field::InPort) && *port <= PortNo::MAX;
    (write.is_empty() && is_other && environment.tunnel(*port).is_none()).then(|| (flow.entry(), *port))
}
