//! Atomics that can be replaced by loom.
//!
//! Code that is checked under loom must take its atomics and its `UnsafeCell` from this module only. With `--cfg loom`
//! they are loom's; otherwise the standard library's, at no cost. With the feature `record` their accesses are recorded
//! ([`crate::record`]).

#[cfg(all(feature = "record", not(loom)))]
pub use crate::record::atomic;
#[cfg(not(loom))]
use crate::record::{Kind, note};
#[cfg(not(loom))]
pub use core::hint::spin_loop;
#[cfg(all(not(feature = "record"), not(loom)))]
pub use core::sync::atomic;
#[cfg(not(loom))]
pub use std::sync::Arc;

#[cfg(loom)]
pub use loom::hint::spin_loop;
#[cfg(loom)]
pub use loom::sync::{Arc, atomic};

/// An `UnsafeCell` with loom's closure interface.
#[cfg(not(loom))]
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    /// Creates a cell that holds `value`.
    pub const fn new(value: T) -> Self {
        Self(core::cell::UnsafeCell::new(value))
    }

    /// Calls `f` with a pointer for reading.
    #[inline(always)]
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        note(Kind::Load, self.0.get().addr(), size_of::<T>());
        f(self.0.get())
    }

    /// Calls `f` with a pointer for writing.
    #[inline(always)]
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        note(Kind::Store, self.0.get().addr(), size_of::<T>());
        f(self.0.get())
    }
}

#[cfg(loom)]
pub use loom::cell::UnsafeCell;
