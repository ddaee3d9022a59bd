//! Functions of bridge ports around the pipeline, which are the same for every pipeline.
//!
//! - Members of a bond: packets that the bond accepts come from the bond, and those to the bond leave by a member.
//! - In front of flow tables, frames of LLDP and LACP are taken out for control. Learning bridges do this themselves,
//!   where reserved addresses leave their common path.
//! - Mirrors (`mirror`).
//!
//! A burst of other ports pays two checks. Nothing here decides where a packet goes.

use crate::bond::{Admission, Distribution, Link};
use crate::limit::Limiter;
use crate::mirror::{self, Copies};
use crate::ports::{Member, PortTable, Published, View};
use lacp::SLOW_PROTOCOLS;
use port::{
    Burst, Context, DropReason, EditId, Now, Pipeline, Pipelines, PortId, PortObserver, PuntReason, Punted,
    Rss, Verdicts,
};
use std::sync::Arc;
use wire::Ethernet;

/// Pipelines with the bonds, protocols and mirrors of a [`crate::Switch`], which knows all of their ports.
pub struct Wrapped {
    published: Arc<Published>,
    inner: Arc<dyn Pipelines>,
    rss: Rss,
}

impl std::fmt::Debug for Wrapped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wrapped").finish_non_exhaustive()
    }
}

impl Wrapped {
    pub(crate) fn new(published: Arc<Published>, inner: Arc<dyn Pipelines>, rss: Rss) -> Self {
        Self { published, inner, rss }
    }
}

impl Pipelines for Wrapped {
    fn worker(&self, index: usize) -> Box<dyn Pipeline> {
        let (published, inner) = (self.published.clone(), self.inner.worker(index));
        let mut worker = Worker {
            published,
            generation: u64::MAX,
            table: Arc::default(),
            inner,
            copies: Box::default(),
            distribution: Distribution::new(index, self.rss),
        };
        worker.catch_up();
        Box::new(worker)
    }

    fn observer(&self) -> Option<Box<dyn PortObserver>> {
        let (inner, published) = (self.inner.observer()?, self.published.clone());
        Some(Box::new(Observer { inner, published }))
    }
}

/// Reports of members of bonds become those of their bond, where the pipeline inside punted the packet.
struct Observer {
    inner: Box<dyn PortObserver>,
    published: Arc<Published>,
}

impl PortObserver for Observer {
    fn changed(&mut self, port: PortId, is_up: bool, now: Now) {
        self.inner.changed(port, is_up, now);
    }

    fn stopped(&mut self, port: PortId, now: Now) {
        self.inner.stopped(port, now);
    }

    fn punted(&mut self, mut packet: Punted) {
        if packet.reason != PuntReason::Protocol
            && let Some(link) = self.published.current().link(packet.context.from)
        {
            packet.context.from = link.bond;
        }
        self.inner.punted(packet);
    }
}

struct Worker {
    published: Arc<Published>,
    generation: u64,
    table: Arc<PortTable>,
    inner: Box<dyn Pipeline>,
    copies: Box<Copies>,
    distribution: Distribution,
}

impl Pipeline for Worker {
    fn process(&mut self, burst: &mut Burst, context: &Context, verdicts: &mut Verdicts) {
        if context.stage == 0
            && let Some((generation, table)) = self.published.newer(self.generation)
        {
            self.adopt(generation, table);
        }
        if context.stage == 0 && self.table.member(context.from).is_none() {
            self.without_bridge(burst, context, verdicts);
        } else {
            self.with_member(burst, context, verdicts);
        }
        if !self.table.bonds.is_empty() {
            self.distribute(burst, context, verdicts);
        }
    }

    fn needs_heads(&self) -> bool {
        self.inner.needs_heads()
    }

    fn tick(&mut self, now: Now) -> Option<Now> {
        self.inner.tick(now)
    }
}

impl Worker {
    #[cold]
    fn adopt(&mut self, generation: u64, table: Arc<PortTable>) {
        self.distribution.prepare(&table.bonds);
        (self.generation, self.table) = (generation, table);
    }

    /// Blocks until the current table is available. A port is published before its first packet arrives.
    #[cold]
    fn catch_up(&mut self) {
        let (generation, table) = self.published.latest();
        if generation != self.generation {
            self.adopt(generation, table);
        }
    }

