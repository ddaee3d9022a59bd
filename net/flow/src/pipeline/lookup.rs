//! The caches of a worker for one bridge, and the way to the tables when they have no result.

use super::directory::{PortChanges, Scope};
use super::exchange::Learner;
use super::program::Program;
use crate::Key;
use crate::cache::{
    Effort, HeadCache, Megaflow, MegaflowCache, MegaflowId, Shape, V4_TAGGED_WORDS, V4_WORDS, V6_WORDS,
    agrees, masked,
};
use crate::modify::PortNo;
use crate::tables::Tables;
use crate::translate::{Resume, resume, translate};
use port::{BURST, Burst, Now, PortId, work};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::Arc;

/// Megaflows of a worker for one bridge.
const MEGAFLOWS: usize = 1 << 17;
/// Entries of the head caches, so many that two places are enough for most keys of 10^5 flows. The memory is that of the
/// entries in use, at most 16 MiB.
const HEADS: usize = 1 << 18;
/// See [`HEADS`]; for frames with a tag, and for IPv6.
const OTHER_HEADS: usize = 1 << 15;
/// Milliseconds in which sweeps visit all megaflows.
const SWEEP: usize = 500;
/// Milliseconds for which one sweep makes up.
const MAX_SWEEP: usize = 16;
/// Work units of a translation, beyond those of a packet.
const TRANSLATION: u64 = 2000;

/// In place of a port, for packets of the bridge itself.
pub(super) const BRIDGE_ITSELF: PortId = PortId(u16::MAX);

/// Work units of a search by key.
pub(super) fn work_of(is_translated: bool) -> u64 {
    if is_translated { TRANSLATION + work::EDIT } else { work::EDIT }
}

/// Packets that follow each other and have one head.
pub(super) struct Run {
    pub(super) packets: Range<usize>,
    pub(super) bytes: u64,
    /// `None` if the frame has no shape: then it is one packet, which is found by its key.
    pub(super) shape: Option<Shape>,
    /// Place in the head cache of the shape.
    place: usize,
}

/// Packets by the place of their first result, since they were last reported.
#[derive(Clone, Copy, Default)]
pub(super) struct Hits {
    pub(super) head: u64,
    pub(super) megaflow: u64,
    pub(super) tables: u64,
}

/// Caches of one bridge.
pub(super) struct Lookup {
    pub(super) tables: Arc<Tables>,
    pub(super) generation: u64,
    /// Changes of the ports.
    pub(super) ports: PortChanges,
    megaflows: MegaflowCache<Program>,
    v4: HeadCache<V4_WORDS>,
    v4_tagged: HeadCache<V4_TAGGED_WORDS>,
    v6: HeadCache<V6_WORDS>,
    /// Runs of a burst, kept for their memory.
    pub(super) runs: Vec<(Run, MegaflowId)>,
    /// Identifiers of the rests of translations, by their addresses, which are not reused as long as they are here.
    resumes: HashMap<usize, (u32, Arc<Resume>)>,
    /// By ingress port: the megaflow of all its packets, if results depend on nothing else.
    by_port: Vec<MegaflowId>,
    /// Number of identifiers.
    resumed: u32,
    /// Whether a result depended on the time to live, which the head caches compare since then.
    compares_ttl: bool,
    pub(super) hits: Hits,
    pub(super) learner: Learner,
}

impl Lookup {
    pub(super) fn new(
        (generation, tables): (u64, Arc<Tables>),
        ports: PortChanges,
        learner: Learner,
    ) -> Self {
        let random = RandomState::new();
        let secret = [random.hash_one(1), random.hash_one(2) | 1];
        Self {
            tables,
            generation,
            ports,
            megaflows: MegaflowCache::new(MEGAFLOWS, secret),
            v4: HeadCache::new(HEADS, secret),
            v4_tagged: HeadCache::new(OTHER_HEADS, secret),
            v6: HeadCache::new(OTHER_HEADS, secret),
            runs: Vec::with_capacity(BURST),
            resumes: HashMap::new(),
            by_port: Vec::new(),
            resumed: 0,
            compares_ttl: false,
            hits: Hits::default(),
            learner,
        }
    }

