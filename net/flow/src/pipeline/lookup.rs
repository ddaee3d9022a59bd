//! The caches of a worker for one bridge, and the way to the tables when they have no result.

use super::directory::{PortChanges, Scope};
use super::exchange::Learner;
use super::program::{Form, Program, Reads, ingress};
use super::selected::SelectedBuckets;
use crate::Key;
use crate::cache::{
    Continuation, Effort, Entry, Extent, HeadCache, Megaflow, MegaflowCache, MegaflowId, Shape,
    V4_TAGGED_WORDS, V4_WORDS, V6_WORDS, Words, difference, masked, padded, tag, words,
};
use crate::modify::PortNo;
use crate::tables::Tables;
use crate::translate::{Operation, Resume, plain, resume, translate};
use conntrack::Tracker;
use hashbrown::HashMap;
use port::{BURST, Burst, Now, PortId, work};
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::Arc;

/// Megaflows of a worker for one bridge.
const MEGAFLOWS: usize = 1 << 18;
/// Entries of the head caches, so many that two places are enough for most keys of 10^5 flows in both directions. The
/// memory grows with their number, to 32 MiB, and 16 MiB more if packets continue after connection tracking.
const HEADS: usize = 1 << 19;
/// See [`HEADS`]; for frames with a tag, and for IPv6.
const OTHER_HEADS: usize = 1 << 15;
/// Milliseconds in which sweeps visit all megaflows.
const SWEEP: usize = 500;
/// Milliseconds for which one sweep makes up.
const MAX_SWEEP: usize = 16;
/// One of so many packets that the tables only forward gets a megaflow if another one must be replaced for it.
pub(super) const ADMISSION: u32 = 256;
/// Searches for megaflows that fail one after the other from which on the tables are searched first, while they only
/// forward and another megaflow must be replaced for one more.
pub(super) const MISSES: u32 = 64;
/// Hash tables of the first table that are as fast to search as megaflows.
const FEW: usize = 4;
/// Work units of a search in a hash table of the first table.
const SUBTABLE: u64 = 50;
/// Work units of a translation, beyond those of a packet.
const TRANSLATION: u64 = 2000;

/// In place of a port, for packets of the bridge itself.
pub(super) const BRIDGE_ITSELF: PortId = PortId(u16::MAX);

/// Work units of a search by key.
pub(super) fn work_of(is_translated: bool) -> u64 {
    if is_translated { TRANSLATION + work::EDIT } else { work::EDIT }
}

/// Work units of a packet that the tables forward without a translation.
pub(super) fn work_of_plain(tables: &Tables) -> u64 {
    let subtables = tables.subtables(crate::TableId(0)) as u64;
    work_of(false) + (subtables * SUBTABLE).min(TRANSLATION)
}

/// Packets that follow each other and have one head.
#[derive(Clone, Default)]
pub(super) struct Run {
    pub(super) packets: Range<usize>,
    pub(super) bytes: u64,
    /// `None` if the frame has no shape: then it is one packet, which is found by its key.
    pub(super) shape: Option<Shape>,
    /// The megaflow that the head cache names, of which nothing says yet whether it is current.
    pub(super) id: MegaflowId,
    /// Number of the key of the first packet, if it was searched for before.
    pub(super) searched: Option<usize>,
    /// Place in the head cache of the shape.
    place: usize,
    /// Where it was found there.
    entry: Option<Entry>,
    key: [u64; V6_WORDS],
}

