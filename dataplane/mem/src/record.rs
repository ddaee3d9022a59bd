//! Recording of the memory accesses of one thread, for tests that compare a model with the code that it models.
//!
//! With the feature `record`, the atomics and cells of [`crate::shim`], the accesses of [`crate::VolatileSlice`] and
//! the prefetches of [`crate::line`] are recorded while `record` runs. Without the feature nothing is recorded and no
//! code is generated. The feature must not be enabled in a program that is measured.

/// Kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Load, or copy from the memory.
    Load,
    /// Store, or copy to the memory.
    Store,
    /// Atomic read-modify-write.
    Exchange,
    /// Prefetch for reading.
    PrefetchRead,
    /// Prefetch for writing.
    PrefetchWrite,
}

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// Kind of the access.
    pub kind: Kind,
    /// Address of the first byte, in this process.
    pub address: usize,
    /// Length in bytes; 1 for a prefetch.
    pub bytes: usize,
}

#[cfg(feature = "record")]
thread_local! {
    static ACCESSES: std::cell::RefCell<Option<Vec<Access>>> = const { std::cell::RefCell::new(None) };
}

/// Runs `f` and returns its result and its accesses on this thread, in order. Calls must not be nested.
#[cfg(feature = "record")]
pub fn record<R>(f: impl FnOnce() -> R) -> (R, Vec<Access>) {
    ACCESSES.set(Some(Vec::new()));
    let result = f();
    (result, ACCESSES.take().unwrap_or_default())
}

/// Records an access while [`record`] runs on this thread.
#[cfg(feature = "record")]
#[inline]
pub(crate) fn note(kind: Kind, address: usize, bytes: usize) {
    // A thread that ends has no recorder.
    let _ = ACCESSES.try_with(|accesses| {
        if let Some(accesses) = accesses.borrow_mut().as_mut() {
            accesses.push(Access { kind, address, bytes });
        }
    });
}

/// Records nothing, because the feature is off.
#[cfg(not(feature = "record"))]
#[inline(always)]
pub(crate) fn note(_: Kind, _: usize, _: usize) {}

/// The standard library's atomics, with every access recorded.
#[cfg(all(feature = "record", not(loom)))]
pub mod atomic {
    use super::{Kind, note};
    pub use core::sync::atomic::{Ordering, fence};

    macro_rules! recorded {
        ($($atomic:ident $value:ty;)*) => { $(
            #[doc = concat!("[`core::sync::atomic::", stringify!($atomic), "`], recorded.")]
            #[derive(Debug, Default)]
            #[repr(transparent)]
            pub struct $atomic(core::sync::atomic::$atomic);

            impl $atomic {
                /// Creates an atomic that holds `value`.
                pub const fn new(value: $value) -> Self {
                    Self(core::sync::atomic::$atomic::new(value))
                }

                fn note(&self, kind: Kind) {
                    note(kind, core::ptr::from_ref(self).addr(), size_of::<Self>());
                }

                /// Loads the value.
                pub fn load(&self, order: Ordering) -> $value {
                    self.note(Kind::Load);
                    self.0.load(order)
                }

                /// Stores a value.
                pub fn store(&self, value: $value, order: Ordering) {
                    self.note(Kind::Store);
                    self.0.store(value, order);
                }

                /// Stores a value and returns the previous one.
                pub fn swap(&self, value: $value, order: Ordering) -> $value {
                    self.note(Kind::Exchange);
                    self.0.swap(value, order)
                }

                /// Stores `new` if the value is `current`.
                pub fn compare_exchange(
                    &self,
                    current: $value,
                    new: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    self.note(Kind::Exchange);
                    self.0.compare_exchange(current, new, success, failure)
                }
            }
        )* };
    }

    macro_rules! arithmetic {
        ($($atomic:ident $value:ty;)*) => { $( impl $atomic {
            /// Adds to the value and returns the previous one.
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.note(Kind::Exchange);
                self.0.fetch_add(value, order)
            }

            /// Stores the larger of both and returns the previous value.
            pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                self.note(Kind::Exchange);
                self.0.fetch_max(value, order)
            }
        } )* };
    }

    recorded! {
        AtomicBool bool;
        AtomicU8 u8;
        AtomicU16 u16;
        AtomicU32 u32;
        AtomicU64 u64;
        AtomicUsize usize;
    }

    arithmetic! {
        AtomicU16 u16;
        AtomicU32 u32;
        AtomicU64 u64;
        AtomicUsize usize;
    }
}

#[cfg(all(test, feature = "record", not(loom)))]
mod tests {
    use super::atomic::{AtomicU64, Ordering};
    use super::*;
    use crate::{Region, line};

    #[test]
    fn accesses_are_recorded_in_order_and_only_during_the_call() {
        let (value, region) = (AtomicU64::new(1), Region::heap(0, 0, 4096));
        let seg = region.seg(0, 4096).unwrap();
        value.store(2, Ordering::Relaxed);
        let (loaded, accesses) = record(|| {
            // SAFETY: the region is alive and holds eight bytes at 64.
            unsafe { seg.put_unaligned(64, 7) };
            line::prefetch_write(seg.as_ptr());
            value.load(Ordering::Relaxed)
        });
        value.store(3, Ordering::Relaxed);
        assert_eq!(loaded, 2);
        let at = |kind, address, bytes| Access { kind, address, bytes };
        let (start, word) = (seg.addr(), core::ptr::from_ref(&value).addr());
        let expected = [
            at(Kind::Load, start + 64, 8),
            at(Kind::Store, start + 64, 8),
            at(Kind::PrefetchWrite, start, 1),
            at(Kind::Load, word, 8),
        ];
        assert_eq!(accesses, expected);
    }
}
