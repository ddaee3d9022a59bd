//! What a worker that hangs does, as far as the kernel knows: workers do not store their steps, because that would be a
//! store for each step of each burst.

use crate::host::thread_stat;
use std::fs;
use std::path::Path;

/// What the thread with this id does, for people. Returns `None` if the kernel does not tell.
pub(crate) fn of(thread: u32) -> Option<String> {
    let task = Path::new("/proc/self/task").join(thread.to_string());
    let (_, fields) = thread_stat(&task)?;
    let function = fs::read_to_string(task.join("wchan")).unwrap_or_default();
    Some(step(fields.first()?.chars().next()?, function.trim()))
}

/// By the state of `proc_pid_stat(5)` and the function of `proc_pid_wchan(5)`.
fn step(state: char, function: &str) -> String {
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
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn the_step_of_a_thread_that_waits_is_found_by_its_id() {
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
                of(id).is_some_and(|step| step.starts_with("it waits in"))
            })
        };
        assert!(waits(), "{:?}", of(id));
        drop(sender);
        assert!(thread.join().unwrap().is_err());
        assert_eq!(of(0), None);
    }

    #[test]
    fn states_are_told_apart() {
        assert_eq!(step('D', "folio_wait_bit_common"), "it waits in the kernel, in folio_wait_bit_common");
        assert_eq!(step('S', "0"), "it waits in the kernel");
        assert!(step('R', "0").starts_with("it computes") && step('t', "").contains("debugger"));
    }
}
