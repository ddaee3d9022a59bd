//! Flows: a match, properties and instructions on one line.

use super::actions::Context;
use super::error::{Reason, TextError};
use super::instructions::{self, mask_of};
use super::matching::Collector;
use super::piece::{Piece, Word, Words};
use super::{Out, PortNames, Separated, control, port, show_match};
use crate::matching::Match;
use crate::modify::{FlowCommand, FlowFlags, FlowMod, TableId};
use std::fmt;
use std::time::Duration;

type Parsed = Result<(), TextError>;

/// Priority of a flow that states none.
pub(super) const DEFAULT_PRIORITY: u16 = 0x8000;

const COMMANDS: &[(&str, FlowCommand)] = &[
    ("add", FlowCommand::Add),
    ("modify", FlowCommand::Modify),
    ("modify_strict", FlowCommand::ModifyStrict),
    ("delete", FlowCommand::Delete),
    ("delete_strict", FlowCommand::DeleteStrict),
];

type Flag = fn(&mut FlowFlags) -> &mut bool;

/// Flags, in the order in which they are printed.
const FLAGS: &[(&str, Flag)] = &[
    ("send_flow_rem", |flags| &mut flags.send_removed),
    ("check_overlap", |flags| &mut flags.check_overlap),
    ("reset_counts", |flags| &mut flags.reset_counts),
    ("no_packet_counts", |flags| &mut flags.no_packet_counts),
    ("no_byte_counts", |flags| &mut flags.no_byte_counts),
];

/// Words that `ovs-ofctl dump-flows` prints and that have no meaning in a change.
const IGNORED: &[&str] = &["duration", "n_packets", "n_bytes", "idle_age", "hard_age"];

const PROPERTIES: &[&str] = &[
    "table",
    "priority",
    "cookie",
    "idle_timeout",
    "hard_timeout",
    "importance",
    "out_port",
    "out_group",
    "actions",
];

/// Keywords, for suggestions.
pub(super) fn keywords() -> impl Iterator<Item = &'static str> {
    PROPERTIES.iter().copied().chain(FLAGS.iter().map(|(name, _)| *name))
}

/// Counters of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowCounters {
    /// Time since it was added.
    pub duration: Duration,
    /// Packets; `None` if they are not counted.
    pub packets: Option<u64>,
    /// Bytes; `None` if they are not counted.
    pub bytes: Option<u64>,
}

/// A flow with its counters.
#[derive(Clone, Copy, Debug)]
pub struct FlowStats<'a> {
    /// The flow as it was added.
    pub flow: &'a FlowMod,
    /// Counters.
    pub counters: FlowCounters,
}

fn deletes(command: FlowCommand) -> bool {
    matches!(command, FlowCommand::Delete | FlowCommand::DeleteStrict)
}

/// The command at the beginning of the text, and the text after it.
fn leading(text: Piece) -> (FlowCommand, Piece) {
    let trimmed = text.trim();
    let (word, rest) = trimmed.cut(trimmed.text.find([' ', '\t', ',']).unwrap_or(trimmed.text.len()));
    let found = COMMANDS.iter().find(|(name, _)| *name == word.text);
    found.map_or((FlowCommand::Add, text), |(_, command)| (*command, rest))
}

/// Parses a flow. See [`super::parse_flow`].
pub(super) fn parse(
    text: Piece,
    command: Option<FlowCommand>,
    ports: &dyn PortNames,
) -> Result<FlowMod, TextError> {
    let (command, text) = command.map_or_else(|| leading(text), |command| (command, text));
    let mut flow = empty(command);
    let mut collector = Collector::new(ports);
    let mut words = text.words();
    let actions = properties(&mut flow, &mut collector, &mut words, ports)?;
    flow.matching = collector.finish()?;
    match actions {
        Some(word) if deletes(command) => return Err(word.error(Reason::Command)),
        Some(actions) => {
            flow.instructions = instructions::parse(actions, &mut Context::new(&flow.matching, ports))?;
        }
        None if deletes(command) => {}
        None => return Err(text.error(Reason::Missing("`actions=`; use `actions=drop` to drop packets"))),
    }
    Ok(flow)
}

fn empty(command: FlowCommand) -> FlowMod {
    FlowMod {
        table: if deletes(command) { TableId::ALL } else { TableId(0) },
        ..FlowMod::new(command, &Match::any(), DEFAULT_PRIORITY)
    }
}

/// Parses the words up to the actions, and returns the text of those.
fn properties<'a>(
    flow: &mut FlowMod,
    collector: &mut Collector<'a>,
    words: &mut Words<'a>,
    ports: &dyn PortNames,
) -> Result<Option<Piece<'a>>, TextError> {
    loop {
        let rest = words.rest();
        let Some(word) = words.next() else { return Ok(None) };
        let word = word?;
        if matches!(word.key.text, "actions" | "action") {
            return Ok(Some(rest.after(word.value.at - rest.at)));
        }
        if IGNORED.contains(&word.key.text) {
            continue;
        }
        if !property(flow, word, ports)? {
            collector.word(word)?;
        }
    }
}

