//! The pipeline of one worker.

use super::directory::{Bridge, Directory, Member, Scope};
use super::exchange::{Exchange, Learner};
use super::lookup::Lookup;
use super::packet_out::{PacketOut, is_packet_out};
use super::pass::Pass;
use super::recirculation::{Carried, Cause, Recirculation, Recirculations};
use super::track::MAX_RESUMED;
use crate::modify::PortNo;
use crate::options::OptionValues;
use crate::packet::Rewriter;
use conntrack::Tracker;
use port::{Burst, Context, DropReason, Now, Pipeline, PortId, Published, Verdicts};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Stage of packets for the port `NORMAL`.
pub(super) const NORMAL: u32 = u32::MAX;
/// Nanoseconds of a millisecond, the shortest time between two sweeps.
const MILLI: u64 = 1_000_000;
/// Time between two sweeps of a worker that sleeps, in nanoseconds.
const SWEEP: u64 = 100 * MILLI;
/// Time between two rankings of masks, in nanoseconds.
const RANKING: u64 = 1000 * MILLI;
/// Places of the connection table that a sweep visits for each millisecond since the last one.
const VISITS: usize = 8;
/// Milliseconds for which one sweep makes up.
const MAX_MILLIS: u64 = 128;

/// The pipeline of one worker over all bridges.
pub(super) struct Worker {
    published: Arc<Published<Directory>>,
    exchange: Arc<Exchange>,
    generation: u64,
    directory: Arc<Directory>,
    lookups: Vec<Option<Box<Lookup>>>,
    normal: Box<dyn Pipeline>,
    rewriter: Box<Rewriter>,
    recirculations: Recirculations,
    tracker: Arc<Tracker>,
    /// Packets of this burst that may continue after connection tracking.
    left: usize,
    swept: Now,
    ranked: Now,
}

impl Worker {
    pub(super) fn new(
        (published, exchange, tracker): (Arc<Published<Directory>>, Arc<Exchange>, Arc<Tracker>),
        normal: Box<dyn Pipeline>,
    ) -> Self {
        let (generation, directory) = published.latest();
        let mut worker = Self {
            published,
            exchange,
            generation: u64::MAX,
            directory: Arc::default(),
            lookups: Vec::new(),
            normal,
            rewriter: Box::default(),
            recirculations: Recirculations::default(),
            tracker,
            left: 0,
            swept: Now(0),
            ranked: Now(0),
        };
        worker.adopt(generation, directory);
        worker
    }

    /// Takes newer ports, if any.
    #[inline]
    fn follow(&mut self) {
        if let Some((generation, directory)) = self.published.newer(self.generation) {
            self.adopt(generation, directory);
        }
    }

    #[cold]
    fn adopt(&mut self, generation: u64, directory: Arc<Directory>) {
        let before = std::mem::replace(&mut self.directory, directory);
        self.generation = generation;
        self.lookups.resize_with(self.directory.bridges.len(), || None);
        for (i, lookup) in self.lookups.iter_mut().enumerate() {
            match (lookup, before.view(i as u16), self.directory.view(i as u16)) {
                (Some(lookup), Some(old), Some(new)) if Arc::ptr_eq(&old.bridge, &new.bridge) => {
                    lookup.ports = new.changes;
                }
                (lookup, _, Some(new)) => {
                    let learner = Learner::new(self.exchange.clone(), new.bridge.clone());
                    *lookup = Some(Box::new(Lookup::new(new.bridge.tables.latest(), new.changes, learner)));
                }
                (lookup, _, None) => *lookup = None,
            }
        }
    }

