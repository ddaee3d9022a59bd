//! Encoding of states for another process: numbers in little-endian order, and lists behind their length. What decodes
//! is not yet valid: the queue that starts from a state validates it.

use super::{DriverQueue, MemifQueue};
use ring::driver::{DriverState, Used};

impl DriverQueue {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (ring, mut to) = (&self.ring, Vec::new());
        list(&mut to, [ring.posted, ring.taken].map(u16::to_le_bytes));
        list(&mut to, ring.out.iter().map(|out| out.to_le_bytes()));
        list(&mut to, ring.order.iter().map(|id| id.to_le_bytes()));
        list(
            &mut to,
            ring.descriptors.iter().flat_map(|(one, other)| [one.to_le_bytes(), other.to_le_bytes()]),
        );
        list(&mut to, ring.batch.iter().chain(&self.waiting).map(|used| word(*used).to_le_bytes()));
        list(&mut to, ring.batch.iter().map(|_| [1]));
        list(&mut to, self.links.iter().map(|id| id.to_le_bytes()));
        to
    }

    /// Returns `None` if the bytes are not a state.
    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let from = &mut bytes;
        let [posted, taken] = take(from, u16::from_le_bytes)?.try_into().ok()?;
        let out = take(from, u64::from_le_bytes)?;
        let order = take(from, u16::from_le_bytes)?;
        let words = take(from, u64::from_le_bytes)?;
        let (pairs, []) = words.as_chunks() else { return None };
        let descriptors = pairs.iter().map(|[one, other]| (*one, *other)).collect();
        let mut waiting = take(from, |bytes| used(u64::from_le_bytes(bytes)))?;
        let has_batch = !take(from, u8::from_le_bytes)?.is_empty();
        let batch = if has_batch && !waiting.is_empty() { Some(waiting.remove(0)) } else { None };
        let links = take(from, u16::from_le_bytes)?;
        let ring = DriverState { posted, taken, out, order, descriptors, batch };
        bytes.is_empty().then_some(Self { ring, waiting, links })
    }
}

impl MemifQueue {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut to = Vec::new();
        list(&mut to, [self.at, self.done].map(u16::to_le_bytes));
        list(&mut to, self.held.iter().map(|id| id.to_le_bytes()));
        to
    }

    /// Returns `None` if the bytes are not a state.
    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let [at, done] = take(&mut bytes, u16::from_le_bytes)?.try_into().ok()?;
        let held = take(&mut bytes, u16::from_le_bytes)?;
        bytes.is_empty().then_some(Self { at, done, held })
    }
}

fn word(used: Used) -> u64 {
    u64::from(used.id) << 32 | u64::from(used.len)
}

fn used(word: u64) -> Used {
    Used { id: (word >> 32) as u16, len: word as u32 }
}

fn list<const N: usize>(to: &mut Vec<u8>, items: impl IntoIterator<Item = [u8; N]>) {
    let at = to.len();
    to.extend([0; 4]);
    items.into_iter().for_each(|item| to.extend(item));
    let count = (to.len() - at - 4) / N;
    to[at..at + 4].copy_from_slice(&(count as u32).to_le_bytes());
}

fn take<T, const N: usize>(from: &mut &[u8], item: impl Fn([u8; N]) -> T) -> Option<Vec<T>> {
    let count = u32::from_le_bytes(from.split_off(..4)?.try_into().ok()?) as usize;
    let (items, _) = from.split_off(..count.checked_mul(N)?)?.as_chunks();
    Some(items.iter().map(|bytes| item(*bytes)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states() -> [DriverQueue; 3] {
        let used = |id| Used { id, len: 0x1_0000 };
        let ring = DriverState {
            posted: 0x8001,
            taken: 3,
            out: vec![1 << 32 | 2048, 0],
            order: vec![1, 0],
            descriptors: vec![(1, 2), (3, 4)],
            batch: Some(used(1)),
        };
        let other = DriverState { batch: None, descriptors: Vec::new(), ..ring.clone() };
        [
            DriverQueue { ring, waiting: vec![used(7), used(8)], links: vec![1, u16::MAX] },
            DriverQueue { ring: other, waiting: vec![used(9)], links: Vec::new() },
            DriverQueue::default(),
        ]
    }

    #[test]
    fn states_are_decoded_as_they_were_and_never_in_part() {
        for state in states() {
            let bytes = state.encode();
            assert_eq!(DriverQueue::decode(&bytes), Some(state));
            assert!((0..bytes.len()).all(|len| DriverQueue::decode(&bytes[..len]).is_none()));
            assert_eq!(DriverQueue::decode(&[&bytes[..], &[0]].concat()), None);
        }
        let memif = MemifQueue { at: 9, done: 7, held: vec![1, 2, 3] };
        let bytes = memif.encode();
        assert_eq!(MemifQueue::decode(&bytes), Some(memif));
        assert!((0..bytes.len()).all(|len| MemifQueue::decode(&bytes[..len]).is_none()));
    }
}
