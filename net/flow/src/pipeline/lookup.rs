//! The caches of a worker for one bridge, and the way to the tables when they have no result.

use super::directory::View;
use super::exchange::Learner;
use super::program::Program;
use crate::Key;
use crate::cache::{
    Effort, HeadCache, Megaflow, MegaflowCache, MegaflowId, Shape, Uncredited, V4_TAGGED_WORDS, V4_WORDS,
    V6_WORDS, agrees, masked,
};
use crate::modify::PortNo;
use crate::tables::Tables;
use crate::translate::{Resume, resume, translate};
use port::{Burst, Now, PortId};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::Arc;

/// Megaflows of a worker for one bridge.
const MEGAFLOWS: usize = 1 << 17;
/// Entries of the head caches.
const HEADS: usize = 1 << 15;
/// See [`HEADS`]; for frames with a tag, and for IPv6.
const OTHER_HEADS: usize = 1 << 13;
/// Slots that a sweep visits for each millisecond since the last one, so that it visits all about twice a second.
const SWEEP: usize = 256;
/// Milliseconds for which one sweep makes up.
const MAX_SWEEP: usize = 16;

/// The bytes of a packet by which a head cache finds it.
#[derive(Clone, Copy)]
pub(super) enum Head {
    V4(Shape, [u64; V4_WORDS]),
    V4Tagged(Shape, [u64; V4_TAGGED_WORDS]),
    V6(Shape, [u64; V6_WORDS]),
}

