//! `kind = "null"`: a port without a peer.

use super::kind::{Kind, Loaded, OpenError};
use crate::settings::reader::fields::Fields;
use crate::settings::reader::key::Key;
use crate::settings::reader::validation::PortCommon;
use crate::settings::reader::validation::Validation;
use ::port::PortControl;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Instant;

/// Settings of a null port: none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Null {}

impl Kind for Null {
    const NAME: &'static str = "null";
    const ABOUT: &'static str = "Receives no frames and discards sent frames";
    const KEYS: &'static [Key] = &[];
    #[cfg(test)]
    const EXAMPLES: &'static [&'static str] = &[""];

    fn read(_fields: &mut Fields<'_, '_>) -> Self {
        Self {}
    }

    fn validate(&self, validation: &mut Validation<'_>) {
        validation.one_queue_pair();
        validation.no_mtu();
    }

    fn place(&self) -> String {
        "-".to_owned()
    }

    fn one_way(&self, _names: &[&str]) -> Option<(&'static str, &'static str)> {
        Some(("no frame is received from a port of kind \"null\"", "name a port of another kind"))
    }

    fn open(&self, _port: PortCommon<'_>, _: Loaded) -> Result<Box<dyn PortControl>, OpenError> {
        Ok(Box::new(::port::null::Null::new(Instant::now())))
    }
}

impl fmt::Display for Null {
    fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}
