//! `linerate trace --live`: follows packets of running ports.
//!
//! The switch captures the steps of each packet with its number. What its flow tables or its forwarding table do with
//! the headers is asked for when the packet arrives here, so it is that of this moment, and marked so.

use super::hex;
use super::records::{Outcome, Reader, TraceRecord};
use crate::api::client::{Client, query};
use crate::api::model::{FdbReport, PortReport, Status};
use crate::args::trace::TraceArgs;
use crate::commands::capture::compile;
use crate::commands::show::trace;
use crate::dataplane::flow_report::{TraceReport, TraceRequest};
use crate::dataplane::report::FdbEntry;
use crate::settings::vlan::Vlan;
use console::units::nanoseconds;
use console::{Diagnostic, Output};
use port::pcap::summary;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant, UNIX_EPOCH};
use wire::{Ethernet, MacAddress, Tag};

/// Bytes of a packet that are captured: all headers that flow tables read.
const SNAP: u32 = 256;
/// Received packets whose headers are kept, to find changes.
const KEPT: usize = 512;
/// How long the last packet may need to its last step, and the switch to write it: it writes every 200 ms.
const SETTLED: Duration = Duration::from_millis(500);

/// Follows packets until the limit, a signal, or the end of the output.
pub(super) fn run(args: &TraceArgs, client: &Client) -> anyhow::Result<()> {
    let parameters = query([
        ("trace", Some(args.rate.to_string())),
        ("ports", Some(args.ports.join(",")).filter(|ports| !ports.is_empty())),
        ("snaplen", Some(SNAP.to_string())),
        ("filter", args.filter.as_deref().map(compile).transpose()?),
    ]);
    let (mut reader, mut follower) = (Reader::default(), Follower::new(args, client)?);
    // Requests for each packet need a runtime, which must not be made within the one that reads the stream.
    let (sender, pieces) = std::sync::mpsc::channel::<Vec<u8>>();
    let (path, own) = (format!("/v1/capture?{parameters}"), client.clone());
    let stream = std::thread::spawn(move || {
        let sent = |_| ErrorKind::BrokenPipe.into();
        own.stream(&path, |_| {}, |piece| sender.send(piece.to_vec()).map_err(sent))
    });
    loop {
        let left =
            follower.until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
        let piece = match pieces.recv_timeout(left) {
            Ok(piece) => piece,
            // The process ends the thread.
            Err(RecvTimeoutError::Timeout) => return Ok(()),
            Err(RecvTimeoutError::Disconnected) => break,
        };
        let shown = reader.read(&piece).and_then(|records| records.iter().try_for_each(|r| follower.show(r)));
        match shown {
            Ok(()) => {}
            // The reader of the output has ended.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            Err(e) => {
                return Err(Diagnostic::failed("trace --live", e, "use the linerate of the switch").into());
            }
        }
    }
    match stream.join() {
        Ok(ended) => Ok(ended.map(drop)?),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Where a port is.
struct Place {
    bridge: String,
    /// Whether the bridge has flow tables.
    has_flows: bool,
    /// Whether the bridge learns addresses by VLAN, because one of its ports has VLANs.
    has_vlans: bool,
    /// VLAN of untagged frames, if the port has one of its own. Members of bonds have that of the bond.
    vlan: Option<u16>,
}

struct Follower<'a> {
    client: &'a Client,
    output: Output,
    /// Number of the last packet that is printed.
    limit: u32,
    /// When the last step of the last packet was printed, at the latest.
    until: Option<Instant>,
    /// What is known about each port.
    ports: BTreeMap<String, Place>,
    received: BTreeMap<u32, Vec<u8>>,
}

impl<'a> Follower<'a> {
    fn new(args: &TraceArgs, client: &'a Client) -> Result<Self, Diagnostic> {
        let ports: Vec<PortReport> = client.get("/v1/ports")?;
        let Status { bridges, .. } = client.get("/v1/status")?;
        let has_flows = |name: &str| bridges.iter().any(|b| b.name == name && b.flows.is_some());
        let with_vlans = ports.iter().filter(|port| port.settings.policy.vlan.is_some());
        let with_vlans: BTreeSet<_> = with_vlans.map(|port| port.settings.bridge.clone()).collect();
        let ports = ports.into_iter().map(|PortReport { settings, .. }| {
            let vlan = match settings.policy.vlan {
                Some(Vlan::Access(vlan)) => Some(vlan),
                Some(Vlan::Trunk { native, .. }) => native,
                None => None,
            };
            let has_flows = has_flows(&settings.bridge);
            let has_vlans = with_vlans.contains(&settings.bridge);
            (settings.name, Place { bridge: settings.bridge, has_flows, has_vlans, vlan })
        });
        let limit = args.limit.map_or(u32::MAX, |limit| limit.try_into().unwrap_or(u32::MAX));
        let (ports, received) = (ports.collect(), BTreeMap::new());
        Ok(Self { client, output: args.show.output, limit, until: None, ports, received })
    }

