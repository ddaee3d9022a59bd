//! The engine as the port inside a wrapper sees it.

use crate::{Attach, PortFault, QueueId, RxQueue, TxQueue};

/// A transmit queue, and the queue that sends what it delayed.
pub type Sending = (Box<dyn TxQueue>, Option<Box<dyn RxQueue>>);

/// Wrappers of the queues of a port.
pub trait WrapQueues {
    /// Engine pair number of the queue that sends a pair's delayed packets, `ORed` with the pair: a bit that no port
    /// and no other wrapper uses.
    const RELEASE_PAIR: u16;

    /// Wraps a receive queue of the port, or the release queue of a wrapper in it.
    fn rx(&self, pair: u16, queue: Box<dyn RxQueue>) -> Result<Box<dyn RxQueue>, PortFault>;

    /// Wraps a transmit queue.
    fn tx(&self, pair: u16, queue: Box<dyn TxQueue>) -> Result<Sending, PortFault>;
}

/// Passes queues on to the engine through their wrappers.
pub struct WrapAttach<'a, W> {
    engine: &'a mut dyn Attach,
    wrappers: &'a W,
    /// Why a queue could not be wrapped; that queue was not started.
    failure: Option<PortFault>,
}

impl<'a, W: WrapQueues> WrapAttach<'a, W> {
    /// For one call of the port inside.
    pub fn new(engine: &'a mut dyn Attach, wrappers: &'a W) -> Self {
        Self { engine, wrappers, failure: None }
    }

    fn note<T>(&mut self, made: Result<T, PortFault>) -> Option<T> {
        made.map_err(|fault| self.failure = Some(fault)).ok()
    }
}

impl<W: WrapQueues> Attach for WrapAttach<'_, W> {
    fn start_rx(&mut self, pair: u16, queue: Box<dyn RxQueue>) {
        if let Some(queue) = self.note(self.wrappers.rx(pair, queue)) {
            self.engine.start_rx(pair, queue);
        }
    }

    fn stop_rx(&mut self, pair: u16) -> Option<Box<dyn RxQueue>> {
        self.engine.stop_rx(pair)
    }

    fn start_tx(&mut self, pair: u16, queue: Box<dyn TxQueue>) {
        if let Some((queue, release)) = self.note(self.wrappers.tx(pair, queue)) {
            self.engine.start_tx(pair, queue);
            if let Some(release) = release {
                self.engine.start_rx(W::RELEASE_PAIR | pair, release);
            }
        }
    }

    fn stop_tx(&mut self, pair: u16) -> Option<Box<dyn TxQueue>> {
        // The release queue sends to the same ring, so it is stopped first; what it delayed is dropped.
        drop(self.engine.stop_rx(W::RELEASE_PAIR | pair));
        self.engine.stop_tx(pair)
    }

    fn refresh(&mut self) {
        self.engine.refresh();
    }

    fn inject(&mut self, frame: &[u8]) {
        self.engine.inject(frame);
    }

    fn failure(&self) -> Option<PortFault> {
        self.failure.clone().or_else(|| self.engine.failure())
    }

    /// The release queue of a pair sends to the pair's transmit queue.
    fn faulty_queue(&self) -> Option<QueueId> {
        self.engine.faulty_queue().map(|queue| match queue {
            QueueId::Rx(pair) if pair & W::RELEASE_PAIR != 0 => QueueId::Tx(pair & !W::RELEASE_PAIR),
            queue => queue,
        })
    }

    fn epoch(&self) -> u64 {
        self.engine.epoch()
    }
}
