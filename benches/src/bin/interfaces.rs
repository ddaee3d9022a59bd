//! Cost of the interfaces of the TCP/IP stack: an echo server on events, on tokens and on futures over a vhost-user
//! port, and on tokens over sockets of the kernel.
//!
//! `interfaces [CONNECTIONS] [BYTES] [REQUESTS] [RUNS]` runs server and client on one thread and prints the nanoseconds
//! per request in the server, the smallest and the median of all runs. Over sockets of the kernel, a call of the server
//! includes what the kernel does for the receiver on the loopback interface.

use anyhow::Result;
use benches::stack::interfaces::{INTERFACES, Plan};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let plan = Plan {
        connections: u32::try_from(number(0, 16)?)?,
        bytes: usize::try_from(number(1, 64)?)?,
        requests: number(2, 200_000)?,
    };
    let mut results = INTERFACES.map(|_| Vec::new());
    for _ in 0..number(3, 5)? {
        // Interleaved, so that a disturbance meets all of them.
        for ((_, run), results) in INTERFACES.iter().zip(&mut results) {
            results.push(run(plan)?);
        }
    }
    for ((name, _), results) in INTERFACES.iter().zip(&mut results) {
        results.sort_by(f64::total_cmp);
        let (least, median) = (results.first(), results.get(results.len() / 2));
        let [least, median] = [least, median].map(|value| value.copied().unwrap_or(f64::NAN));
        println!("{name:<24} {least:8.1} ns/request at least, {median:8.1} median");
    }
    Ok(())
}
