//! Caches of a worker: results by the head of a frame, and by the key bits that they depend on.

mod head;
mod mega;
mod shape;
