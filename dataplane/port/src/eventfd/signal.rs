//! Increments an eventfd shared with another process, without blocking.
//!
//! write(2) blocks while the counter of an eventfd is full, unless the file description has `O_NONBLOCK`, and any
//! holder of the description can change that flag. A write has no equivalent per-call flag (`RWF_NOWAIT` is rejected
//! for eventfds). The kernel's internal signal never blocks, and asynchronous I/O issues it on completion
//! (`io_submit(2)`, `IOCB_FLAG_RESFD`): so a call is a zero-length read from the null device, which completes
//! immediately and whose completion signals the eventfd. A full counter stays full, and a signal is then pending
//! anyway.
//!
//! Each thread has its own context, created on its first signal or in [`prepare`]. If the kernel rejects it (not built
//! in, forbidden, `fs.aio-max-nr` exceeded), the thread polls the descriptor for writability and then writes; only
//! between these two can another holder block the thread.

use core::ffi::{c_long, c_ulong};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsRawFd, BorrowedFd};
use std::fs::File;

/// Minimum number of completions that a context holds before they must be reaped.
const MIN_COMPLETIONS: c_long = 128;
/// Completions reaped per call.
const REAP_BATCH: u16 = 256;
/// `IOCB_FLAG_RESFD` of `linux/aio_abi.h`: completion signals `aio_resfd`.
const SIGNAL_ON_COMPLETION: u32 = 1;
/// `IOCB_CMD_PREAD` of `linux/aio_abi.h`.
const READ: u16 = 0;

/// `struct iocb` of `linux/aio_abi.h`.
#[derive(Default)]
#[repr(C)]
struct Request {
    data: u64,
    /// Key and RWF flags; both are zero, so their byte-order dependent order does not matter.
    key_and_flags: [u32; 2],
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event: u32,
}

/// `struct io_event` of `linux/aio_abi.h`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Completion([u64; 4]);

thread_local! {
    static CONTEXT: Option<Context> = Context::new();
}

/// Creates this thread's context before its first signal.
pub fn prepare() {
    // Fails during thread exit, when no signals follow.
    let _ = CONTEXT.try_with(|_| ());
}

/// Increments an eventfd, unless its counter is full, when a signal is pending already.
pub fn signal(event: BorrowedFd<'_>) {
    let signalled = CONTEXT.try_with(|context| context.as_ref().is_some_and(|c| c.signal(event)));
    if signalled != Ok(true) {
        ask_and_write(event);
    }
}

