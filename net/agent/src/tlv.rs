//! The map from options of tunnels to fields: requests for it, and matches that contain such fields.

use crate::codes::match_code;
use crate::request::{Answer, Request};
use flow::{Field, Match, OptionMap};
use openflow::{ErrorCode, Message, TlvTable};

impl Request<'_> {
    pub(crate) fn tlv_table(&mut self) -> Answer {
        let entries = self.datapath.tables().options().iter().collect();
        let (space, fields) = (OptionMap::SPACE as u32, Field::OPTIONS.into());
        self.reply(&Message::TlvTableReply(TlvTable { space, fields, entries }))
    }

    /// A match of a request in the form in which tables have it.
    ///
    /// # Errors
    /// If a field is not mapped, or a value is longer than its option.
    pub(crate) fn normal(&self, matching: &Match) -> Result<Match, ErrorCode> {
        self.datapath.tables().options().normal(matching).map_err(match_code)
    }
}
