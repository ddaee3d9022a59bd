//! Bursts of a program that generates its packets, such as a traffic generator.
//!
//! Only the owner of a [`GeneratedBurst`] can change heads. A pipeline gets a [`Burst`], which has no such access: its
//! packets leave in the form in which they were received, or as an edit describes.

use super::Burst;
use std::ops::{Deref, DerefMut};

/// A burst whose heads its owner can change.
#[derive(Default)]
pub struct GeneratedBurst(Burst);

impl GeneratedBurst {
    /// An empty burst.
    pub fn new() -> Self {
        Self::default()
    }

    /// The private first bytes of packet `i`.
    #[inline(always)]
    pub fn head_mut(&mut self, i: usize) -> &mut [u8] {
        self.0.head_mut(i)
    }
}

impl Deref for GeneratedBurst {
    type Target = Burst;

    fn deref(&self) -> &Burst {
        &self.0
    }
}

impl DerefMut for GeneratedBurst {
    fn deref_mut(&mut self) -> &mut Burst {
        &mut self.0
    }
}
