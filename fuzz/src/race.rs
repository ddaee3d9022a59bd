//! A driver that modifies the ring while the device reads it.

use super::device::{play_raced, stage};
use super::driver::Script;
use mem::VolatileSlice;
use ring::device::DeviceRing;
use ring::mock::{RINGS, USER};
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs the script repeatedly on one ring whose memory a second thread modifies concurrently.
///
/// # Panics
/// As [`super::device::play`].
pub fn play<R: DeviceRing>(packed: bool, script: &[u8]) {
    const ROUNDS: usize = 8;
    let mut script = Script(script);
    let (mock, shape, direction) = stage(packed, &mut script);
    let seed = u64::from(script.byte()) << 8 | u64::from(script.byte()) | 1 << 40;
    let (map, done) = (mock.map.clone(), AtomicBool::new(false));
    let rings = map.by_user(USER + RINGS, map.regions()[0].spec().len as u32).expect("the mock's own memory");
    std::thread::scope(|scope| {
        let racer = scope.spawn(|| rewrite(rings, seed, &done));
        let mock = std::panic::AssertUnwindSafe((mock, &script));
        let played = std::panic::catch_unwind(|| {
            let (mock, script) = mock.0;
            let again = || ring::mock::Mock { map: mock.map.clone(), layout: mock.layout };
            for _ in 0..ROUNDS {
                play_raced::<R>(again(), shape, direction, script.0);
            }
        });
        done.store(true, Ordering::Relaxed);
        // Joined explicitly: the scope alone does not wait until the thread has released the C library's resources.
        let raced = racer.join();
        assert!(raced.is_ok(), "writing to private memory cannot fail");
        if let Err(panic) = played {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Copies words of the rings to other places in the rings, with a bit flipped, so that many are valid.
pub(crate) fn rewrite(rings: VolatileSlice, seed: u64, done: &AtomicBool) {
    let mut state = seed;
    let words = rings.len() as u64 / 8;
    while !done.load(Ordering::Relaxed) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let (from, to) = (state % words, (state >> 20) % words);
        let flip = if state >> 63 == 0 { 1 << ((state >> 40) & 63) } else { 0 };
        // SAFETY: the caller holds the map until this thread has ended; both words are inside and aligned.
        unsafe {
            let word = rings.load_u64(from as usize * 8, Ordering::Relaxed) ^ flip;
            rings.store_u64(to as usize * 8, word, Ordering::Relaxed);
        }
    }
}
