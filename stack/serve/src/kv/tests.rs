//! Conversations, and the store against a model.

use super::fuzz::{Bench, START};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use proptest::prelude::*;
use std::collections::HashMap;

/// Memory in which nothing is evicted.
const LARGE: usize = 8 << 20;

/// The replies to a conversation.
fn talk(requests: &str) -> String {
    let mut bench = Bench::new(LARGE);
    bench.feed(requests.as_bytes());
    String::from_utf8(bench.replies).expect("replies of text")
}

/// Checks requests against replies; both without the CR of their lines.
fn check(requests: &str, replies: &str) {
    let [requests, replies] = [requests, replies].map(|text| text.replace('\n', "\r\n"));
    assert_eq!(talk(&requests), replies);
}

#[test]
fn text_commands_store_and_return_values() {
    check(
        "set a 5 0 3\nabc\nget a b\ngets a\nadd a 0 0 1\nx\nreplace a 1 0 2\nxy\nappend a 0 0 1\n\
         z\nprepend a 0 0 1\nw\nget a\n",
        "STORED\nVALUE a 5 3\nabc\nEND\nVALUE a 5 3 1\nabc\nEND\nNOT_STORED\nSTORED\nSTORED\n\
         STORED\nVALUE a 1 4\nwxyz\nEND\n",
    );
    check(
        "cas a 0 0 1 1\nx\nset a 0 0 1\n1\ncas a 0 0 1 7\n2\ncas a 0 0 1 1\n2\nincr a 98\n\
         decr a 1\ndecr a 95\nget a\nincr b 1\nincr a x\n",
        "NOT_FOUND\nSTORED\nEXISTS\nSTORED\n100\n99\n4\nVALUE a 0 3\n4  \nEND\nNOT_FOUND\n\
         CLIENT_ERROR invalid numeric delta argument\n",
    );
    check(
        "delete a\nset a 0 0 0 noreply\n\ndelete a\ndelete a 1\n",
        "NOT_FOUND\nDELETED\nCLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\n",
    );
    check(
        "set a 0 -1 1\nx\nget a\ntouch a 1\nverbosity 1\nflush_all\nflush_all x\n",
        "STORED\nEND\nNOT_FOUND\nOK\nOK\nCLIENT_ERROR invalid exptime argument\n",
    );
    check("gat 0\ngat x a\nget\nquit\nget a\n", "END\nCLIENT_ERROR invalid exptime argument\nERROR\n");
}

#[test]
fn errors_are_those_of_memcached() {
    check(
        "\nx\nset a 0 0\nset a b 0 1\nset a 0 0 -1\nget\n",
        "ERROR\nERROR\nERROR\nCLIENT_ERROR bad command line format\n\
         CLIENT_ERROR bad command line format\nERROR\n",
    );
    check("set a 0 0 1\nxyz\nmn\n", "CLIENT_ERROR bad data chunk\nERROR\nMN\n");
    let key = "k".repeat(251);
    check(
        &format!("get a {key}\nset {key} 0 0 1\ndelete {key}\n"),
        &"CLIENT_ERROR bad command line format\n".repeat(3),
    );
    let (len, value) = ((1 << 20) + 1, "v".repeat((1 << 20) + 1));
    check(
        &format!("set a 0 0 1\nx\nset a 0 0 {len}\n{value}\nget a\n"),
        "STORED\nSERVER_ERROR object too large for cache\nEND\n",
    );
    check(
        &format!("set a 0 0 {}\n{}\nappend a 0 0 1\nx\n", 1 << 20, "v".repeat(1 << 20)),
        "STORED\nNOT_STORED\n",
    );
}

#[test]
fn lines_that_are_too_long_and_other_protocols_end_the_connection() {
    let mut bench = Bench::new(LARGE);
    assert!(bench.feed(b"mn\r\n") && bench.feed(&[b'x'; 2048]) && !bench.feed(b"x"));
    assert_eq!(bench.replies, b"MN\r\n");
    assert!(!Bench::new(LARGE).feed(&[0x80, 0, 0, 0]));
    let mut bench = Bench::new(LARGE);
    assert!(bench.feed(b"  gets") && bench.feed(&b" k".repeat(30_000)) && bench.feed(b"\r\n"));
    assert_eq!(bench.replies, b"END\r\n");
    assert!(bench.feed(b"get ") && !bench.feed(&b"x".repeat(65_536)));
    assert_eq!(bench.replies, b"END\r\nCLIENT_ERROR line too long\r\n");
}

