//! History of a port's states, kept by the control thread. Bounded, because peers cause most changes.

use port::PortState;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::SystemTime;

/// Maximum number of events per port.
const MAX_EVENTS: usize = 8;

/// A change of a port's state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PortEvent {
    /// Time of the change: RFC 3339, UTC, in milliseconds.
    pub time: String,
    /// State from then on.
    pub state: String,
    /// Reason for the state, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The latest changes, oldest first.
#[derive(Default)]
pub(crate) struct History(VecDeque<PortEvent>);

impl History {
    /// Adds a change at `time`. The oldest one is removed if the history is full.
    pub(crate) fn push(&mut self, time: SystemTime, state: &PortState) {
        if self.0.len() == MAX_EVENTS {
            self.0.pop_front();
        }
        self.0.push_back(PortEvent {
            time: humantime::format_rfc3339_millis(time).to_string(),
            state: state_name(state).to_owned(),
            reason: state.reason().map(ToString::to_string),
        });
    }

    pub(crate) fn events(&self) -> Vec<PortEvent> {
        self.0.iter().cloned().collect()
    }
}

/// Name of a state in tables and JSON.
pub(crate) fn state_name(state: &PortState) -> &'static str {
    match state {
        PortState::Waiting(_) => "waiting",
        PortState::Connected => "connected",
        PortState::Faulted(_) => "faulted",
        PortState::Ended(_) => "ended",
        PortState::Closed => "closed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::PortFault;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn events_are_in_order_with_time_and_reason() {
        let mut history = History::default();
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        history.push(at(0), &PortState::Waiting(None));
        history.push(at(1), &PortState::Connected);
        history.push(at(90), &PortState::Faulted(PortFault::MemoryLost));
        let event = |time: &str, state: &str, reason: Option<&str>| PortEvent {
            time: time.to_owned(),
            state: state.to_owned(),
            reason: reason.map(str::to_owned),
        };
        let expected = [
            event("1970-01-01T00:00:00.000Z", "waiting", None),
            event("1970-01-01T00:00:01.000Z", "connected", None),
            event(
                "1970-01-01T00:01:30.000Z",
                "faulted",
                Some("the peer truncated the file behind its memory"),
            ),
        ];
        assert_eq!(history.events(), expected);
    }

    #[test]
    fn the_oldest_events_are_removed() {
        let mut history = History::default();
        for number in 0..=MAX_EVENTS {
            let reason = PortFault::Protocol(number.to_string());
            history.push(UNIX_EPOCH, &PortState::Faulted(reason));
        }
        let events = history.events();
        assert_eq!(events.len(), MAX_EVENTS);
        let number = |event: &PortEvent| event.reason.as_ref().and_then(|reason| reason.chars().last());
        assert_eq!((number(&events[0]), number(&events[MAX_EVENTS - 1])), (Some('1'), Some('8')));
    }
}
