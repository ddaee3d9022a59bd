//! Checks whether this processor can run a configuration of the model on real memory.

use crate::factors::Named;
use crate::model::Config;
use measure::Processor;
use sim::Prefetchers;
use sim::memory::{Cleaning, Copying};

/// Reason that a configuration cannot run here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// Missing instruction
    #[error(
        "`{name}` needs {needs}, which {processor} does not have: leave it out or use the simulator (`--memory simulated`)"
    )]
    Instruction {
        /// Configuration name
        name: String,
        /// Required instruction set
        needs: &'static str,
        /// Processor name
        processor: String,
    },
    /// Disabled hardware prefetchers, which require write access to the processor's model-specific registers
    #[error(
        "`{0}` needs disabled hardware prefetchers, which a program cannot disable: leave it out or use the simulator (`--memory simulated`)"
    )]
    Prefetchers(String),
    /// Batch longer than the ring
    #[error(
        "`{name}` has batches of {batch} packets in rings of {ring}: its threads would deadlock; use a batch of at most the ring size"
    )]
    Deadlock {
        /// Configuration name
        name: String,
        /// Packets per batch
        batch: u64,
        /// Descriptors per ring
        ring: u64,
    },
}

/// Checks whether a configuration can run here.
pub fn validate(processor: &Processor, named: &Named) -> Result<(), Missing> {
    let config = &named.config;
    let name = || named.name.clone();
    if config.prefetchers != (Prefetchers { stream: true, adjacent: true }) {
        return Err(Missing::Prefetchers(name()));
    }
    if config.batch > config.ring {
        return Err(Missing::Deadlock { name: name(), batch: config.batch, ring: config.ring });
    }
    match lacks(processor, config) {
        None => Ok(()),
        Some(needs) => Err(Missing::Instruction { name: name(), needs, processor: processor.name.clone() }),
    }
}

/// Returns an instruction set that a configuration needs and this processor lacks.
pub(crate) fn lacks(processor: &Processor, config: &Config) -> Option<&'static str> {
    let needs = [config.copy_rx, config.copy_tx].into_iter().map(|how| (copy_needs(how), can_copy(how)));
    let cleaning = config.after_copy.map(|how| (cleaning_needs(how), can_clean(processor, how)));
    needs.chain(cleaning).find(|(_, can)| !can).map(|(needs, _)| needs)
}

/// Returns the requirement of a copy method if this processor lacks it.
pub fn lacks_copy(how: Copying) -> Option<&'static str> {
    (!can_copy(how)).then(|| copy_needs(how))
}

fn can_clean(processor: &Processor, how: Cleaning) -> bool {
    let x86 = cfg!(target_arch = "x86_64");
    match how {
        Cleaning::Flush => x86 && processor.has("clflushopt"),
        Cleaning::WriteBack => x86 && processor.has("clwb"),
        Cleaning::Demote => x86,
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
    use crate::factors::find;

    const INFO: &str = "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu clwb\n";

    #[test]
    fn unsupported_configuration_is_rejected_by_name() {
        let processor = Processor::read(INFO);
        let validate = |name: &str| super::validate(&processor, &find(name).expect("it is listed"));
        assert_eq!(validate("base"), Ok(()));
        assert_eq!(validate("a+f"), Err(Missing::Prefetchers("a+f".to_owned())));
        assert!(matches!(validate("flush"), Err(Missing::Instruction { needs: "CLFLUSHOPT", .. })));
        let mut long = find("batch-256").expect("it is listed");
        long.config.ring = 64;
        assert!(matches!(
            super::validate(&processor, &long),
            Err(Missing::Deadlock { batch: 256, ring: 64, .. })
        ));
    }
}
