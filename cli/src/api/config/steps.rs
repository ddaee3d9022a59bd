//! Changes a running switch, step by step, from one configuration to another.
//!
//! New ports that need nothing of the old ones are added first, so that one which cannot be opened stops the change
//! before any port is removed. The topology follows each step; after an error, the steps from there back to the first
//! configuration are executed.

use super::super::error::ApiError;
use super::failed;
use crate::dataplane::interface::{DataPlane, DataPlaneError};
use crate::settings::bonds::BondSettings;
use crate::settings::changes::{Action, Changes, Edit};
use crate::settings::kinds::kind::Loaded;
use crate::settings::topology::{BridgeSettings, PortSettings, StaticEntry, Topology};
use crate::settings::vlan::Vlan;
use console::Diagnostic;

/// Reads the file that a port plays.
type Load<'a> = dyn FnMut(&PortSettings) -> Result<Loaded, ApiError> + 'a;

/// One change of a running switch.
#[derive(Debug)]
enum Step {
    AddBridge(Box<BridgeSettings>),
    RemoveBridge(String),
    SetBridge(Box<BridgeSettings>),
    RemovePort(String),
    AddPort(Box<PortSettings>),
    RemoveBond(String),
    AddBond(Box<BondSettings>),
    SetBond(Box<BondSettings>),
    Unpin(String, StaticEntry),
    Pin(String, StaticEntry),
    /// Workers that run to completion.
    Workers,
    /// Mirrors, limits of connections and flows, which are replaced as a whole.
    Rest,
}

/// Reads the files that new ports play.
pub(super) fn load(
    changes: &Changes,
    load: impl Fn(&PortSettings) -> Result<Loaded, ApiError>,
) -> Result<Vec<(PortSettings, Loaded)>, ApiError> {
    let new = changes.ports.iter().filter_map(|edit| edit.new.as_ref());
    new.map(|port| Ok((port.clone(), load(port)?))).collect()
}

/// Changes the switch, which runs `running`, to `wanted`. Returns the ports that a hung worker holds.
///
/// # Errors
/// The first error. The switch was changed back, as far as that is possible.
pub(super) fn apply(
    data_plane: &dyn DataPlane,
    running: &mut Topology,
    wanted: &Topology,
    load: &mut Load<'_>,
) -> Result<Vec<Diagnostic>, ApiError> {
    let (before, mut held) = (running.clone(), Vec::new());
    for step in steps(running, wanted) {
        if let Err(error) = execute(&step, data_plane, running, wanted, (&mut *load, &mut held)) {
            return Err(failed(error, restore(data_plane, running, &before, load)));
        }
    }
    finish(running, wanted);
    Ok(held)
}

/// Changes the switch back to `before`. Returns the errors.
fn restore(
    data_plane: &dyn DataPlane,
    running: &mut Topology,
    before: &Topology,
    load: &mut Load<'_>,
) -> Vec<Diagnostic> {
    let (mut errors, mut held) = (Vec::new(), Vec::new());
    for step in steps(running, before) {
        let done = execute(&step, data_plane, running, before, (&mut *load, &mut held));
        errors.extend(done.err().map(DataPlaneError::into_diagnostic));
    }
    if errors.is_empty() {
        finish(running, before);
    }
    errors.extend(held);
    errors
}

/// The order of the file, except of workers, which are in the order of their threads, and ports of applications. Ports
/// that have not changed keep their settings, which their running queues belong to.
fn finish(running: &mut Topology, wanted: &Topology) {
    let (workers, mut ports) = (std::mem::take(&mut running.workers), std::mem::take(&mut running.ports));
    let own = wanted.ports.iter().map(|port| {
        let at = ports.iter().position(|own| own.name == port.name);
        at.map(|at| ports.remove(at)).filter(|own| own == port).unwrap_or_else(|| port.clone())
    });
    let own: Vec<_> = own.collect();
    *running = Topology { workers, ports: own, ..wanted.clone() };
    running.ports.extend(ports);
}

