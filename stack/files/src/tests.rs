#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use rustix::event::{PollFd, PollFlags, poll};
use std::path::Path;

const MODES: [Mode; 3] = [Mode::Direct, Mode::Cached, Mode::Copy];
const LEN: usize = 300_000;

fn content() -> Vec<u8> {
    (0..LEN).map(|i| (i % 251) as u8).collect()
}

fn files(path: &Path, mode: Mode) -> Files<u64> {
    Files::new(directory(path).unwrap(), mode).unwrap()
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
    std::fs::write(folder.path().join("file"), content()).unwrap();
    for mode in MODES {
        let mut files = files(folder.path(), mode);
        let file = Arc::new(open(&mut files, "file").unwrap());
        files.prepare(&file, true).unwrap();
        // More reads than the ring has entries.
        for i in 0..600 {
            files.read(&file, i % 80 * 4096, 8192, Block::new(8192), i);
        }
        for _ in 0..600 {
            let Done::Read(token, block, result) = wait(&mut files) else { panic!() };
            let (at, n) = ((token % 80 * 4096) as usize, result.unwrap());
            let expected = content().get(at..).map(|rest| rest[..rest.len().min(8192)].to_vec());
            let (bytes, range) = block.share(0..n);
            assert_eq!(bytes[range], expected.unwrap_or_default(), "{mode:?} at {at}");
        }
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
    let mut files = files(folder.path(), Mode::Direct);
    let file = Arc::new(open(&mut files, "file").unwrap());
    files.prepare(&file, true).unwrap();
    (0..300).for_each(|i| files.read(&file, 0, 65_536, Block::new(65_536), i));
    files.submit();
    drop(files);
    assert_eq!(Arc::strong_count(&file), 1);
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
