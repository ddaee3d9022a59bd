//! The control side of tunnels: addresses of bridges, next hops, and packets that do not fit.
//!
//! Workers queue what they need, wake control, and never wait. All queues are bounded, and an error about a packet that
//! does not fit is sent at a limited rate.

use super::directory::Tunneling;
use super::error::UnknownBridge;
use super::exchange::lock;
use super::recirculation::TunnelCounts;
use super::switch::FlowSwitch;
use crate::action::Action;
use crate::modify::PortNo;
use port::{Now, PortId, Punted};
use stack::Time;
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use tunnel::{Ambiguous, Interface, Paths, Request, Tunnel, Underlay, packet_too_big};
use wire::MacAddress;

/// Frames, next hops and errors that wait for control.
const WAITING: usize = 1024;
/// Errors about packets that do not fit, in a second.
const ERRORS: u64 = 100;
const SECOND: u64 = 1_000_000_000;

/// Note of a frame for the addresses of a bridge.
pub(super) struct Local {
    pub(super) bridge: u16,
    /// Port on which it was received.
    pub(super) port: PortNo,
}

/// A packet that does not fit through a tunnel.
struct TooLong {
    bridge: String,
    in_port: PortNo,
    head: Vec<u8>,
    mtu: u16,
}

/// A frame for a bridge, and the port on which it was received.
type LocalFrame = (u16, PortNo, Box<[u8]>);

/// Messages from workers to control.
#[derive(Default)]
pub(super) struct Wanted {
    frames: Mutex<VecDeque<LocalFrame>>,
    requests: Mutex<BTreeSet<Request>>,
    too_long: Mutex<Vec<TooLong>>,
}

impl Wanted {
    /// Adds a frame for the addresses of a bridge. Called by the control thread of the engine.
    pub(super) fn frame(&self, local: &Local, packet: Punted) {
        let mut frames = lock(&self.frames);
        if frames.len() < WAITING {
            frames.push_back((local.bridge, local.port, packet.frame));
        }
    }

    /// Adds a next hop. Returns `false` if control has the lock or too many wait; a later packet asks again.
    pub(super) fn resolve(&self, request: Request) -> bool {
        let Ok(mut requests) = self.requests.try_lock() else { return false };
        requests.len() < WAITING && requests.insert(request)
    }

    /// Adds a packet that does not fit, of which control needs the head only. Returns `false` as above.
    pub(super) fn too_long(&self, (bridge, in_port): (String, PortNo), head: &[u8], mtu: u16) -> bool {
        let Ok(mut list) = self.too_long.try_lock() else { return false };
        let has_room = list.len() < ERRORS as usize;
        if has_room {
            list.push(TooLong { bridge, in_port, head: head.to_vec(), mtu });
        }
        has_room
    }
}

/// State of the control side.
#[derive(Default)]
pub(super) struct Control {
    underlay: Option<Underlay>,
    /// Errors that may be sent in this second, and its start.
    errors: (u64, Now),
}

/// A tunnel with its counters.
#[derive(Clone, Debug)]
pub struct TunnelReport {
    /// Port of the engine.
    pub port: PortId,
    /// Settings.
    pub tunnel: Tunnel,
    /// Packets and bytes, up to half a second ago.
    pub counts: TunnelCounts,
    /// Path MTU for its payload in bytes, and why there is no path.
    pub path: Result<u16, String>,
}

impl FlowSwitch {
    /// Gives bridges addresses: those of `interfaces`, each with the name of its bridge. The numbers of their networks
    /// are set here. Must be called once, before [`FlowSwitch::serve_underlay`].
    ///
    /// # Errors
    /// If there is no such bridge.
    pub fn set_underlay(
        &self,
        interfaces: Vec<(String, Interface)>,
        secret: [u8; 16],
        now: Now,
    ) -> Result<(), UnknownBridge> {
        let directory = self.published.current();
        let numbered = interfaces.into_iter().map(|(bridge, interface)| {
            let (network, _) = directory.named(&bridge).ok_or(UnknownBridge(bridge))?;
            Ok(Interface { network, ..interface })
        });
        let numbered = numbered.collect::<Result<Vec<_>, UnknownBridge>>()?;
        lock(&self.underlay).underlay = Some(Underlay::new(numbered, secret, Time(now.0)));
        self.serve_underlay(now);
        Ok(())
    }

