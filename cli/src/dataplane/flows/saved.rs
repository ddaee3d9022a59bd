//! Tables of OpenFlow bridges for another process, as OpenFlow messages.
//!
//! A flow is written as the message that adds it, in the version that expresses it, so that another version of the
//! switch reads what a controller could send. What no message expresses, such as fields that have no number, is written
//! in the syntax of `linerate flows`. Everything is read again before it is sent.

use super::Flows;
use super::trace::bytes;
use crate::dataplane::controllers::{port_bits, port_config};
use crate::dataplane::interface::DataPlaneError;
use crate::dataplane::state::{Continued, Counts, Numbers, SavedBridge, SavedCounters, SavedFlow};
use console::Diagnostic;
use flow::tables::{Flow, Group, Meter, RestoreError, SavedTables, Tables};
use flow::text::{NoNames, TextError, parse_flow, parse_group, parse_meter, show};
use flow::{
    FlowCommand, FlowMod, GroupCommand, MeterCommand, OptionChange, PortNo, RestoreTablesError, TableId,
};
use openflow::{FlowModRequest, Message, Version, decode, encode};
use port::Now;
use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::sync::{MutexGuard, PoisonError};

/// Versions of messages. A flow with a meter as an instruction needs the second one.
const VERSIONS: [Version; 2] = [Version::V15, Version::V14];

/// The flows of a bridge in their order, each with its counters when they were read.
#[derive(Debug, Default)]
pub(super) struct Handed {
    version: u64,
    flows: Vec<(Flow, Counts)>,
}

impl Flows {
    /// Numbers of ports for a switch that continues this one.
    pub(in crate::dataplane) fn continued(&self) -> Continued {
        let (mut numbers, mut of_file) = (BTreeMap::<_, Numbers>::new(), BTreeMap::new());
        // Poisoned locks are valid: entries change in one step.
        for ((bridge, name), number) in &*self.numbers.lock().unwrap_or_else(PoisonError::into_inner) {
            numbers.entry(bridge.clone()).or_default().insert(name.clone(), number.0);
        }
        for (bridge, flows) in &*self.of_file.lock().unwrap_or_else(PoisonError::into_inner) {
            of_file.insert(bridge.clone(), flows.numbers());
        }
        Continued { numbers, of_file, origin: None }
    }

    /// A poisoned lock is valid: an entry changes in one step.
    fn handed(&self) -> MutexGuard<'_, BTreeMap<String, Handed>> {
        self.handed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tables of a bridge.
    pub(in crate::dataplane) fn save(&self, bridge: &str) -> Result<SavedBridge, DataPlaneError> {
        let tables = self.switch.tables(bridge).map_err(|e| failed(bridge, &e))?;
        let flows = tables.all_flows().map(|flow| (flow.clone(), flow.entry().counts())).collect();
        self.handed().insert(bridge.to_owned(), Handed { version: tables.version(), flows });
        let ports = self.switch.port_configs(bridge).into_iter();
        let ports = ports.map(|(number, config)| (number.0, port_bits(config))).collect();
        let standalone = self.switch.is_standalone(bridge);
        Ok(SavedBridge { name: bridge.to_owned(), standalone, ports, ..saved(bridge, &tables)? })
    }

    /// Continues without another process.
    pub(in crate::dataplane) fn keep(&self) {
        self.handed().clear();
        self.tracker().stop_recording();
    }

    /// Checks that the tables are as [`Flows::save`] has read them.
    pub(in crate::dataplane) fn check_unchanged(&self) -> Result<(), DataPlaneError> {
        let handed = self.handed();
        let is_same = |bridge: &&String| {
            let now = self.switch.tables(bridge).map(|tables| tables.version()).ok();
            now == handed.get(*bridge).map(|handed| handed.version)
        };
        match self.bridges.iter().find(|bridge| !is_same(bridge)) {
            Some(bridge) => Err(failed(bridge, &"they were changed while they were handed over")),
            None => Ok(()),
        }
    }

    /// Replaces the tables of a bridge by those of another process.
    pub(in crate::dataplane) fn restore(&self, saved: &SavedBridge) -> Result<(), DataPlaneError> {
        let bridge = saved.name.as_str();
        let tables = saved.tables().map_err(|message| failed(bridge, &message))?;
        let restored = self.switch.restore_tables(bridge, &tables, self.now());
        let flows = restored.map_err(|error| match error {
            RestoreTablesError::Tables(RestoreError::Flow(i, error)) => {
                let flow = tables.flows.get(i).map(|saved| text(&saved.flow)).unwrap_or_default();
                failed(bridge, &format!("flow \"{flow}\": {error}"))
            }
            error => failed(bridge, &error),
        })?;
        let flows = flows.into_iter().map(|flow| (flow, (0, 0))).collect();
        self.handed().insert(bridge.to_owned(), Handed { version: 0, flows });
        for (number, bits) in &saved.ports {
            if let Some(port) = self.switch.port(bridge, PortNo(*number)) {
                self.switch.configure_port(port, port_config(*bits));
            }
        }
        self.switch.set_standalone(bridge, saved.standalone).map_err(|e| failed(bridge, &e))
    }

