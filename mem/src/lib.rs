//! Foreign memory, buffers and copies.
//!
//! This crate is the only place that knows what an address is. It maps the memory that a front end hands
//! over ([`Region`]), finds a guest address in it ([`Map`], [`Translator`]), swaps one map for another while
//! packets flow ([`MapCell`]), copies bytes ([`copy`]) and keeps buffers of our own ([`pool`]).
//!
//! It must never form a `&` or `&mut` to bytes that another party can write, never trust a value read from
//! them twice, and never decide what a packet means.

mod cell;
pub mod copy;
mod grid;
pub mod line;
mod map;
pub mod pool;
mod region;
mod seg;
pub mod shim;
pub mod sigbus;
pub mod sum;
mod ticks;

pub use cell::MapCell;
pub use grid::Grid;
pub use map::{LONGEST_WIDE, MARGIN, MAX_REGIONS, Map, MapError, Translator, Wide, Window};
pub use region::{Region, RegionError, RegionSpec};
pub use seg::Seg;
pub use ticks::ticks;
