//! Process-wide copy kernel, set once at start.

use super::Choice;
use std::sync::OnceLock;

static CHOSEN: OnceLock<Choice> = OnceLock::new();

/// Sets the kernel for all queues created afterwards. The first call wins; returns the kernel in effect.
pub fn settle(choice: Choice) -> Choice {
    *CHOSEN.get_or_init(|| choice)
}

/// Sets the fastest kernel by [`super::choose`], which the first call measures. Returns the kernel in effect.
pub fn settle_fastest(ticks: impl FnMut() -> u64) -> Choice {
    *CHOSEN.get_or_init(|| super::choose(ticks))
}

/// The kernel in effect; if none was set, sets and returns the one that is expected to be the fastest.
pub fn chosen() -> Choice {
    let expected = || super::choice::candidates().last().copied().unwrap_or(Choice::Portable);
    CHOSEN.get().copied().unwrap_or_else(|| settle(expected()))
}
