//! Lookup of packets in a table, with the bits of the packet that the result depends on.
//!
//! A [`Classifier`] searches a tuple space: subtables are hash tables of flows by the bits of one mask. A table with
//! few masks has a subtable for each; with more, flows of similar masks share a subtable, which finds them by bits that
//! all of them have, and is split where too many flows have the same hash (`TupleMerge`). A lookup visits the subtables
//! by descending highest priority and ends at the first that cannot contain a better flow. Masks are bounded by
//! `classifier::MASKS`, and packets cannot add any. The bits are chosen narrowly, because the result is cached for all
//! packets that agree in them:
//! - the hash of a subtable is tried after each of [`crate::Key::STAGES`], so that a mismatch in an early stage
//!   excludes the fields of the later ones;
//! - tries of the prefixes in a table exclude subtables by a few bits of an address;
//! - a trie of the ports in a subtable excludes it by a few bits of the ports;
//! - a flow with the same hash that does not match is excluded by the bits up to the first that differs.
//!
//! Each exclusion is a proof by itself: the mask gets the bits of the proof, and none of the steps before it.

mod classifier;
mod mask;
mod masks;
mod prefix;
mod search;
mod subtable;
#[cfg(test)]
mod tests;
mod tries;

pub(crate) use classifier::Classifier;
pub(crate) use mask::{Mask, fold};
