//! Copy kernels: one small interface, several bodies.
//!
//! A kernel copies bytes between addresses that other parties may write at the same time. The bodies use
//! assembly or volatile accesses, so that the compiler can neither read twice nor assume that nothing changes.
//! Kernels are chosen once, when a queue is made; inside a queue the choice is a type, so that no call goes
//! through a pointer. What a kernel must never do is write a byte outside the destination's `len`, or read one
//! outside the source's.
//!
//! The assembly is written inline rather than with intrinsics, because an intrinsic inlines only into functions
//! that were compiled for the same processor features, and the code that copies is generic.

mod choice;
mod portable;
mod process;
mod small;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86;

pub use choice::{Choice, UnknownKernel, choose, supported};
pub use portable::Portable;
pub use process::{chosen, settle};
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub use x86::{Avx2, Avx512, Erms, NonTemporal, Sse2};

/// One way to copy.
pub trait Kernel: Copy + Default + Send + Sync + 'static {
    /// Its name in reports.
    const NAME: &'static str;

    /// Copies `len` bytes from `src` to `dst`. Ranges that overlap are allowed; the content of the overlap is
    /// then unspecified.
    ///
    /// # Safety
    /// Both ranges are mapped, the first readable, the second writable, and the processor has what the kernel
    /// needs: [`supported`] names this kernel.
    unsafe fn copy(dst: *mut u8, src: *const u8, len: usize);
}

#[cfg(test)]
mod tests;
