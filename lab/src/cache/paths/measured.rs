//! What was measured of the same comparison: medians of `cargo xtask bench peers`, each with its date, command and processor.
//! It stands beside simulated figures and enters none of them.
