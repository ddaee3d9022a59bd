//! The action set (OpenFlow 1.3.5, 5.10).

use crate::action::Action;

/// Actions to execute at the end of the pipeline, at most one of each kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ActionSet(Vec<Action>);

impl ActionSet {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Merges actions: each replaces the one of the same kind, and sets of fields keep their order.
    pub(super) fn write(&mut self, actions: &[Action]) {
        for action in actions {
            self.0.retain(|other| !replaces(action, other));
            self.0.push(action.clone());
        }
    }

    /// Output port, if an output is in the set.
    pub(super) fn output(&self) -> Option<u32> {
        self.0.iter().find_map(|action| match action {
            Action::Output { port, .. } => Some(port.0),
            _ => None,
        })
    }

    /// The actions in the order of execution; none if the packet goes nowhere.
    pub(super) fn into_list(mut self) -> Vec<Action> {
        // The last of these alone is executed: a group before an output, and so on.
        let Some(last) = self.0.iter().map(order).max().filter(|last| *last >= FINAL) else {
            return Vec::new();
        };
        self.0.retain(|action| order(action) < FINAL || order(action) == last);
        self.0.sort_by_key(order);
        self.0
    }
}

/// Lowest [`order`] of actions that end a set.
const FINAL: u8 = 20;

/// Position in the order of execution.
fn order(action: &Action) -> u8 {
    match action {
        Action::CopyTtlIn => 0,
        Action::PopVlan => 1,
        Action::PopMpls(_) => 2,
        Action::PopPbb => 3,
        Action::PushMpls(_) => 4,
        Action::PushPbb(_) => 5,
        Action::PushVlan(_) => 6,
        Action::CopyTtlOut => 7,
        Action::DecNwTtl(_) => 8,
        Action::DecMplsTtl => 9,
        Action::SetQueue(_) => 11,
        Action::Meter(_) => 12,
        Action::Ct(_) => FINAL,
        Action::CtClear => FINAL + 1,
        Action::Resubmit(_) => FINAL + 2,
        Action::Output { .. } | Action::OutputField { .. } | Action::Controller(_) => FINAL + 3,
        Action::Group(_) => FINAL + 4,
        // Sets, moves and the like.
        _ => 10,
    }
}

/// Whether `new` takes the place of `old`.
fn replaces(new: &Action, old: &Action) -> bool {
    match (new, old) {
        (Action::SetField { field, mask, .. }, Action::SetField { field: other, mask: old, .. }) => {
            field == other && mask & old == *old
        }
        _ => order(new) == order(old) && order(new) != 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Field;
    use crate::modify::PortNo;

    fn output(port: u32) -> Action {
        Action::Output { port: PortNo(port), max_len: 0 }
    }

    fn set(value: u128) -> Action {
        Action::SetField { field: Field::EthDst, value, mask: Field::EthDst.full() }
    }

    #[test]
    fn the_order_is_that_of_the_specification() {
        let mut actions = ActionSet::default();
        actions.write(&[output(1), Action::SetQueue(Some(1)), set(1), Action::PushVlan(0x8100)]);
        actions.write(&[Action::CopyTtlIn, Action::PopVlan, Action::DecNwTtl([].into()), Action::CopyTtlOut]);
        let list = actions.into_list();
        let expected = [
            Action::CopyTtlIn,
            Action::PopVlan,
            Action::PushVlan(0x8100),
            Action::CopyTtlOut,
            Action::DecNwTtl([].into()),
            set(1),
            Action::SetQueue(Some(1)),
            output(1),
        ];
        assert_eq!(list, expected);
    }

    #[test]
    fn later_actions_replace_those_of_their_kind_and_a_group_replaces_the_output() {
        let mut actions = ActionSet::default();
        actions.write(&[set(1), output(1), set(2), output(2)]);
        assert_eq!(actions.clone().into_list(), [set(2), output(2)]);
        actions.write(&[Action::Group(7)]);
        assert_eq!(actions.clone().into_list(), [set(2), Action::Group(7)]);
        actions.clear();
        actions.write(&[set(3)]);
        assert_eq!(actions.into_list(), []);
    }
}
