//! Every variation of the model by name: the study's single factors, its combinations, and all 64 cells of a to f.
//!
//! A configuration's name is `base`, one factor's name, or letters joined by `+` (`a+d`). Names are used on the command
//! line and in results; numbers are the study's (1, 4, 10 to 12 and the lettered ones) or our own.

use super::model::Config;
use super::model::config::{HeaderUse, Order};
use serde::Serialize;
use sim::Prefetchers;
use sim::memory::{Cleaning, Copying};

/// One variation of the model.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Factor {
    /// Number in the list
    pub id: u8,
    /// Name on the command line
    pub name: &'static str,
    /// Letter; `None` unless it is one of the six of the best result
    pub letter: Option<char>,
    /// Description of the change
    pub title: &'static str,
    #[serde(skip)]
    change: fn(&mut Config),
}

impl Factor {
    const fn new(id: u8, name: &'static str, title: &'static str, change: fn(&mut Config)) -> Factor {
        Factor { id, name, title, letter: None, change }
    }

    const fn lettered(self, letter: char) -> Factor {
        Factor { letter: Some(letter), ..self }
    }

    /// Returns the base with this variation.
    pub fn config(&self) -> Config {
        let mut config = Config::default();
        (self.change)(&mut config);
        config
    }
}

/// Unknown configuration name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown configuration `{name}`: the nearest is `{nearest}`; `linerate lab list` shows all")]
pub struct UnknownConfiguration {
    /// Requested name
    pub name: String,
    /// Nearest known name
    pub nearest: String,
}

/// A configuration with its name in results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Name on the command line
    pub name: String,
    /// Configuration
    pub config: Config,
}

/// Letters of the six factors of the best result.
pub const LETTERS: [char; 6] = ['a', 'b', 'c', 'd', 'e', 'f'];

fn copies(config: &mut Config, how: Copying) {
    (config.copy_rx, config.copy_tx) = (how, how);
}

fn own_lines(config: &mut Config) {
    (config.own_avail, config.own_used, config.own_pool, config.aligned) = (true, true, true, true);
}

/// All single factors, in order of their numbers.
pub const FACTORS: [Factor; 44] = [
    Factor::new(1, "base", "the model as it is: memcpy of 64 bytes", |_| {}),
    Factor::new(2, "index-u64", "indices of 8 bytes", |c| c.wide_indices = true),
    Factor::new(3, "avail-apart", "last_avail on a line of its own", |c| c.own_avail = true),
    Factor::new(4, "a", "what different cores write on lines of their own", own_lines).lettered('a'),
    Factor::new(5, "used-apart", "last_used on a line of its own", |c| c.own_used = true),
    Factor::new(6, "queue-aligned", "rings and descriptors begin on a line", |c| c.aligned = true),
    Factor::new(7, "descriptors-first", "descriptors before the indices", |c| c.descriptors_first = true),
    Factor::new(8, "first-line-last", "a batch's first line of descriptors published last", |c| {
        c.first_line_last = true;
    }),
    Factor::new(9, "stride-4", "descriptors that follow each other are four apart", |c| c.stride = 4),
    Factor::new(10, "copy-movl", "copies of 4 bytes at a time", |c| copies(c, Copying::Words)),
    Factor::new(11, "copy-avx2", "copies of 32 bytes at a time", |c| copies(c, Copying::Avx2)),
    Factor::new(12, "b", "copies past the caches (vmovntdq)", |c| copies(c, Copying::NonTemporal))
        .lettered('b'),
    Factor::new(13, "nt-rx", "only Rx copies past the caches", |c| c.copy_rx = Copying::NonTemporal),
    Factor::new(14, "nt-tx", "only Tx copies past the caches", |c| c.copy_tx = Copying::NonTemporal),
    Factor::new(15, "rep-movsb", "copies by one string instruction", |c| copies(c, Copying::RepMovsb)),
    Factor::new(16, "zero-copy-rx", "Rx copies nothing", |c| c.copy_rx = Copying::None),
    Factor::new(17, "zero-copy-tx", "Tx copies nothing", |c| c.copy_tx = Copying::None),
    Factor::new(18, "c", "descriptors of 8 bytes", |c| c.descriptor = 8).lettered('c'),
    Factor::new(19, "descriptor-4", "descriptors of 4 bytes", |c| c.descriptor = 4),
    Factor::new(20, "descriptor-32", "descriptors of 32 bytes", |c| c.descriptor = 32),
    Factor::new(21, "descriptor-64", "descriptors of 64 bytes", |c| c.descriptor = 64),
    Factor::new(22, "d", "no header before a packet", |c| c.header = 0).lettered('d'),
    Factor::new(23, "header-64", "headers of 64 bytes", |c| c.header = 64),
    Factor::new(24, "header-256", "headers of 256 bytes", |c| c.header = 256),
    Factor::new(25, "header-1024", "headers of 1024 bytes", |c| c.header = 1024),
    Factor::new(26, "header-not-written", "headers are not touched", |c| {
        c.header_use = HeaderUse::NotWritten;
    }),
    Factor::new(27, "header-prefetched", "headers are prefetched, then written", |c| {
        c.header_use = HeaderUse::PrefetchWrite;
    }),
    Factor::new(28, "header-read-4", "4 bytes of a header are read", |c| c.header_use = HeaderUse::ReadFour),
    Factor::new(29, "header-write-4", "4 bytes of a header are written", |c| {
        c.header_use = HeaderUse::WriteFour;
    }),
    Factor::new(30, "header-reuse-32", "32 headers are used again and again", |c| {
        c.reused_headers = Some(32);
    }),
    Factor::new(31, "e", "64 bytes for headroom and packet", |c| (c.headroom, c.data) = (0, 64))
        .lettered('e'),
    Factor::new(32, "data-1024", "1024 bytes for the packet", |c| c.data = 1024),
    Factor::new(33, "headroom-0", "no headroom", |c| c.headroom = 0),
    Factor::new(34, "ring-64", "rings of 64 descriptors", |c| c.ring = 64),
    Factor::new(35, "ring-2048", "rings of 2048 descriptors", |c| c.ring = 2048),
    Factor::new(36, "pool-1024", "pools of 1024 buffers", |c| c.pool = 1024),
    Factor::new(37, "sequential", "buffers are taken one after the other", |c| c.order = Order::Sequential),
    Factor::new(38, "batch-1", "batches of 1 packet", |c| c.batch = 1),
    Factor::new(39, "batch-256", "batches of 256 packets", |c| c.batch = 256),
    Factor::new(40, "flush", "each line is flushed after it was copied (CLFLUSHOPT)", |c| {
        c.after_copy = Some(Cleaning::Flush);
    }),
    Factor::new(41, "f", "no hardware prefetchers", |c| {
        c.prefetchers = Prefetchers { stream: false, adjacent: false };
    })
    .lettered('f'),
    Factor::new(42, "adjacent-off", "no prefetch of a line's pair", |c| c.prefetchers.adjacent = false),
    Factor::new(43, "packet-prefetched", "packets are prefetched before they are copied", |c| {
        c.prefetch_packet = true;
    }),
    Factor::new(44, "demote", "each line is demoted after it was copied (CLDEMOTE)", |c| {
        c.after_copy = Some(Cleaning::Demote);
    }),
];