    /// Packets of a port of a bridge, or of a later stage.
    #[inline(always)]
    fn with_member(&mut self, burst: &mut Burst, context: &Context, verdicts: &mut Verdicts) {
        let Self { table, inner, copies, .. } = self;
        let member = table.member(context.from);
        let view = member.and_then(|member| table.view(member.bridge));
        let has_protocols = context.stage == 0 && view.is_some_and(|view| view.has_protocols);
        if has_protocols && intercept((None, member), burst, context, verdicts) {
            return;
        }
        run((inner.as_mut(), copies), (table, view), burst, (context, context.from), verdicts);
    }

    /// Packets of a port that is on no bridge: those of a member of a bond.
    #[inline(never)]
    fn without_bridge(&mut self, burst: &mut Burst, context: &Context, verdicts: &mut Verdicts) {
        if self.table.link(context.from).is_none() {
            self.catch_up();
        }
        let Self { table, inner, copies, .. } = self;
        let link = table.link(context.from);
        let found = link.and_then(|link| Some((link, table.member(link.bond)?)));
        let Some((link, member)) = found else { return inner.process(burst, context, verdicts) };
        let view = table.view(member.bridge);
        let mut origin = *context;
        if view.is_some_and(|view| view.config.flow_tables) {
            origin.from = link.bond;
            if intercept((Some(link), Some(member)), burst, &origin, verdicts) {
                return;
            }
        }
        run((inner.as_mut(), copies), (table, view), burst, (&origin, link.bond), verdicts);
    }

    #[inline(never)]
    fn distribute(&self, burst: &mut Burst, context: &Context, verdicts: &mut Verdicts) {
        let table = &*self.table;
        let bond = || table.member(table.link(context.from)?.bond);
        let member = table.member(context.from).or_else(bond);
        let view = member.and_then(|member| table.view(member.bridge));
        let has_vlans = view.is_some_and(|view| view.vlan_aware && !view.config.flow_tables);
        let vlan = member.filter(|_| has_vlans).map(|member| &member.vlan);
        self.distribution.run(&table.bonds, burst, vlan, verdicts);
    }
}

/// Passes a burst, which was received on `received`, to the pipeline inside.
#[inline(always)]
fn run(
    (inner, copies): (&mut dyn Pipeline, &mut Copies),
    (table, view): (&PortTable, Option<&View>),
    burst: &mut Burst,
    (context, received): (&Context, PortId),
    verdicts: &mut Verdicts,
) {
    match view.and_then(|view| view.mirrors.as_deref()) {
        None => inner.process(burst, context, verdicts),
        Some(mirrors) => {
            mirror::process((inner, copies), (table, mirrors), burst, (context, received), verdicts);
        }
    }
}

/// Outcome of a packet in front of flow tables.
enum Front<'a> {
    Pass,
    Drop(DropReason),
    /// It is for control, within this limit.
    Punt(&'a Limiter),
}

/// Gives verdicts on packets that flow tables must not see, because they are of a protocol of the port or not accepted
/// by its bond. The others pass again, in `context`. Returns `false` if there are no such packets: the burst has no
/// verdicts then.
#[inline(never)]
fn intercept(
    (link, member): (Option<&Link>, Option<&Member>),
    burst: &Burst,
    context: &Context,
    verdicts: &mut Verdicts,
) -> bool {
    let front = |i: usize| member.map_or(Front::Pass, |member| front(link, member, burst, i));
    let Some(first) = (0..burst.len()).find(|i| !matches!(front(*i), Front::Pass)) else { return false };
    for i in 0..burst.len() {
        match if i < first { Front::Pass } else { front(i) } {
            Front::Pass => verdicts.recirculate(i, *context, EditId::NONE),
            Front::Drop(reason) => verdicts.drop(i, reason),
            Front::Punt(limit) if limit.admit(context.now) => verdicts.punt(i, PuntReason::Protocol),
            Front::Punt(_) => verdicts.drop(i, DropReason::ProtocolLimit),
        }
    }
    true
}

#[inline]
fn front<'a>(link: Option<&'a Link>, member: &'a Member, burst: &Burst, i: usize) -> Front<'a> {
    let Ok(frame) = Ethernet::new(burst.head(i)) else { return Front::Pass };
    let group = frame.destination();
    if let Some(link) = link {
        match link.admission() {
            _ if group == SLOW_PROTOCOLS && link.has_lacp() => return Front::Punt(&link.limit),
            Admission::All => {}
            Admission::Unreflected { is_active } if is_active || !group.is_group() => {}
            Admission::Nothing | Admission::Unreflected { .. } => {
                return Front::Drop(DropReason::BondInactive);
            }
        }
    }
    let protocols = member.protocols.as_ref().filter(|_| group.is_bridge_reserved());
    protocols.and_then(|protocols| protocols.limit(&frame)).map_or(Front::Pass, Front::Punt)
}
