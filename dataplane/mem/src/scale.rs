//! Test sizes under Miri.

/// `miri` under Miri, which is about a thousand times slower, otherwise `native`.
pub(crate) const fn scale<T: Copy>(native: T, miri: T) -> T {
    if cfg!(miri) { miri } else { native }
}
