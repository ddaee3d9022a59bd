//! What this processor is and can do, and whether a configuration can run on it at all.

use crate::cache::factors::Named;
use crate::cache::memory::{Cleaning, Copying};
use crate::cache::model::Config;
use crate::cache::model::config::Prefetchers;

/// This processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processor {
    /// As it calls itself, with its family and model
    pub name: String,
    skylake_x: bool,
    flags: Vec<String>,
}

/// Why a configuration cannot run here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// An instruction
    #[error(
        "`{name}` needs {needs}, which {processor} does not have, so nothing was run: leave it out or use the simulator (`--memory simulated`)"
    )]
    Instruction {
        /// Of the configuration
        name: String,
        /// What it needs
        needs: &'static str,
        /// Who has it not
        processor: String,
    },
    /// Hardware prefetchers belong to whoever may write the processor's model-specific registers.
    #[error(
        "`{0}` needs hardware prefetchers switched off, which no program can do by itself, so nothing was run: leave it out or use the simulator (`--memory simulated`)"
    )]
    Prefetchers(String),
    /// More packets in a batch than a ring has descriptors
    #[error(
        "`{name}` has batches of {batch} packets in rings of {ring}, so its threads would wait for each other for ever and nothing was run: choose a batch no longer than the ring"
    )]
    Deadlock {
        /// Of the configuration
        name: String,
        /// Packets in a batch
        batch: u64,
        /// Descriptors in a ring
        ring: u64,
    },
}

impl Processor {
    /// The one that this runs on.
    pub fn here() -> Processor {
        Processor::read(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
    }

    /// From the text of `/proc/cpuinfo`.
    pub fn read(text: &str) -> Processor {
        let field = |wanted: &str| {
            text.lines()
                .filter_map(|line| line.split_once(':'))
                .find_map(|(key, value)| (key.trim() == wanted).then(|| value.trim().to_owned()))
        };
        let family = field("cpu family").zip(field("model"));
        let suffix =
            family.map_or(String::new(), |(family, model)| format!(" (family {family}, model {model})"));
        let name = field("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
        // Later steppings of the model are other processors, from Cascade Lake on.
        let early = field("stepping").and_then(|number| number.parse::<u8>().ok()).is_some_and(|n| n <= 4);
        let intel = field("vendor_id").as_deref() == Some("GenuineIntel");
        let skylake_x =
            intel && early && field("cpu family").zip(field("model")) == Some(("6".into(), "85".into()));
        let flags = field("flags").or_else(|| field("Features")).unwrap_or_default();
        Processor {
            name: name + &suffix,
            skylake_x,
            flags: flags.split_whitespace().map(str::to_owned).collect(),
        }
    }

    /// Whether the kernel names this flag.
    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|other| other == flag)
    }

    /// Whether it counts the events of Skylake-X.
    pub fn is_skylake_x(&self) -> bool {
        self.skylake_x
    }

    /// Whether a configuration can run here.
    pub fn validate(&self, named: &Named) -> Result<(), Missing> {
        let config = &named.config;
        let name = || named.name.clone();
        if config.prefetchers != (Prefetchers { stream: true, adjacent: true }) {
            return Err(Missing::Prefetchers(name()));
        }
        if config.batch > config.ring {
            return Err(Missing::Deadlock { name: name(), batch: config.batch, ring: config.ring });
        }
        match self.lacks(config) {
            None => Ok(()),
            Some(needs) => Err(Missing::Instruction { name: name(), needs, processor: self.name.clone() }),
        }
    }

    /// An instruction that a configuration needs and this processor does not have.
    pub(super) fn lacks(&self, config: &Config) -> Option<&'static str> {
        let needs = [config.copy_rx, config.copy_tx].into_iter().map(|how| (copy_needs(how), can_copy(how)));
        let cleaning = config.after_copy.map(|how| (cleaning_needs(how), self.can_clean(how)));
        needs.chain(cleaning).find(|(_, can)| !can).map(|(needs, _)| needs)
    }

    /// What a kind of copy needs, if this processor does not have it.
    pub fn lacks_copy(&self, how: Copying) -> Option<&'static str> {
        (!can_copy(how)).then(|| copy_needs(how))
    }

    fn can_clean(&self, how: Cleaning) -> bool {
        let x86 = cfg!(target_arch = "x86_64");
        match how {
            Cleaning::Flush => x86 && self.has("clflushopt"),
            Cleaning::WriteBack => x86 && self.has("clwb"),
            Cleaning::Demote => x86,
        }
    }

    /// Whether CLDEMOTE is more than a hint that is passed over: then it is no null control.
    pub fn demotes(&self) -> bool {
        self.has("cldemote")
    }
}

fn copy_needs(how: Copying) -> &'static str {
    match how {
        Copying::Libc | Copying::Words | Copying::None => "nothing",
        Copying::Sse => "SSE",
        Copying::Avx2 => "AVX2",
        Copying::Avx512 => "AVX-512",
        Copying::NonTemporal => "vmovntdq (AVX)",
        Copying::RepMovsb => "rep movsb",
    }
}

fn cleaning_needs(how: Cleaning) -> &'static str {
    match how {
        Cleaning::Flush => "CLFLUSHOPT",
        Cleaning::WriteBack => "CLWB",
        Cleaning::Demote => "CLDEMOTE",
    }
}

#[cfg(target_arch = "x86_64")]
fn can_copy(how: Copying) -> bool {
    match how {
        Copying::Avx2 => std::arch::is_x86_feature_detected!("avx2"),
        Copying::NonTemporal => std::arch::is_x86_feature_detected!("avx"),
        Copying::Avx512 => std::arch::is_x86_feature_detected!("avx512f"),
        Copying::Libc | Copying::Words | Copying::Sse | Copying::RepMovsb | Copying::None => true,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn can_copy(how: Copying) -> bool {
    matches!(how, Copying::Libc | Copying::Words | Copying::None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::factors::find;

    const INFO: &str = "processor\t: 0\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\nflags\t\t: fpu clwb\n\n\
                        processor\t: 1\nmodel name\t: other\n";

    #[test]
    fn a_processor_is_named_with_its_model() {
        let processor = Processor::read(INFO);
        assert_eq!(processor.name, "AMD EPYC (family 25, model 17)");
        assert!(processor.has("clwb") && !processor.has("cl"));
    }

    #[test]
    fn skylake_x_ends_before_cascade_lake() {
        let read = |stepping: u8| {
            let text = format!("vendor_id: GenuineIntel\ncpu family: 6\nmodel: 85\nstepping: {stepping}\n");
            Processor::read(&text).is_skylake_x()
        };
        assert!(read(4) && !read(7) && !Processor::read(INFO).is_skylake_x());
    }

    #[test]
    fn what_cannot_run_is_refused_by_name() {
        let processor = Processor::read(INFO);
        let validate = |name: &str| processor.validate(&find(name).expect("it is listed"));
        assert_eq!(validate("base"), Ok(()));
        assert_eq!(validate("a+f"), Err(Missing::Prefetchers("a+f".to_owned())));
        assert!(matches!(validate("flush"), Err(Missing::Instruction { needs: "CLFLUSHOPT", .. })));
        let mut long = find("batch-256").expect("it is listed");
        long.config.ring = 64;
        assert!(matches!(processor.validate(&long), Err(Missing::Deadlock { batch: 256, ring: 64, .. })));
    }
}
