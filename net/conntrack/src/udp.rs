//! UDP, and protocols without states of their own: packets of one side, then of both.

use crate::config::Timer;
use crate::connection::Update;
use serde::{Deserialize, Serialize};

/// Which packets were seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum State {
    /// One packet.
    First,
    /// Packets of one side.
    Single,
    /// Packets of both sides.
    Multiple,
}

impl State {
    pub(crate) fn update(&mut self, is_reply: bool) -> (Update, Option<Timer>) {
        *self = match *self {
            _ if is_reply => Self::Multiple,
            Self::First => Self::Single,
            state => state,
        };
        match self {
            Self::Multiple => (Update::Valid, Some(Timer::UdpMultiple)),
            Self::Single | Self::First => (Update::New, Some(Timer::UdpSingle)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_new_until_there_is_a_reply() {
        let mut state = State::First;
        assert_eq!(state.update(false), (Update::New, Some(Timer::UdpSingle)));
        assert_eq!(state.update(false), (Update::New, Some(Timer::UdpSingle)));
        assert_eq!(state.update(true), (Update::Valid, Some(Timer::UdpMultiple)));
        assert_eq!(state.update(false), (Update::Valid, Some(Timer::UdpMultiple)));
    }
}
