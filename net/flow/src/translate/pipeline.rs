//! Tables, instructions and lists of actions.

use super::operation::{Operation, Resume, Site, Step, reason};
use super::record::{Event, Recorder};
use super::seen::Seen;
use super::set::ActionSet;
use super::state::State;
use super::{Environment, TranslateError, Translation, limits};
use crate::action::{Action, Instructions};
use crate::field::{Field, frag};
use crate::key::Key;
use crate::matching::Match;
use crate::modify::{PortNo, TableId};
use crate::tables::{Flow, Parent, Tables};
use std::sync::Arc;

/// Value of `actset_output` while the action set has no output (OpenFlow 1.5, `OFPP_UNSET`).
pub(super) const UNSET: u128 = 0xffff_fff7;

/// Why a list of actions ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// `exit`.
    Exit,
    /// A field is needed that is not known before a recirculation. Each level adds its rest to `steps`.
    Freeze,
    /// The packet is dropped.
    Error(TranslateError),
}

pub(super) type Progress<T = ()> = Result<T, Halt>;

/// A translation in progress.
pub(super) struct Translator<'a, E, R> {
    pub(super) tables: &'a Tables,
    pub(super) environment: &'a E,
    recorder: R,
    pub(super) state: State,
    pub(super) result: Translation,
    pub(super) set: ActionSet,
    pub(super) stack: Vec<u128>,
    pub(super) queue: Option<u32>,
    /// The rest of the translation while [`Halt::Freeze`] is returned.
    pub(super) steps: Vec<Step>,
    site: Site,
    /// Flow whose actions are executed.
    pub(super) parent: Option<Parent>,
    pub(super) depth: usize,
    lookups: usize,
    emitted: usize,
}

