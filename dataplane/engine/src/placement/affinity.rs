//! Receive-queue affinity: the configured workers of receive queues.
//!
//! A queue may be assigned to a worker (`red.1`, or `red` for all queues). A queue or port may be isolated: its
//! worker then serves nothing else. Queues without a rule go to the remaining workers only.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// One queue pair of a port, or all of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueName {
    /// The port's name.
    pub port: String,
    /// The pair; `None` for all pairs.
    pub pair: Option<u16>,
}

impl QueueName {
    /// Parses `port` or `port.pair`. Port names may contain dots, so existing names take precedence.
    pub fn parse(text: &str, is_port: impl Fn(&str) -> bool) -> Option<Self> {
        if is_port(text) {
            return Some(Self { port: text.to_owned(), pair: None });
        }
        let (port, pair) = text.rsplit_once('.')?;
        let pair = pair.parse().ok()?;
        is_port(port).then(|| Self { port: port.to_owned(), pair: Some(pair) })
    }

    /// Whether both include some queue.
    fn overlaps(&self, other: &Self) -> bool {
        self.port == other.port && (self.pair.is_none() || other.pair.is_none() || self.pair == other.pair)
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pair {
            Some(pair) => write!(f, "{}.{pair}", self.port),
            None => f.write_str(&self.port),
        }
    }
}

/// Conflicting rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AffinityError {
    /// The worker does not exist.
    #[error("{0} is assigned to worker {1}, and there are {2} workers, numbered from 0")]
    NoSuchWorker(QueueName, usize, usize),
    /// A worker has an isolated queue and another rule.
    #[error("{0} is isolated, and {1} is assigned to its worker {2}")]
    NotAlone(QueueName, QueueName, usize),
    /// A queue is isolated twice.
    #[error("{0} is isolated twice")]
    Twice(QueueName),
    /// No worker is left for an isolated queue, or for the others.
    #[error("{0} isolated queues and ports leave none of {1} workers for the others")]
    NoneLeft(usize, usize),
}

/// Validated rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueAffinity {
    fixed: BTreeMap<QueueName, usize>,
    /// Workers dedicated to an isolated queue or port.
    own: BTreeMap<usize, QueueName>,
}

impl QueueAffinity {
    /// Validates rules for `workers` workers: queues with a worker, and isolated queues. An isolated queue without a
    /// worker gets the highest-numbered worker without a rule.
    ///
    /// # Errors
    /// Returns an error if the rules conflict.
    pub fn arrange(
        workers: usize,
        queues: &[(QueueName, usize)],
        isolated: &[QueueName],
    ) -> Result<Self, AffinityError> {
        if let Some((queue, worker)) = queues.iter().find(|(_, worker)| *worker >= workers) {
            return Err(AffinityError::NoSuchWorker(queue.clone(), *worker, workers));
        }
        if let Some(at) =
            (1..isolated.len()).find(|&i| isolated[..i].iter().any(|o| o.overlaps(&isolated[i])))
        {
            return Err(AffinityError::Twice(isolated[at].clone()));
        }
        let mut affinity = Self { fixed: queues.iter().cloned().collect(), own: BTreeMap::new() };
        for queue in isolated {
            let named: BTreeSet<usize> =
                affinity.fixed.values().chain(affinity.own.keys()).copied().collect();
            let free = || (0..workers).rev().find(|worker| !named.contains(worker));
            let worker = affinity.fixed.get(queue).copied().or_else(free);
            let worker = worker.ok_or(AffinityError::NoneLeft(isolated.len(), workers))?;
            affinity.isolate(queue, worker)?;
        }
        if affinity.own.len() == workers && workers > 0 {
            return Err(AffinityError::NoneLeft(isolated.len(), workers));
        }
        Ok(affinity)
    }

    fn isolate(&mut self, queue: &QueueName, worker: usize) -> Result<(), AffinityError> {
        let other = self.fixed.iter().find(|(other, at)| **at == worker && *other != queue);
        if let Some(other) = other.map(|(other, _)| other).or(self.own.get(&worker)) {
            return Err(AffinityError::NotAlone(queue.clone(), other.clone(), worker));
        }
        self.fixed.insert(queue.clone(), worker);
        self.own.insert(worker, queue.clone());
        Ok(())
    }

    /// The configured worker of a queue. A rule for the pair takes precedence over one for the port.
    pub fn of(&self, port: &str, pair: u16) -> Option<usize> {
        let rule = |pair| self.fixed.get(&QueueName { port: port.to_owned(), pair }).copied();
        rule(Some(pair)).or_else(|| rule(None))
    }

    /// The isolated queue or port of worker `worker`.
    pub fn owner(&self, worker: usize) -> Option<&QueueName> {
        self.own.get(&worker)
    }

    /// Workers for queues without a rule.
    pub fn open(&self, workers: usize) -> Vec<usize> {
        (0..workers).filter(|worker| !self.own.contains_key(worker)).collect()
    }

    /// All assigned queues.
    pub fn rules(&self) -> impl Iterator<Item = (&QueueName, usize)> {
        self.fixed.iter().map(|(queue, worker)| (queue, *worker))
    }
}
