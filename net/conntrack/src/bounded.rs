//! A table of fixed size for short-lived facts: a new one replaces another one in the same place.

use crate::tuple::Tuple;
use std::sync::{Mutex, PoisonError};

/// Facts by tuple. Each place has its own lock, which is held for a copy only.
pub(crate) struct Bounded<V>(Box<[Mutex<Option<Fact<V>>>]>);

struct Fact<V> {
    key: Tuple,
    /// In nanoseconds.
    expires: u64,
    value: V,
}

impl<V: Copy> Bounded<V> {
    pub(crate) fn new(places: usize) -> Self {
        Self((0..places).map(|_| Mutex::new(None)).collect())
    }

    fn with<T>(&self, hash: u64, run: impl FnOnce(&mut Option<Fact<V>>) -> T) -> T {
        let place = &self.0[hash as usize % self.0.len()];
        run(&mut place.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn insert(&self, hash: u64, key: Tuple, expires: u64, value: V) {
        self.with(hash, |place| *place = Some(Fact { key, expires, value }));
    }

    pub(crate) fn get(&self, hash: u64, key: &Tuple, now: u64) -> Option<V> {
        self.with(hash, |place| {
            let fact = place.as_ref().filter(|fact| fact.key == *key && fact.expires > now);
            fact.map(|fact| fact.value)
        })
    }

    /// All facts that have not expired, each with its time.
    pub(crate) fn facts(&self, now: u64) -> impl Iterator<Item = (Tuple, u64, V)> {
        let places = self.0.iter().map(|place| place.lock().unwrap_or_else(PoisonError::into_inner));
        places.filter_map(move |place| {
            let fact = place.as_ref().filter(|fact| fact.expires > now)?;
            Some((fact.key, fact.expires, fact.value))
        })
    }

    pub(crate) fn remove(&self, hash: u64, key: &Tuple) {
        self.with(hash, |place| place.take_if(|fact| fact.key == *key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_is_found_until_it_expires_or_is_replaced() {
        let key = |n| Tuple::new(([10, 0, 0, 1].into(), [10, 0, 0, 2].into()), 17, 0).with_ports(n, n);
        let facts = Bounded::new(2);
        facts.insert(1, key(1), 100, 'a');
        assert_eq!((facts.get(1, &key(1), 99), facts.get(1, &key(1), 100)), (Some('a'), None));
        facts.insert(3, key(2), 100, 'b');
        assert_eq!((facts.get(1, &key(1), 0), facts.get(1, &key(2), 0)), (None, Some('b')));
        facts.remove(1, &key(2));
        assert_eq!(facts.get(1, &key(2), 0), None);
    }
}
