//! Reports of signals that end the process: an access to memory that is not mapped, an abort, a stack that overflows.
//!
//! The handler writes one line to standard error, which the journal also reads, with the thread, the signal, the address
//! and the counters of a moment before, and a second one with the frames of the thread (`frames`). Then the signal has
//! its effect of before: the standard library prints that a stack has overflowed, and the process ends by the signal.
//! The last events are the lines of the log before these: a handler may not take the lock of the log.
//!
//! Threads of the standard library have an alternate stack, on which the handler runs. Its code is async-signal-safe
//! except for the unwinder, which comes last: system calls that every filter allows; no allocation, lock or panic.

use crate::frames::{self, Frames};
use crate::trap::{self, LogForm};
use libc::{c_int, c_void, siginfo_t};
use std::io::{self, Cursor, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

/// The signals with their names.
const SIGNALS: [(c_int, &str); 5] = [
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGABRT, "SIGABRT"),
];
/// Bytes of counters in a report.
const COUNTERS: usize = 512;

/// The actions before, in the order of [`SIGNALS`].
static PREVIOUS: [OnceLock<libc::sigaction>; SIGNALS.len()] = [const { OnceLock::new() }; SIGNALS.len()];
/// Version and form of reports.
static REPORT: OnceLock<(&str, LogForm)> = OnceLock::new();
/// Whether a report was written. A second signal, such as that of an abort by the handler of before, has none.
static IS_REPORTED: AtomicBool = AtomicBool::new(false);
/// The first `LENGTH` bytes are the counters. A report that is written while they change has those of two moments.
static TEXT: [AtomicU8; COUNTERS] = [const { AtomicU8::new(0) }; COUNTERS];
static LENGTH: AtomicUsize = AtomicUsize::new(0);

/// Has each signal that ends the process reported, by a program of this version. Later calls have no effect.
///
/// Must be called before memory of guests is mapped: the handler of that memory passes on faults that do not concern
/// it. A SIGBUS of another process ends this one without a report from then on.
///
/// # Errors
/// The kernel refuses a handler.
pub fn report_signals(version: &'static str, form: LogForm) -> io::Result<()> {
    if REPORT.set((version, form)).is_err() {
        return Ok(());
    }
    frames::prepare();
    for ((signal, _), previous) in SIGNALS.iter().zip(&PREVIOUS) {
        // Before the handler can run.
        let _ = previous.set(action_of(*signal)?);
        trap::handle(*signal, on_signal)?;
    }
    Ok(())
}

/// Keeps the counters for a report; a text that is too long is cut.
pub fn keep_counters(text: &str) {
    let bytes = &text.as_bytes()[..text.len().min(COUNTERS)];
    LENGTH.store(0, Ordering::Relaxed);
    TEXT.iter().zip(bytes).for_each(|(place, byte)| place.store(*byte, Ordering::Relaxed));
    LENGTH.store(bytes.len(), Ordering::Relaxed);
}

/// The action of `signal`.
fn action_of(signal: c_int) -> io::Result<libc::sigaction> {
    // SAFETY: all zeros is a valid sigaction.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    // SAFETY: the kernel writes the action, and changes none.
    match unsafe { libc::sigaction(signal, core::ptr::null(), &raw mut action) } {
        0 => Ok(action),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn on_signal(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid siginfo to a handler installed with SA_SIGINFO.
    let code = unsafe { (*info).si_code };
    let cause = if code > 0 {
        // SAFETY: signals of the kernel for these numbers have an address.
        Cause::Address(unsafe { (*info).si_addr() as usize })
    } else {
        // SAFETY: signals that processes send have the number of the sender.
        Cause::Sender(unsafe { (*info).si_pid() })
    };
    let at = SIGNALS.iter().position(|(known, _)| *known == signal);
    if !IS_REPORTED.swap(true, Ordering::Relaxed) {
        report(at.map_or("?", |at| SIGNALS[at].1), cause);
        // SAFETY: the third argument of such a handler is the context of the interrupted thread.
        report_frames(unsafe { frames::interrupted(context.cast()) });
    }
    // SAFETY: async-signal-safe; SIG_DFL is an action of every signal.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    match at.and_then(|at| PREVIOUS[at].get()) {
        Some(previous) if code > 0 && is_handler(previous) => {
            // SAFETY: SA_SIGINFO means that the address is a function with these three parameters.
            let handler: trap::Handler = unsafe { core::mem::transmute(previous.sa_sigaction) };
            handler(signal, info, context);
        }
        // The access is repeated, and the kernel ends the process.
        _ if code > 0 => {}
        // SAFETY: async-signal-safe; the signal is blocked until the handler returns.
        _ => drop(unsafe { libc::raise(signal) }),
    }
}

/// Whether the action is a function with three parameters.
fn is_handler(action: &libc::sigaction) -> bool {
    !matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN) && action.sa_flags & libc::SA_SIGINFO != 0
}

