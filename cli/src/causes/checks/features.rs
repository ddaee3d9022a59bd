//! Causes in the agreement of a port with its peer: memory, queues, features and offloads.

use super::super::evidence::{Evidence, Port};
use super::super::findings::Found;

/// Kind of ports to which guests connect.
const GUEST: &str = "vhost-user";
/// Share of sent packets whose checksum the switch has completed, above which it is a cause.
const COMPLETED: f64 = 0.2;
/// Offloads that a guest accepts, and without which the switch completes packets for it.
const ACCEPTED: [&str; 3] = ["guest-csum", "guest-tso4", "guest-tso6"];

/// Ports of guests that are connected.
fn guests(evidence: &Evidence) -> impl Iterator<Item = &Port> {
    let connected = evidence.ports.iter().filter(|port| port.state() == "connected");
    connected.filter(|port| port.settings.kind.name() == GUEST)
}

fn memory_regions(port: &Port) -> usize {
    port.now.as_ref().map_or(0, |now| now.memory_regions)
}

pub(super) fn memory(evidence: &Evidence) -> Vec<Found> {
    let without = guests(evidence).filter(|port| memory_regions(port) == 0 && port.running() == 0);
    without.map(|port| Found::port(port.name(), ["connected, with 0 regions of memory".to_owned()])).collect()
}

pub(super) fn driver(evidence: &Evidence) -> Vec<Found> {
    let idle = guests(evidence).filter(|port| memory_regions(port) > 0 && port.running() == 0);
    let evidence =
        |port: &Port| format!("connected, with {} regions of memory, and 0 queues run", memory_regions(port));
    idle.map(|port| Found::port(port.name(), [evidence(port)])).collect()
}

/// Whether the two ends of a connection did not agree.
pub(super) fn is_refused(port: &Port) -> bool {
    let texts = [
        "incompatible with this port",
        "does not accept the features",
        "was not offered",
        "which the back end does not offer",
    ];
    texts.iter().any(|text| port.reason().contains(text))
}

pub(super) fn refused(evidence: &Evidence) -> Vec<Found> {
    let refused = evidence.ports.iter().filter(|port| port.state() != "connected" && is_refused(port));
    refused.map(|port| Found::port(port.name(), [port.reason().to_owned()])).collect()
}

pub(super) fn queue_pairs(evidence: &Evidence) -> Vec<Found> {
    let fewer = guests(evidence).filter(|port| {
        let running = port.running();
        running > 0 && running < usize::from(port.settings.queue_pairs)
    });
    let evidence =
        |port: &Port| format!("{} of {} queue pairs run", port.running(), port.settings.queue_pairs);
    fewer.map(|port| Found::port(port.name(), [evidence(port)])).collect()
}

pub(super) fn mergeable(evidence: &Evidence) -> Vec<Found> {
    let small =
        guests(evidence).filter(|port| port.dropped("buffer-too-small") > 0 && !port.has("mrg-rxbuf"));
    let evidence = |port: &Port| {
        format!("{} packets dropped as buffer-too-small, without mrg-rxbuf", port.dropped("buffer-too-small"))
    };
    small.map(|port| Found::port(port.name(), [evidence(port)])).collect()
}

/// Guests for which the switch completes packets that they would accept as they are with an offload.
pub(super) fn offloads(evidence: &Evidence) -> Vec<Found> {
    let found = guests(evidence).filter_map(|port| {
        let (sent, completed) = (port.difference(|now| now.tx_packets), port.difference(|now| now.completed));
        let missing: Vec<_> = ACCEPTED.into_iter().filter(|feature| !port.has(feature)).collect();
        let is_often = completed as f64 > sent as f64 * COMPLETED;
        (is_often && !missing.is_empty()).then(|| {
            let what =
                format!("{completed} packets to the port were completed by the switch, of {sent} sent");
            Found::port(port.name(), [what, format!("not negotiated: {}", missing.join(", "))])
        })
    });
    found.collect()
}

/// Ports of a kind that carry packets with a feature.
fn used<'a>(evidence: &'a Evidence, kind: &'a str, feature: &'a str) -> impl Iterator<Item = &'a Port> {
    let of_kind = evidence.ports.iter().filter(move |port| port.settings.kind.name() == kind);
    of_kind.filter(move |port| port.has(feature) && port.is_used())
}

pub(super) fn copies(evidence: &Evidence) -> Vec<Found> {
    let copying = used(evidence, "af_xdp", "copy");
    let hook = |port: &Port| if port.has("generic") { "the generic hook" } else { "the hook of the driver" };
    copying.map(|port| Found::port(port.name(), [format!("mode copy, with {}", hook(port))])).collect()
}

pub(super) fn tap_calls(evidence: &Evidence) -> Vec<Found> {
    let calls = used(evidence, "tap", "calls");
    calls
        .map(|port| Found::port(port.name(), ["packets are read and written by system calls".to_owned()]))
        .collect()
}
