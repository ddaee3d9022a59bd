//! Sizes of this processor's caches as reported by the system (`/sys/devices/system/cpu/cpu0/cache`).

use std::path::Path;

/// Size of one cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Size in bytes
    pub bytes: u64,
    /// Associativity in ways
    pub ways: u64,
}

/// The three levels of data caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caches {
    /// First level
    pub l1: Cache,
    /// Second level
    pub l2: Cache,
    /// The shared cache
    pub llc: Cache,
    /// The sizes are not reported; these are those of the study's processor
    pub assumed: bool,
}

impl Caches {
    /// Returns the caches of CPU 0.
    pub fn here() -> Caches {
        Caches::read(Path::new("/sys/devices/system/cpu/cpu0/cache")).unwrap_or(Caches {
            l1: Cache { bytes: 32 << 10, ways: 8 },
            l2: Cache { bytes: 1 << 20, ways: 16 },
            llc: Cache { bytes: 19_712 << 10, ways: 11 },
            assumed: true,
        })
    }

    /// Reads the caches from a directory with one `index*` directory per cache.
    pub fn read(directory: &Path) -> Option<Caches> {
        let level = |wanted: &str| {
            (0..8).find_map(|index| {
                let text = |name: &str| {
                    let path = directory.join(format!("index{index}")).join(name);
                    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
                };
                let data = text("level")? == wanted && text("type")? != "Instruction";
                let ways = text("ways_of_associativity")?.parse().ok()?;
                data.then_some(Cache { bytes: bytes(&text("size")?)?, ways })
            })
        };
        Some(Caches { l1: level("1")?, l2: level("2")?, llc: level("3")?, assumed: false })
    }
}

/// Parses `32K` or `16M`.
fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.len().checked_sub(1)?);
    let unit = match unit {
        "K" => 1 << 10,
        "M" => 1 << 20,
        _ => return text.parse().ok(),
    };
    Some(number.parse::<u64>().ok()? * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_read_from_the_system_s_files() {
        let directory = tempfile::tempdir().expect("a directory");
        let kinds = [("1", "Data", "32K", "8"), ("1", "Instruction", "64K", "4")];
        let more = [("2", "Unified", "1024K", "8"), ("3", "Unified", "32M", "16")];
        for (index, (level, kind, size, ways)) in kinds.into_iter().chain(more).enumerate() {
            let index = directory.path().join(format!("index{index}"));
            std::fs::create_dir(&index).expect("made");
            for (name, text) in
                [("level", level), ("type", kind), ("size", size), ("ways_of_associativity", ways)]
            {
                std::fs::write(index.join(name), format!("{text}\n")).expect("written");
            }
        }
        let caches = Caches::read(directory.path()).expect("all three are there");
        assert_eq!(caches.l1, Cache { bytes: 32 << 10, ways: 8 });
        assert_eq!(caches.l2, Cache { bytes: 1 << 20, ways: 8 });
        assert_eq!(caches.llc, Cache { bytes: 32 << 20, ways: 16 });
        assert_eq!(Caches::read(&directory.path().join("index0")), None);
    }
}
