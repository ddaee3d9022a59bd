//! Caches of a worker: results by the head of a frame, and by the key bits that they depend on.

mod continuation;
mod head;
mod lines;
mod mega;
mod shape;

pub(crate) use continuation::Continuation;
pub(crate) use head::{Entry, HeadCache, MegaflowId, tag};
pub(crate) use mega::{Effort, Megaflow, MegaflowCache};
pub(crate) use shape::{
    Extent, Shape, V4_TAGGED_WORDS, V4_WORDS, V6_WORDS, Words, difference, masked, padded, words,
};
