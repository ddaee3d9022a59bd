//! Confinement of a process to the rights that it needs after its start: capabilities, seccomp filters for each role of
//! a thread, and Landlock rules for its files.
//!
//! [`start`] confines the calling thread, and with it every thread and program that it starts afterwards. [`enter`]
//! confines one thread further to its [`Role`]. Capabilities, filters and rules are properties of threads in Linux, so
//! `start` must be called before other threads exist.
//!
//! `capabilities` drops rights, `filters` lists system calls, `trap` reports a call that a filter refuses, `fatal` and
//! `frames` a signal that ends the process, and `files` has the rules for paths. Only the reports have unsafe code: they
//! are made in signal handlers.

#![deny(unsafe_code)]

mod capabilities;
#[allow(unsafe_code, reason = "a signal handler")]
mod fatal;
mod files;
mod filters;
#[allow(unsafe_code, reason = "the unwinder of the language runtime")]
mod frames;
#[allow(unsafe_code, reason = "a signal handler")]
mod trap;

pub use capabilities::{Capability, held, names};
pub use fatal::{keep_counters, report_signals};
pub use files::{FileRules, Landlock};
pub use filters::{Features, Role};
pub use rustix::thread::CapabilitySet;
pub use trap::{EXIT_CODE, LogForm};

use filters::Programs;
use std::io;
use std::sync::OnceLock;

/// The programs of all roles; set once the process is confined. `None` inside: the kernel has refused the first one.
static PROGRAMS: OnceLock<Option<Programs>> = OnceLock::new();
/// Digests of the filters and file rules of this process; set once it is confined.
static IN_FORCE: OnceLock<Vec<u64>> = OnceLock::new();

/// What a process keeps.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Capabilities that are kept, if the process has them.
    pub capabilities: CapabilitySet,
    /// Optional parts of the program that need system calls of their own.
    pub features: Features,
    /// Rules for files; `None` if files are not restricted.
    pub files: Option<FileRules>,
    /// Form of the report about a refused system call.
    pub log: LogForm,
    /// [`in_force`] of the process that has started this one. These filters and rules are not installed again: the kernel
    /// limits their total length, and their number.
    pub inherited: Vec<u64>,
}

/// What is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// Capabilities that were kept.
    pub kept: CapabilitySet,
    /// Capabilities that were dropped.
    pub dropped: CapabilitySet,
    /// Why there are no filters; `None` if they are in force.
    pub unfiltered: Option<String>,
    /// Rules for files.
    pub landlock: Landlock,
}

/// The process cannot be confined.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// The kernel refused a change of capabilities.
    #[error("capabilities cannot be dropped: {0}")]
    Capabilities(io::Error),
    /// The kernel refused `no_new_privs`.
    #[error("no_new_privs cannot be set: {0}")]
    Privileges(io::Error),
    /// A filter cannot be built or installed.
    #[error("a seccomp filter cannot be installed: {0}")]
    Filter(String),
    /// A rule for files cannot be made.
    #[error("Landlock rules cannot be made: {0}")]
    Files(String),
    /// The signal handler cannot be installed.
    #[error("the handler of refused system calls cannot be installed: {0}")]
    Handler(io::Error),
}

/// Confines the calling thread, and all threads and programs that it starts from now on.
///
/// # Errors
/// [`ConfineError`]; the thread may be confined in part.
pub fn start(plan: &Plan) -> Result<Confinement, ConfineError> {
    let programs = Programs::new(plan.features)?;
    trap::install(plan.log)?;
    let dropped = capabilities::keep(plan.capabilities).map_err(ConfineError::Capabilities)?;
    rustix::thread::set_no_new_privs(true).map_err(|error| ConfineError::Privileges(error.into()))?;
    let mut in_force = plan.inherited.clone();
    let landlock =
        plan.files.as_ref().map_or(Ok(Landlock::NotConfigured), |rules| rules.add(&mut in_force))?;
    // A kernel or a container without seccomp leaves the other parts in force.
    let digest = programs.digest();
    let is_inherited = in_force.contains(&digest);
    let installed = if is_inherited { Ok(()) } else { programs.install(Role::Control) };
    let unfiltered = installed.err().map(|error| error.to_string());
    if !is_inherited && unfiltered.is_none() {
        in_force.push(digest);
    }
    let _ = IN_FORCE.set(in_force);
    // A second start adds its filter to that of the first, whose programs stay.
    let _ = PROGRAMS.set(unfiltered.is_none().then_some(programs));
    let kept = held().map_err(ConfineError::Capabilities)?;
    Ok(Confinement { kept, dropped, unfiltered, landlock })
}

/// Digests of the filters and file rules that a program inherits which this process starts from a thread without a role.
pub fn in_force() -> Vec<u64> {
    IN_FORCE.get().cloned().unwrap_or_default()
}

/// Confines the calling thread to `role`, without capabilities. Does nothing if the process is not confined.
///
/// # Errors
/// [`ConfineError`] if the kernel refuses it.
pub fn enter(role: Role) -> Result<(), ConfineError> {
    let Some(programs) = PROGRAMS.get() else { return Ok(()) };
    capabilities::keep(CapabilitySet::empty()).map_err(ConfineError::Capabilities)?;
    trap::set_role(role);
    programs.as_ref().map_or(Ok(()), |programs| programs.install(role))
}