    /// The packets from `first` on that have the head of `first`. Loads their entry into the cache.
    #[inline(always)]
    pub(super) fn run(&self, burst: &Burst, first: usize, port: PortId) -> Run {
        let len = burst.frame_len(first);
        match Shape::of(burst.head(first), len) {
            None => Run { packets: first..first + 1, bytes: len as u64, shape: None, place: 0 },
            Some(shape @ (Shape::V4 | Shape::V4Icmp)) => self.run_of(&self.v4, burst, first, shape, port),
            Some(shape @ Shape::V4Tagged) => self.run_of(&self.v4_tagged, burst, first, shape, port),
            Some(shape @ (Shape::V6 | Shape::V6Tagged)) => self.run_of(&self.v6, burst, first, shape, port),
        }
    }

    #[inline(always)]
    fn run_of<const N: usize>(
        &self,
        cache: &HeadCache<N>,
        burst: &Burst,
        first: usize,
        shape: Shape,
        port: PortId,
    ) -> Run {
        let mask = shape.mask(self.compares_ttl);
        let words = &masked(burst.head(first), &mask);
        let place = cache.place(words, port);
        cache.prefetch(place);
        let (mut end, mut bytes) = (first + 1, burst.frame_len(first) as u64);
        // Packets of equal length are complete as the first one is.
        let known = || shape.extent(burst.head(first), burst.frame_len(first));
        while end < burst.len() && agrees(burst.head(end), &mask, words) {
            let (head, len) = (burst.head(end), burst.frame_len(end));
            let extent = shape.extent(head, len);
            if !(extent.is_some() && extent == known() || shape.is_complete(head, len)) {
                break;
            }
            bytes += len as u64;
            end += 1;
        }
        Run { packets: first..end, bytes, shape: Some(shape), place }
    }

    /// The megaflow of every packet of `port`, if the tables look at nothing but the ingress port.
    #[inline]
    pub(super) fn find_port(&mut self, port: PortId) -> Option<MegaflowId> {
        let id = *self.by_port.get(usize::from(port.0))?;
        self.current(id).map(|_| id)
    }

    /// The megaflow of a run from `port`, of which nothing says yet whether it is current. Loads it into the cache.
    #[inline(always)]
    pub(super) fn find_run(&self, run: &Run, burst: &Burst, port: PortId) -> MegaflowId {
        let head = burst.head(run.packets.start);
        let found = match run.shape {
            None => None,
            Some(shape @ (Shape::V4 | Shape::V4Icmp)) => {
                self.find_head(&self.v4, shape, head, run.place, port)
            }
            Some(shape @ Shape::V4Tagged) => self.find_head(&self.v4_tagged, shape, head, run.place, port),
            Some(shape @ (Shape::V6 | Shape::V6Tagged)) => {
                self.find_head(&self.v6, shape, head, run.place, port)
            }
        };
        found.inspect(|id| self.megaflows.prefetch(*id)).unwrap_or_default()
    }

    #[inline(always)]
    fn find_head<const N: usize>(
        &self,
        cache: &HeadCache<N>,
        shape: Shape,
        head: &[u8],
        place: usize,
        port: PortId,
    ) -> Option<MegaflowId> {
        cache.find(place, &masked(head, &shape.mask(self.compares_ttl)), port)
    }

    /// The megaflow of an identifier, if its result is right for the present tables and ports.
    #[inline]
    pub(super) fn current(&mut self, id: MegaflowId) -> Option<&mut Megaflow<Program>> {
        let (version, ports) = (self.tables.version(), self.ports.latest);
        let megaflow = self.megaflows.get(id)?;
        if megaflow.version != version || megaflow.value.ports != ports {
            return self.renewed(id);
        }
        self.megaflows.get(id)
    }

