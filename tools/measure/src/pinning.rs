//! Assignment of the model's threads to CPUs.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Thread placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuPinning {
    /// Rx, Guest and Tx, each on its own CPU
    Three([usize; 3]),
    /// Rx and Tx alternate on the first CPU, batch by batch; Guest has the second
    Two([usize; 2]),
    /// All three alternate on one CPU: caches share nothing, so only instruction counts are meaningful
    InTurn,
}

/// Error: the threads of the model cannot be placed.
#[derive(Debug, thiserror::Error)]
pub enum PinningError {
    /// Fewer than two CPUs available
    #[error(
        "cannot pin the threads: the affinity mask of this process has {0} CPU, and at least 2 are required; use the simulator (`--memory simulated`)"
    )]
    TooFew(usize),
    /// The CPU affinity mask cannot be read
    #[error("cannot read the CPU affinity mask of this process: {0}")]
    Unknown(rustix::io::Errno),
    /// Pinning a thread failed
    #[error("cannot pin a thread to CPU {cpu}: {reason}")]
    Pin {
        /// Requested CPU
        cpu: usize,
        /// Error of the system call
        reason: rustix::io::Errno,
    },
}

impl CpuPinning {
    /// Placement on the CPUs that this process may use; as many threads run in parallel as there are CPUs.
    pub fn here() -> Result<CpuPinning, PinningError> {
        CpuPinning::among(&allowed()?)
    }

    /// Placement on these CPUs.
    pub fn among(cpus: &[usize]) -> Result<CpuPinning, PinningError> {
        match *cpus {
            [a, b, c, ..] => Ok(CpuPinning::Three([a, b, c])),
            [a, b] => Ok(CpuPinning::Two([a, b])),
            _ => Err(PinningError::TooFew(cpus.len())),
        }
    }

    /// The first two CPUs, for programs with two threads.
    pub fn pair(&self) -> Result<[usize; 2], PinningError> {
        match *self {
            CpuPinning::Three([a, b, _]) | CpuPinning::Two([a, b]) => Ok([a, b]),
            CpuPinning::InTurn => Err(PinningError::TooFew(1)),
        }
    }

    /// The CPUs in use; empty for [`CpuPinning::InTurn`].
    pub fn cpus(&self) -> &[usize] {
        match self {
            CpuPinning::Three(cpus) => cpus,
            CpuPinning::Two(cpus) => cpus,
            CpuPinning::InTurn => &[],
        }
    }
}

impl std::fmt::Display for CpuPinning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CpuPinning::Three([a, b, c]) => write!(f, "Rx on CPU {a}, Guest on CPU {b}, Tx on CPU {c}"),
            CpuPinning::Two([a, b]) => write!(
                f,
                "Rx and Tx in turn on CPU {a}, Guest on CPU {b}: with two CPUs, data shared by Rx and Tx stays in one cache, so ratios differ from those of three cores"
            ),
            CpuPinning::InTurn => write!(f, "all threads in turn on one CPU"),
        }
    }
}

/// The CPUs that this process may run on.
pub fn allowed() -> Result<Vec<usize>, PinningError> {
    let allowed = sched_getaffinity(None).map_err(PinningError::Unknown)?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect())
}

/// Pins the calling thread to `cpu`.
pub fn pin(cpu: usize) -> Result<(), PinningError> {
    if cpu >= CpuSet::MAX_CPU {
        // The kernel returns the same error for a CPU that it does not have.
        return Err(PinningError::Pin { cpu, reason: rustix::io::Errno::INVAL });
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|reason| PinningError::Pin { cpu, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinning_to_an_invalid_cpu_fails() {
        for cpu in [CpuSet::MAX_CPU, usize::MAX] {
            assert!(matches!(pin(cpu), Err(PinningError::Pin { cpu: told, .. }) if told == cpu));
        }
    }

    #[test]
    fn threads_share_a_cpu_only_with_two_cpus() {
        assert!(matches!(CpuPinning::among(&[0, 2, 4, 6]), Ok(CpuPinning::Three([0, 2, 4]))));
        assert!(matches!(CpuPinning::among(&[1, 3]), Ok(CpuPinning::Two([1, 3]))));
        assert!(matches!(CpuPinning::among(&[1]), Err(PinningError::TooFew(1))));
    }
}