#[test]
fn many_large_values_are_returned_in_turns() {
    let mut bench = Bench::new(LARGE);
    let value = "v".repeat(100_000);
    bench.feed(format!("set a 0 0 100000\r\n{value}\r\nget{}\r\nmn\r\n", " a".repeat(50)).as_bytes());
    let expected =
        format!("STORED\r\n{}END\r\nMN\r\n", format!("VALUE a 0 100000\r\n{value}\r\n").repeat(50));
    assert!(bench.replies == expected.as_bytes());
}

#[test]
fn meta_commands_return_what_their_flags_request() {
    check(
        "mn\nmg a\nmg a k O9 v\nmg a q\nms a 2 T0 F7 c\nhi\nmg a s v f c t k Oabc h\nmg a h\n",
        "MN\nEN\nEN ka O9\nHD c1\nVA 2 s2 f7 c1 t-1 ka Oabc h0\nhi\nHD h1\n",
    );
    check(
        "ms a 1 ME\nx\nms a 1 ME k\ny\nms a 1 MA s\ny\nms b 1 MR O1\nx\nms a 1 C9 q\nz\n\
         ms a 1 C2 q\nz\nms c 1 MA N0\nx\nmg c v\n",
        "HD\nNS ka\nHD s2\nNS O1\nEX\nHD\nVA 1\nx\n",
    );
    check(
        "ms YQ== 1 b\nx\nmg a v k\nmg YQ== b k\nget a\n",
        "HD\nVA 1 kYQ== b\nx\nHD kYQ== b\nVALUE a 0 1\nx\nEND\n",
    );
    check(
        "md a\nms a 1\nx\nms a 1 S1\nx\nmd a C9 k\nmd a q\nmg a\n",
        "NF\nHD\nCLIENT_ERROR invalid flag\nEX ka\nEN\n",
    );
    check(
        "ma n\nma n N0 J5 v\nma n v\nma n D4 v t c\nma n MD D100 v\nma n MX\nma n Cx\nms n 1 T0\n\
         x\nma n\nma n q\n",
        "NF\nVA 1\n5\nVA 1\n6\nVA 2 t-1 c3\n10\nVA 1\n0\nCLIENT_ERROR invalid mode for ma M token\n\
         CLIENT_ERROR invalid or duplicate flag\nHD\n\
         CLIENT_ERROR cannot increment or decrement non-numeric value\n\
         CLIENT_ERROR cannot increment or decrement non-numeric value\n",
    );
    check(
        "mg a b\nmg a v v\nmg a !\nmg a O12345678901234567890123456789012\n",
        "CLIENT_ERROR error decoding key\nCLIENT_ERROR duplicate flag\nCLIENT_ERROR invalid flag\n\
         CLIENT_ERROR opaque token too long\n",
    );
}

#[test]
fn one_client_wins_the_right_to_replace_a_missing_or_stale_value() {
    check(
        "mg a N30 v t\nmg a N30 v\nms a 1 T0\nx\nmg a v\nmd a I T30\nmg a v\nmg a v t\n",
        "VA 0 t30 W\n\nVA 0 Z\n\nHD\nVA 1\nx\nHD\nVA 1 X W\nx\nVA 1 t30 Z X\nx\n",
    );
    check(
        "ms a 1 T10\nx\nmg a R5\nmg a R20\nmg a R20\nmd a x I\nmg a v s\n",
        "HD\nHD\nHD W\nHD Z\nHD\nVA 0 s0 X W\n\n",
    );
    // An older version is stored as a stale one.
    check(
        "ms a 1 E100\nx\nms a 1 C50 I\ny\nmg a v c\nms a 1 C50\nz\nms a 1 C1 E200\nz\n\
         mg a c v C200\nmg a v C7\n",
        "HD\nHD\nVA 1 c1 X W\ny\nEX\nHD\nHD c200\nVA 1\nz\n",
    );
}

