//! Single-producer, single-consumer ring of entries in memory that both ends can write at any time.
//!
//! Layout in words of eight bytes: `tail` (written by the producer), a line pair further `head` and `sleeps` (written
//! by the consumer), a line pair further the entries, one cache line each. Positions increase and are never reduced;
//! the slot of a position is its value modulo the size, a power of two.
//!
//! Protocol: the producer fills slots and stores `tail` with Release, which pairs with the consumer's Acquire load. The
//! consumer copies slots and stores `head` with Release, which pairs with the producer's Acquire load. A consumer that
//! prepares to sleep sets `sleeps`, executes a full fence and reads `tail` again; a producer publishes, executes a full
//! fence and reads `sleeps`. So either the consumer sees the entry or the producer sees the flag.
//!
//! Each end keeps its own position in private memory and validates the other's: a peer can make an end stop, and read
//! or send wrong entries, which the receiver validates. Must not hold a reference to an entry.

use core::sync::atomic::Ordering;
use mem::SharedRange;
use mem::shim::atomic::fence;

const TAIL: usize = 0;
const HEAD: usize = 16;
const SLEEPS: usize = 17;
const ENTRIES: usize = 32;
/// Words of an entry.
pub(crate) const ENTRY: usize = 8;

/// An entry: one cache line.
pub(crate) type Words = [u64; ENTRY];

/// The peer's position is more than the ring's size away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid position of the peer in a ring")]
pub(crate) struct RingFault;

/// Memory of a ring, as atomic words.
pub(crate) trait Memory {
    fn load(&self, word: usize, order: Ordering) -> u64;
    fn store(&self, word: usize, value: u64, order: Ordering);
}

impl Memory for SharedRange {
    #[inline]
    fn load(&self, word: usize, order: Ordering) -> u64 {
        SharedRange::load(self, word, order)
    }

    #[inline]
    fn store(&self, word: usize, value: u64, order: Ordering) {
        SharedRange::store(self, word, value, order);
    }
}

/// Size in bytes of a ring with this number of entries.
pub(crate) const fn bytes(entries: u32) -> u32 {
    (ENTRIES as u32 + entries * ENTRY as u32) * 8
}

/// Word of the entry at a position.
#[inline]
fn place(position: u64, size: u64) -> usize {
    ENTRIES + (position & (size - 1)) as usize * ENTRY
}

/// Producer end.
#[derive(Debug)]
pub(crate) struct Producer<M> {
    memory: M,
    size: u64,
    tail: u64,
    published: u64,
    /// Last loaded value of `head`, validated.
    head: u64,
}

impl<M: Memory> Producer<M> {
    /// The producer of an empty ring of `entries` slots, a power of two.
    pub(crate) fn new(memory: M, entries: u32) -> Self {
        Self { memory, size: entries.into(), tail: 0, published: 0, head: 0 }
    }

    /// Appends an entry, which [`Producer::publish`] makes visible. Returns `false` if the ring is full.
    #[inline]
    pub(crate) fn push(&mut self, entry: &Words) -> Result<bool, RingFault> {
        if !self.room(1)? {
            return Ok(false);
        }
        let at = place(self.tail, self.size);
        for (word, value) in (at..).zip(entry) {
            self.memory.store(word, *value, Ordering::Relaxed);
        }
        self.tail += 1;
        Ok(true)
    }

    /// Whether `count` entries fit.
    #[inline]
    pub(crate) fn room(&mut self, count: u64) -> Result<bool, RingFault> {
        if self.size - (self.tail - self.head) < count {
            self.refresh()?;
        }
        Ok(self.size - (self.tail - self.head) >= count)
    }

    /// Loads the consumer's position.
    fn refresh(&mut self) -> Result<(), RingFault> {
        // Pairs with the Release store in `Consumer::release`: the slots before it were copied.
        let head = self.memory.load(HEAD, Ordering::Acquire);
        if head < self.head || head > self.published {
            return Err(RingFault);
        }
        self.head = head;
        Ok(())
    }

    /// Makes appended entries visible. Returns whether there were any.
    #[inline]
    pub(crate) fn publish(&mut self) -> bool {
        if self.published == self.tail {
            return false;
        }
        self.published = self.tail;
        // Pairs with the Acquire load in `Consumer::refresh`: the slots before it are filled.
        self.memory.store(TAIL, self.tail, Ordering::Release);
        true
    }

    /// Whether the consumer waits for a signal. Must be called after [`Producer::publish`].
    #[inline]
    pub(crate) fn consumer_sleeps(&self) -> bool {
        // Pairs with the fence in `Consumer::prepare_sleep`.
        fence(Ordering::SeqCst);
        self.memory.load(SLEEPS, Ordering::Relaxed) != 0
    }
}

/// Consumer end.
#[derive(Debug)]
pub(crate) struct Consumer<M> {
    memory: M,
    size: u64,
    head: u64,
    /// Last loaded value of `tail`, validated.
    tail: u64,
    released: u64,
}

impl<M: Memory> Consumer<M> {
    /// The consumer of an empty ring of `entries` slots, a power of two.
    pub(crate) fn new(memory: M, entries: u32) -> Self {
        Self { memory, size: entries.into(), head: 0, tail: 0, released: 0 }
    }

