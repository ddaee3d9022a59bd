//! What a worker that hangs does: the step that it has stored, and what the kernel knows of its thread.

use crate::host::thread_stat;
use engine::{CurrentStep, PortSnapshot, Snapshot};
use std::fs;
use std::path::Path;

/// What worker `index` with this thread does, for people. Returns `None` if neither is known.
pub(crate) fn of(now: &Snapshot, index: usize, thread: Option<u32>) -> Option<String> {
    let worker = now.workers.iter().find(|worker| worker.index == index);
    let step = worker.and_then(|worker| worker.current_step.as_ref()).map(|step| in_round(step, &now.ports));
    let known: Vec<_> = step.into_iter().chain(thread.and_then(in_kernel)).collect();
    (!known.is_empty()).then(|| known.join(": "))
}

fn in_round(step: &CurrentStep, ports: &[PortSnapshot]) -> String {
    let Some(number) = step.port else { return step.name.clone() };
    match ports.iter().find(|port| port.id == number) {
        Some(port) => format!("{} ({})", step.name, port.name),
        None => format!("{} (removed port {number})", step.name),
    }
}

/// What the thread with this id does. Returns `None` if the kernel does not tell.
fn in_kernel(thread: u32) -> Option<String> {
    let task = Path::new("/proc/self/task").join(thread.to_string());
    let (_, fields) = thread_stat(&task)?;
    let function = fs::read_to_string(task.join("wchan")).unwrap_or_default();
    Some(state(fields.first()?.chars().next()?, function.trim()))
}

/// By the state of `proc_pid_stat(5)` and the function of `proc_pid_wchan(5)`.
fn state(state: char, function: &str) -> String {
    match state {
        'R' => "it computes, or waits for a CPU".to_owned(),
        'T' | 't' => "it was stopped by a signal or a debugger".to_owned(),
        _ if function.is_empty() || function == "0" => "it waits in the kernel".to_owned(),
        _ => format!("it waits in the kernel, in {function}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::WorkerSnapshot;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn state_of_a_waiting_thread_is_found_by_its_id() {
        let (sender, receiver) = channel::<()>();
        let (own_id, id) = channel();
        let thread = std::thread::spawn(move || {
            own_id.send(rustix::thread::gettid()).unwrap();
            receiver.recv()
        });
        let id = id.recv().unwrap().as_raw_pid().unsigned_abs();
        // The thread needs a moment to wait.
        let waits = || {
            (0..1000).any(|_| {
                std::thread::sleep(Duration::from_millis(5));
                in_kernel(id).is_some_and(|state| state.starts_with("it waits in"))
            })
        };
        assert!(waits(), "{:?}", in_kernel(id));
        drop(sender);
        assert!(thread.join().unwrap().is_err());
        assert_eq!(in_kernel(0), None);
    }

    #[test]
    fn states_are_told_apart() {
        assert_eq!(state('D', "folio_wait_bit_common"), "it waits in the kernel, in folio_wait_bit_common");
        assert_eq!(state('S', "0"), "it waits in the kernel");
        assert!(state('R', "0").starts_with("it computes") && state('t', "").contains("debugger"));
    }

    #[test]
    fn step_of_a_round_names_its_port() {
        let ports = vec![PortSnapshot { id: 3, name: "vm1".to_owned(), ..PortSnapshot::default() }];
        let told = |name: &str, port| {
            let current_step = Some(CurrentStep { name: name.to_owned(), port });
            let workers = vec![WorkerSnapshot { index: 1, current_step, ..WorkerSnapshot::default() }];
            of(&Snapshot { workers, ports: ports.clone(), ..Snapshot::default() }, 1, None)
        };
        assert_eq!(told("transmit", Some(3)).as_deref(), Some("transmit (vm1)"));
        assert_eq!(told("transmit", Some(4)).as_deref(), Some("transmit (removed port 4)"));
        assert_eq!(told("timers", None).as_deref(), Some("timers"));
        assert_eq!(of(&Snapshot::default(), 1, None), None);
    }
}
