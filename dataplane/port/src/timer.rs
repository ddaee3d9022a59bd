//! Timer descriptor for queues that know when their next packet is due. Relative times only; reads no clock.

use crate::PortFault;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

const NANOSECONDS: u64 = 1_000_000_000;

/// A timerfd: readable once its time has expired.
#[derive(Debug)]
pub struct Timer {
    fd: OwnedFd,
    is_set: bool,
}

impl Timer {
    /// Creates a disarmed timer.
    ///
    /// # Errors
    /// [`PortFault::BadDescriptor`] if the process is out of file descriptors.
    pub fn new() -> Result<Self, PortFault> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags);
        let fd = fd.map_err(|e| PortFault::BadDescriptor("timer", e.to_string()))?;
        Ok(Self { fd, is_set: false })
    }

    /// Arms the timer: readable `wait` nanoseconds from now.
    pub fn set(&mut self, wait: u64) {
        // Zero would disarm the timer.
        self.write(wait.max(1));
        self.is_set = true;
    }

    /// Disarms the timer and makes it unreadable.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.is_set) {
            self.write(0);
        }
    }

    fn write(&self, wait: u64) {
        let (tv_sec, tv_nsec) = ((wait / NANOSECONDS).cast_signed(), (wait % NANOSECONDS).cast_signed());
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Itimerspec { it_interval: never, it_value: Timespec { tv_sec, tv_nsec } };
        // Cannot fail: the descriptor is a timer and the time is in range.
        let _ = timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &value);
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};

    fn is_readable(timer: &Timer, limit: i64) -> bool {
        let limit = Timespec { tv_sec: limit, tv_nsec: 0 };
        poll(&mut [PollFd::new(timer, PollFlags::IN)], Some(&limit)).unwrap() == 1
    }

    #[test]
    fn timer_wakes_when_due_and_not_after_clear() {
        let mut timer = Timer::new().unwrap();
        assert!(!is_readable(&timer, 0));
        timer.set(1_000_000);
        assert!(is_readable(&timer, 60));
        timer.clear();
        assert!(!is_readable(&timer, 0));
        timer.set(0);
        assert!(is_readable(&timer, 60), "a due time of now wakes at once");
    }
}
