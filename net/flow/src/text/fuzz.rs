//! Fuzz target of text, also replayed by ordinary tests.

use super::{
    MAX_LENGTH, NoNames, Show, TextError, parse_flow, parse_group, parse_instructions, parse_match,
    parse_meter, show,
};
use crate::{FlowCommand, GroupCommand, Match, MeterCommand};
use std::fmt::{Debug, Display};

/// Reads `bytes` as everything that has a text.
///
/// # Panics
/// If something that is read is printed so that it is not read again, or an error is not within the text.
pub fn fuzz_text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    read(text, |text| parse_match(text, &NoNames));
    read(text, |text| parse_instructions(text, &Match::any(), &NoNames));
    read(text, |text| parse_flow(text, Some(FlowCommand::Add), &NoNames));
    read(text, |text| parse_flow(text, Some(FlowCommand::DeleteStrict), &NoNames));
    read(text, |text| parse_group(text, GroupCommand::Add, &NoNames));
    read(text, |text| parse_meter(text, MeterCommand::Add));
}

fn read<T: PartialEq + Debug>(text: &str, parse: impl Fn(&str) -> Result<T, TextError>)
where
    for<'a> Show<'a, T>: Display,
{
    match parse(text) {
        Ok(value) => {
            let printed = show(&value, &NoNames).to_string();
            // Printing spells words out, which may exceed the limit.
            if printed.len() <= MAX_LENGTH {
                assert_eq!(parse(&printed), Ok(value), "{text}: {printed}");
            }
        }
        Err(error) => assert!(text.get(error.range.clone()).is_some(), "{text}: {error:?}"),
    }
}