/// The study's combinations of the six letters: all pairs, and these.
pub const COMBINATIONS: [&str; 30] = [
    "ab", "ac", "ad", "ae", "af", "bc", "bd", "be", "bf", "cd", "ce", "cf", "de", "df", "ef", "abd", "acd",
    "ade", "adf", "abe", "bde", "abcd", "abde", "acde", "adef", "abcde", "abcdf", "abdef", "acdef", "abcdef",
];

/// Returns the configuration with these letters; its name is `base` if there are none.
pub fn cell(letters: impl IntoIterator<Item = char>) -> Named {
    let mut config = Config::default();
    let mut parts: Vec<String> = Vec::new();
    for letter in letters {
        if let Some(factor) = FACTORS.iter().find(|factor| factor.letter == Some(letter)) {
            (factor.change)(&mut config);
            parts.push(letter.to_string());
        }
    }
    let name = if parts.is_empty() { "base".to_owned() } else { parts.join("+") };
    Named { name, config }
}

/// Returns all 64 cells of a to f; the `n`-th has letter `i` if bit `i` of `n` is set.
pub fn cells() -> Vec<Named> {
    (0..64_u32)
        .map(|bits| {
            cell(LETTERS.into_iter().enumerate().filter(|(i, _)| bits & (1 << i) != 0).map(|(_, c)| c))
        })
        .collect()
}

/// Returns single factors, the study's combinations, and the remaining cells, without duplicates.
pub fn everything() -> Vec<Named> {
    let singles =
        FACTORS.iter().map(|factor| Named { name: factor.name.to_owned(), config: factor.config() });
    let mut all: Vec<Named> = singles.collect();
    let combined = COMBINATIONS.iter().map(|letters| cell(letters.chars()));
    for named in combined.chain(cells()) {
        if all.iter().all(|other| other.name != named.name) {
            all.push(named);
        }
    }
    all
}

/// Returns the configuration with this name: `base`, a factor, or letters joined by `+` in any order.
pub fn find(name: &str) -> Result<Named, UnknownConfiguration> {
    if let Some(factor) = FACTORS.iter().find(|factor| factor.name == name) {
        return Ok(Named { name: name.to_owned(), config: factor.config() });
    }
    letters(name)
        .map(cell)
        .ok_or_else(|| UnknownConfiguration { name: name.to_owned(), nearest: nearest(name) })
}

/// Returns the letters of a name like `d+a`, sorted and without duplicates; `None` if it has another form.
fn letters(name: &str) -> Option<Vec<char>> {
    let mut letters = Vec::new();
    for part in name.split('+') {
        let mut chars = part.trim().chars();
        let letter = chars.next().filter(|letter| LETTERS.contains(letter) && chars.next().is_none())?;
        letters.push(letter);
    }
    letters.sort_unstable();
    letters.dedup();
    Some(letters)
}

fn nearest(name: &str) -> String {
    let far = |other: &str| (strsim::jaro_winkler(name, other) * 1e6) as u64;
    everything().into_iter().map(|named| named.name).max_by_key(|other| far(other)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_leads_to_its_configuration_and_no_two_are_the_same() {
        let all = everything();
        for named in &all {
            assert_eq!(find(&named.name).expect("it is listed"), *named);
        }
        let mut names: Vec<_> = all.iter().map(|named| &named.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
        assert_eq!(cells().len(), 64);
    }

    #[test]
    fn each_factor_but_the_base_changes_something() {
        let base = Config::default();
        for factor in FACTORS {
            assert_eq!(factor.config() == base, factor.id == 1, "{}", factor.name);
        }
    }

    #[test]
    fn letters_may_come_in_any_order() {
        assert_eq!(find("d+a").map(|named| named.name), Ok("a+d".to_owned()));
    }

    #[test]
    fn unknown_name_is_reported_with_the_nearest_known_name() {
        let error = find("header-reuse").expect_err("there is no such name");
        assert_eq!(error.nearest, "header-reuse-32");
    }
}
