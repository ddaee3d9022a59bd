//! Which queues to move, given loads: the busiest worker gives one away or exchanges one, whichever leaves the busiest of
//! all with least, and again as long as that helps.

/// Moves and exchanges at one time: each of them stops a queue for a moment.
const MOST: usize = 16;
/// Queues of one worker that are considered, heaviest first.
const CONSIDERED: usize = 32;
/// What an exchange must gain beyond a move, because it stops two queues.
const SECOND_STOP: f64 = 0.01;
/// Less than this is no difference.
const NOTHING: f64 = 1e-6;

/// A queue with its load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Item {
    pub(super) worker: usize,
    pub(super) load: f64,
    /// Whether it may be moved.
    pub(super) free: bool,
}

/// Queues, by their place in `items`, with their new workers; and the workers' loads then. Nothing, if the busiest worker
/// would not be relieved by `threshold`.
pub(super) fn shift(
    loads: &[f64],
    items: &[Item],
    open: &[usize],
    threshold: f64,
) -> (Vec<(usize, usize)>, Vec<f64>) {
    let mut now = State { loads: loads.to_vec(), items: items.to_vec() };
    let before = now.most();
    for _ in 0..MOST {
        let Some(step) = now.best_step(open) else { break };
        now.take(&step);
    }
    let moved = items.iter().zip(&now.items).enumerate().filter(|(_, (old, new))| old.worker != new.worker);
    let moved: Vec<_> = moved.map(|(at, (_, new))| (at, new.worker)).collect();
    if moved.is_empty() || before - now.most() + NOTHING < threshold {
        return (Vec::new(), loads.to_vec());
    }
    (moved, now.loads)
}

/// A queue of the busiest worker goes to another one, which may give one back.
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
    fn most(&self) -> f64 {
        self.loads.iter().copied().fold(0.0, f64::max)
    }

    /// The step after which the busiest of all workers has least; `None`: none helps.
    fn best_step(&self, open: &[usize]) -> Option<Step> {
        let busiest = (0..self.loads.len()).max_by(|a, b| self.loads[*a].total_cmp(&self.loads[*b]))?;
        let mut best = (self.loads[busiest] - NOTHING, None);
        let own = self.heaviest(busiest);
        for &to in open.iter().filter(|to| **to != busiest && **to < self.loads.len()) {
            let others = self.most_but(busiest, to);
            // An exchange gives back to a worker that must be open as well.
            let back = if open.contains(&busiest) { self.heaviest(to) } else { Vec::new() };
            for &gives in &own {
                for back in std::iter::once(None).chain(back.iter().copied().map(Some)) {
                    let load = self.items[gives].load - back.map_or(0.0, |back| self.items[back].load);
                    let most = others.max(self.loads[busiest] - load).max(self.loads[to] + load);
                    let price = most + if back.is_some() { SECOND_STOP } else { 0.0 };
                    if price + NOTHING < best.0 {
                        best = (price, Some(Step { gives, to, back }));
                    }
                }
            }
        }
        best.1
    }

    /// Queues of a worker that may be moved and bring something.
    fn heaviest(&self, worker: usize) -> Vec<usize> {
        let moves = |at: &usize| {
            let item = &self.items[*at];
            item.worker == worker && item.free && item.load > NOTHING
        };
        let mut own: Vec<usize> = (0..self.items.len()).filter(moves).collect();
        own.sort_by(|a, b| self.items[*b].load.total_cmp(&self.items[*a].load));
        own.truncate(CONSIDERED);
        own
    }

    fn most_but(&self, one: usize, other: usize) -> f64 {
        let rest = self.loads.iter().enumerate().filter(|(worker, _)| ![one, other].contains(worker));
        rest.map(|(_, load)| *load).fold(0.0, f64::max)
    }

    fn take(&mut self, step: &Step) {
        let busiest = self.items[step.gives].worker;
        self.seat(step.gives, step.to);
        if let Some(back) = step.back {
            self.seat(back, busiest);
        }
    }

    fn seat(&mut self, at: usize, worker: usize) {
        let Item { worker: from, load, .. } = self.items[at];
        self.loads[from] -= load;
        self.loads[worker] += load;
        self.items[at].worker = worker;
    }
}
