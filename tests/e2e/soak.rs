//! A switch under traffic and random changes for minutes: ports come and go, guests die, files are applied, packets are
//! captured and mirrored. Packets are accounted for, and the switch holds no more at the end than after its warm-up.
//!
//! `cargo xtask soak` runs it for longer, and prints its report.

mod actions;
mod held;

use std::time::{Duration, Instant};

use linerate_tests::netns::Netns;
use linerate_tests::process::Process;
use linerate_tests::{folder, need};
use serde_json::json;

use actions::Soak;
use held::Held;

/// Environment variables of `cargo xtask soak`.
const MINUTES: &str = "LINERATE_SOAK_MINUTES";
const SEED: &str = "LINERATE_SOAK_SEED";
/// Actions between two states in which the switch holds what its file describes.
const ROUND: u64 = 12;
/// Part of the run that is warm-up.
const WARM_UP: u32 = 5;
/// Address of the other end of the echo stream.
const ECHO: &str = "10.9.0.2";

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Pseudo-random numbers (`SplitMix64`) that a seed determines.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % most
    }
}

mod every {
    use super::*;

    #[test]
    #[ignore = "needs root: run by `cargo xtask test --all` and `cargo xtask soak`"]
    fn packets_are_accounted_for_and_nothing_grows() {
        need::root("a TAP interface");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let seed = number(SEED, now.map_or(1, |time| time.subsec_nanos().into()));
        let limit = Duration::from_secs(60 * number(MINUTES, 1));
        println!("{}", json!({ "soak": "begin", "seed": seed, "seconds": limit.as_secs() }));
        let (folder, ends) = (folder(), [Netns::new(), Netns::new()]);
        let mut soak = Soak::start(folder.path(), &ends);
        let pings = ends[0].spawn(folder.path(), "echo", "ping", &["-i", "0.02", ECHO]);
        let (mut random, start, mut before) = (Random(seed), Instant::now(), None);
        while start.elapsed() < limit {
            for _ in 0..ROUND {
                let name = soak.act(&mut random);
                println!("{}", json!({ "soak": name, "at": start.elapsed().as_secs() }));
            }
            soak.rest();
            let pid = soak.switch.pid();
            let held = before.map_or_else(|| Held::by(pid), |before| Held::again(pid, before));
            println!("{}", json!({ "soak": "rest", "at": start.elapsed().as_secs(), "held": held.report() }));
            if start.elapsed() > limit / WARM_UP {
                held.assert_not_above(*before.get_or_insert(held));
            }
        }
        assert!(before.is_some(), "the warm-up took all the time");
        report(&soak, before, seed, start.elapsed(), pings);
        soak.end();
    }
}

/// Prints the result: the actions, what the switch holds, and the times of the echo stream, which nothing asserts.
fn report(soak: &Soak, before: Option<Held>, seed: u64, run: Duration, mut pings: Process) {
    let pid = rustix::process::Pid::from_raw(pings.pid().cast_signed()).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("ping runs");
    pings.finish(Duration::from_secs(10));
    let output = pings.output();
    let time = |line: &str| line.split_once("time=")?.1.split(' ').next()?.parse::<f64>().ok();
    let mut times: Vec<f64> = output.lines().filter_map(time).collect();
    times.sort_by(f64::total_cmp);
    let at = |percent: usize| times.get(times.len() * percent / 100);
    let lost = output.lines().find(|line| line.contains("packet loss"));
    let report = json!({
        "seed": seed,
        "seconds": run.as_secs(),
        "actions": soak.done,
        "generated": soak.generated,
        "held_after_warm_up": before.map(Held::report),
        "held_at_end": Held::by(soak.switch.pid()).report(),
        "echo": { "count": times.len(), "p50_ms": at(50), "p99_ms": at(99), "max_ms": times.last(), "result": lost },
    });
    println!("{}", json!({ "soak": "end", "report": report }));
}
