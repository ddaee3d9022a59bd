//! Rate of one large file from the HTTP server, by the way in which it is read, and by whether it is in the page cache.

use super::http::{self, Pair};
use anyhow::{Context, Result, bail};
use files::Mode;
use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use serve::http::HttpOptions;
use std::fs::File;
use std::io::{IoSliceMut, Write};
use std::path::Path;

/// Bytes of the file for each request of other studies.
const BYTES_PER_REQUEST: u64 = 1024;
/// Least and largest size of the file in bytes: the least exceeds that of files in the server's memory.
const SIZES: [u64; 2] = [4 << 20, 1 << 30];
/// Distance of the pages that are looked up in the page cache.
const STRIDE: usize = 64 << 10;
const PAGE: usize = 4096;
/// Share of pages from which on a file counts as cached, and up to which as not cached.
const SHARES: [f64; 2] = [0.95, 0.05];

/// The variants of the study.
pub const MODES: [(&str, Mode); 3] =
    [("copy", Mode::Copy), ("cached", Mode::Cached), ("direct", Mode::Direct)];

/// Megabytes per second of the file, and the percentage of its pages that are in the page cache afterwards.
///
/// # Errors
/// If the file system of `folder` cannot drop the file from memory, or the server fails.
pub fn measure(folder: &Path, files: Mode, is_cached: bool, requests: u64) -> Result<(f64, f64)> {
    let bytes = (requests * BYTES_PER_REQUEST).clamp(SIZES[0], SIZES[1]).next_multiple_of(STRIDE as u64);
    let path = folder.join(http::FILE);
    let mut file = File::create_new(&path)?;
    let part = vec![7; STRIDE];
    for _ in 0..bytes / STRIDE as u64 {
        file.write_all(&part)?;
    }
    // Pages that were not written to the disk cannot be dropped.
    file.sync_all()?;
    prepare(&path, is_cached)?;
    let mut pair = Pair::with(HttpOptions { files, ..HttpOptions::new(folder) }, 1)?;
    let mut load = pair.load()?;
    let seconds = pair.first(&mut load)?.as_secs_f64();
    Ok((bytes as f64 / 1e6 / seconds, 100.0 * cached(&path)?))
}

/// Reads the file into the page cache, or drops it.
fn prepare(path: &Path, is_cached: bool) -> Result<()> {
    if is_cached {
        std::io::copy(&mut File::open(path)?, &mut std::io::sink())?;
    } else {
        fadvise(File::open(path)?, 0, None, Advice::DontNeed)?;
    }
    match (is_cached, cached(path)?) {
        (true, share) if share < SHARES[0] => {
            bail!("the file does not stay in the page cache; free some memory")
        }
        (false, share) if share > SHARES[1] => {
            bail!("the file system keeps {} in memory; set TMPDIR to a folder on a disk", path.display())
        }
        _ => Ok(()),
    }
}

/// Share of the file's pages in the page cache. Reads a byte of some pages where that needs no disk.
fn cached(path: &Path) -> Result<f64> {
    let file = File::open(path)?;
    let pages = file.metadata()?.len() / STRIDE as u64;
    let (mut found, mut byte) = (0_u32, [0]);
    for page in 0..pages {
        // A different page of each group, because groups are read together.
        let offset = page * STRIDE as u64 + (page as usize % (STRIDE / PAGE) * PAGE) as u64;
        match preadv2(&file, &mut [IoSliceMut::new(&mut byte)], offset, ReadWriteFlags::NOWAIT) {
            Ok(_) => found += 1,
            Err(Errno::AGAIN) => {}
            Err(error) => return Err(error).context("the file system cannot tell which pages are in memory"),
        }
    }
    Ok(f64::from(found) / pages as f64)
}