#[test]
fn items_expire_at_their_second_and_a_flush_may_wait() {
    let mut bench = Bench::new(LARGE);
    let mut say = |seconds: u32, requests: &str, replies: &str| {
        bench.pass(seconds);
        bench.replies.clear();
        bench.feed(requests.replace('\n', "\r\n").as_bytes());
        assert_eq!(String::from_utf8_lossy(&bench.replies), replies.replace('\n', "\r\n"));
    };
    say(
        0,
        &format!("set a 0 10 1\nx\nset b 0 {} 1\ny\nset c 0 0 1\nz\n", START + 20),
        "STORED\nSTORED\nSTORED\n",
    );
    say(9, "mg a t\nmg b t l\n", "HD t1\nHD t11 l9\n");
    say(1, "mg a\ngat 50 b\ntouch c 7\n", "EN\nVALUE b 0 1\ny\nEND\nTOUCHED\n");
    say(15, "mg b t\nmg c\nflush_all 10\nset d 0 0 1\nx\n", "HD t35\nEN\nOK\nSTORED\n");
    say(9, "get b d\n", "VALUE b 0 1\ny\nVALUE d 0 1\nx\nEND\n");
    say(1, "get b d\nset d 0 0 1\ny\nget d\n", "END\nSTORED\nVALUE d 0 1\ny\nEND\n");
}

#[test]
fn statistics_count_commands_and_reset_clears_them() {
    let text = talk("set a 0 0 1\r\nx\r\nget a b\r\nincr a 1\r\ndelete a\r\nstats\r\n");
    for line in
        ["cmd_set 1", "get_hits 1", "get_misses 1", "delete_hits 1", "curr_items 0", "limit_maxbytes 8388608"]
    {
        assert!(text.contains(&format!("STAT {line}\r\n")), "{line} in {text}");
    }
    let text = talk("get a\r\nstats reset\r\nstats\r\nstats x\r\n");
    assert!(
        text.contains("RESET\r\n")
            && text.contains("STAT get_misses 0\r\n")
            && text.ends_with("END\r\nERROR\r\n")
    );
}

/// A store of three workers; the session is one of the first.
fn sharded() -> Bench {
    Bench::sharded(LARGE, 3)
}

/// The replies to a conversation.
fn say(bench: &mut Bench, requests: &str) -> String {
    bench.replies.clear();
    bench.feed(requests.replace('\n', "\r\n").as_bytes());
    String::from_utf8_lossy(&bench.replies).replace("\r\n", "\n")
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

/// An item of the model.
#[derive(Clone, Debug)]
struct Item {
    value: Vec<u8>,
    flags: u32,
    cas: u64,
    expires: u32,
}

/// Model: a store of unlimited memory.
#[derive(Default)]
struct Model {
    items: HashMap<u8, Item>,
    cas: u64,
    now: u32,
}

/// A command on one of a few keys.
#[derive(Clone, Debug)]
enum Command {
    Store(&'static str, u8, u32, i32, Vec<u8>),
    Cas(u8, u64, Vec<u8>),
    Gets(u8),
    Delta(bool, u8, u64),
    Delete(u8),
    Touch(u8, i32),
    Flush,
    Pass(u32),
}

impl Command {
    fn any() -> impl Strategy<Value = Self> {
        let key = 0..4_u8;
        let start = START.cast_signed();
        let exptime = prop_oneof![3 => Just(0), 3 => 1..6_i32, 1 => Just(-1), 1 => start - 5..start + 30];
        let value = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..20),
            any::<u64>().prop_map(|number| number.to_string().into_bytes()),
            (0..2000_usize).prop_map(|len| vec![b'v'; len]),
        ];
        let mode = prop::sample::select(vec!["set", "add", "replace", "append", "prepend"]);
        prop_oneof![
            4 => (mode, key.clone(), any::<u32>(), exptime.clone(), value.clone())
                .prop_map(|(mode, key, flags, exptime, value)| Command::Store(mode, key, flags, exptime, value)),
            2 => (key.clone(), 0..30_u64, value).prop_map(|(key, back, value)| Command::Cas(key, back, value)),
            3 => key.clone().prop_map(Command::Gets),
            2 => (any::<bool>(), key.clone(), any::<u64>()).prop_map(|(up, key, by)| Command::Delta(up, key, by)),
            1 => key.clone().prop_map(Command::Delete),
            1 => (key, exptime).prop_map(|(key, exptime)| Command::Touch(key, exptime)),
            1 => Just(Command::Flush),
            2 => (0..4_u32).prop_map(Command::Pass),
        ]
    }

    /// The request; empty if time passes.
    fn request(&self) -> Vec<u8> {
        let with = |line: String, value: &[u8]| [line.as_bytes(), value, b"\r\n"].concat();
        match self {
            Command::Store(mode, key, flags, exptime, value) => {
                with(format!("{mode} k{key} {flags} {exptime} {}\r\n", value.len()), value)
            }
            Command::Cas(key, cas, value) => with(format!("cas k{key} 1 0 {} {cas}\r\n", value.len()), value),
            Command::Gets(key) => format!("gets k{key}\r\n").into(),
            Command::Delta(true, key, by) => format!("incr k{key} {by}\r\n").into(),
            Command::Delta(false, key, by) => format!("decr k{key} {by}\r\n").into(),
            Command::Delete(key) => format!("delete k{key}\r\n").into(),
            Command::Touch(key, exptime) => format!("touch k{key} {exptime}\r\n").into(),
            Command::Flush => "flush_all\r\n".into(),
            Command::Pass(_) => Vec::new(),
        }
    }
}

