//! Loom models of the depot: threads that pop and push magazines, with a preemption bound.

use super::*;
use crate::shim::{Arc, UnsafeCell};
use loom::thread;

fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

fn pop(depot: &Depot) -> Vec<u32> {
    let mut magazine = vec![];
    depot.pop(|index| magazine.push(index));
    magazine
}

/// Magazines of one buffer each, and a loom cell per buffer that detects concurrent owners.
struct Pool {
    depot: Depot,
    buffers: [UnsafeCell<u32>; 3],
}

impl Pool {
    fn new() -> Arc<Self> {
        let depot = Depot::full(3);
        for index in pop(&depot) {
            depot.push(&[index]);
        }
        Arc::new(Self { depot, buffers: core::array::from_fn(|_| UnsafeCell::new(0)) })
    }

    fn write(&self, magazine: &[u32]) {
        for &index in magazine {
            // SAFETY: the depot gives each buffer one owner; loom reports concurrent accesses as a failure.
            self.buffers[index as usize].with_mut(|buffer| unsafe { *buffer += 1 });
        }
    }
}

#[test]
fn loom_buffer_has_one_owner_and_is_returned() {
    model(|| {
        let pool = Pool::new();
        let worker = {
            let pool = pool.clone();
            thread::spawn(move || {
                let (one, two) = (pop(&pool.depot), pop(&pool.depot));
                pool.write(&one);
                pool.write(&two);
                // The first magazine returns on top of another one than before: a stale exchange must fail.
                pool.depot.push(&one);
                pool.depot.push(&two);
            })
        };
        let mine = pop(&pool.depot);
        pool.write(&mine);
        pool.depot.push(&mine);
        worker.join().unwrap();
        let mut all = [pop(&pool.depot), pop(&pool.depot), pop(&pool.depot)].concat();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
        pool.write(&all);
        assert!(pop(&pool.depot).is_empty());
    });
}

#[test]
fn loom_magazine_is_transferred_completely() {
    model(|| {
        let depot = Arc::new(Depot::full(4));
        let all = pop(&depot);
        let worker = {
            let (depot, (one, two)) = (depot.clone(), (all[..2].to_vec(), all[2..].to_vec()));
            thread::spawn(move || {
                depot.push(&one);
                depot.push(&two);
            })
        };
        let first = pop(&depot);
        assert!(first.is_empty() || first == all[..2] || first == all[2..]);
        worker.join().unwrap();
        let mut got = [first, pop(&depot), pop(&depot)].concat();
        got.sort_unstable();
        assert_eq!(got, [0, 1, 2, 3]);
    });
}
