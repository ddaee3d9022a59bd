//! Foreign memory, buffers and copies.
//!
//! This crate is the only place that knows what an address is. It maps the memory that a front end hands
//! over ([`Region`]), finds a guest address in it ([`Map`], [`Translator`]), swaps one map for another while
//! packets flow ([`MemTable`]), copies bytes ([`copy`]) and keeps buffers of our own ([`pool`]).
//!
//! It must never form a `&` or `&mut` to bytes that another party can write, never trust a value read from
//! them twice, and never decide what a packet means.

pub mod copy;
mod grid;
mod guest_memory;
pub mod line;
mod mem_table;
pub mod pool;
mod region;
pub mod shim;
pub mod sigbus;
pub mod sum;
mod ticks;
mod volatile_slice;

pub use grid::Grid;
pub use guest_memory::{
    GuestMemory, GuestMemoryError, LONGEST_WIDE, MARGIN, MAX_REGIONS, Translator, Wide, Window,
};
pub use mem_table::MemTable;
pub use region::{Region, RegionError, RegionSpec};
pub use ticks::ticks;
pub use volatile_slice::VolatileSlice;
