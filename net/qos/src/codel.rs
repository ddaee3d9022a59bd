//! CoDel (RFC 8289): drops from a queue whose packets have waited longer than a target for an interval.
//!
//! [`Codel`] is the state of one queue, after the pseudocode of section 5. The queue itself is a [`Fifo`].

/// Parameters of all queues of a class. Times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodelParams {
    /// Acceptable standing delay.
    pub target: u64,
    /// Time for which the delay must exceed the target; about the longest round-trip time.
    pub interval: u64,
    /// Whether packets of ECN-capable transports are marked instead of dropped.
    pub ecn: bool,
    /// Backlog in bytes up to which nothing is dropped: the longest packet.
    pub longest: u64,
}

impl Default for CodelParams {
    /// RFC 8289, section 4.
    fn default() -> Self {
        Self { target: 5_000_000, interval: 100_000_000, ecn: true, longest: 1514 }
    }
}

/// A queue under control.
pub trait Fifo {
    /// A packet.
    type Packet;
    /// Takes the first packet, with the time of its arrival.
    fn pop(&mut self) -> Option<(Self::Packet, u64)>;
    /// Bytes of the packets in the queue.
    fn bytes(&self) -> u64;
    /// Counts and discards a packet.
    fn discard(&mut self, packet: Self::Packet);
    /// Marks a packet. Returns `false` if its transport does not support ECN.
    fn mark(&mut self, packet: &mut Self::Packet) -> bool;
}

/// State of one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Codel {
    /// When the delay will have been above the target for an interval; `None` if it is below.
    above_at: Option<u64>,
    next_drop: u64,
    count: u64,
    last_count: u64,
    is_dropping: bool,
}

/// First packet of a queue, and whether it may be dropped.
type Head<P> = (Option<P>, bool);

impl Codel {
    /// Takes the next packet to be sent at `now`.
    pub fn dequeue<F: Fifo>(&mut self, now: u64, params: &CodelParams, queue: &mut F) -> Option<F::Packet> {
        let head = self.head(now, params, queue);
        if self.is_dropping {
            self.keep_dropping(now, params, queue, head)
        } else if head.1 {
            self.start_dropping(now, params, queue, head)
        } else {
            head.0
        }
    }

    /// `dodequeue` of the pseudocode.
    fn head<F: Fifo>(&mut self, now: u64, params: &CodelParams, queue: &mut F) -> Head<F::Packet> {
        let Some((packet, since)) = queue.pop() else {
            self.above_at = None;
            return (None, false);
        };
        if now.saturating_sub(since) < params.target || queue.bytes() <= params.longest {
            self.above_at = None;
            return (Some(packet), false);
        }
        let above_at = *self.above_at.get_or_insert(now + params.interval);
        (Some(packet), now >= above_at)
    }

    fn keep_dropping<F: Fifo>(
        &mut self,
        now: u64,
        params: &CodelParams,
        queue: &mut F,
        mut head: Head<F::Packet>,
    ) -> Option<F::Packet> {
        self.is_dropping = head.1;
        while self.is_dropping && now >= self.next_drop {
            self.count += 1;
            let Some(marked) = Self::lose(params, queue, head.0) else {
                head = self.head(now, params, queue);
                self.is_dropping = head.1;
                if self.is_dropping {
                    self.next_drop = control_law(self.next_drop, params.interval, self.count);
                }
                continue;
            };
            self.next_drop = control_law(self.next_drop, params.interval, self.count);
            return Some(marked);
        }
        head.0
    }

    fn start_dropping<F: Fifo>(
        &mut self,
        now: u64,
        params: &CodelParams,
        queue: &mut F,
        head: Head<F::Packet>,
    ) -> Option<F::Packet> {
        let sent = Self::lose(params, queue, head.0).or_else(|| self.head(now, params, queue).0);
        self.is_dropping = true;
        let drops = self.count - self.last_count;
        let is_recent = now.saturating_sub(self.next_drop) < 16 * params.interval;
        self.count = if drops > 1 && is_recent { drops } else { 1 };
        self.next_drop = control_law(now, params.interval, self.count);
        self.last_count = self.count;
        sent
    }

    /// Discards a packet, or returns it marked.
    fn lose<F: Fifo>(params: &CodelParams, queue: &mut F, packet: Option<F::Packet>) -> Option<F::Packet> {
        let mut packet = packet?;
        if params.ecn && queue.mark(&mut packet) {
            return Some(packet);
        }
        queue.discard(packet);
        None
    }
}

/// Time of the next drop: intervals become shorter with the inverse square root of the drops.
fn control_law(at: u64, interval: u64, count: u64) -> u64 {
    at + (interval as f64 / (count as f64).sqrt()) as u64
}

#[cfg(test)]
mod tests;
