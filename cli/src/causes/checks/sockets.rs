//! Causes at Unix sockets: roles, files and permissions.

use super::super::evidence::{Evidence, Port, Socket};
use super::super::findings::Found;

/// Reason of a port that found a listener at its path.
pub(super) const OTHER_LISTENS: &str = "another process listens on this socket";
/// Bits of a mode that let others connect: write permission of the group and of all users.
const OTHERS: u32 = 0o022;

/// Ports that wait for a peer, with their sockets.
fn waiting(evidence: &Evidence) -> impl Iterator<Item = (&Port, &Socket)> {
    let waiting = evidence.ports.iter().filter(|port| port.state() == "waiting" && !port.is_deferred());
    waiting.filter_map(|port| Some((port, port.socket.as_ref()?)))
}

/// Whether another process listens at a path that the switch listens at.
fn is_contested(socket: &Socket) -> bool {
    socket.listens && socket.listeners.is_some_and(|listeners| listeners.other > 0)
}

/// Whether the file of a socket that the switch listens at is gone, or that of another process.
fn is_lost(socket: &Socket) -> bool {
    socket.listens && !is_contested(socket) && socket.file.is_none()
}

fn found(port: &Port, socket: &Socket, more: impl IntoIterator<Item = String>) -> Found {
    let role = if socket.listens { "the switch listens at" } else { "the switch connects to" };
    let connects = port.now.as_ref().map_or(0, |now| now.connects);
    let mut evidence = vec![format!("{role} {}; connected {connects} times", socket.path.display())];
    evidence.extend((!port.reason().is_empty()).then(|| port.reason().to_owned()));
    evidence.extend(more);
    Found::port(port.name(), evidence)
}

pub(super) fn no_peer(evidence: &Evidence) -> Vec<Found> {
    let alone =
        waiting(evidence).filter(|(_, socket)| socket.listens && !is_contested(socket) && !is_lost(socket));
    let found = alone.map(|(port, socket)| {
        // Another process may have replaced the file.
        let unread = if socket.listeners.is_none() { "; if it runs, see `linerate doctor`" } else { "" };
        let remedy = format!(
            "start the guest with this socket: `linerate snippet {} --for qemu` prints its options{unread}",
            port.name()
        );
        found(port, socket, None).remedy(remedy)
    });
    found.collect()
}

/// The peer has replaced the file of the switch, or has listened before the switch could.
pub(super) fn both_listen(evidence: &Evidence) -> Vec<Found> {
    let both = waiting(evidence).filter(|(_, socket)| is_contested(socket));
    let both = both
        .map(|(port, socket)| found(port, socket, ["another process listens at the same path".to_owned()]));
    let late =
        evidence.ports.iter().filter(|port| port.is_deferred() && port.reason().contains(OTHER_LISTENS));
    both.chain(late.map(|port| Found::port(port.name(), [port.reason().to_owned()]))).collect()
}

pub(super) fn missing(evidence: &Evidence) -> Vec<Found> {
    let missing = waiting(evidence).filter(|(_, socket)| !socket.listens && socket.file.is_none());
    missing
        .filter(|(port, _)| !is_denied(port))
        .map(|(port, socket)| found(port, socket, ["there is no such file".to_owned()]))
        .collect()
}

pub(super) fn stale(evidence: &Evidence) -> Vec<Found> {
    let is_silent = |port: &Port, socket: &Socket| match socket.listeners {
        Some(listeners) => listeners.own + listeners.other == 0,
        None => port.reason().contains("Connection refused"),
    };
    let is_left = |socket: &Socket| !socket.listens && socket.file.is_some();
    let stale = waiting(evidence).filter(|(port, socket)| is_left(socket) && is_silent(port, socket));
    let stale = stale.filter(|(port, _)| !is_denied(port));
    stale
        .map(|(port, socket)| found(port, socket, ["the file exists, and no process listens".to_owned()]))
        .collect()
}

pub(super) fn removed(evidence: &Evidence) -> Vec<Found> {
    let removed = waiting(evidence).filter(|(_, socket)| is_lost(socket));
    removed.map(|(port, socket)| found(port, socket, ["there is no such file".to_owned()])).collect()
}

pub(super) fn access(evidence: &Evidence) -> Vec<Found> {
    let alone = waiting(evidence).filter(|(port, socket)| {
        socket.listens && !is_contested(socket) && port.now.as_ref().is_some_and(|now| now.connects == 0)
    });
    let closed = alone.filter_map(|(port, socket)| {
        let file = socket.file.filter(|file| file.mode & OTHERS == 0)?;
        let access =
            format!("the socket belongs to user {} and has mode {:04o}", file.owner, file.mode & 0o7777);
        Some(found(port, socket, [access]))
    });
    closed.collect()
}

/// Whether the kernel refused a connection for lack of permission.
fn is_denied(port: &Port) -> bool {
    port.reason().contains("Permission denied") || port.reason().contains("permission denied")
}

pub(super) fn permission(evidence: &Evidence) -> Vec<Found> {
    let denied = waiting(evidence).filter(|(port, socket)| !socket.listens && is_denied(port));
    denied.map(|(port, socket)| found(port, socket, None)).collect()
}
