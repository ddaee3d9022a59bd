//! Selects queues to move, given loads: the busiest worker gives one queue away or exchanges one, whichever minimizes
//! the load of the busiest worker afterwards. Repeated while that helps.

/// Maximum number of moves and exchanges at a time; each stops a queue briefly.
const MAX_MOVES: usize = 16;
/// Maximum number of queues considered per worker, by decreasing load.
const MAX_CANDIDATES: usize = 32;
/// Additional gain required of an exchange, because it stops two queues.
const EXCHANGE_COST: f64 = 0.01;
/// Smaller differences are ignored.
const EPSILON: f64 = 1e-6;

/// A queue with its load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Item {
    pub(super) worker: usize,
    pub(super) load: f64,
    /// Whether it may be moved.
    pub(super) free: bool,
}

/// Returns moves (indices into `items` with new workers) and the resulting loads of workers. No moves if the load of
/// the busiest worker would decrease by less than `threshold`.
pub(super) fn shift(
    loads: &[f64],
    items: &[Item],
    open: &[usize],
    threshold: f64,
) -> (Vec<(usize, usize)>, Vec<f64>) {
    let mut now = State { loads: loads.to_vec(), items: items.to_vec() };
    let before = now.max_load();
    for _ in 0..MAX_MOVES {
        let Some(step) = now.best_step(open) else { break };
        now.take(&step);
    }
    let moved = items.iter().zip(&now.items).enumerate().filter(|(_, (old, new))| old.worker != new.worker);
    let moved: Vec<_> = moved.map(|(at, (_, new))| (at, new.worker)).collect();
    if moved.is_empty() || before - now.max_load() + EPSILON < threshold {
        return (Vec::new(), loads.to_vec());
    }
    (moved, now.loads)
}

/// Moves queue `gives` of the busiest worker to worker `to`; with `back`, moves that queue the other way.
struct Step {
    gives: usize,
    to: usize,
    back: Option<usize>,
}

struct State {
    loads: Vec<f64>,
    items: Vec<Item>,
}

impl State {
    fn max_load(&self) -> f64 {
        self.loads.iter().copied().fold(0.0, f64::max)
    }

    /// The step that minimizes the load of the busiest worker; `None` if none helps.
    fn best_step(&self, open: &[usize]) -> Option<Step> {
        let busiest = (0..self.loads.len()).max_by(|a, b| self.loads[*a].total_cmp(&self.loads[*b]))?;
        let mut best = (self.loads[busiest] - EPSILON, None);
        let own = self.heaviest(busiest);
        for &to in open.iter().filter(|to| **to != busiest && **to < self.loads.len()) {
            let others = self.max_load_except(busiest, to);
            // An exchange moves a queue to the busiest worker, which must be open as well.
            let back = if open.contains(&busiest) { self.heaviest(to) } else { Vec::new() };
            for &gives in &own {
                for back in std::iter::once(None).chain(back.iter().copied().map(Some)) {
                    let load = self.items[gives].load - back.map_or(0.0, |back| self.items[back].load);
                    let max_load = others.max(self.loads[busiest] - load).max(self.loads[to] + load);
                    let price = max_load + if back.is_some() { EXCHANGE_COST } else { 0.0 };
                    if price + EPSILON < best.0 {
                        best = (price, Some(Step { gives, to, back }));
                    }
                }
            }
        }
        best.1
    }

    /// Movable queues of a worker with any load, by decreasing load.
    fn heaviest(&self, worker: usize) -> Vec<usize> {
        let moves = |at: &usize| {
            let item = &self.items[*at];
            item.worker == worker && item.free && item.load > EPSILON
        };
        let mut own: Vec<usize> = (0..self.items.len()).filter(moves).collect();
        own.sort_by(|a, b| self.items[*b].load.total_cmp(&self.items[*a].load));
        own.truncate(MAX_CANDIDATES);
        own
    }

    fn max_load_except(&self, one: usize, other: usize) -> f64 {
        let rest = self.loads.iter().enumerate().filter(|(worker, _)| ![one, other].contains(worker));
        rest.map(|(_, load)| *load).fold(0.0, f64::max)
    }

    fn take(&mut self, step: &Step) {
        let busiest = self.items[step.gives].worker;
        self.assign(step.gives, step.to);
        if let Some(back) = step.back {
            self.assign(back, busiest);
        }
    }

    fn assign(&mut self, at: usize, worker: usize) {
        let Item { worker: from, load, .. } = self.items[at];
        self.loads[from] -= load;
        self.loads[worker] += load;
        self.items[at].worker = worker;
    }
}
