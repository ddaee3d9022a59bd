//! Responses of the HTTP server between two stacks over a vhost-user socket, by the way in which bodies are kept.
//!
//! `http [BYTES] [CONNECTIONS] [REQUESTS] [ROUNDS]` serves a file of BYTES with stored sums, with sums computed for
//! each packet, and copied for each response, alternating for ROUNDS, and prints nanoseconds per request of the
//! server's rounds: the median and the range. The port has no offloads, so that checksums are computed in software.
//! With `summed`, `plain` or `copied` as fifth argument only this way is run.

use anyhow::Result;
use benches::stack::http::{Bodies, FILE, Pair};

/// Ways in which bodies are kept.
const BODIES: [(&str, Bodies); 3] =
    [("summed", Bodies::Summed), ("plain", Bodies::Plain), ("copied", Bodies::Copied)];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let (bytes, connections) = (number(0, 1024)?, u32::try_from(number(1, 16)?)?);
    let (count, rounds) = (number(2, 20_000)?, number(3, 9)?);
    let folder = tempfile::tempdir()?;
    let content: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
    std::fs::write(folder.path().join(FILE), content)?;
    let only = arguments.get(4);
    let mut ways = Vec::new();
    for (name, bodies) in BODIES.iter().filter(|(name, _)| only.is_none_or(|only| only == name)) {
        let mut pair = Pair::new(folder.path(), *bodies, connections)?;
        let load = pair.load()?;
        ways.push((name, pair, load, Vec::new()));
    }
    for _ in 0..rounds {
        for (_, pair, load, times) in &mut ways {
            times.push(pair.measure(load, count)?);
        }
    }
    for (name, _, load, times) in &mut ways {
        times.sort_by(f64::total_cmp);
        let (median, last) = (times[times.len() / 2], times.len() - 1);
        let range = format!("{:.0} to {:.0}", times[0], times[last]);
        println!("{name:<7} {median:>7.0} ns/request ({range}), {} requests", load.answered());
    }
    Ok(())
}