    /// Counters of a bridge whose tables were read, and forgets these.
    pub(in crate::dataplane) fn counters(&self, bridge: &str) -> SavedCounters {
        let mut counters = SavedCounters { name: bridge.to_owned(), ..SavedCounters::default() };
        let handed = self.handed().remove(bridge).unwrap_or_default();
        for (i, (flow, before)) in handed.flows.iter().enumerate() {
            let (packets, bytes) = flow.entry().counts();
            let more = (packets.saturating_sub(before.0), bytes.saturating_sub(before.1));
            if more.0 > 0 {
                counters.flows.push((i, more, flow.entry().used().0));
            }
        }
        if let Ok(tables) = self.switch.tables(bridge) {
            counters.groups = tables.groups().map(|group| group_counts(group)).collect();
            counters.meters = tables.meters().map(|meter| meter_counts(meter)).collect();
        }
        counters
    }

    /// Adds counters of another process, whose tables were restored.
    pub(in crate::dataplane) fn restore_counters(&self, counters: &SavedCounters) {
        let handed = self.handed().remove(&counters.name).unwrap_or_default();
        for (i, (packets, bytes), used) in &counters.flows {
            if let Some((flow, _)) = handed.flows.get(*i) {
                flow.entry().count(*packets, *bytes, Now(*used));
            }
        }
        let Ok(tables) = self.switch.tables(&counters.name) else { return };
        for (id, counts, buckets) in &counters.groups {
            let Some(group) = tables.group(*id) else { continue };
            group.counter().add(counts.0, counts.1);
            let places = (0..).map_while(|i| group.bucket_counter(i));
            places.zip(buckets).for_each(|(counter, counts)| counter.add(counts.0, counts.1));
        }
        for (id, counts, bands) in &counters.meters {
            if let Some(meter) = tables.meter(*id) {
                meter.add(*counts, bands);
            }
        }
    }
}

fn group_counts(group: &Group) -> (u32, Counts, Vec<Counts>) {
    let buckets = (0..).map_while(|i| group.bucket_counter(i)).map(|counter| counter.counts());
    (group.id(), group.counter().counts(), buckets.collect())
}

fn meter_counts(meter: &Meter) -> (u32, Counts, Vec<Counts>) {
    (meter.id, meter.counts(), meter.band_counts().collect())
}

/// The tables, without settings of the bridge and its ports.
fn saved(bridge: &str, tables: &Tables) -> Result<SavedBridge, DataPlaneError> {
    let SavedTables { options, meters, groups, flows, evicting, drops_fragments } = tables.save();
    let written = |what: &dyn Fn() -> String, message: Message| {
        let reason = || format!("{} cannot be written for another process", what());
        written(&message).ok_or_else(|| failed(bridge, &reason()))
    };
    let options = Some(options).filter(|options| !options.is_empty()).map(|options| {
        written(&|| "the map of options".to_owned(), Message::TlvTableMod(OptionChange::Add(options)))
    });
    let meters = meters.into_iter().map(|(meter, created)| {
        let id = meter.id;
        Ok((written(&|| format!("meter {id}"), Message::MeterMod(meter))?, created.0))
    });
    let groups = groups.into_iter().map(|(group, created)| {
        let id = group.id;
        Ok((written(&|| format!("group {id}"), Message::GroupMod(group))?, created.0))
    });
    let flows = flows.into_iter().map(|saved| {
        let request = FlowModRequest { flow: saved.flow.clone(), buffer: None };
        let message = Message::FlowMod(Box::new(request));
        Ok(SavedFlow {
            message: written(&|| format!("flow \"{}\"", text(&saved.flow)), message)?,
            created: saved.created.0,
            used: saved.used.0,
            refreshed: saved.refreshed.0,
            counts: saved.counts,
        })
    });
    Ok(SavedBridge {
        drops_fragments,
        evicting: evicting.iter().map(|table| table.0).collect(),
        options: options.transpose()?,
        meters: meters.collect::<Result<_, DataPlaneError>>()?,
        groups: groups.collect::<Result<_, DataPlaneError>>()?,
        flows: flows.collect::<Result<_, DataPlaneError>>()?,
        ..SavedBridge::default()
    })
}

