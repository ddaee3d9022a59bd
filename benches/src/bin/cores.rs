//! Stacks on several threads, over a vhost-user socket.
//!
//! `cores threads MODEL [CONNECTIONS] [BYTES] [REQUESTS]` runs an echo server in thread model `unified`, `split` or
//! `merge` and prints the rate of a closed-loop client, and the round trip with one connection. Stack and client are on
//! CPUs 0 and 1; the application of `split` has CPU 1 in common with the client where there are only two.
//!
//! `cores ports home|any [CONNECTIONS] [BYTES] [REQUESTS]` runs two workers at both ends of two queue pairs, each
//! client worker with its own connections, and prints the rate and the share of segments that change the worker.

use anyhow::{Result, bail};
use benches::stack::cores::{Threads, ports, threads};

const CPUS: [usize; 2] = [0, 1];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let (connections, bytes, count) = (number(2, 16)?, number(3, 64)?, number(4, 200_000)?);
    let words: Vec<_> = arguments.iter().take(2).map(String::as_str).collect();
    let model = match words[..] {
        ["threads", "unified"] => Threads::Unified,
        ["threads", "split"] => Threads::Split,
        ["threads", "merge"] => Threads::Merge,
        ["ports", which @ ("home" | "any")] => {
            let (rate, crossed) = ports(CPUS, which == "home", connections, bytes, count)?;
            println!("{rate:.0} requests/s, {:.1} % of segments change the worker", crossed * 100.0);
            return Ok(());
        }
        _ => bail!("expected threads unified, split or merge, or ports home or any"),
    };
    let (rate, ..) = threads(CPUS, model, connections, bytes, count)?;
    let (_, p50, p99) = threads(CPUS, model, 1, bytes, count / 10)?;
    println!("{rate:.0} requests/s; one connection: p50 {p50:.2} us, p99 {p99:.2} us");
    Ok(())
}
