//! System calls of each role, in one table.
//!
//! A worker and a reader may make the calls of their lists only. Control threads open ports, start programs and use
//! libraries whose calls differ between versions, so their list has calls that are refused. Filters add up: a thread
//! that enters a role keeps the filter that it inherited.

use crate::ConfineError;
use libc::{
    O_ACCMODE, O_CREAT, O_RDONLY, O_TRUNC, PR_GET_NAME, PR_SET_NAME, PROT_EXEC, SYS_brk, SYS_clock_gettime,
    SYS_clock_nanosleep, SYS_close, SYS_epoll_ctl, SYS_epoll_pwait, SYS_eventfd2, SYS_exit, SYS_exit_group,
    SYS_fcntl, SYS_fstat, SYS_futex, SYS_getcwd, SYS_getpid, SYS_getrandom, SYS_getsockopt, SYS_gettid,
    SYS_io_destroy, SYS_io_getevents, SYS_io_setup, SYS_io_submit, SYS_io_uring_enter, SYS_lseek,
    SYS_madvise, SYS_memfd_create, SYS_mmap, SYS_mprotect, SYS_mremap, SYS_munmap, SYS_nanosleep,
    SYS_newfstatat, SYS_openat, SYS_ppoll, SYS_prctl, SYS_pread64, SYS_preadv, SYS_preadv2, SYS_pwrite64,
    SYS_pwritev, SYS_pwritev2, SYS_read, SYS_readlinkat, SYS_readv, SYS_recvfrom, SYS_recvmmsg, SYS_recvmsg,
    SYS_restart_syscall, SYS_rseq, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn,
    SYS_sched_getaffinity, SYS_sched_yield, SYS_sendmmsg, SYS_sendmsg, SYS_sendto, SYS_set_robust_list,
    SYS_shutdown, SYS_sigaltstack, SYS_statx, SYS_tgkill, SYS_write, SYS_writev, c_long,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Role of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Forwards packets.
    Worker,
    /// Serves requests that only read.
    Reader,
    /// Everything else: opens ports, changes the switch, starts programs.
    Control,
}

/// Optional parts of the program with system calls of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// `io_uring`, of TAP ports.
    pub io_uring: bool,
    /// BPF programs and maps, of `AF_XDP` ports.
    pub bpf: bool,
    /// Network namespaces.
    pub namespaces: bool,
}

/// Calls of a worker, and of every other role.
const WORKER: &[c_long] = &[
    // Packets and notifications.
    SYS_read,
    SYS_write,
    SYS_readv,
    SYS_writev,
    SYS_pread64,
    SYS_pwrite64,
    SYS_preadv,
    SYS_pwritev,
    SYS_preadv2,
    SYS_pwritev2,
    SYS_recvfrom,
    SYS_recvmsg,
    SYS_recvmmsg,
    SYS_sendto,
    SYS_sendmsg,
    SYS_sendmmsg,
    SYS_getsockopt,
    SYS_shutdown,
    SYS_io_setup,
    SYS_io_submit,
    SYS_io_getevents,
    SYS_io_destroy,
    // Sleep and time.
    SYS_ppoll,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_eventfd2,
    SYS_futex,
    libc::SYS_timerfd_settime,
    SYS_nanosleep,
    SYS_clock_nanosleep,
    SYS_clock_gettime,
    SYS_sched_yield,
    SYS_restart_syscall,
    // Memory and descriptors that are dropped.
    SYS_munmap,
    SYS_mremap,
    SYS_madvise,
    SYS_brk,
    SYS_close,
    SYS_fcntl,
    // The life of a thread.
    SYS_exit,
    SYS_exit_group,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_set_robust_list,
    SYS_rseq,
    SYS_getpid,
    SYS_gettid,
    SYS_tgkill,
    libc::SYS_tkill,
    libc::SYS_membarrier,
    SYS_sched_getaffinity,
    SYS_getrandom,
    // Panics: a backtrace reads the program and its maps, and the journal takes long entries as files in memory.
    SYS_fstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_lseek,
    SYS_readlinkat,
    SYS_getcwd,
    SYS_memfd_create,
];

/// Calls of a worker that exist on this processor only.
#[cfg(target_arch = "x86_64")]
const OLD: &[c_long] = &[
    libc::SYS_poll,
    libc::SYS_epoll_wait,
    libc::SYS_readlink,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[c_long] = &[];

/// Calls of a reader beside those of a worker: connections, their runtime, and threads for long requests.
const READER: &[c_long] = &[
    libc::SYS_accept4,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_setsockopt,
    libc::SYS_ioctl,
    libc::SYS_epoll_create1,
    libc::SYS_pipe2,
    libc::SYS_dup,
    libc::SYS_socketpair,
    libc::SYS_sched_setaffinity,
    libc::SYS_set_tid_address,
    libc::SYS_getdents64,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_prlimit64,
    libc::SYS_getrusage,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
];

/// Calls that no thread makes.
const REFUSED: &[c_long] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_perf_event_open,
    // Users.
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
    // Kernel and machine.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    libc::SYS_personality,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    // File systems.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_mknodat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    libc::SYS_unshare,
    // Keys, and memory of others.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_userfaultfd,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
];

/// The beginning of a program, which refuses the calls of the x32 ABI: they have this bit in their number, and the
/// architecture of the others.
#[cfg(target_arch = "x86_64")]
const X32: &[sock_filter] = &[
    step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
    step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 1, 0x4000_0000),
    step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_TRAP),
];
#[cfg(not(target_arch = "x86_64"))]
const X32: &[sock_filter] = &[];