impl SavedBridge {
    /// The tables of the messages.
    fn tables(&self) -> Result<SavedTables, String> {
        let mut tables = SavedTables {
            evicting: self.evicting.iter().map(|table| TableId(*table)).collect(),
            drops_fragments: self.drops_fragments,
            ..SavedTables::default()
        };
        if let Some(message) = &self.options {
            let Message::TlvTableMod(OptionChange::Add(options)) = read(message)? else {
                return Err(unexpected(message));
            };
            tables.options = options;
        }
        for (message, created) in &self.meters {
            let Message::MeterMod(meter) = read(message)? else { return Err(unexpected(message)) };
            tables.meters.push((meter, Now(*created)));
        }
        for (message, created) in &self.groups {
            let Message::GroupMod(group) = read(message)? else { return Err(unexpected(message)) };
            tables.groups.push((group, Now(*created)));
        }
        for SavedFlow { message, created, used, refreshed, counts } in &self.flows {
            let Message::FlowMod(change) = read(message)? else { return Err(unexpected(message)) };
            let [created, used, refreshed] = [created, used, refreshed].map(|time| Now(*time));
            let (flow, counts) = (change.flow, *counts);
            tables.flows.push(flow::tables::SavedFlow { flow, created, used, refreshed, counts });
        }
        Ok(tables)
    }
}

/// A message as text that gives it again when it is read. `None` if nothing expresses it.
fn written(message: &Message) -> Option<String> {
    digits(message).or_else(|| syntax(message))
}

/// A message in hexadecimal digits.
fn digits(message: &Message) -> Option<String> {
    let mut bytes = Vec::new();
    VERSIONS.into_iter().find(|version| {
        bytes.clear();
        encode(message, *version, 0, &mut bytes).is_ok() && decode(&bytes, *version).as_ref() == Ok(message)
    })?;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    Some(text)
}

/// A message in the syntax of `linerate flows`, behind its kind.
fn syntax(message: &Message) -> Option<String> {
    let text = match message {
        Message::FlowMod(change) => format!("flow {}", show(&change.flow, &NoNames)),
        Message::GroupMod(group) => format!("group {}", show(group, &NoNames)),
        Message::MeterMod(meter) => format!("meter {}", show(meter, &NoNames)),
        _ => return None,
    };
    (read(&text).as_ref() == Ok(message)).then_some(text)
}

/// The message of [`written`].
fn read(text: &str) -> Result<Message, String> {
    let invalid = |error: TextError| format!("{}: {error}", unexpected(text));
    match text.split_once(' ') {
        Some(("flow", flow)) => {
            let flow = parse_flow(flow, Some(FlowCommand::Add), &NoNames).map_err(invalid)?;
            Ok(Message::FlowMod(Box::new(FlowModRequest { flow, buffer: None })))
        }
        Some(("group", group)) => {
            parse_group(group, GroupCommand::Add, &NoNames).map(Message::GroupMod).map_err(invalid)
        }
        Some(("meter", meter)) => {
            parse_meter(meter, MeterCommand::Add).map(Message::MeterMod).map_err(invalid)
        }
        Some(_) => Err(unexpected(text)),
        None => decoded(text),
    }
}

/// The message of [`digits`].
fn decoded(text: &str) -> Result<Message, String> {
    let bytes = bytes(text).filter(|bytes| !bytes.is_empty()).ok_or_else(|| unexpected(text))?;
    let version = Version::from_number(bytes[0]).ok_or_else(|| unexpected(text))?;
    decode(&bytes, version).map_err(|error| format!("{}: {error}", unexpected(text)))
}

fn unexpected(message: &str) -> String {
    format!("OpenFlow message {message} of the running switch is not one of this version")
}

fn text(flow: &FlowMod) -> String {
    show(flow, &NoNames).to_string()
}

fn failed(bridge: &str, reason: &dyn Display) -> DataPlaneError {
    let place = format!("flow tables of bridge \"{bridge}\"");
    let remedy = "remove what is named, see `linerate flows show`; or try again";
    DataPlaneError::Refused(Diagnostic::failed(place, reason, remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::arbitrary::{any_flow, any_group, any_meter};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn flows_are_read_as_written(flow in any_flow()) {
            let message = Message::FlowMod(Box::new(FlowModRequest { flow, buffer: None }));
            let written = written(&message);
            prop_assert!(written.is_some(), "{message:?}");
            prop_assert_eq!(read(&written.unwrap()), Ok(message));
        }

        #[test]
        fn groups_and_meters_are_read_as_written(group in any_group(), meter in any_meter()) {
            for message in [Message::GroupMod(group), Message::MeterMod(meter)] {
                prop_assert_eq!(read(&written(&message).unwrap()), Ok(message));
            }
        }
    }

    #[test]
    fn a_message_that_this_version_cannot_read_is_named() {
        let saved = SavedBridge { options: Some("0600000800000000".to_owned()), ..SavedBridge::default() };
        assert!(saved.tables().unwrap_err().contains("message 0600000800000000"));
        assert!(read("09").is_err() && read("").is_err() && read("0").is_err());
    }
}