/// Why there is a signal.
#[derive(Clone, Copy)]
enum Cause {
    /// An access to, or an instruction at, this address.
    Address(usize),
    /// This process has sent it, maybe the own one.
    Sender(libc::pid_t),
}

/// Writes the report. Not inlined, so that its buffers leave the stack before the action of before runs.
#[inline(never)]
fn report(signal: &str, cause: Cause) {
    let mut counters = [0; COUNTERS];
    let length = LENGTH.load(Ordering::Relaxed).min(COUNTERS);
    counters.iter_mut().zip(&TEXT).for_each(|(byte, place)| *byte = place.load(Ordering::Relaxed));
    let counters = core::str::from_utf8(&counters[..length]).unwrap_or_default();
    trap::write_line(|out, thread| describe(out, (signal, cause), (thread, counters)));
}

/// Writes the frames. Not inlined, as [`report`].
#[inline(never)]
fn report_frames(interrupted: usize) {
    let frames = Frames::here(interrupted);
    trap::write_line(|out, _| {
        if REPORT.get().is_some_and(|(_, form)| *form == LogForm::Json) {
            out.write_all(b"{\"level\":\"ERROR\",\"message\":\"frames of the thread\",\"frames\":[")?;
            frames.write(out, (",", "\""))?;
            return out.write_all(b"]}\n");
        }
        out.write_all(b"linerate: frames (addr2line -Cfie PROGRAM ADDRESS): ")?;
        frames.write(out, (" ", ""))?;
        out.write_all(b"\n")
    });
}

