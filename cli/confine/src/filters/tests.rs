use super::*;
use crate::trap::{self, LogForm};
use std::fs::File;
use std::io::{self, Write};

const ALL: Features = Features { io_uring: true, bpf: true, namespaces: true };

/// Runs `work` on a thread with the filter of `role`, whose refused calls fail.
fn within<T: Send + 'static>(role: Role, work: impl FnOnce() -> T + Send + 'static) -> T {
    trap::install(LogForm::Text).unwrap();
    let confined = move || {
        Programs::new(ALL).unwrap().install(role).unwrap();
        work()
    };
    std::thread::spawn(confined).join().unwrap()
}

fn is_refused<T>(result: io::Result<T>) -> bool {
    result.is_err_and(|error| error.raw_os_error() == Some(libc::EPERM))
}

#[test]
fn no_call_is_both_allowed_and_refused() {
    let refused = refused(Features::default());
    for rules in [worker(ALL).unwrap(), reader(ALL).unwrap()] {
        let optional = [libc::SYS_bpf];
        let both: Vec<_> = rules.keys().filter(|call| refused.contains_key(call)).collect();
        assert!(both.iter().all(|call| optional.contains(call)), "{both:?}");
    }
    assert!(worker(ALL).unwrap().len() < reader(ALL).unwrap().len());
}

#[test]
fn calls_of_optional_parts_are_refused_without_them() {
    let calls = [libc::SYS_bpf, libc::SYS_io_uring_setup, libc::SYS_setns];
    let (without, with) = (refused(Features::default()), refused(ALL));
    assert!(calls.iter().all(|call| without.contains_key(call) && !with.contains_key(call)));
    assert!(!worker(Features::default()).unwrap().contains_key(&SYS_io_uring_enter));
}

#[cfg(target_arch = "x86_64")]
#[test]
#[allow(unsafe_code, reason = "a call that no library makes")]
fn numbers_of_another_abi_do_not_pass() {
    let outcome = within(Role::Control, || {
        // SAFETY: `getpid` has no arguments.
        let found = unsafe { libc::syscall(libc::SYS_getpid | 0x4000_0000) };
        (found, io::Error::last_os_error().raw_os_error())
    });
    assert_eq!(outcome, (-1, Some(libc::EPERM)), "ENOSYS is the answer of a kernel that was asked");
}

#[test]
fn programs_are_within_the_limit_of_the_kernel() {
    let programs = Programs::new(ALL).unwrap();
    for program in [&programs.worker, &programs.starts, &programs.reader, &programs.control] {
        assert!(program.len() < 4096, "{}", program.len());
    }
}

#[test]
fn a_worker_neither_writes_files_nor_opens_sockets_nor_executes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new");
    let outcomes = within(Role::Worker, move || {
        [
            is_refused(File::create(&path)),
            is_refused(std::net::UdpSocket::bind("127.0.0.1:0")),
            is_refused(std::process::Command::new("/bin/true").status()),
            is_refused(std::fs::remove_file("/nonexistent/x")),
            is_refused(rustix::process::chdir("/").map_err(io::Error::from)),
        ]
    });
    assert_eq!(outcomes, [true; 5]);
}

#[test]
fn a_worker_may_allocate_panic_and_print_a_backtrace() {
    let text = within(Role::Worker, || {
        let big = vec![1_u8; 64 << 20];
        let panicked = std::panic::catch_unwind(|| panic!("expected"));
        assert!(panicked.is_err() && big.len() == 64 << 20);
        File::open("/proc/self/maps").unwrap();
        io::stderr().write_all(b"a worker may write to its log\n").unwrap();
        std::backtrace::Backtrace::force_capture().to_string()
    });
    assert!(text.contains("a_worker_may_allocate"), "{text}");
}

#[test]
fn a_reader_accepts_connections_and_starts_threads() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    client.write_all(b"x").unwrap();
    let byte = within(Role::Reader, move || {
        let (mut stream, _) = listener.accept().unwrap();
        let read = move || {
            let mut byte = [0];
            io::Read::read_exact(&mut stream, &mut byte).unwrap();
            byte
        };
        std::thread::spawn(read).join().unwrap()
    });
    assert_eq!(&byte, b"x");
}

#[test]
fn control_executes_programs_and_does_not_change_its_root() {
    let (runs, is_refused) = within(Role::Control, || {
        let runs = std::process::Command::new("/bin/true").status().unwrap().success();
        (runs, is_refused(rustix::process::chroot("/").map_err(io::Error::from)))
    });
    assert!(runs && is_refused);
}

/// Makes a refused call on a thread of a worker, which ends the process.
fn refused_call() -> ! {
    let plan = crate::Plan {
        capabilities: crate::CapabilitySet::empty(),
        features: ALL,
        files: None,
        log: LogForm::Json,
        inherited: Vec::new(),
    };
    let confinement = crate::start(&plan).unwrap();
    assert_eq!((confinement.unfiltered, confinement.kept), (None, crate::CapabilitySet::empty()));
    let worker = std::thread::Builder::new().name("worker-7".to_owned()).spawn(|| {
        crate::enter(Role::Worker).unwrap();
        std::net::UdpSocket::bind("127.0.0.1:0").is_ok()
    });
    panic!("the worker goes on: {:?}", worker.unwrap().join());
}

#[test]
fn a_refused_call_of_a_worker_ends_the_process_with_a_report() {
    // The test starts its own program again, which is the child then.
    const CHILD: &str = "LINERATE_TEST_REFUSED_CALL";
    if std::env::var_os(CHILD).is_some() {
        refused_call();
    }
    let name = "filters::tests::a_refused_call_of_a_worker_ends_the_process_with_a_report";
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let child = child.args(["--exact", "--nocapture", name]).env(CHILD, "1").output().unwrap();
    let text = String::from_utf8_lossy(&child.stderr);
    assert_eq!(child.status.code(), Some(i32::from(trap::EXIT_CODE)), "{text}");
    let call = format!("\"system_call\":{},\"thread\":\"worker-7\"", libc::SYS_socket);
    assert!(text.contains(&call) && text.contains("the process ends"), "{text}");
}
