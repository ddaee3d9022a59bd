//! Flows made from packets.

use super::Environment;
use super::pipeline::{Progress, Translator};
use crate::action::{Action, Instructions, Learn, LearnSpec, LearnValue};
use crate::matching::Match;
use crate::modify::{FlowCommand, FlowFlags, FlowMod};

/// `NX_LEARN_F_SEND_FLOW_REM` (nicira-ext.h).
const SEND_REMOVED: u16 = 1;

impl<E: Environment> Translator<'_, E> {
    pub(super) fn learn(&mut self, learn: &Learn) -> Progress {
        let (mut matching, mut apply) = (Match::any(), Vec::new());
        for spec in &learn.specs {
            match spec {
                LearnSpec::Match(from, to) => {
                    let value = self.learn_value(*from)? << to.offset & to.mask();
                    matching = matching.with_masked(to.field, value, to.mask());
                }
                LearnSpec::Load(from, to) => {
                    let value = self.learn_value(*from)? << to.offset & to.mask();
                    apply.push(Action::SetField { field: to.field, value, mask: to.mask() });
                }
                LearnSpec::Output(from) => {
                    let port = self.port(*from)?;
                    apply.push(Action::Output { port, max_len: 0 });
                }
            }
        }
        self.result.learned.push(FlowMod {
            command: FlowCommand::Add,
            table: learn.table,
            matching,
            priority: learn.priority,
            cookie: learn.cookie,
            cookie_mask: 0,
            idle_timeout: learn.idle_timeout,
            hard_timeout: learn.hard_timeout,
            out_port: None,
            out_group: None,
            flags: FlowFlags { send_removed: learn.flags & SEND_REMOVED != 0, ..FlowFlags::default() },
            importance: 0,
            instructions: Instructions { apply, ..Instructions::default() },
        });
        Ok(())
    }

    fn learn_value(&mut self, value: LearnValue) -> Progress<u128> {
        match value {
            LearnValue::Field(part) => self.part(part),
            LearnValue::Constant(value, _) => Ok(value),
        }
    }
}