/// An instruction that skips `skipped` instructions if its condition is false.
#[cfg(target_arch = "x86_64")]
const fn step(code: u32, skipped: u8, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: skipped, k }
}

/// Calls that start threads and processes. The C library blocks all signals meanwhile, so that a signal in place of one
/// would end the process without a report: in a worker, they fail.
#[cfg(target_arch = "x86_64")]
const STARTS: &[c_long] = &[libc::SYS_clone, libc::SYS_clone3, libc::SYS_fork, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const STARTS: &[c_long] = &[libc::SYS_clone, libc::SYS_clone3];

/// Calls of a worker for TAP ports with `io_uring`: it sends, and registers the ring that it uses.
const URING: &[c_long] = &[SYS_io_uring_enter, libc::SYS_io_uring_register];

/// The programs of all roles.
#[derive(Debug)]
pub(crate) struct Programs {
    worker: BpfProgram,
    /// Also of a worker.
    starts: BpfProgram,
    reader: BpfProgram,
    control: BpfProgram,
}

type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

impl Programs {
    /// Builds the programs.
    pub(crate) fn new(features: Features) -> Result<Self, ConfineError> {
        let [allow, trap] = [SeccompAction::Allow, SeccompAction::Trap];
        let fail = SeccompAction::Errno(libc::EPERM.cast_unsigned());
        Ok(Self {
            worker: program(worker(features)?, trap.clone(), allow.clone())?,
            starts: program(any(STARTS.iter().copied()), allow.clone(), fail)?,
            reader: program(reader(features)?, trap.clone(), allow.clone())?,
            control: [X32.to_vec(), program(refused(features), allow, trap)?].concat(),
        })
    }

    /// Digest of the filter of [`Role::Control`]. If it differs for the same filter, because of another version of the
    /// standard library, the filter is installed once more.
    pub(crate) fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for step in &self.control {
            (step.code, step.jt, step.jf, step.k).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Adds the filter of `role` to the calling thread.
    pub(crate) fn install(&self, role: Role) -> Result<(), ConfineError> {
        let programs = match role {
            Role::Worker => vec![&self.starts, &self.worker],
            Role::Reader => vec![&self.reader],
            Role::Control => vec![&self.control],
        };
        programs.into_iter().try_for_each(|program| seccompiler::apply_filter(program).map_err(failed))
    }
}

fn failed(error: impl std::fmt::Display) -> ConfineError {
    ConfineError::Filter(error.to_string())
}

/// A program with these rules. `other` is the action of calls without a matching rule.
fn program(rules: Rules, other: SeccompAction, matching: SeccompAction) -> Result<BpfProgram, ConfineError> {
    let target: TargetArch = std::env::consts::ARCH.try_into().map_err(failed)?;
    let filter = SeccompFilter::new(rules, other, matching, target).map_err(failed)?;
    filter.try_into().map_err(failed)
}

/// Rules that match with any arguments.
fn any(calls: impl IntoIterator<Item = c_long>) -> Rules {
    calls.into_iter().map(|call| (call, Vec::new())).collect()
}

fn worker(features: Features) -> Result<Rules, ConfineError> {
    let uring = if features.io_uring { URING } else { &[] };
    let mut rules = any([WORKER, OLD, STARTS, uring].concat());
    // No file is written and no code is loaded.
    let writes = O_ACCMODE | O_CREAT | O_TRUNC;
    rules.insert(SYS_openat, vec![has(2, writes, O_RDONLY)?]);
    // musl opens files by it.
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_open, vec![has(1, writes, O_RDONLY)?]);
    for call in [SYS_mmap, SYS_mprotect] {
        rules.insert(call, vec![has(2, PROT_EXEC, 0)?]);
    }
    // Names of the thread and of its memory.
    let options = [PR_GET_NAME, PR_SET_NAME, libc::PR_SET_VMA];
    let options = options.into_iter().map(|option| has(0, !0, option)).collect::<Result<_, _>>()?;
    rules.insert(SYS_prctl, options);
    Ok(rules)
}

fn reader(features: Features) -> Result<Rules, ConfineError> {
    let mut rules = worker(features)?;
    let bpf = features.bpf.then_some(libc::SYS_bpf);
    rules.extend(any(READER.iter().copied().chain(bpf)));
    Ok(rules)
}

fn refused(features: Features) -> Rules {
    let optional = [
        (features.bpf, libc::SYS_bpf),
        (features.io_uring, libc::SYS_io_uring_setup),
        (features.namespaces, libc::SYS_setns),
    ];
    let unused = optional.into_iter().filter(|(is_used, _)| !is_used).map(|(_, call)| call);
    any(REFUSED.iter().copied().chain(unused))
}

/// The argument `index` has `value` in the bits of `mask`.
fn has(index: u8, mask: i32, value: i32) -> Result<SeccompRule, ConfineError> {
    let [mask, value] = [mask, value].map(|bits| u64::from(bits.cast_unsigned()));
    let operation = SeccompCmpOp::MaskedEq(mask);
    let condition = SeccompCondition::new(index, SeccompCmpArgLen::Dword, operation, value);
    SeccompRule::new(vec![condition.map_err(failed)?]).map_err(failed)
}

#[cfg(test)]
mod tests;