fn describe(
    out: &mut Cursor<&mut [u8]>,
    (signal, cause): (&str, Cause),
    (thread, counters): (&str, &str),
) -> io::Result<()> {
    let (version, form) = REPORT.get().copied().unwrap_or_default();
    if form == LogForm::Json {
        write!(
            out,
            "{{\"level\":\"ERROR\",\"message\":\"a signal ends the process\",\"signal\":\"{signal}\","
        )?;
        match cause {
            Cause::Address(address) => write!(out, "\"address\":\"{address:#x}\"")?,
            Cause::Sender(process) => write!(out, "\"sender\":{process}")?,
        }
        return writeln!(
            out,
            ",\"thread\":\"{thread}\",\"version\":\"{version}\",\"counters\":\"{counters}\"}}"
        );
    }
    write!(out, "linerate: signal {signal} ends the process: thread \"{thread}\", ")?;
    match cause {
        Cause::Address(address) => write!(out, "address {address:#x}")?,
        Cause::Sender(process) => write!(out, "sent by process {process}")?,
    }
    writeln!(out, ", version {version}, {counters}; report it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::{Features, Programs, Role};
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    /// Variable with the way in which a child ends.
    const CHILD: &str = "LINERATE_FATAL_CHILD";

    #[inline(never)]
    #[allow(unconditional_recursion, reason = "overflows the stack")]
    fn overflow(depth: u64) -> u64 {
        std::hint::black_box([depth; 64]).iter().sum::<u64>() + overflow(depth + 1)
    }

    /// Accesses memory that is not mapped.
    #[inline(never)]
    fn fault() {
        // SAFETY: none; the access is the fault that is tested.
        unsafe { core::ptr::without_provenance_mut::<u8>(0x40).write_volatile(1) }
    }

    /// Ends this process by a signal on a thread with the filter of a worker.
    fn die(way: &str) {
        let limit = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
        rustix::process::setrlimit(rustix::process::Resource::Core, limit).unwrap();
        let form = if way == "abort" { LogForm::Json } else { LogForm::Text };
        report_signals("1.2.3", form).unwrap();
        keep_counters("2 ports, 7 packets received");
        eprintln!("fault is at {:#x}", (fault as fn() as usize) - frames::code().start);
        let way = way.to_owned();
        let worker = std::thread::Builder::new().name("worker-7".to_owned()).spawn(move || {
            Programs::new(Features::default()).unwrap().install(Role::Worker).unwrap();
            match way.as_str() {
                "access" => fault(),
                "abort" => std::process::abort(),
                "overflow" => drop(std::hint::black_box(overflow(0))),
                // SAFETY: no precondition.
                _ => drop(unsafe { libc::raise(libc::SIGBUS) }),
            }
        });
        let _ = worker.unwrap().join();
    }

    #[test]
    fn a_signal_that_ends_the_process_is_reported_first() {
        let name = "fatal::tests::a_signal_that_ends_the_process_is_reported_first";
        if let Ok(way) = std::env::var(CHILD) {
            return die(&way);
        }
        let thread = "thread \"worker-7\", ";
        for (way, signal, parts) in [
            (
                "access",
                libc::SIGSEGV,
                [thread, "SIGSEGV ends", "address 0x40, version 1.2.3, 2 ports, 7 packets"],
            ),
            ("abort", libc::SIGABRT, ["\"thread\":\"worker-7\"", "\"SIGABRT\",\"sender\":", "received\"}\n"]),
            ("overflow", libc::SIGABRT, [thread, "SIGSEGV ends", "overflowed its stack"]),
            ("kill", libc::SIGBUS, [thread, "SIGBUS ends", "sent by process "]),
        ] {
            let mut child = Command::new(std::env::current_exe().unwrap());
            let child = child.args([name, "--exact", "--nocapture"]).env(CHILD, way).output().unwrap();
            let text = String::from_utf8_lossy(&child.stderr);
            assert_eq!(child.status.signal(), Some(signal), "{way}: {text}");
            assert!(parts.iter().all(|part| text.contains(part)), "{way}: {text}");
            assert_eq!(text.matches("version").count(), 1, "{way}: {text}");
            assert_eq!(text.matches("frames").count(), if way == "abort" { 2 } else { 1 }, "{way}: {text}");
            assert!(way != "access" || has_frame_of_fault(&text), "{text}");
        }
    }

    /// Whether the report has the address of the access in [`fault`] twice: from the context, and from the unwinder.
    fn has_frame_of_fault(text: &str) -> bool {
        let number = |text: &str| usize::from_str_radix(text, 16).ok();
        let after = |start: &str| text.lines().find_map(|line| line.split_once(start));
        let at = after("fault is at 0x").and_then(|(_, at)| number(at)).unwrap();
        let (_, frames) = after("linerate: frames ").unwrap();
        frames
            .split_whitespace()
            .filter_map(|frame| number(frame.strip_prefix("0x")?))
            .filter(|frame| (at..at + 0x100).contains(frame))
            .count()
            == 2
    }

    #[test]
    fn counters_that_are_too_long_are_cut() {
        keep_counters(&"x".repeat(2 * COUNTERS));
        assert_eq!(LENGTH.load(Ordering::Relaxed), COUNTERS);
        keep_counters("short");
        assert_eq!(LENGTH.load(Ordering::Relaxed), 5);
    }
}
