//! One thread's view of an arena: every method compiles to the instructions that it names, the simulator's hints to
//! none.

use std::marker::PhantomData;
use std::ptr::NonNull;

#[cfg(not(target_arch = "x86_64"))]
use super::portable as kernels;
#[cfg(target_arch = "x86_64")]
use super::x86 as kernels;

use super::arena::Arena;
use sim::memory::{Address, Cleaning, Copying, Intent, Memory, Width};

/// A view of an arena. Accesses must lie inside the arena; the code that creates the view guarantees it
/// ([`Arena::view`]).
#[derive(Clone, Copy, Debug)]
pub struct RealMemory<'a> {
    base: NonNull<u8>,
    arena: PhantomData<&'a Arena>,
}

// SAFETY: a view is an address into a mapping that outlives it; concurrent access by several threads is intended.
unsafe impl Send for RealMemory<'_> {}

impl<'a> RealMemory<'a> {
    pub(super) fn new(base: NonNull<u8>, _: &'a Arena) -> RealMemory<'a> {
        RealMemory { base, arena: PhantomData }
    }
}

// Each block below relies on the contract of [`Arena::view`]: the bytes lie inside the arena, which outlives the view,
// and the processor has the instruction.
impl Memory for RealMemory<'_> {
    #[inline(always)]
    fn load(&mut self, at: Address, width: Width) -> u64 {
        // SAFETY: inside the arena, by the contract of the view.
        unsafe { kernels::load(self.base.as_ptr(), at, width) }
    }

    #[inline(always)]
    fn store(&mut self, at: Address, width: Width, value: u64) {
        // SAFETY: inside the arena, by the contract of the view.
        unsafe { kernels::store(self.base.as_ptr(), at, width, value) }
    }

    #[inline(always)]
    fn read(&mut self, at: Address, length: u64) {
        // SAFETY: inside the arena, by the contract of the view.
        unsafe { kernels::read(self.base.as_ptr(), at, length) }
    }

    #[inline(always)]
    fn write(&mut self, at: Address, length: u64) {
        // SAFETY: inside the arena, by the contract of the view.
        unsafe { kernels::write(self.base.as_ptr(), at, length) }
    }

    #[inline(always)]
    fn copy(&mut self, from: Address, to: Address, length: u64, how: Copying) {
        let base = self.base.as_ptr();
        // SAFETY: both ranges lie inside the arena and the processor has this kind of copy, by the contract of the
        // view.
        unsafe { kernels::copy(base.add(from as usize), base.add(to as usize), length as usize, how) }
    }

    #[inline(always)]
    fn prefetch(&mut self, at: Address, intent: Intent) {
        // SAFETY: a hint; inside the arena, by the contract of the view.
        unsafe { kernels::prefetch(self.base.as_ptr().add(at as usize), intent) }
    }

    #[inline(always)]
    fn clean(&mut self, at: Address, how: Cleaning) {
        // SAFETY: changes no byte; inside the arena and supported by the processor, by the contract of the view.
        unsafe { kernels::clean(self.base.as_ptr().add(at as usize), how) }
    }

    #[inline(always)]
    fn follows(&mut self) {}

    #[inline(always)]
    fn work(&mut self, _: u64) {}

    #[inline(always)]
    fn pause(&mut self, _: Address) {
        std::hint::spin_loop();
    }

    #[inline(always)]
    fn fence(&mut self) {
        kernels::fence();
    }
}

/// Performs `hundreds` * 100 dependent additions to one register: one cycle each, at any clock frequency.
pub fn dependent_additions(hundreds: u64) {
    kernels::dependent_additions(hundreds);
}
