//! Callbacks against the completion queue, for connections of 1 to 128 messages.
//!
//! `queue [CONNECTIONS] [REQUESTS] [REPEATS]` prints nanoseconds per request in an echo server: messages of 64 bytes
//! over vhost-user, both ends on one thread. The variants take turns, and the median and the least of all repeats are
//! printed, because a busy machine changes single ones. With `MESSAGES` and `BATCH` (0 for callbacks) as further
//! arguments, one variant runs once, and the number of requests is printed for callgrind, which counts the instructions
//! of `benches::stack::queue`.

use anyhow::{Context, Result};
use benches::stack::queue::measure;

/// Messages per connection.
const MESSAGES: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// Callbacks, and batches of the queue.
const VARIANTS: [Option<usize>; 5] = [None, Some(1), Some(4), Some(16), Some(64)];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let (connections, requests, repeats) = (number(0, 64)?, number(1, 50_000)?, number(2, 5)?);
    if arguments.len() > 3 {
        let (messages, batch) = (u32::try_from(number(3, 1)?)?, number(4, 0)? as usize);
        let (_, count) = measure((batch > 0).then_some(batch), messages, connections, requests)?;
        println!("{count}");
        return Ok(());
    }
    println!("nanoseconds per request, median (least) of {repeats}; {connections} connections");
    println!("{:>8} {:>16} {:>16} {:>16} {:>16} {:>16}", "messages", "callbacks", "1", "4", "16", "64");
    for messages in MESSAGES {
        let mut readings = VARIANTS.map(|_| Vec::new());
        for _ in 0..repeats {
            for (variant, readings) in VARIANTS.iter().zip(&mut readings) {
                readings.push(measure(*variant, messages, connections, requests)?.0);
            }
        }
        print!("{messages:>8}");
        for readings in &mut readings {
            readings.sort_by(f64::total_cmp);
            let least = readings.first().context("at least one repeat is needed")?;
            print!(" {:>16}", format!("{:.0} ({least:.0})", readings[readings.len() / 2]));
        }
        println!();
    }
    Ok(())
}
