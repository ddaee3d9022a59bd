#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

const MODES: [Mode; 3] = [Mode::Direct, Mode::Cached, Mode::Copy];
/// Long enough that a busy machine lets the thread sleep rarely.
const THREAD: Submission = Submission::Thread { idle: Duration::from_secs(1), cpu: None };
/// All ways to the kernel.
const WAYS: [(Mode, Submission); 5] = [
    (Mode::Direct, Submission::Calls),
    (Mode::Cached, Submission::Calls),
    (Mode::Copy, Submission::Calls),
    (Mode::Direct, THREAD),
    (Mode::Cached, THREAD),
];
const LEN: usize = 300_000;

fn content() -> Vec<u8> {
    (0..LEN).map(|i| (i % 251) as u8).collect()
}

fn files(path: &Path, mode: Mode) -> Files<u64> {
    by(path, (mode, Submission::Calls))
}

fn by(path: &Path, (mode, submission): (Mode, Submission)) -> Files<u64> {
    let files = Files::new(directory(path).unwrap(), mode, submission).unwrap();
    assert!(files.refused().is_none(), "{:?}", files.refused());
    files
}

/// The next result, for which it sleeps as a host does.
fn wait(files: &mut Files<u64>) -> Done<u64> {
    loop {
        files.submit();
        if let Some(done) = files.next_done() {
            return done;
        }
        let fd = files.wake_fd().unwrap();
        poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], None).unwrap();
    }
}

fn open(files: &mut Files<u64>, path: &str) -> Result<OwnedFd, Errno> {
    files.open(CString::new(path).unwrap(), 7);
    match wait(files) {
        Done::Opened(7, result) => result,
        other => panic!("{other:?}"),
    }
}

#[test]
fn reads_of_every_mode_return_the_bytes_of_the_file() {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let content = content();
    std::fs::write(folder.path().join("file"), &content).unwrap();
    for way in WAYS {
        let mut files = by(folder.path(), way);
        let file = Arc::new(open(&mut files, "file").unwrap());
        files.prepare(&file, true).unwrap();
        // More reads than the ring has entries.
        for i in 0..600 {
            files.read(&file, i % 80 * 4096, 8192, Block::new(8192), i);
        }
        for _ in 0..600 {
            let Done::Read(token, block, result) = wait(&mut files) else { panic!() };
            let (at, n) = ((token % 80 * 4096) as usize, result.unwrap());
            let expected = content.get(at..).map(|rest| rest[..rest.len().min(8192)].to_vec());
            let (bytes, range) = block.share(0..n);
            assert_eq!(bytes[range], expected.unwrap_or_default(), "{way:?} at {at}");
        }
    }
}

/// Answers 100 requests of 5000 bytes and returns the number of system calls.
fn exchange(way: (Mode, Submission)) -> u64 {
    const REQUESTS: u32 = 100;
    const LEN: u32 = 5_000;
    let folder = tempfile::tempdir().unwrap();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let (mut files, socket) = (by(folder.path(), way), Arc::new(OwnedFd::from(ours)));
    let before = files.calls();
    let mut block = Block::new(LEN as usize);
    for n in 0..REQUESTS {
        let message = vec![n as u8; LEN as usize];
        theirs.write_all(&message).unwrap();
        files.receive(&socket, LEN, block, n.into());
        let Done::Read(token, received, Ok(len)) = wait(&mut files) else { panic!("{way:?}") };
        assert_eq!((token, len), (n.into(), LEN as usize), "{way:?}");
        files.send(&socket, LEN, received, 7);
        let Done::Sent(7, sent, Ok(len)) = wait(&mut files) else { panic!("{way:?}") };
        assert_eq!(len, LEN as usize, "{way:?}");
        let mut reply = vec![0; LEN as usize];
        theirs.read_exact(&mut reply).unwrap();
        assert_eq!(reply, message, "{way:?}");
        block = sent;
    }
    let calls = files.calls() - before;
    drop(theirs);
    files.receive(&socket, LEN, block, 8);
    assert!(matches!(wait(&mut files), Done::Read(8, _, Ok(0))), "{way:?}");
    calls
}

