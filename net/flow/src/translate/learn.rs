//! Flows made from packets, and flows that end with the connection of their packets.

use super::pipeline::{Halt, Progress, Translator};
use super::record::Recorder;
use super::{Environment, TranslateError, limits};
use crate::action::{Action, Instructions, Learn, LearnSpec, LearnValue};
use crate::field::{Field, Prerequisite};
use crate::matching::Match;
use crate::modify::{FlowCommand, FlowFlags, FlowMod};
use crate::tables::{LearnedFlow, Learning, Reduction, WRITE_RESULT};
use port::Now;

/// `NX_LEARN_F_SEND_FLOW_REM` (nicira-ext.h).
const SEND_REMOVED: u16 = 1;
/// Control bits of TCP (RFC 9293, 3.1).
const FIN: u128 = 1;
const RST: u128 = 4;

impl<E: Environment, R: Recorder> Translator<'_, E, R> {
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
        // A match that the tables refuse stays as it is.
        let matching = self.tables.options().normal(&matching).unwrap_or(matching);
        let (idle, hard) = (learn.fin_idle_timeout, learn.fin_hard_timeout);
        if (idle, hard) != (0, 0) {
            apply.insert(0, Action::FinTimeout { idle, hard });
        }
        let flow = FlowMod {
            table: learn.table,
            cookie: learn.cookie,
            idle_timeout: learn.idle_timeout,
            hard_timeout: learn.hard_timeout,
            flags: FlowFlags { send_removed: learn.flags & SEND_REMOVED != 0, ..FlowFlags::default() },
            instructions: Instructions { apply, ..Instructions::default() },
            ..FlowMod::new(FlowCommand::Add, &matching, learn.priority)
        };
        let learned = LearnedFlow { flow, limit: learn.limit, parent: self.parent.clone() };
        if let Some((field, bit)) = learn.result.filter(|_| learn.flags & WRITE_RESULT != 0) {
            let is_full = matches!(self.tables.learning(&learned, Now(u64::MAX)), Learning::Full);
            self.set_field(field, u128::from(!is_full) << bit, 1 << bit)?;
        }
        if self.result.learned.len() >= limits::LEARNED {
            return Err(Halt::Error(TranslateError::TooManyOperations));
        }
        self.result.learned.push(learned);
        Ok(())
    }

    /// A packet that ends its connection lowers the timeouts of the flow. A packet-out has no flow.
    pub(super) fn fin_timeout(&mut self, to: (u16, u16)) -> Progress {
        if !self.holds(Prerequisite::Tcp)? || self.read(Field::TcpFlags, FIN | RST)? == 0 {
            return Ok(());
        }
        if self.result.reduced.len() >= limits::LEARNED {
            return Err(Halt::Error(TranslateError::TooManyOperations));
        }
        let entry = self.parent.as_ref().map(|parent| parent.entry().clone());
        self.result.reduced.extend(entry.map(|entry| Reduction { entry, to }));
        Ok(())
    }

    fn learn_value(&mut self, value: LearnValue) -> Progress<u128> {
        match value {
            LearnValue::Field(part) => self.part(part),
            LearnValue::Constant(value, _) => Ok(value),
        }
    }
}