impl Model {
    fn expiry(&self, exptime: i32) -> u32 {
        match exptime {
            0 => 0,
            -1 => 1,
            1..=2_592_000 => self.now + exptime as u32,
            _ => exptime as u32,
        }
    }

    fn link(&mut self, key: u8, value: Vec<u8>, flags: u32, expires: u32) -> String {
        self.cas += 1;
        self.items.insert(key, Item { value, flags, cas: self.cas, expires });
        "STORED\r\n".into()
    }

    fn answer(&mut self, command: &Command) -> Vec<u8> {
        let now = self.now;
        self.items.retain(|_, item| item.expires == 0 || item.expires > now);
        match command.clone() {
            Command::Store(mode, key, flags, exptime, value) => {
                self.store(mode, key, (flags, exptime), &value).into()
            }
            Command::Cas(key, cas, value) => match self.items.get(&key) {
                None => "NOT_FOUND\r\n".into(),
                Some(item) if item.cas != cas => "EXISTS\r\n".into(),
                Some(_) => self.link(key, value, 1, 0).into(),
            },
            Command::Gets(key) => {
                let Some(Item { value, flags, cas, .. }) = self.items.get(&key) else {
                    return "END\r\n".into();
                };
                let head = format!("VALUE k{key} {flags} {} {cas}\r\n", value.len());
                [head.as_bytes(), value, b"\r\nEND\r\n"].concat()
            }
            Command::Delta(up, key, by) => self.delta(up, key, by).into(),
            Command::Delete(key) => match self.items.remove(&key) {
                Some(_) => "DELETED\r\n".into(),
                None => "NOT_FOUND\r\n".into(),
            },
            Command::Touch(key, exptime) => {
                let expires = self.expiry(exptime);
                let Some(item) = self.items.get_mut(&key) else { return "NOT_FOUND\r\n".into() };
                item.expires = expires;
                "TOUCHED\r\n".into()
            }
            Command::Flush => {
                self.items.clear();
                self.cas += 1;
                "OK\r\n".into()
            }
            Command::Pass(seconds) => {
                self.now += seconds;
                Vec::new()
            }
        }
    }

    fn store(&mut self, mode: &str, key: u8, (flags, exptime): (u32, i32), value: &[u8]) -> String {
        let old = self.items.get(&key).cloned();
        let expires = self.expiry(exptime);
        match (mode, old) {
            ("set", _) | ("add", None) | ("replace", Some(_)) => {
                self.link(key, value.to_vec(), flags, expires)
            }
            ("append", Some(old)) => self.link(key, [&old.value, value].concat(), old.flags, old.expires),
            ("prepend", Some(old)) => self.link(key, [value, &old.value].concat(), old.flags, old.expires),
            _ => "NOT_STORED\r\n".into(),
        }
    }

    fn delta(&mut self, up: bool, key: u8, by: u64) -> String {
        let cas = self.cas + 1;
        let Some(item) = self.items.get_mut(&key) else { return "NOT_FOUND\r\n".into() };
        let text = String::from_utf8_lossy(&item.value).into_owned();
        let Ok(number) = text.split(' ').next().unwrap_or_default().parse::<u64>() else {
            return "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n".into();
        };
        let number = if up { number.wrapping_add(by) } else { number.saturating_sub(by) };
        item.value = format!("{number:<len$}", len = item.value.len()).into();
        item.cas = cas;
        self.cas = cas;
        format!("{number}\r\n")
    }
}

