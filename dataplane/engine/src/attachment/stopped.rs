//! Stop and start of all queues at once, for a hand-over of the ports to another process.
//!
//! All receive queues stop before the first transmit queue does, and handoff queues are drained in between, so that
//! no received packet finds its output stopped. Workers stop their queues at the same time: the control thread waits
//! for two burst boundaries, independent of the number of ports. The queues then wait here for [`port::Attach`]'s
//! `stop_rx` and `stop_tx` of their ports, or for [`Placement::restart_stopped`].
//!
//! A worker that hangs fails the hand-over, and has its queues until it handles the commands; they are started again
//! then.
//!
//! Likewise, all transmit queues start before the first receive queue does, and the control thread waits once.

use super::{Attachment, Placement};
use crate::command::{Command, Generation, QueueKey, Retired};
use port::{Attach, PortId, RxQueue, TxQueue};
use std::collections::{BTreeSet, HashMap};

/// Queues that no worker has any more.
#[derive(Default)]
pub(super) struct Stopped {
    pub(super) rx: HashMap<Generation, Box<dyn RxQueue>>,
    pub(super) tx: HashMap<Generation, Box<dyn TxQueue>>,
}

/// Queues that start at once.
#[derive(Default)]
pub(super) struct Starts {
    rx: Vec<(PortId, u16, Box<dyn RxQueue>)>,
    /// Commands that are waited for at the end.
    commands: Vec<(usize, u64)>,
}

impl Starts {
    pub(super) fn hold(&mut self, port: PortId, pair: u16, queue: Box<dyn RxQueue>) {
        self.rx.push((port, pair, queue));
    }

    /// The queue of a pair that was to start.
    pub(super) fn take(&mut self, port: PortId, pair: u16) -> Option<Box<dyn RxQueue>> {
        let place = self.rx.iter().position(|(of, held, _)| (*of, *held) == (port, pair))?;
        Some(self.rx.remove(place).2)
    }

    pub(super) fn wait_later(&mut self, commands: &[(usize, u64)]) {
        self.commands.extend_from_slice(commands);
    }
}

impl Placement {
    /// Until [`Placement::end_starts`], receive queues do not start, and no command is waited for.
    pub(crate) fn begin_starts(&mut self) {
        self.starts_at_once = Some(Starts::default());
    }

    /// Waits until all transmit queues run. Receive queues do not start yet.
    ///
    /// # Errors
    /// A worker that does not respond.
    pub(crate) fn wait_for_starts(&mut self) -> Result<(), usize> {
        let commands = self.starts_at_once.as_mut().map(|starts| std::mem::take(&mut starts.commands));
        self.wait_for(&commands.unwrap_or_default())
    }

    /// Starts the receive queues, and waits until all queues run.
    ///
    /// # Errors
    /// A worker that does not respond.
    pub(crate) fn end_starts(&mut self) -> Result<(), usize> {
        let Some(Starts { rx, mut commands }) = self.starts_at_once.take() else { return Ok(()) };
        for (port, pair, queue) in rx {
            commands.extend(Attachment::new(self, port).post_rx(pair, queue));
        }
        self.wait_for(&commands)
    }

    /// Drops the receive queues that have not started.
    pub(crate) fn abandon_starts(&mut self) {
        // A worker that hangs keeps its transmit queues.
        let _ = self.wait_for_starts();
        self.starts_at_once = None;
    }

    fn wait_for(&self, commands: &[(usize, u64)]) -> Result<(), usize> {
        let is_hung = |(worker, number): &(usize, u64)| !self.links[*worker].wait(*number);
        commands.iter().find(|command| is_hung(command)).map_or(Ok(()), |(worker, _)| Err(*worker))
    }