/// Sets a property, or returns false if the word is none.
fn property(flow: &mut FlowMod, word: Word, ports: &dyn PortNames) -> Result<bool, TextError> {
    if let Some((_, flag)) = FLAGS.iter().find(|(name, _)| *name == word.key.text) {
        allow(!deletes(flow.command), word)?;
        *flag(&mut flow.flags) = true;
        return word.alone().map(|()| true);
    }
    match word.key.text {
        "table" => flow.table = table(flow.command, word)?,
        "cookie" => cookie(flow, word.required()?)?,
        "priority" => {
            allow(!matches!(flow.command, FlowCommand::Delete), word)?;
            flow.priority = word.integer()?;
        }
        "idle_timeout" => {
            allow(!deletes(flow.command), word)?;
            flow.idle_timeout = word.integer()?;
        }
        "hard_timeout" => {
            allow(!deletes(flow.command), word)?;
            flow.hard_timeout = word.integer()?;
        }
        "importance" => {
            allow(flow.command == FlowCommand::Add, word)?;
            flow.importance = word.integer()?;
        }
        "out_port" => {
            allow(deletes(flow.command), word)?;
            flow.out_port = Some(port::parse(word.required()?.value, ports)?);
        }
        "out_group" => {
            allow(deletes(flow.command), word)?;
            flow.out_group = Some(word.integer()?);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn allow(allowed: bool, word: Word) -> Parsed {
    if allowed { Ok(()) } else { Err(word.key.error(Reason::Command)) }
}

fn table(command: FlowCommand, word: Word) -> Result<TableId, TextError> {
    let text = word.required()?.value;
    let is_all = matches!(text.text, "255" | "all") && deletes(command);
    if is_all { Ok(TableId::ALL) } else { control::table(text) }
}

/// `cookie=VALUE` for flows that are added, `cookie=VALUE/MASK` to select flows.
fn cookie(flow: &mut FlowMod, word: Word) -> Parsed {
    let (value, mask) = word.value.split_or_all("/");
    let selects = mask.is_some();
    let expected = if deletes(flow.command) { "VALUE/MASK, as in 1/-1" } else { "a value without a mask" };
    if selects && flow.command == FlowCommand::Add || !selects && deletes(flow.command) {
        return Err(word.value.error(Reason::Expected(expected)));
    }
    flow.cookie_mask = mask.map_or(Ok(0), mask_of)?;
    let value: u64 = value.integer()?;
    flow.cookie = if selects { value & flow.cookie_mask } else { value };
    Ok(())
}

/// Prints a flow without its command, so that [`super::parse_flow`] with that command gives it again.
pub(super) fn print(out: &mut Out, flow: &FlowMod) -> fmt::Result {
    let (cookie, mask) = (flow.cookie, flow.cookie_mask);
    if mask != 0 {
        write!(out.f, "cookie={cookie:#x}/{mask:#x}, ")?;
    } else if cookie != 0 {
        write!(out.f, "cookie={cookie:#x}, ")?;
    }
    if flow.table != empty(flow.command).table {
        write!(out.f, "table={}, ", flow.table.0)?;
    }
    print_selection(out, flow)?;
    print_rest(out, flow)
}

/// Prints what selects flows for deletion.
fn print_selection(out: &mut Out, flow: &FlowMod) -> fmt::Result {
    if let Some(port) = flow.out_port {
        out.f.write_str("out_port=")?;
        port::print(out, port)?;
        out.f.write_str(", ")?;
    }
    flow.out_group.map_or(Ok(()), |group| write!(out.f, "out_group={group}, "))
}

/// Prints a flow and its counters as `ovs-ofctl dump-flows` does.
pub(super) fn print_stats(out: &mut Out, stats: &FlowStats) -> fmt::Result {
    let FlowStats { flow, counters } = stats;
    let count = |count: Option<u64>| count.map_or_else(|| "?".to_owned(), |count| count.to_string());
    write!(out.f, "cookie={:#x}, duration={}s, ", flow.cookie, Seconds(counters.duration))?;
    let (packets, bytes) = (count(counters.packets), count(counters.bytes));
    write!(out.f, "table={}, n_packets={packets}, n_bytes={bytes}, ", flow.table.0)?;
    print_rest(out, flow)
}

/// Prints timeouts, flags, match and instructions.
fn print_rest(out: &mut Out, flow: &FlowMod) -> fmt::Result {
    for (name, value) in [("idle_timeout", flow.idle_timeout), ("hard_timeout", flow.hard_timeout)] {
        if value != 0 {
            write!(out.f, "{name}={value}, ")?;
        }
    }
    let mut flags = flow.flags;
    for (name, flag) in FLAGS {
        if *flag(&mut flags) {
            write!(out.f, "{name} ")?;
        }
    }
    if flow.importance != 0 {
        write!(out.f, "importance={}, ", flow.importance)?;
    }
    let mut list = Separated::default();
    if flow.priority != DEFAULT_PRIORITY {
        list.item(out)?;
        write!(out.f, "priority={}", flow.priority)?;
    }
    show_match::print(out, &flow.matching, &mut list)?;
    if deletes(flow.command) {
        return Ok(());
    }
    out.f.write_str(if list.is_continued { " actions=" } else { "actions=" })?;
    instructions::print(out, &flow.instructions)
}

/// Seconds without fraction, or with milliseconds if exact, or with all significant digits.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (seconds, nanoseconds) = (self.0.as_secs(), self.0.subsec_nanos());
        match nanoseconds {
            0 => write!(f, "{seconds}"),
            _ if nanoseconds.is_multiple_of(1_000_000) => {
                write!(f, "{seconds}.{:03}", nanoseconds / 1_000_000)
            }
            _ => write!(f, "{seconds}.{}", format!("{nanoseconds:09}").trim_end_matches('0')),
        }
    }
}
