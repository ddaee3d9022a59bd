//! Actions that are valid, but that workers do not execute.

use super::error::ChangeError;
use crate::action::{Action, Instructions};
use crate::tables::{Control, Modification};
use port::Now;

/// Checks that a new bridge would execute all changes.
///
/// # Errors
/// As [`FlowSwitch::modify`].
pub fn check_changes(changes: &[Modification]) -> Result<(), ChangeError> {
    supported(changes)?;
    let done = Control::new(0).bundle(changes, Now(0));
    done.map(drop).map_err(|(i, error)| ChangeError::Invalid(i, error))
}

pub(super) fn supported(changes: &[Modification]) -> Result<(), ChangeError> {
    let found = changes.iter().enumerate().find_map(|(i, change)| Some((i, unsupported(change)?)));
    found.map_or(Ok(()), |(i, action)| Err(ChangeError::Unsupported(i, action)))
}

/// An action of a change that workers do not execute.
fn unsupported(change: &Modification) -> Option<&'static str> {
    let any = |actions: &[Action]| actions.iter().find_map(not_executed);
    match change {
        Modification::Flow(change) => {
            let Instructions { apply, write, .. } = &change.instructions;
            any(apply).or_else(|| any(write))
        }
        Modification::Group(change) => change.buckets.iter().find_map(|bucket| any(&bucket.actions)),
        Modification::Meter(_) => None,
        Modification::Packet(actions) => any(actions),
    }
}

pub(super) fn not_executed(action: &Action) -> Option<&'static str> {
    match action {
        // Learned flows would have this action.
        Action::Learn(learn) if learn.fin_idle_timeout != 0 || learn.fin_hard_timeout != 0 => {
            Some("fin_timeout")
        }
        Action::Clone(actions) => actions.iter().find_map(not_executed),
        _ => None,
    }
}
