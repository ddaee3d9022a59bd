//! Cost of a proxy by size of message, by reference and by copy, between three stacks on one thread.
//!
//! `proxy [CONNECTIONS] [MILLISECONDS]` has clients and an echo server at both sides of a proxy, each over a vhost-user
//! socket. It prints nanoseconds of the proxy's rounds per forwarded message, for messages of 64 bytes to 64 KiB. The
//! modes alternate, and the least of several runs is printed, because other load only adds time.

use anyhow::Result;
use benches::stack::proxy::{Forward, Rig};
use std::time::Duration;

/// Sizes of messages in bytes.
const SIZES: [u32; 11] = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536];
/// Runs of each size and mode.
const RUNS: usize = 5;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u32| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let (connections, time) = (number(0, 8)?, Duration::from_millis(number(1, 200)?.into()));
    let folder = tempfile::tempdir()?;
    let mut rig = Rig::new(folder.path())?;
    println!("{:>8} {:>14} {:>14}", "bytes", "reference ns", "copy ns");
    for size in SIZES {
        let mut least = [f64::INFINITY; 2];
        for _ in 0..RUNS {
            for (least, forward) in least.iter_mut().zip([Forward::Reference, Forward::Copy]) {
                *least = least.min(rig.measure(size, connections, forward, time)?);
            }
        }
        println!("{size:>8} {:>14.1} {:>14.1}", least[0], least[1]);
    }
    Ok(())
}