impl Run {
    /// Key of a shape with `N` words.
    #[inline(always)]
    fn key<const N: usize>(&self) -> &[u64; N] {
        const { assert!(N <= V6_WORDS) };
        self.key.first_chunk().unwrap_or(&[0; N])
    }
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
    v4: HeadCache<V4_WORDS, 8>,
    v4_tagged: HeadCache<V4_TAGGED_WORDS, 8>,
    v6: HeadCache<V6_WORDS, 16>,
    /// Space for the runs of a burst.
    pub(super) runs: Box<[Run]>,
    /// Space for the keys of a burst.
    pub(super) keys: Box<[Key]>,
    /// Identifiers of the rests of translations, by their addresses, which are not reused as long as they are here.
    resumes: HashMap<usize, (u32, Arc<Resume>)>,
    /// By ingress port: the megaflow of all its packets, if results depend on nothing else.
    by_port: Vec<MegaflowId>,
    /// Packets of buckets of select groups that their counters do not have.
    pub(super) selected: SelectedBuckets,
    /// Number of identifiers.
    resumed: u32,
    /// Packets that had no room for a megaflow.
    plain: u32,
    /// Searches for megaflows since the last one that found one.
    misses: u32,
    /// Zone in which a packet of this burst, or of the last one, was searched for by its addresses.
    pub(super) searched: Option<u16>,
    /// Whether a result depended on the time to live, which the head caches compare since then.
    pub(super) compares_ttl: bool,
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
            runs: vec![Run::default(); BURST].into(),
            keys: Box::default(),
            resumes: HashMap::new(),
            by_port: Vec::new(),
            selected: SelectedBuckets::default(),
            resumed: 0,
            plain: 0,
            misses: 0,
            searched: None,
            compares_ttl: false,
            hits: Hits::default(),
            learner,
        }
    }

    /// Divides a burst into runs, and loads their entries of the head caches. Returns the number of runs.
    #[inline(never)]
    pub(super) fn split(&self, burst: &Burst, port: PortId, runs: &mut [Run]) -> usize {
        const V4: u8 = Shape::V4 as u8;
        const V4_ICMP: u8 = Shape::V4Icmp as u8;
        const V4_TAGGED: u8 = Shape::V4Tagged as u8;
        const V6: u8 = Shape::V6 as u8;
        const V6_TAGGED: u8 = Shape::V6Tagged as u8;
        let (to, mut at) = ((tag(port), self.compares_ttl), (0, 0));
        while at.0 < burst.len() {
            at = match Shape::of(burst.head(at.0), burst.frame_len(at.0)) {
                Some(Shape::V4) => stretch::<V4, _, _>(&self.v4, to, burst, runs, at),
                Some(Shape::V4Icmp) => stretch::<V4_ICMP, _, _>(&self.v4, to, burst, runs, at),
                Some(Shape::V4Tagged) => stretch::<V4_TAGGED, _, _>(&self.v4_tagged, to, burst, runs, at),
                Some(Shape::V6) => stretch::<V6, _, _>(&self.v6, to, burst, runs, at),
                Some(Shape::V6Tagged) => stretch::<V6_TAGGED, _, _>(&self.v6, to, burst, runs, at),
                None => {
                    let (packets, bytes) = (at.0..at.0 + 1, burst.frame_len(at.0) as u64);
                    runs[at.1] = Run { packets, bytes, ..Run::default() };
                    (at.0 + 1, at.1 + 1)
                }
            };
        }
        at.1
    }

    /// The megaflow of every packet of `port`, if the tables look at nothing but the ingress port.
    #[inline]
    pub(super) fn find_port(&mut self, port: PortId) -> Option<MegaflowId> {
        let id = *self.by_port.get(usize::from(port.0))?;
        self.current(id).map(|_| id)
    }

    /// Finds runs in the head caches, and loads their megaflows into the cache. Returns whether one has a continuation.
    #[inline(never)]
    pub(super) fn find_runs(&mut self, runs: &mut [Run]) -> bool {
        let mut continues = false;
        for run in runs {
            run.searched = None;
            (run.id, run.entry) = match run.shape {
                None => (MegaflowId::default(), None),
                Some(Shape::V4 | Shape::V4Icmp) => self.v4.find(run.place, run.key()),
                Some(Shape::V4Tagged) => self.v4_tagged.find(run.place, run.key()),
                Some(Shape::V6 | Shape::V6Tagged) => self.v6.find(run.place, run.key()),
            };
            self.megaflows.prefetch(run.id);
            continues |= run.entry.is_some_and(|entry| entry.continues);
        }
        continues
    }

    /// The operations of a megaflow, if its result has any.
    pub(super) fn operations(&mut self, id: MegaflowId) -> Option<Arc<Vec<Operation>>> {
        match &self.current(id)?.value.form {
            Form::Operations(operations) => Some(operations.clone()),
            _ => None,
        }
    }

    /// The continuation of a run after connection tracking, if its packets do nothing else before.
    #[inline]
    pub(super) fn continuation(&self, run: &Run) -> Option<Continuation> {
        let Entry { at, .. } = run.entry.filter(|entry| entry.continues)?;
        match run.shape? {
            Shape::V4 | Shape::V4Icmp => self.v4.continuation(at, run.key()),
            Shape::V4Tagged => self.v4_tagged.continuation(at, run.key()),
            Shape::V6 | Shape::V6Tagged => self.v6.continuation(at, run.key()),
        }
    }

    /// Keeps how packets of a run have continued, if all packets with their head and their state do.
    pub(super) fn remember_continuation(&mut self, run: &Run, continuation: &Continuation) {
        let Some(megaflow) = self.megaflows.get(run.id) else { return };
        let tracks = megaflow.value.tracking().is_some();
        let Some(next) = self.megaflows.get(continuation.next).filter(|_| tracks) else { return };
        let Program { form, reads, is_unlearned, .. } = &next.value;
        if matches!(form, Form::Operations(_)) || !matches!(reads, Reads::Port | Reads::Head) || *is_unlearned
        {
            return;
        }
        let (Some(shape), Some(Entry { at, .. })) = (run.shape, run.entry) else { return };
        match shape {
            Shape::V4 | Shape::V4Icmp => self.v4.set_continuation(at, run.key(), continuation),
            Shape::V4Tagged => self.v4_tagged.set_continuation(at, run.key(), continuation),
            Shape::V6 | Shape::V6Tagged => self.v6.set_continuation(at, run.key(), continuation),
        }
    }

    /// Loads what runs with continuations need after connection tracking into the cache.
    #[inline(never)]
    pub(super) fn warm_continuations(&self, runs: &[Run], tracker: &Tracker) {
        for continuation in runs.iter().filter_map(|run| self.continuation(run)) {
            self.megaflows.prefetch_continuation(continuation.next);
            tracker.prefetch(continuation.place);
        }
    }

    /// Loads what searches for the connections of packets without a continuation read into the cache.
    #[inline(never)]
    pub(super) fn warm_searches(&mut self, runs: &[Run], burst: &Burst, (tracker, zone): (&Tracker, u16)) {
        let mut searches = [None; BURST];
        for (search, run) in searches.iter_mut().zip(runs) {
            let Some(shape) = run.shape.filter(|_| self.is_searched(run)) else { continue };
            let packet = burst.head(run.packets.start).get(shape.network()..).unwrap_or_default();
            *search = tracker.prefetch_shard(packet, zone);
        }
        searches.into_iter().flatten().for_each(|search| tracker.prefetch_search(search));
    }

    /// Whether the connection of a run is probably searched for.
    fn is_searched(&mut self, run: &Run) -> bool {
        let continues = run.entry.is_some_and(|entry| entry.continues);
        let is_missing = run.id == MegaflowId::default();
        is_missing
            || !continues && self.megaflows.get(run.id).is_some_and(|found| found.value.tracking().is_some())
    }

    /// Whether there are more flows than megaflows, so that packets often miss the caches.
    pub(super) fn is_full(&self) -> bool {
        self.megaflows.is_full()
    }

    /// Whether megaflows have been searched for in vain, so that most packets are found in the tables.
    pub(super) fn misses_megaflows(&self) -> bool {
        self.misses >= MISSES && self.tables.subtables(crate::TableId(0)) <= FEW
    }

    /// Loads what searches of at most [`WARMED`](crate::tables::WARMED) keys read into the cache.
    pub(super) fn warm(&self, keys: &[Key]) {
        if !self.misses_megaflows() {
            self.megaflows.warm(keys);
        }
        self.tables.warm(crate::TableId(0), keys);
    }

    /// Counts the packets of a run and returns their output, if they have no other result, and nothing changed since.
    #[inline(always)]
    pub(super) fn forward(&mut self, run: &Run, now: Now) -> Option<PortId> {
        let (version, ports) = (self.tables.version(), self.ports.latest);
        let megaflow = self.megaflows.get(run.id)?;
        let Form::Forward(port) = megaflow.value.form else { return None };
        if megaflow.version != version || megaflow.value.ports != ports {
            return None;
        }
        megaflow.count(run.packets.len() as u32, run.bytes, now);
        Some(port)
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
        let matching = megaflows.matching(id)?;
        let megaflow = megaflows.get(id)?;
        let is_right = tables
            .changes_since(megaflow.version)
            .is_some_and(|mut changes| !changes.any(|change| megaflow.value.is_affected(change, &matching)));
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
        match self.find_megaflow(key, now) {
            Some(id) => (id, false),
            None => (self.translate((key, in_port), rest, scope, now), true),
        }
    }

    /// The megaflow of a key.
    pub(super) fn find_megaflow(&mut self, key: &Key, now: Now) -> Option<MegaflowId> {
        let found = self.megaflows.find(key).filter(|id| self.current(*id).is_some());
        self.misses = if found.is_some() { 0 } else { self.misses.saturating_add(1) };
        self.learn_again(found?, now);
        found
    }

    /// Counts a packet of `bytes` bytes without a megaflow at its flow, and returns its output, if it has no other
    /// result and a megaflow would replace another one. This costs less than a translation and an insertion, and keeps
    /// the megaflows of flows with many packets.
    pub(super) fn forward_plainly(
        &mut self,
        key: &Key,
        scope: &Scope<'_>,
        (bytes, now): (u64, Now),
    ) -> Option<PortId> {
        if !self.megaflows.is_full() {
            return None;
        }
        self.plain = self.plain.wrapping_add(1);
        if self.plain.is_multiple_of(ADMISSION) {
            return None;
        }
        let (entry, port) = plain(&self.tables, key, scope)?;
        let place = scope.view.output(port).ok()?;
        entry.count(1, bytes, now);
        Some(place.port)
    }

    /// Removes all megaflows, and allows that many from now on.
    #[cfg(test)]
    pub(super) fn limit_megaflows(&mut self, limit: usize) {
        self.megaflows = MegaflowCache::new(limit, [1, 3]);
    }

    pub(super) fn translate(
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
        program.is_unlearned = !learner.apply(tables, &program.effects, now);
        let removed = &mut |megaflow| credit(&megaflow, tables, learner);
        megaflows.insert((key, &mask), program, tables.version(), now, removed)
    }

    /// Passes the flows that a result learns to control, if it had no room for them before.
    fn learn_again(&mut self, id: MegaflowId, now: Now) {
        let Self { tables, megaflows, learner, .. } = self;
        if let Some(megaflow) = megaflows.get(id).filter(|megaflow| megaflow.value.is_unlearned) {
            megaflow.value.is_unlearned = !learner.apply(tables, &megaflow.value.effects, now);
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

    /// Adds the head of a run. Returns `false` if the result depends on bytes that the head leaves out, so that another
    /// packet of the run may have another result, or if control had no room for the flows that the result learns.
    /// `has_ttl`: whether heads were compared with the time to live when the burst was divided.
    pub(super) fn remember(&mut self, run: &Run, has_ttl: bool, id: MegaflowId) -> bool {
        let Some(megaflow) = self.megaflows.get(id) else { return false };
        let reads = megaflow.value.reads;
        if reads == Reads::Other || megaflow.value.is_unlearned {
            return false;
        }
        if reads == Reads::Ttl && !self.compares_ttl {
            // Heads of before, and those of this burst, are compared without the time to live.
            self.compares_ttl = true;
            self.forget_heads();
        }
        match run.shape.filter(|_| has_ttl == self.compares_ttl) {
            None => return false,
            Some(Shape::V4 | Shape::V4Icmp) => self.v4.insert(run.key(), id),
            Some(Shape::V4Tagged) => self.v4_tagged.insert(run.key(), id),
            Some(Shape::V6 | Shape::V6Tagged) => self.v6.insert(run.key(), id),
        }
        true
    }

    /// Keeps the megaflow of a packet of `port`, if it is that of all packets of the port.
    pub(super) fn remember_port(&mut self, port: PortId, id: MegaflowId) {
        // With a head, packets continue after connection tracking without a search.
        let is_of_port = |megaflow: &Program| {
            megaflow.reads == Reads::Port && !megaflow.is_unlearned && megaflow.tracking().is_none()
        };
        let megaflow = self.megaflows.get(id).filter(|megaflow| is_of_port(&megaflow.value));
        if megaflow.is_some() && port != BRIDGE_ITSELF {
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

/// Adds runs of packets of the shape with number `SHAPE`, from a packet and a run on, whose keys have the tag of their
/// port. Returns the next packet and the next run. Work that differs between packets of a flow is not inlined.
#[inline(never)]
fn stretch<const SHAPE: u8, const N: usize, const S: usize>(
    cache: &HeadCache<N, S>,
    (tag, has_ttl): (u64, bool),
    burst: &Burst,
    runs: &mut [Run],
    (mut i, mut at): (usize, usize),
) -> (usize, usize) {
    let shape = const { shape_of(SHAPE) };
    let outline = const { shape_of(SHAPE).outline::<N>() };
    let mask = if has_ttl {
        const { shape_of(SHAPE).mask::<N>(true) }
    } else {
        const { shape_of(SHAPE).mask::<N>(false) }
    };
    let (head, mut len) = (burst.head(i), burst.frame_len(i));
    let mut extent = Extent::of(shape, head, len);
    let short;
    let mut first: &Words<N> = if let Some(words) = words(head) {
        words
    } else {
        short = padded(head);
        &short
    };
    loop {
        let Some(run) = runs.get_mut(at) else { return (i, at) };
        let mut key = masked(first, &mask);
        key[N - 1] |= tag;
        run.place = cache.place(&key);
        cache.prefetch(run.place);
        run.key[..N].copy_from_slice(&key);
        (run.packets.start, run.shape) = (i, Some(shape));
        let mut bytes = len as u64;
        let next = loop {
            i += 1;
            if i == burst.len() {
                break None;
            }
            let head = burst.head(i);
            len = burst.frame_len(i);
            let Some(next) = words(head) else { break None };
            if !extent.is_of(shape, head, len) || difference(next, first, &outline) != 0 {
                // Another length, or the end.
                let Some(other) = extent_of(shape, head, len) else { break None };
                extent = other;
            }
            if difference(next, first, &mask) != 0 {
                break Some(next);
            }
            first = next;
            bytes += len as u64;
        };
        (run.packets.end, run.bytes) = (i, bytes);
        at += 1;
        match next {
            Some(next) => first = next,
            None => return (i, at),
        }
    }
}

const fn shape_of(number: u8) -> Shape {
    Shape::ALL[number as usize]
}

/// The extent of a frame, if it has this shape.
#[inline(never)]
fn extent_of(shape: Shape, head: &[u8], len: usize) -> Option<Extent> {
    (Shape::of(head, len) == Some(shape)).then(|| Extent::of(shape, head, len))
}

fn credit(megaflow: &Megaflow<Program>, tables: &Tables, learner: &Learner) {
    if megaflow.packets > 0 {
        megaflow.value.credit(megaflow.packets.into(), megaflow.bytes, megaflow.used);
        // A result of older tables may have the action of a removed flow. Effects for which control has no room now are
        // learned by a later packet.
        if megaflow.version == tables.version() {
            learner.apply(tables, &megaflow.value.effects, megaflow.used);
        }
    }
}
