//! Records of translations: what was looked up and executed, and which fields changed.
//!
//! A translation is generic over its [`Recorder`]. Workers pass `()`: its methods are empty and inlined, and the
//! closures that make events are never called.

use super::operation::Resume;
use crate::action::{Action, Instructions};
use crate::key::Key;
use crate::modify::TableId;
use crate::tables::Flow;
use std::sync::Arc;

/// Steps of one record; later ones are counted and left out.
const STEPS: usize = 1000;

/// A step of a translation.
#[derive(Clone, Debug)]
pub enum Event {
    /// A flow that a lookup found; the steps within it are those of its instructions.
    Flow(Flow),
    /// A lookup that found no flow.
    Miss(TableId),
    /// An action.
    Action(Action),
    /// The instructions after the applied actions.
    Instructions(Box<Instructions>),
    /// The actions of the action set.
    ActionSet,
    /// A bucket of a group.
    Bucket {
        /// Position in the group, from 0.
        position: usize,
        /// Whether it gets the packet; the hash of the packet selects one of the buckets of a select group.
        is_selected: bool,
    },
    /// No bucket of the group is live, or there is no such group.
    NoBucket,
    /// The rest of the translation waits for a recirculation.
    Recirculation,
}

/// A recorded step.
#[derive(Clone, Debug)]
pub struct Step {
    /// Number of the steps that it is within.
    pub depth: usize,
    /// Event.
    pub event: Event,
    /// All fields before and after it, if it has no steps within it and changed a field.
    pub change: Option<Box<(Key, Key)>>,
}

/// Where a translation reports its steps.
pub(crate) trait Recorder {
    /// A step begins. `event` gets the key that the translation started with, `key` has the fields of now.
    fn begin(&mut self, event: impl FnOnce(&Key) -> Event, key: &Key);
    /// The innermost step ends.
    fn end(&mut self, key: &Key);
    /// The translation stops before a recirculation that continues with `rest`.
    fn recirculate(&mut self, rest: &Arc<Resume>, key: &Key);
    /// The translation is complete.
    fn finish(&mut self, key: &Key);
}

impl Recorder for () {
    #[inline(always)]
    fn begin(&mut self, _: impl FnOnce(&Key) -> Event, _: &Key) {}
    #[inline(always)]
    fn end(&mut self, _: &Key) {}
    #[inline(always)]
    fn recirculate(&mut self, _: &Arc<Resume>, _: &Key) {}
    #[inline(always)]
    fn finish(&mut self, _: &Key) {}
}

/// A record.
pub(crate) struct Record {
    packet: Key,
    pub(crate) steps: Vec<Step>,
    /// Steps beyond [`STEPS`].
    pub(crate) omitted: usize,
    /// Position of each step that has not ended, if it is kept, and the fields before it.
    open: Vec<(Option<usize>, Key)>,
    /// State with which recirculations continue, and the fields before them.
    pub(crate) rests: Vec<(Arc<Resume>, Key)>,
    /// The fields after all steps.
    pub(crate) last: Key,
}

impl Record {
    /// An empty record for a packet with this key.
    pub(crate) fn new(packet: &Key) -> Self {
        let (steps, open, rests) = (Vec::new(), Vec::new(), Vec::new());
        Self { packet: *packet, steps, omitted: 0, open, rests, last: *packet }
    }
}

impl Recorder for &mut Record {
    fn begin(&mut self, event: impl FnOnce(&Key) -> Event, key: &Key) {
        let at = self.steps.len();
        let is_kept = at < STEPS;
        if is_kept {
            let (depth, event) = (self.open.len(), event(&self.packet));
            self.steps.push(Step { depth, event, change: None });
        } else {
            self.omitted += 1;
        }
        self.open.push((is_kept.then_some(at), *key));
    }

    fn end(&mut self, key: &Key) {
        let Some((Some(at), before)) = self.open.pop() else { return };
        if at + 1 == self.steps.len() && before != *key {
            self.steps[at].change = Some(Box::new((before, *key)));
        }
    }

    fn recirculate(&mut self, rest: &Arc<Resume>, key: &Key) {
        self.rests.push((rest.clone(), *key));
        self.begin(|_| Event::Recirculation, key);
        self.end(key);
    }

    fn finish(&mut self, key: &Key) {
        self.last = *key;
    }
}
