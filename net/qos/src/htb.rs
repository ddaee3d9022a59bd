//! Hierarchical token buckets: which class may send now, and when the next one may.
//!
//! A class has a guaranteed rate, up to which it sends at any time, and a ceiling, up to which it borrows what its
//! ancestors have left. Classes that lend are inner nodes, packets wait in leaves. Rules are those of the kernel's
//! `htb` (Devera): a packet is charged to the rate of the lender and of its ancestors, and to the ceiling of every
//! class on its path. Among classes that may send, those that need not borrow come first, then those whose lender is
//! farther from the root, then those of higher priority, and classes of one priority by deficit round robin.
//!
//! Buckets may go below zero by one packet, so rates hold for every packet size. If the guarantees of the children of
//! each class fit into its own, a port sends at most its rate, the bursts of all classes, and one packet of each.

/// Maximum classes of a port, inner ones included: work for a packet is at most a visit of each leaf and its ancestors.
pub const MAX_CLASSES: usize = 32;
/// Maximum depth of a hierarchy.
pub const MAX_DEPTH: usize = 4;
/// Ranks of lenders: the leaf itself, and inner classes by depth.
const RANKS: usize = MAX_DEPTH + 1;
/// Tokens of a byte: bits, times nanoseconds of a second.
const TOKEN: i128 = 8 * 1_000_000_000;
/// Time after which a bucket is full at any rate; bounds the product of rate and time.
const LONGEST: u64 = 3_600_000_000_000;

/// Rates of a class. Rates in bits per second, bursts in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassRates {
    /// Guaranteed rate.
    pub rate: u64,
    /// Maximum rate; at least `rate`.
    pub ceil: u64,
    /// Burst of the guaranteed rate.
    pub burst: u64,
    /// Burst of the maximum rate.
    pub ceil_burst: u64,
}

/// Place of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Rates.
    pub rates: ClassRates,
    /// Index of the parent, less than that of the class; `None` for the root.
    pub parent: Option<u8>,
    /// Priority of a leaf: 0 is served first.
    pub priority: u8,
    /// Bytes that a leaf may send before the next one of its priority.
    pub quantum: u32,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: i128,
}

impl Bucket {
    fn full(bytes: u64) -> Self {
        Self { tokens: i128::from(bytes) * TOKEN }
    }

    fn fill(&mut self, passed: u64, rate: u64, depth: u64) {
        let earned = i128::from(passed) * i128::from(rate);
        self.tokens = (self.tokens + earned).min(i128::from(depth) * TOKEN);
    }

    /// Nanoseconds until the bucket is not below zero.
    fn wait(&self, rate: u64) -> u64 {
        let missing = u128::try_from(-self.tokens).unwrap_or(0);
        u64::try_from(missing.div_ceil(u128::from(rate.max(1)))).unwrap_or(u64::MAX)
    }
}

#[derive(Clone, Copy, Debug)]
struct Class {
    node: Node,
    rate: Bucket,
    ceil: Bucket,
    /// By rank of the lender.
    deficit: [i64; RANKS],
    /// Rank as a lender to other classes.
    rank: u8,
}

/// When a leaf may send, and from which of its ancestors it borrows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Permit {
    wait: u64,
    /// 0 for the leaf itself, more the nearer the lender is to the root.
    rank: u8,
    /// Levels from the leaf to the lender.
    level: u8,
}

/// Token buckets of all classes of a port.
#[derive(Debug)]
pub struct Htb {
    classes: Vec<Class>,
    /// Time up to which buckets are filled, in nanoseconds.
    filled: u64,
    /// Leaf that was served last, by rank of its lender.
    last: [usize; RANKS],
}

impl Htb {
    /// Classes with full buckets at time 0. The first is the root.
    pub fn new(nodes: &[Node]) -> Self {
        let mut classes: Vec<Class> = Vec::with_capacity(nodes.len());
        for node in nodes.iter().take(MAX_CLASSES) {
            let parent = node.parent.and_then(|parent| classes.get(usize::from(parent)));
            let rank = parent.map_or(MAX_DEPTH as u8, |parent| parent.rank.saturating_sub(1));
            let (rate, ceil) = (Bucket::full(node.rates.burst), Bucket::full(node.rates.ceil_burst));
            classes.push(Class { node: *node, rate, ceil, deficit: [0; RANKS], rank });
        }
        Self { classes, filled: 0, last: [0; RANKS] }
    }

    /// Changes the rates of a class. Its buckets keep their tokens, up to the new depth.
    pub fn set_rates(&mut self, class: usize, rates: ClassRates) {
        if let Some(class) = self.classes.get_mut(class) {
            class.node.rates = rates;
            class.rate.fill(0, 0, rates.burst);
            class.ceil.fill(0, 0, rates.ceil_burst);
        }
    }

