//! Assignment of the model's threads to CPUs.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Thread placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seats {
    /// Rx, Guest and Tx, each on its own CPU
    Three([usize; 3]),
    /// Rx and Tx alternate on the first CPU, batch by batch; Guest has the second
    Two([usize; 2]),
    /// All three alternate on one CPU: caches share nothing, so only instruction counts are meaningful
    InTurn,
}

/// Error: the threads of the model cannot be placed.
#[derive(Debug, thiserror::Error)]
pub enum SeatsError {
    /// Fewer than two CPUs available
    #[error(
        "this process may run on {0} CPU only, and sharing between threads needs two or more, so nothing was run: use the simulator (`--memory simulated`)"
    )]
    TooFew(usize),
    /// The CPU affinity mask cannot be read
    #[error("the CPUs of this process are not known, so nothing was run: {0}")]
    Unknown(rustix::io::Errno),
    /// Pinning a thread failed
    #[error("a thread could not be pinned to CPU {cpu}, so nothing was measured: {reason}")]
    Pin {
        /// Requested CPU
        cpu: usize,
        /// Error of the system call
        reason: rustix::io::Errno,
    },
}

impl Seats {
    /// Placement on the CPUs that this process may use; as many threads run in parallel as there are CPUs.
    pub fn here() -> Result<Seats, SeatsError> {
        Seats::among(&allowed()?)
    }

    /// Placement on these CPUs.
    pub fn among(cpus: &[usize]) -> Result<Seats, SeatsError> {
        match *cpus {
            [a, b, c, ..] => Ok(Seats::Three([a, b, c])),
            [a, b] => Ok(Seats::Two([a, b])),
            _ => Err(SeatsError::TooFew(cpus.len())),
        }
    }

    /// The first two CPUs, for programs with two threads.
    pub fn pair(&self) -> Result<[usize; 2], SeatsError> {
        match *self {
            Seats::Three([a, b, _]) | Seats::Two([a, b]) => Ok([a, b]),
            Seats::InTurn => Err(SeatsError::TooFew(1)),
        }
    }

    /// The CPUs in use; empty for [`Seats::InTurn`].
    pub fn cpus(&self) -> &[usize] {
        match self {
            Seats::Three(cpus) => cpus,
            Seats::Two(cpus) => cpus,
            Seats::InTurn => &[],
        }
    }
}

impl std::fmt::Display for Seats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Seats::Three([a, b, c]) => write!(f, "Rx on CPU {a}, Guest on CPU {b}, Tx on CPU {c}"),
            Seats::Two([a, b]) => write!(
                f,
                "Rx and Tx in turn on CPU {a}, Guest on CPU {b}: with two CPUs, data shared by Rx and Tx stays in one cache, so ratios differ from those of three cores"
            ),
            Seats::InTurn => write!(f, "all threads in turn on one CPU"),
        }
    }
}

/// The CPUs that this process may run on.
pub fn allowed() -> Result<Vec<usize>, SeatsError> {
    let allowed = sched_getaffinity(None).map_err(SeatsError::Unknown)?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect())
}

/// Pins the calling thread to `cpu`.
pub fn pin(cpu: usize) -> Result<(), SeatsError> {
    if cpu >= CpuSet::MAX_CPU {
        // The kernel returns the same error for a CPU that it does not have.
        return Err(SeatsError::Pin { cpu, reason: rustix::io::Errno::INVAL });
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|reason| SeatsError::Pin { cpu, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_no_machine_has_is_an_error() {
        for cpu in [CpuSet::MAX_CPU, usize::MAX] {
            assert!(matches!(pin(cpu), Err(SeatsError::Pin { cpu: told, .. }) if told == cpu));
        }
    }

    #[test]
    fn threads_share_a_cpu_only_where_there_are_two() {
        assert!(matches!(Seats::among(&[0, 2, 4, 6]), Ok(Seats::Three([0, 2, 4]))));
        assert!(matches!(Seats::among(&[1, 3]), Ok(Seats::Two([1, 3]))));
        assert!(matches!(Seats::among(&[1]), Err(SeatsError::TooFew(1))));
    }
}
