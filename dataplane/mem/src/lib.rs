//! Guest memory, buffer pools and copy kernels.
//!
//! This crate is the only one that handles addresses. It maps the memory that a front end shares ([`Region`]),
//! translates guest addresses ([`GuestMemory`], [`Translator`]), replaces a memory table while packets flow
//! ([`MemTable`]), copies bytes ([`copy`]) and provides private buffers ([`pool`]).
//!
//! It must not form a `&` or `&mut` to bytes that another party can write, must not read a value from them twice, and
//! must not interpret packets.

pub mod copy;
pub mod dirty_log;
mod grid;
mod guest_memory;
pub mod huge;
pub mod line;
mod mem_table;
pub mod pool;
#[doc(hidden)]
pub mod record;
mod region;
#[cfg(test)]
mod scale;
mod shared_range;
pub mod shim;
pub mod sigbus;
pub mod sum;
mod ticks;
mod volatile_slice;

pub use dirty_log::DirtyLog;
pub use grid::Grid;
pub use guest_memory::{
    GuestMemory, GuestMemoryError, MARGIN, MAX_REGIONS, MAX_WIDE, Translator, Wide, Window,
};
pub use mem_table::MemTable;
pub use region::{Region, RegionError, RegionSpec};
pub use shared_range::SharedRange;
pub use ticks::{ticks, ticks_per_second};
pub use volatile_slice::VolatileSlice;