impl<'a, E: Environment, R: Recorder> Translator<'a, E, R> {
    /// `in_port` is `None` if the key has it.
    pub(super) fn new(
        tables: &'a Tables,
        (environment, recorder): (&'a E, R),
        key: &Key,
        in_port: Option<PortNo>,
    ) -> Self {
        let (mut state, mut mask) = (State::new(key), Key::ZERO);
        if let Some(port) = in_port {
            state.key.set(Field::InPort, port.0.into());
        }
        // Outputs to the ingress port are suppressed, so that every result depends on it.
        mask.set(Field::InPort, Field::InPort.full());
        state.set(Field::ActsetOutput, UNSET, Field::ActsetOutput.full());
        let result = Translation {
            operations: Vec::new(),
            mask,
            seen: Vec::new(),
            last: TableId(0),
            flows: Vec::new(),
            groups: Vec::new(),
            counters: Vec::new(),
            meters: Vec::new(),
            live: false,
            learned: Vec::new(),
            reduced: Vec::new(),
            error: None,
            is_refused: false,
        };
        let site = Site::NONE;
        Self {
            tables,
            environment,
            recorder,
            state,
            result,
            set: ActionSet::default(),
            stack: Vec::new(),
            queue: None,
            steps: Vec::new(),
            site,
            parent: None,
            depth: 0,
            lookups: 0,
            emitted: 0,
        }
    }

    pub(super) fn run_table(mut self, table: TableId) -> Translation {
        if self.tables.drops_fragments() {
            // The state of a packet that begins has nothing that is not known.
            let bits = self.read(Field::IpFrag, frag::ANY.into());
            self.result.is_refused = bits.is_ok_and(|bits| bits != 0);
        }
        let end = if self.result.is_refused { Ok(()) } else { self.walk(table, false) };
        self.finish(end)
    }

    pub(super) fn run_actions(mut self, actions: &[Action]) -> Translation {
        let end = self.actions(actions, self.site);
        self.finish(end)
    }

    pub(super) fn run_resume(mut self, resume: &Resume) -> Translation {
        let (value, mask) = (resume.pipeline.key(), resume.pipeline.mask());
        self.state.key = self.state.key.and(&Key(mask.0.map(|word| !word))).or(value);
        self.state.written = self.state.written.or(mask);
        self.set = resume.set.clone();
        self.stack.clone_from(&resume.stack);
        (self.queue, self.site) = (resume.queue, resume.site);
        let mut end = Ok(());
        for (i, step) in resume.steps.iter().enumerate() {
            end = self.step(step);
            if end == Err(Halt::Freeze) {
                self.steps.extend_from_slice(&resume.steps[i + 1..]);
            }
            if end.is_err() {
                break;
            }
        }
        self.finish(end)
    }

    fn step(&mut self, step: &Step) -> Progress {
        match step {
            Step::Table { table, resubmit } => self.walk(*table, *resubmit),
            Step::Actions(actions, site, parent) => {
                self.parent.clone_from(parent);
                self.actions(actions, *site)
            }
            Step::Rest(instructions, site) => match self.rest(instructions, *site) {
                Some(table) => self.walk(table, false),
                None => Ok(()),
            },
        }
    }

    fn finish(mut self, end: Progress) -> Translation {
        if let Err(Halt::Error(error)) = self.end_scope(end) {
            self.result.operations.clear();
            self.result.learned.clear();
            self.result.reduced.clear();
            self.result.error = Some(error);
        }
        self.recorder.finish(&self.state.key);
        self.result
    }

    /// Ends the pipeline of the packet or of a copy: executes the action set, or recirculates.
    pub(super) fn end_scope(&mut self, end: Progress) -> Progress {
        let end = match end {
            Ok(()) | Err(Halt::Exit) => {
                let list = std::mem::take(&mut self.set).into_list();
                let site = self.site;
                match list.as_slice() {
                    [] => Ok(()),
                    list => self.recorded(|_| Event::ActionSet, |this| this.actions(list, site)),
                }
            }
            other => other,
        };
        match end {
            Err(Halt::Freeze) => self.recirculate(),
            Err(Halt::Exit) => Ok(()),
            other => other,
        }
    }

    /// Recirculates the packet for the remaining steps.
    pub(super) fn recirculate(&mut self) -> Progress {
        self.commit()?;
        let (key, mask) = self.state.pipeline();
        let resume = Resume {
            steps: std::mem::take(&mut self.steps),
            set: std::mem::take(&mut self.set),
            stack: self.stack.clone(),
            pipeline: Match::new(&key, &mask),
            queue: self.queue,
            site: self.site,
        };
        let resume = Arc::new(resume);
        self.recorder.recirculate(&resume, &self.state.key);
        self.emit(Operation::Recirculate(resume))
    }

    pub(super) fn emit(&mut self, operation: Operation) -> Progress {
        self.emitted += 1;
        if self.emitted > limits::OPERATIONS {
            return Err(Halt::Error(TranslateError::TooManyOperations));
        }
        self.result.operations.push(operation);
        Ok(())
    }

    /// Emits the sets that give the packet its fields.
    pub(super) fn commit(&mut self) -> Progress {
        let sets = self.state.commit(&self.result.mask);
        sets.into_iter().try_for_each(|(field, value, mask)| self.emit(Operation::Set { field, value, mask }))
    }

    /// The bits of a field, which the result depends on from now on.
    pub(super) fn read(&mut self, field: Field, bits: u128) -> Progress<u128> {
        if self.state.opaque.get(field) & bits != 0 {
            return Err(Halt::Freeze);
        }
        let mut all = Key::ZERO;
        all.set(field, bits);
        self.result.mask = self.result.mask.or(&self.state.fresh(&all));
        Ok(self.state.key.get(field) & bits)
    }

    /// The whole field.
    pub(super) fn value(&mut self, field: Field) -> Progress<u128> {
        self.read(field, field.full())
    }

    /// Looks up `table`, executes what it finds, and follows to the next tables.
    pub(super) fn walk(&mut self, table: TableId, resubmit: bool) -> Progress {
        match self.enter_table(table, resubmit)? {
            Some(flow) => self.follow(flow),
            None => Ok(()),
        }
    }

    /// Executes a flow, and those of the next tables.
    pub(super) fn follow(&mut self, mut flow: Flow) -> Progress {
        while let Some(next) = self.flow(&flow)? {
            match self.enter_table(next, false)? {
                Some(found) => flow = found,
                None => break,
            }
        }
        Ok(())
    }

    fn enter_table(&mut self, table: TableId, resubmit: bool) -> Progress<Option<Flow>> {
        let found = self.lookup(table);
        match &found {
            Err(Halt::Freeze) => self.steps.push(Step::Table { table, resubmit }),
            // A packet without a flow is dropped: what was applied stays, what was written does not.
            Ok(None) if !resubmit => self.set.clear(),
            _ => {}
        }
        found
    }

    pub(super) fn lookup(&mut self, table: TableId) -> Progress<Option<Flow>> {
        self.lookups += 1;
        if self.lookups > limits::LOOKUPS {
            return Err(Halt::Error(TranslateError::TooManyLookups));
        }
        let mut bits = Key::ZERO;
        let found = self.tables.find(table, &self.state.key, &mut bits).cloned();
        if bits.and(&self.state.opaque) != Key::ZERO {
            return Err(Halt::Freeze);
        }
        self.result.mask = self.result.mask.or(&self.state.fresh(&bits));
        Seen::add(&mut self.result.seen, table, &self.state);
        self.result.last = table;
        if found.is_none() {
            self.recorded(|_| Event::Miss(table), |_| ());
        }
        Ok(found)
    }

    /// Executes the instructions of a flow. Returns the next table.
    fn flow(&mut self, flow: &Flow) -> Progress<Option<TableId>> {
        self.recorded(|_| Event::Flow(flow.clone()), |this| this.instructions(flow))
    }

    fn instructions(&mut self, flow: &Flow) -> Progress<Option<TableId>> {
        let (entry, instructions) = (flow.entry(), flow.instructions());
        self.result.flows.push(entry.clone());
        let reason = if entry.is_table_miss() { reason::NO_MATCH } else { reason::ACTION };
        let site = Site { table: entry.table(), cookie: entry.cookie(), reason };
        self.site = site;
        if let Some(id) = instructions.meter {
            self.recorded(|_| Event::Action(Action::Meter(id)), |this| this.meter(id))?;
        }
        let before = self.parent.replace(Parent::new(flow));
        let applied = self.actions(&instructions.apply, site);
        self.parent = before;
        if applied == Err(Halt::Freeze) {
            self.steps.push(Step::Rest(instructions.clone(), site));
        }
        applied?;
        Ok(self.rest(instructions, site))
    }

    /// Executes the instructions after the applied actions. Returns the next table.
    fn rest(&mut self, instructions: &Instructions, site: Site) -> Option<TableId> {
        let Instructions { clear, write, metadata, goto, .. } = instructions;
        if !clear && write.is_empty() && metadata.is_none() && goto.is_none() {
            return self.finish_flow(instructions, site);
        }
        let event = |_: &Key| {
            let (meter, apply) = (None, Vec::new());
            Event::Instructions(Box::new(Instructions { meter, apply, ..instructions.clone() }))
        };
        self.recorded(event, |this| this.finish_flow(instructions, site))
    }

    /// Executes these instructions.
    fn finish_flow(&mut self, instructions: &Instructions, site: Site) -> Option<TableId> {
        self.site = site;
        if instructions.clear {
            self.set.clear();
        }
        self.set.write(&instructions.write);
        let output = self.set.output().map_or(UNSET, u128::from);
        self.state.set(Field::ActsetOutput, output, Field::ActsetOutput.full());
        if let Some((value, mask)) = instructions.metadata {
            self.state.set(Field::Metadata, (value & mask).into(), mask.into());
        }
        instructions.goto
    }

    /// Executes a list of actions.
    pub(super) fn actions(&mut self, list: &[Action], site: Site) -> Progress {
        for (i, action) in list.iter().enumerate() {
            let event = |_: &Key| Event::Action(action.clone());
            let end = self.recorded(event, |this| this.action(action, site));
            if end == Err(Halt::Freeze) {
                // Without steps, the action has not begun.
                let rest = if self.steps.is_empty() { &list[i..] } else { &list[i + 1..] };
                if !rest.is_empty() {
                    self.steps.push(Step::Actions(rest.to_vec(), site, self.parent.clone()));
                }
            }
            end?;
        }
        Ok(())
    }

    /// Executes `run` on a copy of the packet. Returns the copy's operations.
    pub(super) fn scope(&mut self, run: impl FnOnce(&mut Self) -> Progress) -> Progress<Vec<Operation>> {
        self.deeper()?;
        let (state, stack, queue, site) = (self.state.clone(), self.stack.clone(), self.queue, self.site);
        let set = std::mem::take(&mut self.set);
        let operations = std::mem::take(&mut self.result.operations);
        let end = run(self);
        let end = self.end_scope(end);
        let copy = std::mem::replace(&mut self.result.operations, operations);
        (self.state, self.stack, self.queue, self.site, self.set) = (state, stack, queue, site, set);
        self.depth -= 1;
        end.map(|()| copy)
    }

    /// Executes `run` on a copy of the packet, now.
    pub(super) fn on_copy(&mut self, run: impl FnOnce(&mut Self) -> Progress) -> Progress {
        self.commit()?;
        let operations = self.scope(run)?;
        if operations.iter().all(Operation::keeps_packet) {
            self.result.operations.extend(operations);
            return Ok(());
        }
        self.emit(Operation::Clone(operations.into()))
    }

    /// Executes `run` as a step of the record.
    #[inline(always)]
    pub(super) fn recorded<T>(
        &mut self,
        event: impl FnOnce(&Key) -> Event,
        run: impl FnOnce(&mut Self) -> T,
    ) -> T {
        self.recorder.begin(event, &self.state.key);
        let result = run(self);
        self.recorder.end(&self.state.key);
        result
    }

    /// Enters a level; the caller leaves it by decrementing `depth`.
    pub(super) fn deeper(&mut self) -> Progress {
        self.depth += 1;
        if self.depth > limits::DEPTH { Err(Halt::Error(TranslateError::TooDeep)) } else { Ok(()) }
    }
}
