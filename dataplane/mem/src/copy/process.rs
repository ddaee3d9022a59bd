//! The kernel that this process uses, settled once at start.

use super::Choice;
use std::sync::OnceLock;

static CHOSEN: OnceLock<Choice> = OnceLock::new();

/// Settles the kernel for every queue that starts from now on. The first call wins; returns what is settled.
pub fn settle(choice: Choice) -> Choice {
    *CHOSEN.get_or_init(|| choice)
}

/// The settled kernel, or the last that [`super::supported`] lists if none was measured.
pub fn chosen() -> Choice {
    CHOSEN
        .get()
        .copied()
        .unwrap_or_else(|| settle(super::supported().last().copied().unwrap_or(Choice::Portable)))
}
