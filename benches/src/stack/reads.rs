//! Reads of a file by one system call each, and by `io_uring` with one call for many. The file is in the page cache, so
//! that the difference is that of the calls.

use anyhow::{Result, bail};
use files::{BlockPool, Done, Files, Mode, Submission, directory};
use std::ffi::CString;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Reads of one round.
const BATCH: usize = 32;
const NAME: &str = "data";
const LIMIT: Duration = Duration::from_mins(1);

/// Nanoseconds per read of `bytes`, and system calls per read. `by_ring`: by `io_uring`, otherwise by pread(2).
///
/// # Errors
/// If the kernel does not permit `io_uring`, or a read fails.
pub fn measure(folder: &Path, bytes: u32, by_ring: bool, reads: u64) -> Result<(f64, f64)> {
    std::fs::write(folder.join(NAME), vec![7; bytes as usize * BATCH])?;
    let mode = if by_ring { Mode::Cached } else { Mode::Copy };
    let mut files = Files::new(directory(folder)?, mode, Submission::Calls)?;
    files.open(CString::new(NAME)?, 0);
    files.submit();
    let file = match next(&mut files)? {
        Done::Opened(_, file) => Arc::new(file?),
        _ => bail!("a read before the file was opened"),
    };
    files.prepare(&file, false)?;
    let mut pool = BlockPool::new(BATCH, bytes as usize);
    let mut round = |files: &mut Files<usize>| -> Result<()> {
        for n in 0..BATCH {
            let Some(block) = pool.take() else { bail!("no memory for blocks") };
            files.read(&file, n as u64 * u64::from(bytes), bytes, block, n);
        }
        files.submit();
        for _ in 0..BATCH {
            let Done::Read(_, block, read) = next(files)? else { bail!("not a read") };
            if read? != bytes as usize {
                bail!("the file is too short");
            }
            pool.put(block);
        }
        Ok(())
    };
    round(&mut files)?;
    let (begin, before, rounds) = (Instant::now(), files.calls(), reads.div_ceil(BATCH as u64));
    for _ in 0..rounds {
        round(&mut files)?;
    }
    let (nanos, reads) = (begin.elapsed().as_nanos() as f64, (rounds * BATCH as u64) as f64);
    Ok((nanos / reads, (files.calls() - before) as f64 / reads))
}

fn next(files: &mut Files<usize>) -> Result<Done<usize>> {
    let begin = Instant::now();
    while begin.elapsed() < LIMIT {
        if let Some(done) = files.next_done() {
            return Ok(done);
        }
        files.submit();
    }
    bail!("a request was not answered within {LIMIT:?}")
}