    /// Copies the oldest entry, whose slot [`Consumer::release`] gives back. Returns `None` if the ring is empty.
    #[inline]
    pub(crate) fn pop(&mut self) -> Result<Option<Words>, RingFault> {
        if self.head == self.tail && !self.refresh()? {
            return Ok(None);
        }
        let at = place(self.head, self.size);
        let entry = core::array::from_fn(|i| self.memory.load(at + i, Ordering::Relaxed));
        self.head += 1;
        Ok(Some(entry))
    }

    /// Loads the producer's position. Returns whether there are entries.
    #[inline]
    fn refresh(&mut self) -> Result<bool, RingFault> {
        // Pairs with the Release store in `Producer::publish`: the slots before it are filled.
        let tail = self.memory.load(TAIL, Ordering::Acquire);
        if tail < self.tail || tail - self.released > self.size {
            return Err(RingFault);
        }
        self.tail = tail;
        Ok(tail != self.head)
    }

    /// Gives the slots of copied entries back.
    #[inline]
    pub(crate) fn release(&mut self) {
        if self.released != self.head {
            self.released = self.head;
            // Pairs with the Acquire load in `Producer::refresh`: the slots before it were copied.
            self.memory.store(HEAD, self.head, Ordering::Release);
        }
    }

    /// Makes the next entry signal this end. Returns `false` if there are entries already, or the position is invalid:
    /// the caller must not sleep then. [`Consumer::resume`] follows in both cases.
    pub(crate) fn prepare_sleep(&mut self) -> bool {
        self.memory.store(SLEEPS, 1, Ordering::Relaxed);
        // Pairs with the fence in `Producer::consumer_sleeps`.
        fence(Ordering::SeqCst);
        self.head == self.tail && self.refresh() == Ok(false)
    }

    /// Ends signals.
    pub(crate) fn resume(&mut self) {
        self.memory.store(SLEEPS, 0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mem::shim::Arc;
    use mem::shim::atomic::AtomicU64;

    /// Words that loom can watch.
    #[derive(Clone)]
    struct Private(Arc<Vec<AtomicU64>>);

    impl Memory for Private {
        fn load(&self, word: usize, order: Ordering) -> u64 {
            self.0[word].load(order)
        }

        fn store(&self, word: usize, value: u64, order: Ordering) {
            self.0[word].store(value, order);
        }
    }

    fn ring(entries: u32) -> (Producer<Private>, Consumer<Private>, Private) {
        let words = (0..bytes(entries) / 8).map(|_| AtomicU64::new(0)).collect();
        let memory = Private(Arc::new(words));
        (Producer::new(memory.clone(), entries), Consumer::new(memory.clone(), entries), memory)
    }

    #[cfg(not(loom))]
    #[test]
    fn entries_arrive_in_order_and_a_full_ring_takes_none() {
        let (mut producer, mut consumer, _) = ring(4);
        for round in 0..10 {
            (0..4).for_each(|i| assert_eq!(producer.push(&[round * 4 + i; ENTRY]), Ok(true)));
            assert_eq!(producer.push(&[0; ENTRY]), Ok(false));
            assert_eq!(consumer.pop(), Ok(None), "nothing is published");
            assert!(producer.publish() && !producer.publish());
            (0..4).for_each(|i| assert_eq!(consumer.pop(), Ok(Some([round * 4 + i; ENTRY]))));
            assert_eq!((consumer.pop(), producer.push(&[0; ENTRY])), (Ok(None), Ok(false)));
            consumer.release();
        }
    }

    #[cfg(not(loom))]
    #[test]
    fn positions_of_a_hostile_peer_are_refused() {
        for tail in [5, u64::MAX, 1 << 40] {
            let (_, mut consumer, memory) = ring(4);
            memory.store(TAIL, tail, Ordering::Relaxed);
            assert_eq!(consumer.pop(), Err(RingFault), "{tail}");
            assert!(!consumer.prepare_sleep());
        }
        for head in [5, u64::MAX, 1] {
            let (mut producer, _, memory) = ring(4);
            (0..4).for_each(|_| assert_eq!(producer.push(&[0; ENTRY]), Ok(true)));
            memory.store(HEAD, head, Ordering::Relaxed);
            assert_eq!(producer.push(&[0; ENTRY]), Err(RingFault), "{head}");
        }
    }

    #[cfg(loom)]
    #[test]
    fn loom_entries_arrive_and_no_wake_up_is_lost() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(|| {
            let (mut producer, mut consumer, _) = ring(2);
            let signal = Arc::new(AtomicU64::new(0));
            let sender = loom::thread::spawn({
                let signal = signal.clone();
                move || {
                    for i in 1..=3 {
                        while producer.push(&[i; ENTRY]) != Ok(true) {
                            loom::thread::yield_now();
                        }
                        producer.publish();
                        if producer.consumer_sleeps() {
                            signal.store(1, Ordering::SeqCst);
                        }
                    }
                }
            });
            let mut expected = 1;
            while expected <= 3 {
                match consumer.pop() {
                    Ok(Some(entry)) => {
                        assert_eq!(entry, [expected; ENTRY]);
                        expected += 1;
                        consumer.release();
                    }
                    _ if consumer.prepare_sleep() => {
                        // A lost wake-up never ends this loop, which loom reports.
                        while signal.load(Ordering::SeqCst) == 0 {
                            loom::thread::yield_now();
                        }
                        signal.store(0, Ordering::SeqCst);
                        consumer.resume();
                    }
                    _ => consumer.resume(),
                }
            }
            sender.join().unwrap();
        });
    }
}