    /// Prints a step of a packet within the limit. Returns `BrokenPipe` if the output is closed.
    fn show(&mut self, record: &TraceRecord) -> std::io::Result<()> {
        if record.number >= self.limit {
            self.until.get_or_insert_with(|| Instant::now() + SETTLED);
        }
        if record.number > self.limit {
            return Ok(());
        }
        let is_received = record.outcome == Outcome::Received;
        let lookup = if is_received { self.look_up(record) } else { None };
        let text = match self.output {
            Output::Table => self.text(record, lookup.as_ref()),
            Output::Json => format!("{}\n", value(record, lookup.as_ref())),
        };
        if is_received {
            self.received.insert(record.number, record.head.clone());
            while self.received.len() > KEPT {
                self.received.pop_first();
            }
        }
        console::raw(text.as_bytes()).map_err(|_| ErrorKind::BrokenPipe.into())
    }

    fn text(&self, record: &TraceRecord, lookup: Option<&Lookup>) -> String {
        let TraceRecord { number, port, length, .. } = record;
        let is_changed = self.received.get(number).is_some_and(|head| *head != record.head);
        let changed = if is_changed { format!("; now {}", summary(&record.head)) } else { String::new() };
        let after = format!("#{number}    +{}", nanoseconds(record.since_ns));
        let verdict = match record.verdict_ns {
            0 => String::new(),
            ns => format!(" (verdict after {})", nanoseconds(ns)),
        };
        match &record.outcome {
            Outcome::Sent => format!("{after}  sent to {port}{verdict}{changed}\n"),
            Outcome::Queued => format!("{after}  queued at {port}{verdict}{changed}\n"),
            Outcome::Dropped(reason) => format!("{after}  dropped at {port}: {reason}{verdict}{changed}\n"),
            Outcome::Received => {
                let time = humantime::format_rfc3339_nanos(UNIX_EPOCH + Duration::from_nanos(record.time));
                let packet = summary(&record.head);
                let skipped = match record.skipped {
                    0 => String::new(),
                    skipped => format!("({skipped} packets were skipped)\n"),
                };
                let lookup = lookup.map(|lookup| lookup.text(*number)).unwrap_or_default();
                format!("{skipped}#{number} {time}  received at {port}: {length} B {packet}\n{lookup}")
            }
        }
    }

    /// What the switch does now with a packet with these headers; `None` if it cannot be found out.
    fn look_up(&self, record: &TraceRecord) -> Option<Lookup> {
        let Place { bridge, has_flows, has_vlans, vlan } = self.ports.get(&record.port)?;
        if *has_flows {
            let request = TraceRequest {
                bridge: Some(bridge.clone()),
                flow: None,
                in_port: Some(record.port.clone()),
                frame: Some(hex(&record.head)),
                length: Some(record.length as usize),
                ct_next: Vec::new(),
            };
            let body = serde_json::to_value(request).ok()?;
            return self.client.post("/v1/trace", &body).ok().map(Lookup::Tables);
        }
        let to = MacAddress::from(*record.head.first_chunk()?);
        let vlan = tag(&record.head).filter(|_| *has_vlans).or(*vlan);
        let parameters = query([
            ("bridge", Some(bridge.clone())),
            ("mac", Some(to.to_string())),
            ("vlan", vlan.map(|vlan| vlan.to_string())),
        ]);
        let FdbReport { entries, .. } = self.client.get(&format!("/v1/fdb?{parameters}")).ok()?;
        Some(Lookup::Addresses { bridge: bridge.clone(), to, vlan, entries })
    }
}

/// VLAN of a tagged frame. A priority tag has none.
fn tag(head: &[u8]) -> Option<u16> {
    Ethernet::new(head).ok()?.tag().map(Tag::vlan).filter(|vlan| *vlan != 0)
}

