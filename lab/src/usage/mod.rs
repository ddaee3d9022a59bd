//! How the use of a data path decides what it does: the studies of DPDK's use, repeated on linerate's own parts.
//!
//! Each experiment is a value of its own that can be printed, kept and drawn. What was measured and what was simulated never
//! stand in one figure. Nothing here changes how the product works: experiments use its parts as anybody could.

pub mod budget;
pub mod delay;
pub mod mistake;
mod queues;
