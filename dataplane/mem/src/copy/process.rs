//! Process-wide copy kernel, set once at start.

use super::Choice;
use std::sync::OnceLock;

static CHOSEN: OnceLock<Choice> = OnceLock::new();

/// Sets the kernel for all queues created afterwards. The first call wins; returns the kernel in effect.
pub fn settle(choice: Choice) -> Choice {
    *CHOSEN.get_or_init(|| choice)
}

/// The kernel in effect; if none was set, sets and returns the last one listed by [`super::supported`].
pub fn chosen() -> Choice {
    CHOSEN
        .get()
        .copied()
        .unwrap_or_else(|| settle(super::supported().last().copied().unwrap_or(Choice::Portable)))
}
