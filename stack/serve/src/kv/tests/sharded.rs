//! A store whose keys are divided between workers.

use super::{Bench, LARGE, say};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

/// A store of three workers; the session is one of the first.
fn sharded() -> Bench {
    Bench::sharded(LARGE, 3)
}

#[test]
fn every_command_reaches_the_worker_of_its_key() {
    let mut bench = sharded();
    for key in 0..30 {
        let base64 = BASE64.encode(format!("k{key}"));
        assert_eq!(say(&mut bench, &format!("set k{key} 0 0 1\n1\n")), "STORED\n");
        let requests = format!(
            "incr k{key} 8\ndecr k{key} 7\ntouch k{key} 0\nme k{key}\nme {base64} b\nmg {base64} b v\n"
        );
        let replies = say(&mut bench, &requests);
        let lines: Vec<_> = replies.lines().collect();
        assert_eq!((&lines[..3], &lines[5..]), (&["9", "2", "TOUCHED"][..], &["VA 1", "2"][..]), "{replies}");
        assert!(lines[3].starts_with(&format!("ME k{key} ")) && lines[4] == lines[3], "{replies}");
        let requests = format!("ms {base64} 1 b MA k\nx\nma {base64} b\nmd {base64} b q\ndelete k{key}\n");
        let numeric = "CLIENT_ERROR cannot increment or decrement non-numeric value\n";
        assert_eq!(say(&mut bench, &requests), format!("HD k{base64} b\n{numeric}NOT_FOUND\n"));
        let (long, value) = ((1 << 20) + 1, "v".repeat((1 << 20) + 1));
        let too_large = "SERVER_ERROR object too large for cache";
        let requests = format!("set k{key} 0 0 1\n1\nset k{key} 0 0 {long}\n{value}\nget k{key}\n");
        assert_eq!(say(&mut bench, &requests), format!("STORED\n{too_large}\nEND\n"));
    }
}

#[test]
fn versions_are_unique_and_flush_and_statistics_concern_all_workers() {
    let mut bench = sharded();
    let keys: Vec<_> = (0..100).map(|key| format!("k{key}")).collect();
    let sets: Vec<_> = keys.iter().map(|key| format!("set {key} 0 0 1 noreply\nx\n")).collect();
    assert_eq!(say(&mut bench, &sets.concat()), "");
    let all = keys.join(" ");
    let replies = say(&mut bench, &format!("gets {all}\n"));
    let heads: Vec<Vec<_>> = replies.lines().step_by(2).map(|line| line.split(' ').collect()).collect();
    assert!(heads.iter().zip(&keys).all(|(head, key)| head[1] == key), "the order of the request: {replies}");
    let versions: std::collections::HashSet<_> = heads[..100].iter().map(|head| head[4]).collect();
    assert_eq!(versions.len(), 100);
    let text = say(&mut bench, "stats\nmn\n");
    for line in ["cmd_set 100", "get_hits 100", "curr_items 100", "threads 3", "limit_maxbytes 25165824"] {
        assert!(text.contains(&format!("STAT {line}\n")), "{line} in {text}");
    }
    assert!(text.ends_with("END\nMN\n") && text.matches("STAT").count() == 35, "{text}");
    assert_eq!(say(&mut bench, &format!("flush_all\nget {all}\nstats reset\n")), "OK\nEND\nRESET\n");
    let text = say(&mut bench, &format!("set {} 0 0 1\nx\nflush_all 10\nstats\n", keys[0]));
    for line in ["cmd_set 1", "get_misses 0", "cmd_flush 1"] {
        assert!(text.contains(&format!("STAT {line}\n")), "{line} in {text}");
    }
    bench.pass(10);
    assert_eq!(say(&mut bench, &format!("get {all}\n")), "END\n");
}
