//! Ports by number, by name, and reserved ones.

use super::Out;
use super::error::{Reason, TextError};
use super::piece::Piece;
use crate::PortNo;
use std::fmt::{self, Write};

/// Names of the ports of a switch.
pub trait PortNames {
    /// Number of the port `name`.
    fn number(&self, name: &str) -> Option<PortNo>;
    /// Name of the port `number`.
    fn name(&self, number: PortNo) -> Option<&str>;
}

/// No names: ports are written as numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNames;

impl PortNames for NoNames {
    fn number(&self, _: &str) -> Option<PortNo> {
        None
    }

    fn name(&self, _: PortNo) -> Option<&str> {
        None
    }
}

/// Names of reserved ports. A number has the first of its names when printed.
const RESERVED: &[(&str, PortNo)] = &[
    ("IN_PORT", PortNo::IN_PORT),
    ("TABLE", PortNo::TABLE),
    ("NORMAL", PortNo::NORMAL),
    ("FLOOD", PortNo::FLOOD),
    ("ALL", PortNo::ALL),
    ("CONTROLLER", PortNo::CONTROLLER),
    ("LOCAL", PortNo::LOCAL),
    ("ANY", PortNo::ANY),
    ("NONE", PortNo::ANY),
];

/// Names of reserved ports, for suggestions.
pub(super) fn reserved() -> impl Iterator<Item = &'static str> {
    RESERVED.iter().map(|(name, _)| *name)
}

/// Numbers that OpenFlow 1.0 reserves. They are refused, because their meaning depends on the version.
const AMBIGUOUS: std::ops::RangeInclusive<u32> = 0xfff8..=0xffff;

/// Parses a number, a reserved name, or a name of `ports`, possibly in quotation marks.
pub(super) fn parse(text: Piece, ports: &dyn PortNames) -> Result<PortNo, TextError> {
    if let Ok(number) = text.integer() {
        let known = !AMBIGUOUS.contains(&number);
        return if known { Ok(PortNo(number)) } else { Err(text.error(Reason::UnknownPort)) };
    }
    if let Some((_, number)) = RESERVED.iter().find(|(name, _)| text.is(name)) {
        return Ok(*number);
    }
    ports.number(&unquoted(text.text)).ok_or_else(|| text.error(Reason::UnknownPort))
}

fn unquoted(text: &str) -> String {
    let Some(quoted) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) else {
        return text.to_owned();
    };
    let mut escaped = false;
    let keep = |c: &char| {
        escaped = *c == '\\' && !escaped;
        !escaped
    };
    quoted.chars().filter(keep).collect()
}

/// Prints the reserved name, the name, or the number.
pub(super) fn print(out: &mut Out, port: PortNo) -> fmt::Result {
    if let Some((name, _)) = RESERVED.iter().find(|(_, number)| *number == port) {
        return out.f.write_str(name);
    }
    match out.ports.name(port).filter(|name| unambiguous(name)) {
        Some(name) if is_plain(name) => out.f.write_str(name),
        Some(name) => print_quoted(out.f, name),
        None => write!(out.f, "{}", port.0),
    }
}

/// Whether a name means a port and nothing else.
fn unambiguous(name: &str) -> bool {
    !name.is_empty() && !RESERVED.iter().any(|(reserved, _)| name.eq_ignore_ascii_case(reserved))
}

fn is_plain(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(|c| c.is_ascii_alphanumeric())
}

fn print_quoted(f: &mut fmt::Formatter, name: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in name.chars() {
        write!(f, "{}{c}", if matches!(c, '"' | '\\') { "\\" } else { "" })?;
    }
    f.write_char('"')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::show;

    struct Names;

    impl PortNames for Names {
        fn number(&self, name: &str) -> Option<PortNo> {
            ["red", "eth0.5", "a\"\\,b", "local"]
                .iter()
                .position(|other| *other == name)
                .map(|at| PortNo(at as u32))
        }

        fn name(&self, number: PortNo) -> Option<&str> {
            ["red", "eth0.5", "a\"\\,b", "local"].get(number.0 as usize).copied()
        }
    }

    #[test]
    fn names_are_printed_so_that_they_are_read_again() {
        for (number, text) in [(0, "red"), (1, "\"eth0.5\""), (2, r#""a\"\\,b""#), (3, "3"), (9, "9")] {
            let printed = show(&PortNo(number), &Names).to_string();
            assert_eq!(printed, text);
            assert_eq!(parse(Piece::whole(text), &Names).unwrap(), PortNo(number));
        }
        assert_eq!(parse(Piece::whole("eth0.5"), &Names).unwrap(), PortNo(1));
    }

    #[test]
    fn reserved_names_win_and_old_numbers_are_refused() {
        assert_eq!(parse(Piece::whole("local"), &Names).unwrap(), PortNo::LOCAL);
        assert_eq!(parse(Piece::whole("4294967293"), &NoNames).unwrap(), PortNo::CONTROLLER);
        for text in ["65533", "blue", "", "-1", "4294967296", "01"] {
            assert!(parse(Piece::whole(text), &Names).is_err(), "{text}");
        }
    }
}
