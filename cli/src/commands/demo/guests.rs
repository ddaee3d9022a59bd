//! Guests of the demonstration: child processes of this program, which end with it.

use super::Cpus;
use crate::args::guest::{DemoArgs, FrameSize};
use crate::commands::bench::child::{Running, Start};
use crate::commands::bench::folder::Folder;
use console::Diagnostic;

/// Sockets of the switch that guests connect to.
pub(super) const SOCKETS: [&str; 2] = ["guest0", "guest1"];

/// Running guests; terminated on drop.
pub(super) struct Guests(Vec<Running>);

impl Guests {
    /// Starts one process per CPU for guests; a single process runs both.
    pub(super) fn start(
        args: &DemoArgs,
        size: FrameSize,
        cpus: &Cpus,
        folder: &Folder,
    ) -> Result<Self, Diagnostic> {
        let start = |name, cpu, first, sockets| {
            let words = words(args, size, cpu, first, sockets, folder);
            Running::start(&Start::own(name, &words)?, folder.path())
        };
        let guests = match cpus.guests.as_slice() {
            [a, b] => vec![start("guest 0", *a, 0, &SOCKETS[..1])?, start("guest 1", *b, 1, &SOCKETS[1..])?],
            other => vec![start("the guests", other.first().copied().flatten(), 0, &SOCKETS)?],
        };
        Ok(Self(guests))
    }

    /// Returns an error with the guest's output if a guest has ended by itself.
    pub(super) fn check(&mut self) -> Result<(), Diagnostic> {
        match self.0.iter_mut().find_map(|child| child.has_ended().then_some(&*child)) {
            None => Ok(()),
            Some(child) => {
                let reason = format!("{} exited ({}); {}", child.name(), child.how(), child.words());
                Err(Diagnostic::failed("demo", reason, "correct the reason that its output states"))
            }
        }
    }
}

/// Arguments of a guest process with the devices `sockets`, numbered from `first`.
fn words(
    args: &DemoArgs,
    size: FrameSize,
    cpu: Option<usize>,
    first: usize,
    sockets: &[&str],
    folder: &Folder,
) -> Vec<String> {
    let mac = |number: usize| format!("02:00:00:00:00:{number:02x}");
    let words = ["guest", "--wait", "--mode", "macswap", "--output", "json"].map(str::to_owned);
    let pairs = [
        ("--ring", args.ring.name().to_owned()),
        ("--descriptors", args.descriptors.name().to_owned()),
        ("--size", size.to_string()),
        ("--in-flight", args.in_flight.to_string()),
        ("--mac", mac(first + 1)),
    ];
    let peer = (sockets.len() == 1).then(|| ("--peer", mac(2 - first)));
    let cpu = cpu.map(|cpu| ("--cpu", cpu.to_string()));
    let connect = sockets.iter().map(|socket| ("--connect", folder.socket(socket)));
    let pairs = pairs.into_iter().chain(peer).chain(cpu).chain(connect);
    words.into_iter().chain(pairs.flat_map(|(flag, value)| [flag.to_owned(), value])).collect()
}
