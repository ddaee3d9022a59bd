//! Causes that the reason of a port names: interfaces, namespaces, privileges and faults.

use super::super::evidence::{Evidence, Port};
use super::super::findings::Found;
use super::sockets::OTHER_LISTENS;

/// A cause that the reason of a port names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    Missing,
    Namespace,
    Down,
    InUse,
    Path,
    Privileges,
    Support,
}

/// Texts of reasons with their causes. The first text that a reason has is its cause.
const TEXTS: [(Cause, &[&str]); 7] = [
    (Cause::Missing, &["there is no interface", "the interface cannot be used: "]),
    (Cause::Namespace, &["there is no network namespace", "the network namespace "]),
    (Cause::Down, &[" is down"]),
    (
        Cause::InUse,
        &[
            "is in use by another",
            "listens on this address",
            "Device or resource busy",
            "exists and is no TAP",
            "of another program",
        ],
    ),
    (Cause::Path, &["its directory does not exist", "the path exists and is not a socket"]),
    (
        Cause::Privileges,
        &["may not make", "was refused: ", "Operation not permitted", "Permission denied", "may not listen"],
    ),
    (
        Cause::Support,
        &[
            "no io_uring",
            "zero copy",
            "/dev/net/tun cannot",
            "not supported",
            "no XDP program",
            "rejects the XDP program",
            "has no AF_XDP",
        ],
    ),
];

/// The cause that the reason of a port names.
fn cause(port: &Port) -> Option<Cause> {
    let has = |texts: &[&str]| texts.iter().any(|text| port.reason().contains(text));
    TEXTS.iter().find(|(_, texts)| has(texts)).map(|(cause, _)| *cause)
}

/// Ports that do not carry packets because of this cause.
fn stopped(evidence: &Evidence, wanted: Cause) -> Vec<Found> {
    let stopped = evidence.ports.iter().filter(|port| is_stopped(port) && cause(port) == Some(wanted));
    stopped.map(found).collect()
}

/// Whether the reason of a port is a cause of this module: it waits for a resource of the machine, and for no peer.
fn is_stopped(port: &Port) -> bool {
    let is_alone = port.socket.is_none() || port.is_deferred();
    port.state() != "connected" && is_alone && !port.reason().contains(OTHER_LISTENS)
}

fn found(port: &Port) -> Found {
    Found::port(port.name(), [format!("{}: {}", port.state(), port.reason())])
}

pub(super) fn missing(evidence: &Evidence) -> Vec<Found> {
    stopped(evidence, Cause::Missing)
}

pub(super) fn namespace(evidence: &Evidence) -> Vec<Found> {
    stopped(evidence, Cause::Namespace)
}

pub(super) fn down(evidence: &Evidence) -> Vec<Found> {
    stopped(evidence, Cause::Down)
}

pub(super) fn in_use(evidence: &Evidence) -> Vec<Found> {
    stopped(evidence, Cause::InUse)
}

pub(super) fn privileges(evidence: &Evidence) -> Vec<Found> {
    stopped(evidence, Cause::Privileges)
}

pub(super) fn support(evidence: &Evidence) -> Vec<Found> {
    stopped(evidence, Cause::Support)
}

pub(super) fn path(evidence: &Evidence) -> Vec<Found> {
    stopped(evidence, Cause::Path)
}

/// Ports that a fault stopped and no other check knows, and those that wait with such a reason.
pub(super) fn fault(evidence: &Evidence) -> Vec<Found> {
    let is_known = |port: &Port| is_stopped(port) && cause(port).is_some();
    let is_fault = |port: &&Port| match port.state() {
        "faulted" | "ended" => true,
        "waiting" => is_stopped(port) && !port.reason().is_empty(),
        _ => false,
    };
    let faults = evidence.ports.iter().filter(is_fault);
    faults.filter(|port| !is_known(port) && !super::features::is_refused(port)).map(found).collect()
}