    /// A call for the packets of `burst`, which came from `member`, with the newest tables; `None` if its bridge was
    /// removed.
    #[inline]
    fn pass<'a>(
        &'a mut self,
        burst: &'a mut Burst,
        context: &'a Context,
        (member, carried): (Member, &'a Carried),
        verdicts: &'a mut Verdicts,
    ) -> Option<Pass<'a>> {
        let Self { directory, lookups, rewriter, recirculations, tracker, left, .. } = self;
        let (bridge, is_nested) = (member.bridge, false);
        let scope = Scope { directory, view: directory.view(bridge)?, bridge, is_nested };
        let lookup = lookups[usize::from(bridge)].as_deref_mut()?;
        take_tables(lookup, &scope.view.bridge);
        Some(Pass {
            scope,
            lookup,
            burst,
            context,
            member,
            verdicts,
            rewriter,
            recirculations,
            tracker,
            left,
            carried,
            options: OptionValues::default(),
            keyed: 0,
            continuation: None,
        })
    }

    /// Packets of an earlier pass of this burst.
    fn recirculated(&mut self, burst: &mut Burst, context: &Context, verdicts: &mut Verdicts) {
        let Some(recirculation) = self.recirculations.take(context.stage) else { return };
        self.execute_recirculation(&recirculation, burst, context, verdicts);
        self.recirculations.put_back(context.stage, recirculation);
    }

    fn execute_recirculation(
        &mut self,
        Recirculation { member, carried, cause }: &Recirculation,
        burst: &mut Burst,
        context: &Context,
        verdicts: &mut Verdicts,
    ) {
        if let Cause::Punt(reason, note) = cause {
            return (0..burst.len()).for_each(|i| verdicts.punt_with(i, *reason, note.clone()));
        }
        let is_standalone = self.directory.view(member.bridge).is_some_and(|view| view.is_standalone);
        let is_own = member.number == PortNo::LOCAL;
        let Some(mut pass) = self.pass(burst, context, (*member, carried), verdicts) else { return };
        if !pass.take_options() {
            return;
        }
        if is_standalone && !is_own && matches!(cause, Cause::Enter) {
            return self.normal(burst, context, verdicts);
        }
        match cause {
            Cause::Resume(rest) => pass.resumed(rest),
            _ if is_standalone => pass.flood(),
            _ => pass.received(),
        }
    }

    /// Passes packets to the learning bridges. Packets that they send to tunnels, or
    /// to ports that may not send, pass through the tables once more.
    fn normal(&mut self, burst: &mut Burst, context: &Context, verdicts: &mut Verdicts) {
        self.normal.process(burst, &Context { stage: 0, ..*context }, verdicts);
        if !self.directory.has_tunnels() && !self.directory.has_blocked_ports() {
            return;
        }
        for at in 0..verdicts.batches().len() {
            let port = verdicts.batches()[at].port();
            let Some(own) = self.directory.member(port) else { continue };
            let Some(output) = self.directory.output_by_tables(port) else { continue };
            let from = self.directory.member(context.from).filter(|from| from.bridge == own.bridge);
            let member = from.unwrap_or(Member { number: PortNo::ANY, ..own });
            let (carried, cause) = (Carried::default(), Cause::Resume(output));
            let stage = self.recirculations.push(Recirculation { member, carried, cause });
            verdicts.recirculate_port(port, Context { stage, ..*context });
        }
    }

    /// Executes the actions of a packet-out on its frame.
    #[cold]
    fn packet_out(&mut self, burst: &mut Burst, context: &Context, verdicts: &mut Verdicts) {
        self.follow();
        self.recirculations.clear();
        self.left = MAX_RESUMED;
        let packet_out = self.exchange.packet_outs.take(context.stage);
        let is_done = packet_out.is_some_and(|of| self.execute_packet_out(&of, burst, context, verdicts));
        if !is_done {
            // The bridge was removed since.
            (0..burst.len()).for_each(|i| verdicts.drop(i, DropReason::NoDestination));
        }
    }

    /// Returns `false` if the bridge of a packet-out was removed.
    fn execute_packet_out(
        &mut self,
        packet_out: &PacketOut,
        burst: &mut Burst,
        context: &Context,
        verdicts: &mut Verdicts,
    ) -> bool {
        let nothing = Carried::default();
        let pass = self.pass(burst, context, (packet_out.origin, &nothing), verdicts);
        let is_same = |pass: &Pass<'_>| Arc::ptr_eq(&pass.scope.view.bridge, &packet_out.bridge);
        let Some(mut pass) = pass.filter(is_same) else {
            return false;
        };
        if packet_out.tables.version() > pass.lookup.tables.version() {
            // The newest tables could not be taken without waiting.
            pass.lookup.tables = packet_out.tables.clone();
        }
        (0..pass.burst.len()).for_each(|i| pass.packet_out(i, &packet_out.actions));
        true
    }

    fn sweep(&mut self, now: Now) {
        let millis = now.0.saturating_sub(self.swept.0) / MILLI;
        if !self.tracker.is_empty() {
            self.tracker.sweep(now.0, VISITS * millis.clamp(1, MAX_MILLIS) as usize);
        }
        let ranks = now.0.saturating_sub(self.ranked.0) >= RANKING;
        self.swept = now;
        self.ranked = if ranks { now } else { self.ranked };
        for (view, lookup) in self.directory.bridges.iter().zip(&mut self.lookups) {
            let (Some(view), Some(lookup)) = (view, lookup) else { continue };
            lookup.sweep(now, millis as usize);
            count(&view.bridge, lookup);
            if ranks {
                lookup.rank();
            }
        }
        self.count_tunnels();
    }

    /// Adds to the counters of tunnels.
    fn count_tunnels(&mut self) {
        for (port, counts) in (0..).map(PortId).zip(&mut self.recirculations.counts) {
            let counts = std::mem::take(counts);
            if let Some(tunnel) = self.directory.tunnel(port) {
                tunnel.counts.add(&counts);
            }
        }
    }
}