    /// Makes a port of a bridge a tunnel.
    ///
    /// # Errors
    /// If another tunnel receives the same packets.
    pub fn add_tunnel(&self, port: PortId, tunnel: Tunnel) -> Result<(), Ambiguous> {
        let (_changing, mut directory) = self.change();
        directory.add_tunnel(port, tunnel)?;
        self.publish(directory);
        Ok(())
    }

    /// The Ethernet address of a bridge with addresses of its own, whose port [`PortNo::LOCAL`] it is.
    pub fn local_address(&self, bridge: &str) -> Option<MacAddress> {
        let directory = self.published.current();
        let (number, _) = directory.named(bridge)?;
        directory.paths.interface(number).map(|interface| interface.mac)
    }

    /// All tunnels, by the number of their port.
    pub fn tunnels(&self) -> Vec<TunnelReport> {
        let directory = self.published.current();
        let report = |(port, found): (PortId, &Arc<Tunneling>)| {
            let Tunneling { tunnel, counts, .. } = &**found;
            let path = match tunnel.remote {
                None => Err("flows choose the remote end".to_owned()),
                Some(remote) => directory.paths.find(tunnel.local, remote).map_err(|e| e.to_string()),
            };
            let path = path.map(|path| tunnel.payload_mtu(&path));
            TunnelReport { port, tunnel: *tunnel, counts: counts.read(), path }
        };
        directory.tunnel_ports().map(report).collect()
    }

    /// Answers what workers wait for, and runs the timers of the addresses. Must be called when control is woken, and
    /// at least ten times a second.
    pub fn serve_underlay(&self, now: Now) {
        let mut control = lock(&self.underlay);
        self.report_too_long(&mut control, now);
        let Some(underlay) = &mut control.underlay else { return };
        let time = Time(now.0);
        for (bridge, port, frame) in std::mem::take(&mut *lock(&self.exchange.wanted.frames)) {
            underlay.receive(bridge, (port <= PortNo::MAX).then_some(port.0), &frame, time);
        }
        for request in std::mem::take(&mut *lock(&self.exchange.wanted.requests)) {
            underlay.resolve(request, time);
        }
        underlay.advance(time);
        for sent in underlay.transmit(time) {
            self.send_from_bridge(sent.network, &sent.frame, now);
        }
        if let Some(paths) = underlay.take_changed() {
            self.publish_paths(paths);
        }
    }

    /// Sends a frame through the tables of a bridge, as one of the bridge itself.
    fn send_from_bridge(&self, bridge: u16, frame: &[u8], now: Now) {
        let directory = self.published.current();
        let Some(view) = directory.view(bridge) else { return };
        let table = Action::Output { port: PortNo::TABLE, max_len: 0 };
        // A packet that cannot be sent now is lost as on a link; the stack sends it again.
        let _ = self.packet_out(&view.bridge.name, PortNo::LOCAL, &[table], frame, now);
    }

    fn publish_paths(&self, paths: Paths) {
        let (_changing, mut directory) = self.change();
        directory.set_paths(paths);
        self.publish(directory);
    }

    /// Sends errors about packets that do not fit back to where the packets came from.
    fn report_too_long(&self, control: &mut Control, now: Now) {
        let (left, since) = &mut control.errors;
        if now.0.saturating_sub(since.0) >= SECOND || since.0 == 0 {
            (*left, *since) = (ERRORS, now);
        }
        for TooLong { bridge, in_port, head, mtu } in
            std::mem::take(&mut *lock(&self.exchange.wanted.too_long))
        {
            let Some(error) = packet_too_big(&head, mtu).filter(|_| *left > 0) else { continue };
            *left -= 1;
            let output = Action::Output { port: in_port, max_len: 0 };
            let _ = self.packet_out(&bridge, PortNo::ANY, &[output], &error, now);
        }
    }
}
