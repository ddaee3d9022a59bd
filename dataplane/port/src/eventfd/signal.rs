//! Adding one to an event descriptor that another process holds too, so that it cannot make the caller wait.
//!
//! write(2) waits while the counter of an eventfd is full, unless the description says `O_NONBLOCK`; and that flag
//! belongs to every holder of the description. A write takes no flag of its own (`RWF_NOWAIT` is refused on
//! eventfds). What never waits is the kernel's own signal, and asynchronous I/O gives it with a completion
//! (`io_submit(2)`, `IOCB_FLAG_RESFD`): so a call is a read of no bytes from the null device, which is complete at
//! once and whose completion signals the guest. A full counter stays full: then a signal is pending anyway.
//!
//! Each thread has a context of its own, made when it first signals or in [`prepare`]. Where the kernel refuses one
//! (built without it, forbidden, `fs.aio-max-nr` used up), the thread asks the descriptor whether it takes a write
//! and then writes, and only then is there a moment in which its other holder can make the thread wait.

use core::ffi::{c_long, c_ulong};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsRawFd, BorrowedFd};
use std::fs::File;

/// Completions that a context holds at least before they have to be taken from it.
const HELD: c_long = 128;
/// Completions taken at once.
const TAKEN: u16 = 256;
/// `IOCB_FLAG_RESFD` of `linux/aio_abi.h`: the completion signals `aio_resfd`.
const SIGNAL_ON_COMPLETION: u32 = 1;
/// `IOCB_CMD_PREAD` of `linux/aio_abi.h`.
const READ: u16 = 0;

/// `struct iocb` of `linux/aio_abi.h`.
#[derive(Default)]
#[repr(C)]
struct Request {
    data: u64,
    /// Key and flags of the read; both are zero, so their order, which depends on the processor, does not matter.
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

/// Makes this thread's context, so that its first signal does not have to.
pub(crate) fn prepare() {
    // A thread that ends signals no more.
    let _ = CONTEXT.try_with(|_| ());
}

/// Adds one to an event descriptor, unless its counter is full: then its reader is awake anyway.
pub(crate) fn signal(event: BorrowedFd<'_>) {
    let signalled = CONTEXT.try_with(|context| context.as_ref().is_some_and(|c| c.signal(event)));
    if signalled != Ok(true) {
        ask_and_write(event);
    }
}

/// What is left where there is no context.
#[cold]
fn ask_and_write(event: BorrowedFd<'_>) {
    let mut fds = [PollFd::new(&event, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    if matches!(rustix::event::poll(&mut fds, Some(&now)), Ok(1)) && fds[0].revents().contains(PollFlags::OUT)
    {
        // A counter that filled up since then, or a descriptor that broke, costs its owner one wake-up.
        let _ = rustix::io::write(event, &1u64.to_ne_bytes());
    }
}

/// A context of asynchronous I/O, and something to read nothing from.
struct Context {
    id: c_ulong,
    nothing: File,
}

impl Context {
    fn new() -> Option<Self> {
        let nothing = File::open("/dev/null").ok()?;
        let mut id: c_ulong = 0;
        // SAFETY: the kernel writes one word, to a variable of that size.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, HELD, &raw mut id) };
        (made == 0).then_some(Self { id, nothing })
    }

    /// Whether the kernel has signalled `event`.
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
        // SAFETY: the list has the one request that is counted; the kernel copies it before it returns. A read of
        // no bytes touches no memory of ours.
        let submitted = unsafe { libc::syscall(libc::SYS_io_submit, self.id, 1 as c_long, list.as_ptr()) };
        submitted == 1
    }

    /// Makes room in the context, which holds completions until they are reaped.
    #[cold]
    fn take_completions(&self) {
        let mut taken = [Completion::default(); TAKEN as usize];
        let no_limit = core::ptr::null::<libc::timespec>();
        loop {
            // SAFETY: the kernel writes as many completions as the array has; asked for none at least, it does
            // not wait.
            let n = unsafe {
                let (least, most) = (0 as c_long, c_long::from(TAKEN));
                libc::syscall(libc::SYS_io_getevents, self.id, least, most, taken.as_mut_ptr(), no_limit)
            };
            if n < c_long::from(TAKEN) {
                return;
            }
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context is this thread's own and is not used afterwards. Nothing is on its way in it: every
        // request was complete when it had been submitted.
        let destroyed = unsafe { libc::syscall(libc::SYS_io_destroy, self.id) };
        debug_assert_eq!(destroyed, 0, "a context lives until it is dropped");
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
    fn every_signal_counts_however_many_there_are() {
        let event = eventfd(0, EventfdFlags::empty()).unwrap();
        let many = 20 * HELD.cast_unsigned();
        (0..many).for_each(|_| signal(event.as_fd()));
        assert_eq!(take(&event), many);
    }

    #[test]
    fn without_a_context_signals_count_too() {
        let event = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        (0..3).for_each(|_| ask_and_write(event.as_fd()));
        assert_eq!(take(&event), 3);
        write(&event, &FULL.to_ne_bytes()).unwrap();
        ask_and_write(event.as_fd());
        assert_eq!(take(&event), FULL);
    }

    #[test]
    fn a_thread_that_ends_leaves_its_context_to_nobody() {
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

    /// Fills the counter and makes the descriptor a blocking one, whatever the thread that signals is doing.
    fn fill(event: &OwnedFd) {
        fcntl_setfl(event, OFlags::NONBLOCK).unwrap();
        take(event);
        // Another signal may have come first; then it is not full this time.
        let _ = write(event, &FULL.to_ne_bytes());
        fcntl_setfl(event, OFlags::empty()).unwrap();
    }

    #[test]
    fn nobody_who_holds_the_descriptor_can_make_a_signal_wait() {
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
                // There is no reader now; signals go on all the same.
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