/// Version of a key; one that no item has if there is none.
fn version(bench: &mut Bench, key: u8) -> u64 {
    let text = say(bench, &format!("gets k{key}\n"));
    let head = text.lines().next().unwrap_or_default();
    head.split(' ').nth(4).map_or(999_999, |version| version.parse().expect("a number"))
}

/// Whether `strtoull` and Rust read a value alike: random bytes may be signs or other white space.
fn is_plain(command: &Command) -> bool {
    let (Command::Store(.., value) | Command::Cas(.., value)) = command else { return true };
    value.iter().all(u8::is_ascii_digit) || value.first().is_none_or(u8::is_ascii_alphabetic)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The store answers as a map does, whichever way the stream is split.
    #[test]
    fn replies_are_those_of_a_map(
        commands in prop::collection::vec(Command::any().prop_filter("read alike", is_plain), 1..60),
        splits in prop::collection::vec(1..200_usize, 1..20),
    ) {
        let (mut bench, mut model) = (Bench::new(LARGE), Model { now: START, ..Model::default() });
        let mut splits = splits.iter().cycle();
        for command in &commands {
            let expected = model.answer(command);
            if let Command::Pass(seconds) = command {
                bench.pass(*seconds);
            }
            bench.replies.clear();
            let request = command.request();
            let mut rest = &request[..];
            while !rest.is_empty() {
                let (part, after) = rest.split_at(rest.len().min(*splits.next().expect("a cycle")));
                bench.feed(part);
                rest = after;
            }
            prop_assert_eq!(String::from_utf8_lossy(&bench.replies), String::from_utf8_lossy(&expected), "{:?}", command);
        }
    }

    /// Several workers answer as one does, with any number of requests that wait for them. Versions differ, so `cas`
    /// has the one that `gets` returned before, or another one.
    #[test]
    fn several_workers_answer_as_one(
        commands in prop::collection::vec(Command::any(), 1..80),
        workers in 2..5_usize,
        batch in 1..40_usize,
    ) {
        let mut benches = [Bench::new(LARGE), Bench::sharded(LARGE, workers)];
        for commands in commands.chunks(batch) {
            let said = benches.each_mut().map(|bench| {
                let versions: Vec<_> = (0..4).map(|key| version(bench, key)).collect();
                let mut requests = Vec::new();
                for command in commands {
                    match command {
                        Command::Cas(key, back, value) => {
                            let version = versions[usize::from(*key)] + (back % 2) * 1_000_000;
                            requests.extend(Command::Cas(*key, version, value.clone()).request());
                        }
                        Command::Gets(key) => requests.extend(format!("get k{key} k1 none k2\r\n").bytes()),
                        Command::Pass(_) => {}
                        other => requests.extend(other.request()),
                    }
                }
                bench.replies.clear();
                bench.feed(&requests);
                let seconds = commands.iter().map(|command| if let Command::Pass(n) = command { *n } else { 0 });
                bench.pass(seconds.sum());
                String::from_utf8_lossy(&bench.replies).into_owned()
            });
            prop_assert_eq!(&said[0], &said[1], "{:?}", commands);
        }
    }

    /// With little memory values may be missing, but none is wrong, and the memory is bounded.
    #[test]
    fn little_memory_loses_values_and_returns_no_other(
        keys in prop::collection::vec((0..200_u32, 0..3000_usize), 1..300),
    ) {
        let (mut bench, mut model) = (Bench::new(40 << 10), HashMap::new());
        for (key, len) in keys {
            bench.replies.clear();
            if let Some(len) = model.get(&key) {
                bench.feed(format!("get {key}\r\n").as_bytes());
                let value = format!("VALUE {key} 0 {len}\r\n{}\r\nEND\r\n", "v".repeat(*len));
                prop_assert!(bench.replies == b"END\r\n" || bench.replies == value.as_bytes());
            }
            bench.feed(format!("set {key} 0 0 {len}\r\n{}\r\nget {key}\r\n", "v".repeat(len)).as_bytes());
            prop_assert!(bench.replies.ends_with(b"\r\nEND\r\n") && bench.replies.len() > len, "a new value is there");
            model.insert(key, len);
            let (bytes, limit) = bench.memory();
            prop_assert!(bytes <= limit);
        }
    }

    #[test]
    fn any_stream_is_survived(script in prop::collection::vec(any::<u8>(), 0..400)) {
        super::fuzz::fuzz_kv(&script);
    }
}
