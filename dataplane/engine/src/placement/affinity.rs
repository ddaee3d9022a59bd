//! Which worker serves which receive queue, as configured.
//!
//! A queue may have a worker (`red.1` or all of `red`), and a queue or port may be isolated: then its worker serves nothing
//! else. Queues that are not configured go to the other workers, and only there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A queue pair of a port, or all of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueName {
    /// The port's name.
    pub port: String,
    /// The pair; `None`: all pairs.
    pub pair: Option<u16>,
}

impl QueueName {
    /// Reads `port` or `port.pair`. A port may have dots in its name, so the names that exist decide.
    pub fn parse(text: &str, is_port: impl Fn(&str) -> bool) -> Option<Self> {
        if is_port(text) {
            return Some(Self { port: text.to_owned(), pair: None });
        }
        let (port, pair) = text.rsplit_once('.')?;
        let pair = pair.parse().ok()?;
        is_port(port).then(|| Self { port: port.to_owned(), pair: Some(pair) })
    }

    /// Whether both speak of some queue.
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

/// Rules that cannot all be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SeatError {
    /// A worker that is not there.
    #[error("{0} is given to worker {1}, and there are {2} workers, counted from 0")]
    NoSuchWorker(QueueName, usize, usize),
    /// Two isolated queues on one worker, or one that is and one that is not.
    #[error("{0} is isolated, and {1} is given to its worker {2}")]
    NotAlone(QueueName, QueueName, usize),
    /// Said twice.
    #[error("{0} is isolated twice")]
    Twice(QueueName),
    /// No worker is left for what is isolated, or for what is not.
    #[error("{0} isolated queues and ports leave none of {1} workers for all others")]
    NoneLeft(usize, usize),
}

/// The rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueAffinity {
    fixed: BTreeMap<QueueName, usize>,
    /// Workers that serve one isolated queue or port each.
    own: BTreeMap<usize, QueueName>,
}

impl QueueAffinity {
    /// Rules for so many workers: queues that have a worker, and those that are isolated. An isolated one that has no
    /// worker gets the last one that is not named.
    ///
    /// # Errors
    /// Rules that cannot all be kept.
    pub fn arrange(
        workers: usize,
        queues: &[(QueueName, usize)],
        isolated: &[QueueName],
    ) -> Result<Self, SeatError> {
        if let Some((queue, worker)) = queues.iter().find(|(_, worker)| *worker >= workers) {
            return Err(SeatError::NoSuchWorker(queue.clone(), *worker, workers));
        }
        if let Some(at) =
            (1..isolated.len()).find(|&i| isolated[..i].iter().any(|o| o.overlaps(&isolated[i])))
        {
            return Err(SeatError::Twice(isolated[at].clone()));
        }
        let mut affinity = Self { fixed: queues.iter().cloned().collect(), own: BTreeMap::new() };
        for queue in isolated {
            let named: BTreeSet<usize> =
                affinity.fixed.values().chain(affinity.own.keys()).copied().collect();
            let free = || (0..workers).rev().find(|worker| !named.contains(worker));
            let worker = affinity.fixed.get(queue).copied().or_else(free);
            let worker = worker.ok_or(SeatError::NoneLeft(isolated.len(), workers))?;
            affinity.isolate(queue, worker)?;
        }
        if affinity.own.len() == workers && workers > 0 {
            return Err(SeatError::NoneLeft(isolated.len(), workers));
        }
        Ok(affinity)
    }

    fn isolate(&mut self, queue: &QueueName, worker: usize) -> Result<(), SeatError> {
        let other = self.fixed.iter().find(|(other, at)| **at == worker && *other != queue);
        if let Some(other) = other.map(|(other, _)| other).or(self.own.get(&worker)) {
            return Err(SeatError::NotAlone(queue.clone(), other.clone(), worker));
        }
        self.fixed.insert(queue.clone(), worker);
        self.own.insert(worker, queue.clone());
        Ok(())
    }

    /// The worker of a queue, where a rule names it: a rule for the pair before one for the port.
    pub fn of(&self, port: &str, pair: u16) -> Option<usize> {
        let rule = |pair| self.fixed.get(&QueueName { port: port.to_owned(), pair }).copied();
        rule(Some(pair)).or_else(|| rule(None))
    }

    /// What worker `worker` serves alone.
    pub fn owner(&self, worker: usize) -> Option<&QueueName> {
        self.own.get(&worker)
    }

    /// The workers for queues that no rule names.
    pub fn open(&self, workers: usize) -> Vec<usize> {
        (0..workers).filter(|worker| !self.own.contains_key(worker)).collect()
    }

    /// Every queue that has a worker.
    pub fn rules(&self) -> impl Iterator<Item = (&QueueName, usize)> {
        self.fixed.iter().map(|(queue, worker)| (queue, *worker))
    }
}