    /// [`Lookup::current`] for a result of an older version: it is kept unless a change may affect it.
    #[cold]
    fn renewed(&mut self, id: MegaflowId) -> Option<&mut Megaflow<Program>> {
        let Self { tables, megaflows, ports, learner, .. } = self;
        let megaflow = megaflows.get(id)?;
        let is_right = tables
            .changes_since(megaflow.version)
            .is_some_and(|mut changes| !changes.any(|change| megaflow.value.is_affected(change)));
        if is_right && megaflow.value.follows(ports) {
            (megaflow.version, megaflow.value.ports) = (tables.version(), ports.latest);
            return self.megaflows.get(id);
        }
        megaflows.remove(id).into_iter().for_each(|megaflow| credit(&megaflow, tables, learner));
        None
    }

    /// The megaflow of a key, and whether there was none, so that it was translated ([`work_of`]).
    pub(super) fn find_key(
        &mut self,
        (key, in_port): (&Key, PortNo),
        rest: Option<&Resume>,
        (scope, now): (&Scope<'_>, Now),
    ) -> (MegaflowId, bool) {
        let found = self.megaflows.find(key).filter(|id| self.current(*id).is_some());
        if let Some(id) = found {
            self.learn_again(id, now);
            return (id, false);
        }
        (self.translate((key, in_port), rest, scope, now), true)
    }

    fn translate(
        &mut self,
        (key, in_port): (&Key, PortNo),
        rest: Option<&Resume>,
        scope: &Scope<'_>,
        now: Now,
    ) -> MegaflowId {
        let mut translation = match rest {
            None => translate(&self.tables, key, in_port, scope),
            Some(rest) => resume(&self.tables, key, rest, scope),
        };
        translation.mask = translation.mask.or(&ingress());
        // It is 0 in every packet, and another value in the search for a conjunction.
        translation.mask.set(crate::Field::ConjId, 0);
        let mask = translation.mask;
        let existing = self.megaflows.find_exactly((key, &mask));
        if let Some(id) = existing.filter(|id| self.current(*id).is_some()) {
            self.learn_again(id, now);
            return id;
        }
        let mut program = Program::new(translation, key, (scope.view, self.ports.latest));
        let Self { tables, megaflows, learner, .. } = self;
        program.is_unlearned = !learner.learn(tables, &program.learned, now);
        let removed = &mut |megaflow| credit(&megaflow, tables, learner);
        megaflows.insert((key, &mask), program, tables.version(), now, removed)
    }

    /// Passes the flows that a result learns to control, if it had no room for them before.
    fn learn_again(&mut self, id: MegaflowId, now: Now) {
        let Self { tables, megaflows, learner, .. } = self;
        if let Some(megaflow) = megaflows.get(id).filter(|megaflow| megaflow.value.is_unlearned) {
            megaflow.value.is_unlearned = !learner.learn(tables, &megaflow.value.learned, now);
        }
    }

    /// Identifier of the rest of a translation, for [`crate::Field::RecircId`]. No two results have the same one.
    pub(super) fn resume_id(&mut self, rest: &Arc<Resume>) -> u32 {
        if let Some((id, _)) = self.resumes.get(&Arc::as_ptr(rest).addr()) {
            return *id;
        }
        self.resumed = self.resumed.checked_add(1).unwrap_or_else(|| self.restart());
        self.resumes.insert(Arc::as_ptr(rest).addr(), (self.resumed, rest.clone()));
        self.resumed
    }

    /// Uses up all identifiers.
    #[cfg(test)]
    pub(super) fn exhaust_identifiers(&mut self) {
        self.resumed = u32::MAX;
    }

    /// Removes all results, so that identifiers can be reused. Returns the first one.
    #[cold]
    fn restart(&mut self) -> u32 {
        let Self { tables, megaflows, learner, .. } = self;
        megaflows.clear(&mut |megaflow| credit(&megaflow, tables, learner));
        self.resumes.clear();
        1
    }

    /// Adds a head. Returns `false` if the result depends on bytes that the head leaves out, so that another packet with
    /// the same head may have another result, or if control had no room for the flows that the result learns.
    pub(super) fn remember(&mut self, (shape, head): (Shape, &[u8]), port: PortId, id: MegaflowId) -> bool {
        let Some(megaflow) = self.megaflows.get(id) else { return false };
        let mask = megaflow.value.matching.mask();
        let is_outside = |field| mask.get(field) != 0;
        let is_tunnel_outside = mask.words()[Key::TUNNEL].iter().any(|word| *word != 0);
        if is_outside(crate::Field::TcpFlags) || is_tunnel_outside || megaflow.value.is_unlearned {
            return false;
        }
        if mask.get(crate::Field::IpTtl) != 0 && !self.compares_ttl {
            // Heads of before, and this one, are compared without the time to live.
            self.compares_ttl = true;
            self.forget_heads();
            return false;
        }
        let compares_ttl = self.compares_ttl;
        match shape {
            Shape::V4 | Shape::V4Icmp => self.v4.insert(&masked(head, &shape.mask(compares_ttl)), port, id),
            Shape::V4Tagged => self.v4_tagged.insert(&masked(head, &shape.mask(compares_ttl)), port, id),
            Shape::V6 | Shape::V6Tagged => self.v6.insert(&masked(head, &shape.mask(compares_ttl)), port, id),
        }
        true
    }

    /// Keeps the megaflow of a packet of `port`, if it is that of all packets of the port.
    pub(super) fn remember_port(&mut self, port: PortId, id: MegaflowId) {
        let is_known =
            |megaflow: &&mut Megaflow<Program>| !megaflow.value.is_unlearned && port != BRIDGE_ITSELF;
        let megaflow = self.megaflows.get(id).filter(is_known);
        if megaflow.is_some_and(|megaflow| *megaflow.value.matching.mask() == ingress()) {
            let at = usize::from(port.0);
            self.by_port.resize(self.by_port.len().max(at + 1), MegaflowId::default());
            self.by_port[at] = id;
        }
    }

    fn forget_heads(&mut self) {
        self.v4.clear();
        self.v4_tagged.clear();
        self.v6.clear();
    }

    /// Credits the flows of some megaflows, refreshes those that they learn, and removes megaflows that were idle for
    /// long. Must be called regularly, with the milliseconds since the last call.
    pub(super) fn sweep(&mut self, now: Now, millis: usize) {
        let Self { tables, megaflows, learner, .. } = self;
        let keep = |megaflow: &mut Megaflow<Program>| {
            credit(megaflow, tables, learner);
            (megaflow.packets, megaflow.bytes) = (0, 0);
            true
        };
        megaflows.sweep(SWEEP / millis.clamp(1, MAX_SWEEP), now, keep, &mut |megaflow| {
            credit(&megaflow, tables, learner);
        });
    }

    /// Work of the megaflow cache since the last call.
    pub(super) fn take_effort(&mut self) -> Effort {
        self.megaflows.take_effort()
    }

    /// Orders the masks by their hits, and forgets the rests of removed megaflows, of which there may be as many as
    /// megaflows. Must be called about once a second.
    pub(super) fn rank(&mut self) {
        self.megaflows.rank();
        self.resumes.retain(|_, (_, rest)| Arc::strong_count(rest) > 1);
    }

    /// Whether there are no megaflows.
    pub(super) fn is_empty(&self) -> bool {
        self.megaflows.len() == 0
    }
}

/// What every result depends on: one ingress port and one place in the pipeline.
fn ingress() -> Key {
    let mut mask = Key::ZERO;
    mask.set(crate::Field::InPort, u128::MAX);
    mask.set(crate::Field::RecircId, u128::MAX);
    mask
}

fn credit(megaflow: &Megaflow<Program>, tables: &Tables, learner: &Learner) {
    if megaflow.packets > 0 {
        megaflow.value.credit(megaflow.packets.into(), megaflow.bytes, megaflow.used);
        // A result of older tables may have the action of a removed flow. What control has no room for now is learned by
        // a later packet.
        if megaflow.version == tables.version() {
            learner.learn(tables, &megaflow.value.learned, megaflow.used);
        }
    }
}
