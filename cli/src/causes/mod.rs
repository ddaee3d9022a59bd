//! Known causes of ports that are down, slow or lose packets.
//!
//! `evidence` has the plain values that are compared, `proc` reads those of `/proc` and `/sys`, and `checks` is the table
//! of causes: each is a function from the evidence to `findings`. `linerate doctor` collects all evidence, the control
//! API what the switch knows of itself, compared with `earlier` readings.

pub(crate) mod checks;
pub(crate) mod earlier;
pub(crate) mod evidence;
pub(crate) mod findings;
pub(crate) mod proc;
