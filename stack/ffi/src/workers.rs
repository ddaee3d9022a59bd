//! Ports that the hosts of several threads share.
//!
//! The first host that opens a port divides it; the others take their shares by the same call. Must not access another
//! host than that of the call, which another thread may be using.

use crate::call::{Failure, code, invalid};
use crate::open::Opened;
use engine::SharedPort;
use host::{FlowSteering, Host, Share, SteeringOptions, divide};
use stack::ip::{InterfaceConfig, InterfaceId};
use std::sync::{Arc, Mutex, PoisonError};

/// A port, and the shares that its hosts have not taken.
struct Divided {
    name: String,
    shares: Vec<Option<Share>>,
    /// Dropped after the shares.
    _port: SharedPort,
}

/// Place of a host among those that share ports.
pub(crate) struct Worker {
    index: usize,
    count: usize,
    rule: FlowSteering,
    /// By number of the interface. Dropped with the last host.
    ports: Arc<Mutex<Vec<Divided>>>,
}

impl Worker {
    /// The places of `count` hosts, in order.
    pub(crate) fn all(count: usize, rule: FlowSteering) -> impl Iterator<Item = Self> {
        let ports = Arc::default();
        (0..count).map(move |index| Self { index, count, rule, ports: Arc::clone(&ports) })
    }

    /// Adds the share of a port to its host, and opens the port first, with a queue pair for each host, if no other
    /// host has.
    pub(crate) fn add(
        &self,
        host: &mut Host,
        name: &str,
        interface: &InterfaceConfig,
        open: impl FnOnce(u16) -> Opened,
    ) -> Result<InterfaceId, Failure> {
        let mut ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        let number = host.interfaces();
        if number == ports.len() {
            let failed = |error| Failure::new(code::NO_DEVICE, error, "create fewer hosts, or free memory");
            let control = open(self.count as u16)?;
            let steering = SteeringOptions { rule: self.rule, ..SteeringOptions::default() };
            let (port, shares) = divide(self.count, (name, control), interface, &steering).map_err(failed)?;
            let shares = shares.into_iter().map(Some).collect();
            ports.push(Divided { name: name.to_owned(), shares, _port: port });
        }
        let port = ports.get_mut(number).filter(|port| port.name == name);
        let share = port.and_then(|port| port.shares.get_mut(self.index)?.take()).ok_or_else(|| {
            let reason = format_args!("interface {number} of the other hosts is not {name}");
            invalid(reason, "open the same ports in the same order on each host")
        })?;
        Ok(host.add_share(share))
    }
}
