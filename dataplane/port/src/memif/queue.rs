//! One ring with its buffers and its event descriptor, before and while it runs.

use super::buffers::{Borrowed, Own};
use super::ring::Ring;
use super::{rx, tx};
use crate::{RxQueue, TxQueue};
use rustix::fd::OwnedFd;
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

/// The rings of a connection that is complete, each by index, as this end uses them.
#[derive(Debug)]
pub(crate) enum Rings {
    /// As the server: the client's rings to us, and ours to it.
    Server(Vec<Queue<Borrowed>>, Vec<Queue<Borrowed>>),
    /// As the client.
    Client(Vec<Queue<Own>>, Vec<Queue<Own>>),
}

impl Rings {
    /// Receive and transmit queues. The end and the copy kernel are chosen here, once.
    pub(crate) fn start(self) -> Halves {
        match self {
            Rings::Server(rx, tx) => {
                (rx.into_iter().map(rx::start).collect(), tx.into_iter().map(tx::start).collect())
            }
            Rings::Client(rx, tx) => {
                (rx.into_iter().map(rx::start).collect(), tx.into_iter().map(tx::start).collect())
            }
        }
    }
}