#[test]
fn sockets_of_every_way_exchange_bytes_and_a_kernel_thread_needs_no_calls() {
    let calls = [Mode::Copy, Mode::Cached].map(|mode| exchange((mode, Submission::Calls)));
    assert_eq!(calls, [200, 200], "each message is passed alone");
    let calls = exchange((Mode::Cached, THREAD));
    assert!(calls < 20, "{calls} calls");
}

#[test]
fn refused_thread_is_named_and_requests_are_passed_by_calls() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "text").unwrap();
    let submission = Submission::Thread { idle: Duration::from_millis(1), cpu: Some(u32::MAX) };
    let mut files = Files::new(directory(folder.path()).unwrap(), Mode::Cached, submission).unwrap();
    assert_eq!(files.refused().and_then(std::io::Error::raw_os_error), Some(Errno::INVAL.raw_os_error()));
    assert!(open(&mut files, "file").is_ok() && files.calls() == 1);
}

#[test]
fn sleeping_thread_is_woken_by_a_call() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "text").unwrap();
    let submission = Submission::Thread { idle: Duration::from_millis(1), cpu: None };
    let mut files = by(folder.path(), (Mode::Cached, submission));
    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(20));
        assert!(open(&mut files, "file").is_ok());
    }
}

#[test]
fn dropping_cancels_a_receive_without_data() {
    let folder = tempfile::tempdir().unwrap();
    for way in [(Mode::Cached, Submission::Calls), (Mode::Cached, THREAD)] {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut files, socket) = (by(folder.path(), way), Arc::new(OwnedFd::from(ours)));
        files.receive(&socket, 100, Block::new(100), 0);
        files.submit();
        drop(files);
        assert_eq!(Arc::strong_count(&socket), 1);
        drop(theirs);
    }
}

#[test]
fn no_path_leaves_the_directory() {
    let folder = tempfile::tempdir().unwrap();
    let (inside, outside) = (folder.path().join("in"), folder.path().join("secret"));
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(&outside, "secret").unwrap();
    std::fs::write(inside.join("file"), "public").unwrap();
    std::os::unix::fs::symlink("../secret", inside.join("relative")).unwrap();
    std::os::unix::fs::symlink(&outside, inside.join("absolute")).unwrap();
    std::os::unix::fs::symlink("file", inside.join("link")).unwrap();
    for mode in MODES {
        let mut files = files(&inside, mode);
        assert!(open(&mut files, "file").is_ok() && open(&mut files, "link").is_ok());
        for path in ["../secret", "relative", "absolute", "/etc/passwd"] {
            assert_eq!(open(&mut files, path).unwrap_err(), Errno::XDEV, "{mode:?} {path}");
        }
        assert_eq!(open(&mut files, "none").unwrap_err(), Errno::NOENT);
    }
}

#[test]
fn dropping_with_reads_in_flight_waits_for_them() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), content()).unwrap();
    for submission in [Submission::Calls, THREAD] {
        let mut files = by(folder.path(), (Mode::Direct, submission));
        let file = Arc::new(open(&mut files, "file").unwrap());
        files.prepare(&file, true).unwrap();
        (0..300).for_each(|i| files.read(&file, 0, 65_536, Block::new(65_536), i));
        files.submit();
        drop(files);
        assert_eq!(Arc::strong_count(&file), 1);
    }
}

#[test]
fn pool_is_bounded_and_gives_no_block_that_is_in_use() {
    let mut pool = BlockPool::new(2, 100);
    let (first, second) = (pool.take().unwrap(), pool.take().unwrap());
    assert!(pool.take().is_none() && first.len() == ALIGNMENT);
    let sent = first.share(0..10);
    pool.put(first);
    assert!(pool.take().is_none(), "a packet still refers to it");
    pool.put(second);
    assert!(pool.take().is_some() && pool.available() == 1);
    drop(sent);
    assert!(pool.take().is_some());
}
