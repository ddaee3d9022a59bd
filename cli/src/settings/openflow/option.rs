//! `tunnel_options`: options of Geneve tunnels and the fields that they are bound to.

use super::super::reader::fields::Fields;
use flow::text::parse_option;
use flow::{Mapping, OptionChange, OptionMap};
use serde::{Serialize, Serializer};

const KEY: &str = "tunnel_options";
const EXAMPLE: &str = "[\"{class=0x102,type=0x80,len=4}->tun_metadata0\"]";

/// An option and the number of its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TunnelOption(pub(crate) u8, pub(crate) Mapping);

impl std::fmt::Display for TunnelOption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}->tun_metadata{}", self.1, self.0)
    }
}

impl Serialize for TunnelOption {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads the options. They are valid together.
pub(super) fn read(fields: &mut Fields<'_, '_>) -> Vec<TunnelOption> {
    let parse = |text: &str| match parse_option(text) {
        Ok((n, mapping)) => Ok(TunnelOption(n, mapping)),
        Err(error) => Err(error.to_string()),
    };
    let found = fields.list(KEY, parse, EXAMPLE);
    let Err(error) = OptionMap::default().change(&added(&found), |_| false) else { return found };
    fields.wrong::<()>(KEY, format!("invalid `{KEY}`: {error}"), format!("write such as {KEY} = {EXAMPLE}"));
    Vec::new()
}

/// The change that binds the options.
pub(crate) fn added(options: &[TunnelOption]) -> OptionChange {
    OptionChange::Add(options.iter().map(|TunnelOption(n, mapping)| (*n, *mapping)).collect())
}