/// All steps, in their order.
fn steps(running: &Topology, wanted: &Topology) -> Vec<Step> {
    let changes = Changes::between(running, wanted);
    let gone: Vec<&PortSettings> = changes.ports.iter().filter_map(|edit| edit.old.as_ref()).collect();
    let is_gone = |name: &String| gone.iter().any(|port| port.name == *name);
    let (early, late): (Vec<_>, Vec<_>) =
        changes.ports.iter().filter_map(|edit| edit.new.clone()).partition(|port| is_free(port, &gone));
    // Ports that are replaced get their numbers back before new ones take them.
    let (replaced, late): (Vec<_>, Vec<_>) = late.into_iter().partition(|port| is_gone(&port.name));
    let added = |ports: Vec<PortSettings>| ports.into_iter().map(|port| Step::AddPort(Box::new(port)));
    // Ports that are added have the limits of their bridge.
    let mut steps: Vec<Step> = changes.bridges.iter().filter_map(bridge_step).collect();
    steps.extend(added(early));
    let is_replaced =
        |edit: &&Edit<BondSettings>| edit.new.is_none() || edit.action_of_bond() == Action::Replace;
    let bonds = changes.bonds.iter().filter(is_replaced).filter_map(|edit| edit.old.as_ref());
    steps.extend(bonds.map(|bond| Step::RemoveBond(bond.name.clone())));
    steps.extend(
        changes
            .statics
            .iter()
            .filter_map(|edit| edit.old.clone())
            .filter_map(|(bridge, entry)| (!is_gone(&entry.port)).then_some(Step::Unpin(bridge, entry))),
    );
    steps.extend(gone.iter().map(|port| Step::RemovePort(port.name.clone())));
    steps.extend(added(replaced));
    steps.extend(added(late));
    steps.extend(changes.bonds.iter().filter_map(|edit| leave(edit, wanted, &is_gone)));
    steps.extend(bond_steps(&changes, wanted, &is_gone));
    steps.extend(pins(&changes, wanted, &is_gone));
    if changes.has("worker") {
        steps.push(Step::Workers);
    }
    steps.push(Step::Rest);
    let removed = changes.bridges.iter().filter(|edit| edit.new.is_none());
    steps.extend(removed.map(|edit| Step::RemoveBridge(edit.any().name.clone())));
    steps
}

/// The step that adds or changes a bridge.
fn bridge_step(edit: &Edit<BridgeSettings>) -> Option<Step> {
    let bridge = Box::new(edit.new.clone()?);
    Some(if edit.old.is_none() { Step::AddBridge(bridge) } else { Step::SetBridge(bridge) })
}

/// Whether a new port uses neither name nor resources of a port that is removed.
fn is_free(port: &PortSettings, gone: &[&PortSettings]) -> bool {
    let claims = || port.kind.claims().into_iter().chain(port.wrappers.claims());
    gone.iter().all(|old| {
        let mut others = old.kind.claims().into_iter().chain(old.wrappers.claims());
        old.name != port.name && !others.any(|other| claims().any(|own| own.is(&other)))
    })
}

/// The bond without the members that will be in another one, which they can only join once they have left this one.
/// Ports that were removed have left it.
fn leave(edit: &Edit<BondSettings>, wanted: &Topology, is_gone: &impl Fn(&String) -> bool) -> Option<Step> {
    let (old, new) = (edit.old.as_ref()?, edit.new.as_ref()?);
    let joins_another = |port: &String| {
        !new.ports.contains(port) && wanted.bonds.iter().any(|bond| bond.ports.contains(port))
    };
    let members = old.ports.iter().filter(|port| !is_gone(port));
    let leaves = members.clone().any(joins_another) && edit.action_of_bond() != Action::Replace;
    let stay = members.filter(|port| !joins_another(port)).cloned().collect();
    leaves.then(|| Step::SetBond(Box::new(BondSettings { ports: stay, ..old.clone() })))
}

/// Bonds that are added, and those that change or had a member that was removed.
fn bond_steps(changes: &Changes, wanted: &Topology, is_gone: &impl Fn(&String) -> bool) -> Vec<Step> {
    let step = |bond: &BondSettings| {
        let edit = changes.bonds.iter().find(|edit| edit.any().name == bond.name);
        let bond = || Box::new(bond.clone());
        match edit {
            Some(edit) if edit.old.is_none() || edit.action_of_bond() == Action::Replace => {
                Some(Step::AddBond(bond()))
            }
            None if !bond().ports.iter().any(is_gone) => None,
            _ => Some(Step::SetBond(bond())),
        }
    };
    wanted.bonds.iter().filter_map(step).collect()
}

/// Static entries that are added, and those of ports that were removed for a moment.
fn pins(changes: &Changes, wanted: &Topology, is_gone: &impl Fn(&String) -> bool) -> Vec<Step> {
    let changed = changes.statics.iter().filter_map(|edit| edit.new.clone());
    let changed = changed.filter(|(_, entry)| !is_gone(&entry.port));
    let kept = wanted
        .bridges
        .iter()
        .flat_map(|bridge| bridge.statics.iter().map(|entry| (bridge.name.clone(), entry)));
    let kept = kept.filter(|(_, entry)| is_gone(&entry.port)).map(|(bridge, entry)| (bridge, entry.clone()));
    changed.chain(kept).map(|(bridge, entry)| Step::Pin(bridge, entry)).collect()
}

