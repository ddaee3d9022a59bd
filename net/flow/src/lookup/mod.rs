//! Lookup of packets in a table, with the bits of the packet that the result depends on.
//!
//! A [`Classifier`] searches a tuple space: the flows of each mask are a hash table, a subtable. A lookup visits the
//! subtables by descending highest priority and ends at the first that cannot contain a better flow. It therefore
//! costs at most four hashes a mask of the table; the number of masks is bounded by `classifier::MASKS`, and packets cannot add
//! masks. The bits are chosen narrowly, because the result is cached for all packets that agree in them:
//! - the hash of a subtable is tried after each of [`crate::Key::STAGES`], so that a mismatch in an early stage
//!   excludes the fields of the later ones;
//! - tries of the prefixes in a table exclude subtables by a few bits of an address;
//! - a trie of the ports in a subtable excludes it by a few bits of the ports.
//!
//! Each exclusion is a proof by itself: the mask gets the bits of the proof, and none of the steps before it.

mod classifier;
mod mask;
mod prefix;
mod subtable;

pub(crate) use classifier::Classifier;
pub(crate) use mask::{Mask, fold};