/// Fallback without an AIO context.
#[cold]
fn ask_and_write(event: BorrowedFd<'_>) {
    let mut fds = [PollFd::new(&event, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    if matches!(rustix::event::poll(&mut fds, Some(&now)), Ok(1)) && fds[0].revents().contains(PollFlags::OUT)
    {
        // If the counter has filled up since, or the descriptor is broken, only its owner loses a wake-up.
        let _ = rustix::io::write(event, &1u64.to_ne_bytes());
    }
}

/// An AIO context and the null device.
struct Context {
    id: c_ulong,
    nothing: File,
}

impl Context {
    fn new() -> Option<Self> {
        let nothing = File::open("/dev/null").ok()?;
        let mut id: c_ulong = 0;
        // SAFETY: the kernel writes one word to a variable of that size.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, MIN_COMPLETIONS, &raw mut id) };
        (made == 0).then_some(Self { id, nothing })
    }

    /// Submits a read that signals `event`. Returns whether it was accepted.
    fn signal(&self, event: BorrowedFd<'_>) -> bool {
        let request = Request {
            opcode: READ,
            file: self.nothing.as_raw_fd().cast_unsigned(),
            flags: SIGNAL_ON_COMPLETION,
            event: event.as_raw_fd().cast_unsigned(),
            ..Request::default()
        };
        self.submit(&request) || {
            self.take_completions();
            self.submit(&request)
        }
    }

    fn submit(&self, request: &Request) -> bool {
        let list = [&raw const *request];
        // SAFETY: the list has one request, as counted; the kernel copies it before it returns. A zero-length read
        // accesses no memory.
        let submitted = unsafe { libc::syscall(libc::SYS_io_submit, self.id, 1 as c_long, list.as_ptr()) };
        submitted == 1
    }

    /// Reaps completions, to free slots in the context.
    #[cold]
    fn take_completions(&self) {
        let mut taken = [Completion::default(); REAP_BATCH as usize];
        let no_limit = core::ptr::null::<libc::timespec>();
        loop {
            // SAFETY: the kernel writes at most as many completions as the array holds; with a minimum of zero it does
            // not block.
            let n = unsafe {
                let (least, most) = (0 as c_long, c_long::from(REAP_BATCH));
                libc::syscall(libc::SYS_io_getevents, self.id, least, most, taken.as_mut_ptr(), no_limit)
            };
            if n < c_long::from(REAP_BATCH) {
                return;
            }
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: this thread owns the context and does not use it afterwards. No request is in flight: each completes
        // on submission. After an error the context lives as long as the process.
        let _ = unsafe { libc::syscall(libc::SYS_io_destroy, self.id) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::fd::{AsFd, OwnedFd};
    use rustix::fs::{OFlags, fcntl_setfl};
    use rustix::io::{IoSliceMut, ReadWriteFlags, preadv2, write};
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::time::{Duration, Instant};

    const FULL: u64 = u64::MAX - 1;
    const TIMEOUT: Duration = Duration::from_secs(20);

    fn take(event: &OwnedFd) -> u64 {
        let mut count = [0; 8];
        let taken =
            preadv2(event, &mut [IoSliceMut::new(&mut count)], u64::MAX, ReadWriteFlags::NOWAIT).unwrap_or(0);
        if taken == 8 { u64::from_ne_bytes(count) } else { 0 }
    }

    #[test]
    fn signals_are_counted_exactly() {
        let event = eventfd(0, EventfdFlags::empty()).unwrap();
        let many = 20 * MIN_COMPLETIONS.cast_unsigned();
        (0..many).for_each(|_| signal(event.as_fd()));
        assert_eq!(take(&event), many);
    }

    #[test]
    fn signals_count_without_an_aio_context() {
        let event = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        (0..3).for_each(|_| ask_and_write(event.as_fd()));
        assert_eq!(take(&event), 3);
        write(&event, &FULL.to_ne_bytes()).unwrap();
        ask_and_write(event.as_fd());
        assert_eq!(take(&event), FULL);
    }

    #[test]
    fn ending_thread_destroys_its_aio_context() {
        let event = eventfd(0, EventfdFlags::empty()).unwrap();
        for _ in 0..4 {
            std::thread::scope(|s| {
                s.spawn(|| {
                    prepare();
                    signal(event.as_fd());
                });
            });
        }
        assert_eq!(take(&event), 4);
    }

    /// Fills the counter and makes the descriptor blocking, concurrently with the signalling thread.
    fn fill(event: &OwnedFd) {
        fcntl_setfl(event, OFlags::NONBLOCK).unwrap();
        take(event);
        // A concurrent signal may have come first; the counter is then not full this time.
        let _ = write(event, &FULL.to_ne_bytes());
        fcntl_setfl(event, OFlags::empty()).unwrap();
    }

    #[test]
    fn signal_never_blocks_for_any_state_of_the_eventfd() {
        const ROUNDS: usize = 20_000;
        let event = eventfd(0, EventfdFlags::empty()).unwrap();
        let (signals, done) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|s| {
            s.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    signal(event.as_fd());
                    signals.fetch_add(1, Ordering::Relaxed);
                }
            });
            for round in 0..ROUNDS {
                fill(&event);
                // There is no reader; signals must still complete.
                let (before, began) = (signals.load(Ordering::Relaxed), Instant::now());
                while signals.load(Ordering::Relaxed) < before + 3 && began.elapsed() < TIMEOUT {
                    std::thread::yield_now();
                }
                let stuck = signals.load(Ordering::Relaxed) < before + 3;
                done.store(stuck || round + 1 == ROUNDS, Ordering::Relaxed);
                if stuck {
                    take(&event);
                    panic!("a signal waited for the descriptor's other holder in round {round}");
                }
            }
        });
    }
}