/// Executes one step, also in the topology.
fn execute(
    step: &Step,
    data_plane: &dyn DataPlane,
    running: &mut Topology,
    wanted: &Topology,
    (load, held): (&mut Load<'_>, &mut Vec<Diagnostic>),
) -> Result<(), DataPlaneError> {
    match step {
        Step::AddBridge(bridge) => {
            data_plane.add_bridge(bridge)?;
            running.bridges.push((**bridge).clone());
        }
        Step::RemoveBridge(name) => {
            data_plane.remove_bridge(name)?;
            running.bridges.retain(|bridge| bridge.name != *name);
        }
        Step::SetBridge(bridge) => {
            data_plane.set_bridge(bridge, &running.ports)?;
            for own in running.bridges.iter_mut().filter(|own| own.name == bridge.name) {
                let statics = std::mem::take(&mut own.statics);
                *own = BridgeSettings { statics, ..(**bridge).clone() };
            }
        }
        Step::RemovePort(name) => match data_plane.remove_port(name) {
            Err(refused @ DataPlaneError::Refused(_)) => return Err(refused),
            Err(DataPlaneError::Held(error)) => {
                held.push(error);
                running.forget_port(name);
            }
            Ok(()) => running.forget_port(name),
        },
        Step::AddPort(port) => {
            let loaded = load(port).map_err(|error| DataPlaneError::Refused(error.into_diagnostic()))?;
            data_plane.add_port(port, loaded)?;
            running.ports.push((**port).clone());
        }
        Step::RemoveBond(name) => {
            data_plane.remove_bond(name, &running.ports)?;
            running.bonds.retain(|bond| bond.name != *name);
        }
        Step::AddBond(bond) => {
            data_plane.add_bond(bond, &running.ports)?;
            running.bonds.push((**bond).clone());
        }
        Step::SetBond(bond) => {
            data_plane.set_bond(bond, &running.ports)?;
            running.bonds.iter_mut().filter(|own| own.name == bond.name).for_each(|own| own.clone_from(bond));
        }
        Step::Unpin(bridge, entry) => {
            data_plane.forget(bridge, entry.mac, vlan_of(running, entry))?;
            let own = running.bridges.iter_mut().filter(|own| own.name == *bridge);
            own.for_each(|own| own.statics.retain(|old| old != entry));
        }
        Step::Pin(bridge, entry) => {
            data_plane.pin(entry)?;
            let own = running.bridges.iter_mut().filter(|own| own.name == *bridge);
            own.for_each(|own| own.statics.push(entry.clone()));
        }
        Step::Workers => workers(data_plane, running, wanted)?,
        Step::Rest => rest(data_plane, running, wanted)?,
    }
    Ok(())
}

/// Changes workers in their order, adds those that are more, or removes the last ones.
fn workers(
    data_plane: &dyn DataPlane,
    running: &mut Topology,
    wanted: &Topology,
) -> Result<(), DataPlaneError> {
    for (place, worker) in wanted.workers.iter().enumerate() {
        match running.workers.get(place) {
            Some(own) if own == worker => {}
            Some(_) => {
                data_plane.set_worker(number(data_plane, place)?, worker)?;
                running.workers[place] = *worker;
            }
            None => {
                let mut more = running.clone();
                more.workers.push(*worker);
                data_plane.add_worker(None, &more)?;
                running.workers = more.workers;
            }
        }
    }
    while running.workers.len() > wanted.workers.len() {
        let mut fewer = running.clone();
        fewer.workers.pop();
        data_plane.remove_worker(number(data_plane, fewer.workers.len())?, &fewer)?;
        running.workers = fewer.workers;
    }
    Ok(())
}

/// The number of the worker that is at this place in the configuration.
fn number(data_plane: &dyn DataPlane, place: usize) -> Result<usize, DataPlaneError> {
    let number = data_plane.worker_numbers().get(place).and_then(|numbers| numbers.first().copied());
    let unknown =
        || Diagnostic::failed("workers", format!("worker {place} has no thread"), "restart the switch");
    number.ok_or_else(|| DataPlaneError::Refused(unknown()))
}

/// Replaces mirrors, limits of connections and the flows of the file. The data plane knows the flows of which bridges
/// it has replaced, so that a change that fails halfway is reverted as well.
fn rest(data_plane: &dyn DataPlane, running: &mut Topology, wanted: &Topology) -> Result<(), DataPlaneError> {
    if running.mirrors != wanted.mirrors {
        data_plane.set_mirrors(&wanted.mirrors)?;
        running.mirrors.clone_from(&wanted.mirrors);
    }
    if running.conntrack != wanted.conntrack {
        data_plane.limit_connections(&wanted.conntrack)?;
        running.conntrack = wanted.conntrack.clone();
    }
    data_plane.replace_file_flows(wanted)?;
    running.flows.clone_from(&wanted.flows);
    Ok(())
}

/// The VLAN under which the table of a bridge has an entry: that of the port if the entry names none.
fn vlan_of(running: &Topology, entry: &StaticEntry) -> u16 {
    let port = running.ports.iter().find(|port| port.name == entry.port);
    match port.and_then(|port| port.policy.vlan.as_ref()) {
        Some(Vlan::Access(vlan) | Vlan::Trunk { native: Some(vlan), .. }) if entry.vlan == 0 => *vlan,
        _ => entry.vlan,
    }
}