/// Hits since they were last reported.
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
    /// Generation of the ports. Results with an older one are wrong.
    pub(super) ports: u64,
    megaflows: MegaflowCache<Program>,
    v4: HeadCache<V4_WORDS>,
    v4_tagged: HeadCache<V4_TAGGED_WORDS>,
    v6: HeadCache<V6_WORDS>,
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
    pub(super) fn new((generation, tables): (u64, Arc<Tables>), ports: u64, learner: Learner) -> Self {
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
            resumes: HashMap::new(),
            by_port: Vec::new(),
            resumed: 0,
            compares_ttl: false,
            hits: Hits::default(),
            learner,
        }
    }

    /// The bytes of a packet that are compared. Returns `None` if its frame has no shape.
    #[inline(always)]
    pub(super) fn head(&self, head: &[u8], len: usize) -> Option<Head> {
        let shape = Shape::of(head, len)?;
        Some(match shape {
            Shape::V4 | Shape::V4Icmp => Head::V4(shape, self.words(shape, head)),
            Shape::V4Tagged => Head::V4Tagged(shape, self.words(shape, head)),
            Shape::V6 | Shape::V6Tagged => Head::V6(shape, self.words(shape, head)),
        })
    }

    #[inline(always)]
    fn words<const N: usize>(&self, shape: Shape, head: &[u8]) -> [u64; N] {
        masked(head, &shape.mask(self.compares_ttl))
    }

    /// The packets from `first` on that have the head of `first`, which is `head`, and their bytes.
    #[inline]
    pub(super) fn run(&self, burst: &Burst, first: usize, head: &Head) -> (Range<usize>, u64) {
        match head {
            Head::V4(shape, words) => self.run_of(burst, first, *shape, words),
            Head::V4Tagged(shape, words) => self.run_of(burst, first, *shape, words),
            Head::V6(shape, words) => self.run_of(burst, first, *shape, words),
        }
    }

    #[inline(always)]
    fn run_of<const N: usize>(
        &self,
        burst: &Burst,
        first: usize,
        shape: Shape,
        words: &[u64; N],
    ) -> (Range<usize>, u64) {
        let mask = shape.mask(self.compares_ttl);
        let (mut end, mut bytes) = (first + 1, burst.frame_len(first) as u64);
        // Packets of equal length are complete as the first one is.
        let known = shape.extent(burst.head(first), burst.frame_len(first));
        while end < burst.len() {
            let (head, len) = (burst.head(end), burst.frame_len(end));
            let is_complete =
                || known.is_some() && shape.extent(head, len) == known || shape.is_complete(head, len);
            if !agrees(head, &mask, words) || !is_complete() {
                break;
            }
            bytes += len as u64;
            end += 1;
        }
        (first..end, bytes)
    }

    /// The megaflow of every packet of `port`, if the tables look at nothing but the ingress port.
    #[inline]
    pub(super) fn find_port(&mut self, port: PortId) -> Option<MegaflowId> {
        let id = *self.by_port.get(usize::from(port.0))?;
        self.current(id).map(|_| id)
    }

    /// The megaflow of a head that was received on `port`.
    #[inline]
    pub(super) fn find_head(&self, head: &Head, port: PortId) -> Option<MegaflowId> {
        match head {
            Head::V4(_, words) => self.v4.find(words, port),
            Head::V4Tagged(_, words) => self.v4_tagged.find(words, port),
            Head::V6(_, words) => self.v6.find(words, port),
        }
    }

    /// The megaflow of an identifier, if its result is right for the present tables.
    #[inline]
    pub(super) fn current(&mut self, id: MegaflowId) -> Option<&mut Megaflow<Program>> {
        let (version, ports) = (self.tables.version(), self.ports);
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
        if is_right && megaflow.value.ports == *ports {
            megaflow.version = tables.version();
            return self.megaflows.get(id);
        }
        megaflows.remove(id).into_iter().for_each(|megaflow| credit(&megaflow, tables, learner));
        None
    }

    /// The megaflow of a key, translated if there is none.
    pub(super) fn find_key(
        &mut self,
        (key, in_port): (&Key, PortNo),
        rest: Option<&Resume>,
        (view, now): (&View, Now),
    ) -> MegaflowId {
        let found = self.megaflows.find(key).filter(|id| self.current(*id).is_some());
        if let Some(id) = found {
            self.hits.megaflow += 1;
            self.learn_again(id, now);
            return id;
        }
        self.hits.tables += 1;
        self.translate((key, in_port), rest, view, now)
    }

    fn translate(
        &mut self,
        (key, in_port): (&Key, PortNo),
        rest: Option<&Resume>,
        view: &View,
        now: Now,
    ) -> MegaflowId {
        let mut translation = match rest {
            None => translate(&self.tables, key, in_port, view),
            Some(rest) => resume(&self.tables, key, rest, view),
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
        let mut program = Program::new(translation, key, (view, self.ports));
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

    /// Identifier of the rest of a translation, for [`crate::Field::RecircId`]. It is not reused.
    pub(super) fn resume_id(&mut self, rest: &Arc<Resume>) -> u32 {
        let (id, _) = self.resumes.entry(Arc::as_ptr(rest).addr()).or_insert_with(|| {
            self.resumed = self.resumed.wrapping_add(1);
            (self.resumed, rest.clone())
        });
        *id
    }

    /// Adds a head. Returns `false` if the result depends on bytes that the head leaves out, so that another packet with
    /// the same head may have another result, or if control had no room for the flows that the result learns.
    pub(super) fn remember(&mut self, head: &Head, port: PortId, id: MegaflowId) -> bool {
        let Some(megaflow) = self.megaflows.get(id) else { return false };
        let mask = megaflow.value.matching.mask();
        let is_outside = |field| mask.get(field) != 0;
        if is_outside(crate::Field::TcpFlags)
            || is_outside(crate::Field::TunnelId)
            || megaflow.value.is_unlearned
        {
            return false;
        }
        if mask.get(crate::Field::IpTtl) != 0 && !self.compares_ttl {
            // Heads of before, and this one, are compared without the time to live.
            self.compares_ttl = true;
            self.forget_heads();
            return false;
        }
        match head {
            Head::V4(_, words) => self.v4.insert(words, port, id),
            Head::V4Tagged(_, words) => self.v4_tagged.insert(words, port, id),
            Head::V6(_, words) => self.v6.insert(words, port, id),
        }
        true
    }

    /// Keeps the megaflow of a packet of `port`, if it is that of all packets of the port.
    pub(super) fn remember_port(&mut self, port: PortId, id: MegaflowId) {
        let megaflow = self.megaflows.get(id).filter(|megaflow| !megaflow.value.is_unlearned);
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
            megaflow.uncredited = Uncredited::default();
            true
        };
        let slots = SWEEP * millis.clamp(1, MAX_SWEEP);
        megaflows.sweep(slots, now, keep, &mut |megaflow| credit(&megaflow, tables, learner));
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
    let counts = megaflow.uncredited;
    if counts.packets > 0 {
        megaflow.value.credit(counts.packets, counts.bytes, megaflow.used);
        // A result of older tables may have the action of a removed flow. What control has no room for now is learned by
        // a later packet.
        if megaflow.version == tables.version() {
            learner.learn(tables, &megaflow.value.learned, megaflow.used);
        }
    }
}
