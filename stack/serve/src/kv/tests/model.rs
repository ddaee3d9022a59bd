//! The store against a model, for any commands.

use super::{Bench, LARGE, START, say};
use proptest::prelude::*;
use std::collections::HashMap;

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

    /// The store answers as a map does for every split of the stream.
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
        crate::kv::fuzz::fuzz_kv(&script);
    }
}
