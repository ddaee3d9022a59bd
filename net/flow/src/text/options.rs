//! Options of Geneve tunnels and the fields that they are bound to, as `ovs-ofctl add-tlv-map` writes them.

use super::error::{Reason, TextError};
use super::names::find;
use super::piece::Piece;
use crate::options::Mapping;
use std::fmt;

/// `{class=CLASS,type=TYPE,len=LENGTH}->FIELD`.
pub(super) fn parse(text: Piece) -> Result<(u8, Mapping), TextError> {
    let form = || text.error(Reason::Expected("`{class=CLASS,type=TYPE,len=LENGTH}->tun_metadata0` to `7`"));
    let (option, name) = text.trim().split("->").ok_or_else(form)?;
    let option = option.trim();
    let inner = option.text.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).ok_or_else(form)?;
    let (mut class, mut kind, mut len) = (None, None, None);
    for word in (Piece { text: inner, at: option.at + 1 }).words() {
        let word = word?;
        match word.key.text {
            "class" => class = Some(word.integer()?),
            "type" => kind = Some(word.integer()?),
            "len" => len = Some(word.integer()?),
            _ => return Err(word.key.error(Reason::Expected("class, type or len"))),
        }
    }
    match (class, kind, len) {
        (Some(class), Some(kind), Some(len)) => Ok((field(name.trim())?, Mapping { class, kind, len })),
        _ => Err(form()),
    }
}

/// Number of the option that a field contains.
pub(super) fn field(name: Piece) -> Result<u8, TextError> {
    let error = || name.error(Reason::Expected("tun_metadata0 to tun_metadata7"));
    find(name).ok().and_then(|(named, _)| named.field.option()).ok_or_else(error)
}

impl fmt::Display for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { class, kind, len } = self;
        write!(f, "{{class={class:#x},type={kind:#x},len={len}}}")
    }
}

#[cfg(test)]
mod tests {
    use crate::text::{parse_option, parse_option_field};

    #[test]
    fn options_are_read_and_printed() {
        for text in
            ["{class=0x102,type=0x80,len=4}->tun_metadata0", "{class=0xffff,type=0x0,len=0}->tun_metadata7"]
        {
            let (n, mapping) = parse_option(text).unwrap();
            assert_eq!(format!("{mapping}->tun_metadata{n}"), text);
        }
        let (n, mapping) = parse_option(" { type=1, len=8 class=258 } -> tun_metadata1 ").unwrap();
        assert_eq!((n, mapping.class, mapping.kind, mapping.len), (1, 258, 1, 8));
        assert_eq!(parse_option_field("tun_metadata7"), Ok(7));
    }

    #[test]
    fn errors_say_what_is_expected() {
        for text in [
            "",
            "tun_metadata0",
            "{class=1,type=1}->tun_metadata0",
            "{class=1,type=1,len=4}",
            "{class=1,type=1,len=4,more=1}->tun_metadata0",
            "{class=65536,type=1,len=4}->tun_metadata0",
            "{class=1,type=1,len=4}->tun_metadata8",
            "{class=1,type=1,len=4}->reg0",
        ] {
            assert!(parse_option(text).is_err(), "{text}");
        }
        let error = parse_option_field("tun_id").unwrap_err().to_string();
        assert_eq!(error, "invalid `tun_id`: expected tun_metadata0 to tun_metadata7");
    }
}
