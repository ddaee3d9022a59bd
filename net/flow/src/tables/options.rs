//! The map of options in the tables, and which of its fields flows and groups use.
//!
//! Uses are counted only while a field is bound: no flow or group can use one before.

use super::flow::{Entry, visit};
use super::log::Change;
use super::radix::Counts;
use super::snapshot::Tables;
use crate::action::{Action, LearnSpec, LearnValue};
use crate::field::Field;
use crate::lookup::fold;
use crate::options::{OptionChange, OptionMapError};

impl Tables {
    /// Changes the map of options.
    ///
    /// # Errors
    /// If the change is not valid. Nothing is changed then.
    pub fn apply_options(&mut self, change: &OptionChange) -> Result<(), OptionMapError> {
        let options = self.options.change(change, |n| self.uses.contains(self.option_key(n)))?;
        if options != self.options {
            self.options = options;
            // A field may be bound to another option at once, and results contain the bytes of options.
            self.log.add(Change::All);
        }
        Ok(())
    }

    /// Counts the options that a flow matches.
    pub(super) fn count_matched_options(&mut self, entry: &Entry, change: fn(&mut Counts, u64)) {
        if self.options.is_empty() {
            return;
        }
        let present = entry.matching().mask().get(Field::TunOptions);
        for n in (0..Field::OPTIONS).filter(|n| present >> n & 1 != 0) {
            let key = self.option_key(n);
            change(&mut self.uses, key);
        }
    }

    /// Counts the options that actions read or write.
    pub(super) fn count_set_options(&mut self, actions: &[Action], change: fn(&mut Counts, u64)) {
        if self.options.is_empty() {
            return;
        }
        let mut fields = Vec::new();
        visit(actions, &mut |action| used(action, &mut fields));
        for n in fields.into_iter().filter_map(Field::option) {
            let key = self.option_key(n);
            change(&mut self.uses, key);
        }
    }

    /// Key of an option in the map of uses.
    fn option_key(&self, n: u8) -> u64 {
        fold(self.number_key(n.into()), 3 << 32)
    }
}

/// Adds the fields that may be options and that an action uses, except for those within `clone`.
fn used(action: &Action, fields: &mut Vec<Field>) {
    match action {
        Action::SetField { field, .. } | Action::DeleteField(field) => fields.push(*field),
        Action::Move { from, to } => fields.extend([from.field, to.field]),
        Action::StackPush(part) | Action::StackPop(part) | Action::OutputField { from: part, .. } => {
            fields.push(part.field);
        }
        Action::Learn(learn) => {
            fields.extend(learn.result.map(|(field, _)| field));
            learn.specs.iter().for_each(|spec| learned(spec, fields));
        }
        Action::Ct(tracking) => {
            fields.extend(source(&tracking.zone));
            tracking.actions.iter().for_each(|action| used(action, fields));
        }
        _ => {}
    }
}

fn learned(spec: &LearnSpec, fields: &mut Vec<Field>) {
    match spec {
        LearnSpec::Match(from, to) | LearnSpec::Load(from, to) => {
            fields.extend(source(from));
            fields.push(to.field);
        }
        LearnSpec::Output(from) => fields.push(from.field),
    }
}

fn source(value: &LearnValue) -> Option<Field> {
    match value {
        LearnValue::Field(part) => Some(part.field),
        LearnValue::Constant(..) => None,
    }
}