/// What a bridge does with headers.
enum Lookup {
    Tables(TraceReport),
    Addresses {
        bridge: String,
        to: MacAddress,
        /// VLAN of the packet; `None` if it is not known, so that entries are those of all VLANs.
        vlan: Option<u16>,
        entries: Vec<FdbEntry>,
    },
}

impl Lookup {
    fn text(&self, number: u32) -> String {
        let text = match self {
            Self::Tables(report) => format!("simulated with the tables of now:\n{}", trace::text(report)),
            Self::Addresses { bridge, to, vlan, entries } => {
                let place = |entry: &FdbEntry| format!("{}{}", entry.port, in_vlan(Some(entry.vlan)));
                let places: Vec<_> = entries.iter().map(place).collect();
                let place = match places.as_slice() {
                    [] => format!("not in the forwarding table{}", in_vlan(*vlan)),
                    places => format!("at {}", places.join(", ")),
                };
                format!("bridge {bridge}, now: {to} is {place}")
            }
        };
        let lines: Vec<_> = text.lines().map(|line| format!("#{number}    {line}")).collect();
        lines.join("\n") + "\n"
    }
}

/// A VLAN after a name, unless it is 0, which stands for none.
fn in_vlan(vlan: Option<u16>) -> String {
    vlan.filter(|vlan| *vlan != 0).map(|vlan| format!(" (VLAN {vlan})")).unwrap_or_default()
}

/// A step as JSON.
fn value(record: &TraceRecord, lookup: Option<&Lookup>) -> Value {
    let (step, reason) = match &record.outcome {
        Outcome::Received => ("received", None),
        Outcome::Sent => ("sent", None),
        Outcome::Queued => ("queued", None),
        Outcome::Dropped(reason) => ("dropped", Some(reason)),
    };
    let simulated = match lookup {
        Some(Lookup::Tables(report)) => json!(report),
        Some(Lookup::Addresses { bridge, to, vlan, entries }) => {
            let place = |entry: &FdbEntry| json!({ "port": entry.port, "vlan": entry.vlan });
            let places: Vec<_> = entries.iter().map(place).collect();
            json!({ "bridge": bridge, "mac": to, "vlan": vlan, "ports": places })
        }
        None => Value::Null,
    };
    json!({
        "number": record.number,
        "step": step,
        "port": record.port,
        "reason": reason,
        "time_ns": record.time,
        "since_ns": record.since_ns,
        "verdict_ns": (record.verdict_ns > 0).then_some(record.verdict_ns),
        "skipped": record.skipped,
        "length": record.length,
        "packet": summary(&record.head),
        "simulated": simulated,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::report::Origin;

    #[test]
    fn the_vlan_of_a_frame_is_that_of_its_tag() {
        let frame = |rest: &[u8]| [&[0; 12], rest].concat();
        assert_eq!(tag(&frame(&[0x81, 0, 0x20, 10, 8, 0])), Some(10));
        assert_eq!(tag(&frame(&[0x81, 0, 0x20, 0, 8, 0])), None);
        assert_eq!(tag(&frame(&[8, 0, 0x45, 0])), None);
        assert_eq!(tag(&frame(&[0x81, 0])), None);
    }

    #[test]
    fn an_address_is_shown_with_its_vlans() {
        let to = MacAddress::new([2, 0, 0, 0, 0, 1]);
        let entry = |port: &str, vlan| FdbEntry {
            bridge: "lan".to_owned(),
            mac: to,
            vlan,
            port: port.to_owned(),
            origin: Origin::Learned,
            age: Some(1),
        };
        let text = |vlan, entries: &[FdbEntry]| {
            let lookup = Lookup::Addresses { bridge: "lan".to_owned(), to, vlan, entries: entries.to_vec() };
            lookup.text(7)
        };
        let begin = "#7    bridge lan, now: 02:00:00:00:00:01 is ";
        assert_eq!(text(None, &[entry("a", 0)]), format!("{begin}at a\n"));
        let both = [entry("a", 10), entry("b", 20)];
        assert_eq!(text(None, &both), format!("{begin}at a (VLAN 10), b (VLAN 20)\n"));
        assert_eq!(text(Some(30), &[]), format!("{begin}not in the forwarding table (VLAN 30)\n"));
    }
}
