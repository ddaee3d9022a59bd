//! One ring with its buffers and its event descriptor, before and while it runs.

use super::buffers::{Borrowed, Buffers, Own};
use super::ring::Ring;
use super::{rx, tx};
use crate::{PortFault, QueueState, RxQueue, TxQueue};
use rustix::fd::OwnedFd;
use std::iter;
use std::sync::Arc;

/// Everything that a queue must know to start.
#[derive(Clone, Debug)]
pub(crate) struct Queue<B> {
    pub(super) ring: Ring,
    pub(super) buffers: B,
    /// The sender writes it, the receiver sleeps on it.
    pub(super) wake: Arc<OwnedFd>,
}

/// A queue pair's halves; which half may be missing where the client brought more rings of one direction.
pub(crate) type Halves = (Vec<Box<dyn RxQueue>>, Vec<Box<dyn TxQueue>>);

/// States of the receive and of the transmit queues, by index.
pub(crate) type States = (Vec<QueueState>, Vec<QueueState>);

/// The rings of a connection that is complete, each by index, as this end uses them.
#[derive(Debug)]
pub(crate) enum Rings {
    /// As the server: the client's rings to us, and ours to it.
    Server(Vec<Queue<Borrowed>>, Vec<Queue<Borrowed>>),
    /// As the client.
    Client(Vec<Queue<Own>>, Vec<Queue<Own>>),
}

impl Rings {
    /// Receive and transmit queues with nothing in their rings.
    pub(crate) fn start(self) -> Result<Halves, PortFault> {
        self.thaw((Vec::new(), Vec::new()))
    }

    /// Receive and transmit queues that continue from these states, the remaining ones with nothing in their rings.
    pub(crate) fn thaw(self, states: States) -> Result<Halves, PortFault> {
        match self {
            Rings::Server(rx, tx) => halves(rx, tx, states),
            Rings::Client(rx, tx) => halves(rx, tx, states),
        }
    }
}

fn halves<B: Buffers>(rx: Vec<Queue<B>>, tx: Vec<Queue<B>>, states: States) -> Result<Halves, PortFault> {
    let padded = |states: Vec<QueueState>| states.into_iter().chain(iter::repeat_with(QueueState::default));
    let rx = rx.into_iter().zip(padded(states.0)).map(|(queue, state)| rx::thaw(queue, state));
    let tx = tx.into_iter().zip(padded(states.1)).map(|(queue, state)| tx::thaw(queue, state));
    Ok((rx.collect::<Result<_, _>>()?, tx.collect::<Result<_, _>>()?))
}
