//! One ring with its buffers and its eventfd.

use super::buffers::{Borrowed, Buffers, Own};
use super::ring::Ring;
use super::{rx, tx};
use crate::{PortFault, QueueState, RxQueue, TxQueue};
use rustix::fd::OwnedFd;
use std::iter;
use std::sync::Arc;

/// Everything needed to start a queue.
#[derive(Clone, Debug)]
pub(crate) struct Queue<B> {
    pub(super) ring: Ring,
    pub(super) buffers: B,
    /// Eventfd: written by the sender; the receiver waits for it.
    pub(super) wake: Arc<OwnedFd>,
}

/// Receive and transmit queues. Their numbers differ if the client created more rings in one direction.
pub(crate) type QueueHalves = (Vec<Box<dyn RxQueue>>, Vec<Box<dyn TxQueue>>);

/// States of the receive and of the transmit queues, by index.
pub(crate) type States = (Vec<QueueState>, Vec<QueueState>);

/// Rings of a completed handshake, by index, for receive and transmit.
#[derive(Debug)]
pub(crate) enum Rings {
    /// Server end: rings from the client, and rings to the client.
    Server(Vec<Queue<Borrowed>>, Vec<Queue<Borrowed>>),
    /// Client end.
    Client(Vec<Queue<Own>>, Vec<Queue<Own>>),
}

impl Rings {
    /// Creates receive and transmit queues with empty rings.
    pub(crate) fn start(self) -> Result<QueueHalves, PortFault> {
        self.thaw((Vec::new(), Vec::new()))
    }

    /// Numbers of receive and transmit queues.
    pub(super) fn shape(&self) -> (usize, usize) {
        match self {
            Rings::Server(rx, tx) => (rx.len(), tx.len()),
            Rings::Client(rx, tx) => (rx.len(), tx.len()),
        }
    }

    /// Creates receive and transmit queues that continue from these states; queues without a state have empty rings.
    pub(crate) fn thaw(self, states: States) -> Result<QueueHalves, PortFault> {
        match self {
            Rings::Server(rx, tx) => halves(rx, tx, states),
            Rings::Client(rx, tx) => halves(rx, tx, states),
        }
    }
}

fn halves<B: Buffers>(
    rx: Vec<Queue<B>>,
    tx: Vec<Queue<B>>,
    states: States,
) -> Result<QueueHalves, PortFault> {
    let padded = |states: Vec<QueueState>| states.into_iter().chain(iter::repeat_with(QueueState::default));
    let rx = rx.into_iter().zip(padded(states.0)).map(|(queue, state)| rx::thaw(queue, state));
    let tx = tx.into_iter().zip(padded(states.1)).map(|(queue, state)| tx::thaw(queue, state));
    Ok((rx.collect::<Result<_, _>>()?, tx.collect::<Result<_, _>>()?))
}
