//! Connection tracking.

use super::Environment;
use super::operation::{CtOperation, Operation, Step};
use super::pipeline::{Progress, Translator};
use super::record::Recorder;
use crate::action::{Action, ConnectionTracking, LearnValue};
use crate::field::Field;
use crate::key::Key;

/// Fields that connection tracking sets.
const STATE: [Field; 11] = [
    Field::CtState,
    Field::CtMark,
    Field::CtZone,
    Field::CtNwProto,
    Field::CtLabel,
    Field::CtNwSrc,
    Field::CtNwDst,
    Field::CtIpv6Src,
    Field::CtIpv6Dst,
    Field::CtTpSrc,
    Field::CtTpDst,
];

impl<E: Environment, R: Recorder> Translator<'_, E, R> {
    pub(super) fn ct(&mut self, tracking: &ConnectionTracking) -> Progress {
        let zone = match tracking.zone {
            LearnValue::Constant(zone, _) => zone,
            LearnValue::Field(part) => self.part(part)?,
        };
        let (mut mark, mut label) = ((0, 0), (0, 0));
        for action in &tracking.actions {
            let (field, value, mask) = match action {
                Action::SetField { field, value, mask } => (*field, *value, *mask),
                Action::Move { from, to } => (to.field, self.part(*from)? << to.offset, to.mask()),
                _ => continue,
            };
            let (old, bits): (u128, u128) = if field == Field::CtMark { mark } else { label };
            let new = (old & !mask | value & mask, bits | mask);
            match field {
                Field::CtMark => mark = new,
                Field::CtLabel => label = new,
                _ => {}
            }
        }
        let operation = CtOperation {
            commit: tracking.commit,
            force: tracking.force,
            zone: zone as u16,
            helper: tracking.helper,
            nat: tracking.nat.clone(),
            mark: (mark.0 as u32, mark.1 as u32),
            label,
            resumes: tracking.table.is_some(),
        };
        self.commit()?;
        let Some(table) = tracking.table else {
            return self.emit(Operation::Ct(Box::new(operation)));
        };
        // The packet that continues in the table has the connection state; the one in this list has not.
        let set = self.set.clone();
        self.on_copy(|copy| {
            copy.set = set;
            copy.emit(Operation::Ct(Box::new(operation)))?;
            copy.forget_connection();
            copy.steps.push(Step::Table { table, resubmit: false });
            Err(super::pipeline::Halt::Freeze)
        })
    }

    pub(super) fn ct_clear(&mut self) -> Progress {
        self.emit(Operation::CtClear)?;
        self.state.become_absent(&state());
        Ok(())
    }

    /// The packet gets its connection state from connection tracking.
    fn forget_connection(&mut self) {
        self.state.become_opaque(&state());
    }
}

fn state() -> Key {
    let mut bits = Key::ZERO;
    for field in STATE {
        bits.set(field, field.full());
    }
    bits
}