    /// Stops all queues.
    ///
    /// # Errors
    /// A worker that does not respond. It may still have queues; the others are stopped.
    pub(crate) fn stop_all(&mut self) -> Result<(), usize> {
        let rx: Vec<_> = self.rx.iter().map(|(key, placed)| (*key, placed.worker)).collect();
        if self.layout.steals {
            self.stop_shared()?;
        } else {
            let stop = |(key, worker): (_, usize)| (worker, self.links[worker].post(Command::StopRx(key)));
            self.wait_all(rx.into_iter().map(stop).collect())?;
        }
        for workers in self.drain_groups() {
            self.wait_all(self.post_to(&workers, || Command::Drain))?;
        }
        let tx: Vec<_> = self.tx.keys().copied().collect();
        let outlets = self.layout.outlets.clone();
        let stop = |key: QueueKey| self.post_to(&outlets, move || Command::StopTx(key));
        self.wait_all(tx.into_iter().flat_map(stop).collect())
    }

    fn stop_shared(&mut self) -> Result<(), usize> {
        let (workers, keys) = (self.layout.rx_stages.clone(), self.stealable_queues.keys().copied());
        let stop = |key: QueueKey| self.post_to(&workers, move || Command::Unshare(key));
        let commands = keys.flat_map(stop).collect();
        if let Err(hung) = self.wait_all(commands) {
            // The hung worker handles this after the commands before.
            for stealable in self.stealable_queues.values() {
                self.post_to(&workers, || Command::Share(stealable.clone()));
            }
            return Err(hung);
        }
        for (key, stealable) in std::mem::take(&mut self.stealable_queues) {
            if let (Some(placed), Some(queue)) = (self.rx.get(&key), stealable.take()) {
                self.stopped.rx.insert(placed.generation, queue);
            }
        }
        Ok(())
    }

    /// Waits for commands, and collects the queues that workers have released.
    fn wait_all(&mut self, commands: Vec<(usize, u64)>) -> Result<(), usize> {
        let mut hung = Ok(());
        for (worker, number) in commands {
            if !self.links[worker].wait(number) {
                hung = Err(worker);
            }
        }
        self.collect();
        hung
    }

    /// Collects the queues that workers have released. Drops those that are not to run any more.
    pub(super) fn collect(&mut self) {
        for retired in self.links.iter().flat_map(|link| link.retired()) {
            match retired {
                Retired::Rx(of, queue) if self.running.contains(&of) => {
                    self.stopped.rx.insert(of, queue);
                }
                // Every worker has a handle, and all of them have the position at which the queue stopped.
                Retired::Tx(of, queue) if self.running.contains(&of) => {
                    self.stopped.tx.insert(of, queue);
                }
                _ => {}
            }
        }
    }

    /// Starts the queues again that workers have stopped after their hand-over had failed.
    pub(super) fn restart_late(&mut self) {
        let Stopped { rx, tx } = &self.stopped;
        // Almost always, and this is called for each event of a port.
        if rx.is_empty() && tx.is_empty() {
            return;
        }
        let rx =
            self.rx.iter().filter(|(_, placed)| rx.contains_key(&placed.generation)).map(|(key, _)| key.port);
        let tx = self.tx.iter().filter(|(_, of)| tx.contains_key(of)).map(|(key, _)| key.port);
        for port in rx.chain(tx).collect::<BTreeSet<_>>() {
            if self.holder(port).is_none() {
                self.restart_stopped(port);
            }
        }
    }

    /// Starts the stopped queues of `port` again.
    pub(crate) fn restart_stopped(&mut self, port: PortId) {
        let of_port = |key: &QueueKey| key.port == port;
        let rx: Vec<_> =
            self.rx.iter().filter(|(key, _)| of_port(key)).map(|(k, p)| (*k, p.generation)).collect();
        let tx: Vec<_> = self.tx.iter().filter(|(key, _)| of_port(key)).map(|(k, g)| (*k, *g)).collect();
        for (key, generation) in tx {
            if let Some(queue) = self.stopped.tx.remove(&generation) {
                self.running.remove(&generation);
                Attachment::new(self, port).start_tx(key.pair, queue);
            }
        }
        for (key, generation) in rx {
            if let Some(queue) = self.stopped.rx.remove(&generation) {
                self.running.remove(&generation);
                Attachment::new(self, port).start_rx(key.pair, queue);
            }
        }
    }
}
