//! Requests and replies of ICMP and ICMPv6, such as echo messages.

use crate::config::Timer;
use crate::connection::Update;
use serde::{Deserialize, Serialize};

/// Which messages were seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum State {
    /// Requests.
    Request,
    /// A reply.
    Reply,
}

impl State {
    pub(crate) fn update(&mut self, is_reply: bool) -> (Update, Option<Timer>) {
        if is_reply {
            *self = Self::Reply;
        }
        match self {
            Self::Request => (Update::New, Some(Timer::IcmpFirst)),
            Self::Reply => (Update::Valid, Some(Timer::IcmpReply)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_new_until_there_is_a_reply() {
        let mut state = State::Request;
        assert_eq!(state.update(false), (Update::New, Some(Timer::IcmpFirst)));
        assert_eq!(state.update(true), (Update::Valid, Some(Timer::IcmpReply)));
        assert_eq!(state.update(false), (Update::Valid, Some(Timer::IcmpReply)));
    }
}
