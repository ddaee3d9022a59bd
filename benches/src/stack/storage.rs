//! Rate of one large file from the HTTP server, by the way in which it is read, and by whether it is in the page cache.

use super::http::{self, Pair};
use anyhow::{Context, Result, bail};
use files::Mode;
use rustix::fs::{Advice, fadvise};
use serve::http::HttpOptions;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// Bytes of the file for each request of other studies.
const BYTES_PER_REQUEST: u64 = 1024;
/// Least and largest size of the file in bytes: the least exceeds that of files in the server's memory.
const SIZES: [u64; 2] = [4 << 20, 1 << 30];
/// Bytes that are written at a time.
const PART: usize = 64 << 10;
/// Share of the file from which on a file counts as cached, and up to which as not cached.
const SHARES: [f64; 2] = [0.95, 0.05];

/// The variants of the study.
pub const MODES: [(&str, Mode); 3] =
    [("copy", Mode::Copy), ("cached", Mode::Cached), ("direct", Mode::Direct)];

/// Megabytes per second of the file, and the percentage of its pages that are in the page cache afterwards.
///
/// # Errors
/// If the file system of `folder` cannot drop the file from memory, or the server fails.
pub fn measure(folder: &Path, files: Mode, is_cached: bool, requests: u64) -> Result<(f64, f64)> {
    let bytes = (requests * BYTES_PER_REQUEST).clamp(SIZES[0], SIZES[1]).next_multiple_of(PART as u64);
    let path = folder.join(http::FILE);
    let mut file = File::create_new(&path)?;
    let part = vec![7; PART];
    for _ in 0..bytes / PART as u64 {
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

/// Share of the file in the page cache. Asked by fincore(1) of util-linux: a read that does not wait (`RWF_NOWAIT`)
/// would start read-ahead, and so change the answer.
fn cached(path: &Path) -> Result<f64> {
    let words = ["--bytes", "--noheadings", "--output", "RES"];
    let output = Command::new("fincore").args(words).arg(path).output();
    let output = output.context("cannot run fincore(1) of util-linux")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let bytes: u64 = text.trim().parse().with_context(|| format!("fincore printed {text:?}"))?;
    Ok(bytes as f64 / path.metadata()?.len() as f64)
}