#[inline]
fn take_tables(lookup: &mut Lookup, bridge: &Bridge) {
    if let Some((generation, tables)) = bridge.tables.newer(lookup.generation) {
        (lookup.generation, lookup.tables) = (generation, tables);
    }
}

#[inline]
fn count(bridge: &Bridge, lookup: &mut Lookup) {
    let (hits, effort) = (std::mem::take(&mut lookup.hits), lookup.take_effort());
    lookup.selected.add();
    for (counter, n) in [
        (&bridge.counts.head, hits.head),
        (&bridge.counts.megaflow, hits.megaflow),
        (&bridge.counts.tables, hits.tables),
        (&bridge.counts.probes, effort.probes),
        (&bridge.counts.evicted, effort.evicted),
        (&bridge.counts.evicted_masks, effort.evicted_masks),
    ] {
        if n > 0 {
            counter.fetch_add(n, Ordering::Relaxed);
        }
    }
}

impl Pipeline for Worker {
    fn process(&mut self, burst: &mut Burst, context: &Context, verdicts: &mut Verdicts) {
        match context.stage {
            NORMAL => return self.normal(burst, context, verdicts),
            Context::TRANSMIT => return self.normal.process(burst, context, verdicts),
            stage if is_packet_out(stage) => return self.packet_out(burst, context, verdicts),
            0 => {}
            _ => return self.recirculated(burst, context, verdicts),
        }
        self.follow();
        self.recirculations.clear();
        self.left = MAX_RESUMED;
        match self.directory.by_tables(context.from) {
            None => self.normal(burst, context, verdicts),
            Some(Member { receives: false, .. }) => {
                (0..burst.len()).for_each(|i| verdicts.drop(i, DropReason::PortBlocked));
            }
            Some(member) => {
                let nothing = Carried::default();
                if let Some(mut pass) = self.pass(burst, context, (member, &nothing), verdicts) {
                    pass.received();
                }
            }
        }
    }

    fn tick(&mut self, now: Now) -> Option<Now> {
        let normal = self.normal.tick(now);
        if now.0.saturating_sub(self.swept.0) >= MILLI {
            self.sweep(now);
        }
        let has_megaflows = self.lookups.iter().flatten().any(|lookup| !lookup.is_empty());
        let own = (has_megaflows || !self.tracker.is_empty()).then(|| Now(self.swept.0 + SWEEP));
        own.into_iter().chain(normal).min()
    }
}
