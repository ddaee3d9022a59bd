//! Text of matches, actions, flows, groups and meters, as ovs-ofctl(8), ovs-fields(7) and ovs-actions(7) define it.
//!
//! Parsing accepts what ovs-ofctl accepts, except actions that this switch does not have, and refuses where ovs-ofctl
//! ignores or changes words. Printing gives what `ovs-ofctl dump-flows`, `dump-groups` and `dump-meters` print with
//! OpenFlow 1.3, and parsing gives the printed value again, in the normal form of the module `arbitrary`. Time and
//! memory are proportional to the length of the text, at most [`MAX_LENGTH`], times its nesting, at most [`MAX_DEPTH`].

mod actions;
mod connection;
mod control;
mod error;
#[cfg(test)]
mod examples;
mod flow;
#[cfg(any(test, feature = "fuzz"))]
mod fuzz;
mod group;
mod instructions;
mod learn;
mod matching;
mod meter;
mod names;
mod options;
mod part;
mod piece;
mod plain;
mod port;
mod set;
mod show_match;
#[cfg(test)]
mod tests;
mod trace;
mod value;

pub use error::{Reason, TextError};
pub use flow::{FlowCounters, FlowStats};
#[cfg(feature = "fuzz")]
pub use fuzz::fuzz_text;
pub use port::{NoNames, PortNames};

use crate::trace::{FieldChange, Fields};
use crate::translate::{Event, Operation};
use crate::{
    Action, FlowCommand, FlowMod, GroupCommand, GroupMod, Instructions, Mapping, Match, MeterCommand,
    MeterMod, PortNo,
};
use piece::Piece;
use std::fmt;

/// Maximum length of a text, in bytes.
pub const MAX_LENGTH: usize = 64 * 1024;

/// Maximum depth of actions within actions.
pub const MAX_DEPTH: usize = 16;

/// Parses a match, such as `in_port=1,tcp,nw_dst=192.0.2.0/24,tp_dst=80`.
///
/// # Errors
/// If a word is unknown, its value is invalid, or words contradict each other.
pub fn parse_match(text: &str, ports: &dyn PortNames) -> Result<Match, TextError> {
    let mut collector = matching::Collector::new(ports);
    whole(text)?.words().try_for_each(|word| collector.word(word?))?;
    collector.finish()
}

/// Parses a list of actions without instructions, for packets that `matching` selects.
///
/// # Errors
/// If a word is no action, or its arguments are invalid.
pub fn parse_actions(text: &str, matching: &Match, ports: &dyn PortNames) -> Result<Vec<Action>, TextError> {
    actions::parse(whole(text)?, &mut actions::Context::new(matching, ports))
}

/// Parses actions and instructions, as after `actions=`, for packets that `matching` selects.
///
/// # Errors
/// As [`parse_actions`], and if instructions are not in their order.
pub fn parse_instructions(
    text: &str,
    matching: &Match,
    ports: &dyn PortNames,
) -> Result<Instructions, TextError> {
    instructions::parse(whole(text)?, &mut actions::Context::new(matching, ports))
}

/// Parses a change of flows. Without `command`, the text may begin with `add`, `modify`, `modify_strict`, `delete` or
/// `delete_strict`, and `add` is the default.
///
/// # Errors
/// If a word is unknown, not allowed for the command, or invalid.
pub fn parse_flow(
    text: &str,
    command: Option<FlowCommand>,
    ports: &dyn PortNames,
) -> Result<FlowMod, TextError> {
    flow::parse(whole(text)?, command, ports)
}

/// Parses a change of groups, as `ovs-ofctl add-group`, `mod-group` and `del-groups` do.
///
/// # Errors
/// If a word is unknown, not allowed for the command, or invalid.
pub fn parse_group(text: &str, command: GroupCommand, ports: &dyn PortNames) -> Result<GroupMod, TextError> {
    group::parse(whole(text)?, command, ports)
}

/// Parses a change of meters, as `ovs-ofctl add-meter`, `mod-meter` and `del-meters` do.
///
/// # Errors
/// If a word is unknown, not allowed for the command, or invalid.
pub fn parse_meter(text: &str, command: MeterCommand) -> Result<MeterMod, TextError> {
    meter::parse(whole(text)?, command)
}

/// Parses an option of Geneve tunnels and the field that it is bound to, as `ovs-ofctl add-tlv-map` does:
/// `{class=0x102,type=0x80,len=4}->tun_metadata0`.
///
/// # Errors
/// If it has another form.
pub fn parse_option(text: &str) -> Result<(u8, Mapping), TextError> {
    options::parse(whole(text)?)
}

/// Parses the name of a field of an option, `tun_metadata0` to `tun_metadata7`.
///
/// # Errors
/// If it is another one.
pub fn parse_option_field(text: &str) -> Result<u8, TextError> {
    options::field(whole(text)?)
}

fn whole(text: &str) -> Result<Piece<'_>, TextError> {
    let piece = Piece::whole(text);
    if text.len() > MAX_LENGTH { Err(piece.error(Reason::TooLong)) } else { Ok(piece) }
}

/// Something that is printed with names of ports.
#[derive(Clone, Copy)]
pub struct Show<'a, T: ?Sized> {
    value: &'a T,
    ports: &'a dyn PortNames,
}

/// `value` as text.
pub fn show<'a, T: ?Sized>(value: &'a T, ports: &'a dyn PortNames) -> Show<'a, T> {
    Show { value, ports }
}

/// Where text is printed to.
struct Out<'a, 'f> {
    f: &'a mut fmt::Formatter<'f>,
    ports: &'a dyn PortNames,
}

/// A list whose items are separated by commas.
#[derive(Default)]
struct Separated {
    is_continued: bool,
}

impl Separated {
    /// Starts an item.
    fn item(&mut self, out: &mut Out) -> fmt::Result {
        let separator = if self.is_continued { "," } else { "" };
        self.is_continued = true;
        out.f.write_str(separator)
    }
}

macro_rules! shown {
    ($($kind:ty: $print:expr;)*) => {$(
        impl fmt::Display for Show<'_, $kind> {
            fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
                $print(&mut Out { f, ports: self.ports }, self.value)
            }
        }
    )*};
}

shown! {
    PortNo: |out: &mut Out, port: &PortNo| port::print(out, *port);
    Match: |out: &mut Out, found: &Match| show_match::print(out, found, &mut Separated::default());
    Action: actions::print;
    [Action]: actions::print_list;
    Instructions: instructions::print;
    FlowMod: flow::print;
    FlowStats<'_>: flow::print_stats;
    GroupMod: group::print;
    MeterMod: meter::print;
    Fields: trace::print_fields;
    FieldChange: trace::print_change;
    Event: trace::print_event;
    [Operation]: trace::print_operations;
}