    /// Rates of a class.
    pub fn rates(&self, class: usize) -> Option<ClassRates> {
        self.classes.get(class).map(|class| class.node.rates)
    }

    /// Fills the buckets up to `now`, in nanoseconds. An earlier time adds nothing.
    pub fn advance(&mut self, now: u64) {
        let passed = now.saturating_sub(self.filled).min(LONGEST);
        self.filled = self.filled.max(now);
        for Class { node, rate, ceil, .. } in &mut self.classes {
            rate.fill(passed, node.rates.rate, node.rates.burst);
            ceil.fill(passed, node.rates.ceil, node.rates.ceil_burst);
        }
    }

    /// The leaf that sends next, of those that `waits` accepts. Returns `None` if none may send now.
    pub fn select(&mut self, waits: impl Fn(usize) -> bool) -> Option<usize> {
        let (mut best, mut round) = ((u8::MAX, u8::MAX), 0u64);
        for leaf in (0..self.classes.len()).filter(|&leaf| waits(leaf)) {
            let Permit { wait: 0, rank, .. } = self.permit(leaf) else { continue };
            let order = (rank, self.classes[leaf].node.priority);
            if order < best {
                (best, round) = (order, 0);
            }
            round |= u64::from(order == best) << leaf;
        }
        if round == 0 { None } else { self.turn(round, best.0.into()) }
    }

    /// The leaf of a set that sends next, by deficit round robin of this rank.
    fn turn(&mut self, round: u64, rank: usize) -> Option<usize> {
        let (n, last) = (self.classes.len(), self.last[rank]);
        // The last one continues as long as it has a deficit; then the next in the round gets its quantum.
        if round >> last & 1 == 1 && self.classes[last].deficit[rank] > 0 {
            return Some(last);
        }
        loop {
            let last = self.last[rank];
            let next = (1..=n).map(|step| (last + step) % n).find(|&leaf| round >> leaf & 1 == 1)?;
            let class = &mut self.classes[next];
            class.deficit[rank] += i64::from(class.node.quantum.max(1));
            self.last[rank] = next;
            if class.deficit[rank] > 0 {
                return Some(next);
            }
        }
    }

    /// The earliest permission of a leaf over all lenders on its path, the lowest of equal ones.
    fn permit(&self, leaf: usize) -> Permit {
        let (mut best, mut below) = (Permit { wait: u64::MAX, rank: u8::MAX, level: 0 }, 0);
        for (level, at) in self.path(leaf).enumerate() {
            let Class { node, rate, ceil, rank, .. } = &self.classes[at];
            // The ceilings of the lender and of all classes below it must allow the packet.
            below = ceil.wait(node.rates.ceil).max(below);
            let wait = rate.wait(node.rates.rate).max(below);
            let rank = if level == 0 { 0 } else { *rank };
            best = best.min(Permit { wait, rank, level: level as u8 });
        }
        best
    }

    /// The leaf and its ancestors.
    fn path(&self, leaf: usize) -> impl Iterator<Item = usize> {
        let parent = |at: &usize| self.classes[*at].node.parent.map(usize::from).filter(|parent| parent < at);
        std::iter::successors(Some(leaf).filter(|&leaf| leaf < self.classes.len()), parent).take(MAX_DEPTH)
    }

    /// Charges a packet of `len` bytes that the selected leaf sends.
    pub fn charge(&mut self, leaf: usize, len: u32) {
        let (Permit { rank, level: lender, .. }, tokens) = (self.permit(leaf), i128::from(len) * TOKEN);
        let mut next = Some(leaf);
        for level in 0..MAX_DEPTH as u8 {
            let Some(class) = next.and_then(|at| self.classes.get_mut(at)) else { break };
            class.ceil.tokens -= tokens;
            if level >= lender {
                class.rate.tokens -= tokens;
            }
            next = class.node.parent.map(usize::from);
        }
        if let Some(class) = self.classes.get_mut(leaf) {
            class.deficit[usize::from(rank).min(MAX_DEPTH)] -= i64::from(len);
        }
    }

    /// Resets the turn of a leaf that has no more packets, so that it saves nothing for later.
    pub fn idle(&mut self, leaf: usize) {
        if let Some(class) = self.classes.get_mut(leaf) {
            class.deficit = class.deficit.map(|deficit| deficit.min(0));
        }
    }

    /// Time at which the first of the leaves that `waits` accepts may send.
    pub fn next(&self, waits: impl Fn(usize) -> bool) -> Option<u64> {
        let leaves = (0..self.classes.len()).filter(|&leaf| waits(leaf));
        leaves.map(|leaf| self.filled.saturating_add(self.permit(leaf).wait)).min()
    }
}

#[cfg(test)]
pub(crate) mod tests;
