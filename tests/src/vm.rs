//! A Linux guest in QEMU with one vhost-user network card, driven through its serial line. It runs without KVM,
//! so that it runs everywhere.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::process::Process;
use crate::{REMEDY, initramfs, kernel};

const QEMU: &str = "qemu-system-x86_64";
const BOOT: Duration = Duration::from_mins(3);
const REPLY: Duration = Duration::from_secs(20);
const MEMORY: &str = "192M";

/// What every guest boots from: a kernel, and a root file system made for it.
pub struct Image {
    kernel: PathBuf,
    root: PathBuf,
    reconnect: &'static str,
    _folder: TempDir,
}

impl Image {
    /// Makes the root file system; panics where the kernel or busybox is missing.
    pub fn make() -> Image {
        Image::with(&[])
    }

    /// The same with more of this machine's programs in it.
    pub fn with(programs: &[&str]) -> Image {
        let folder = crate::folder();
        let root = folder.path().join("initramfs");
        let kernel = kernel::find();
        initramfs::write(&root, &kernel, programs);
        Image { kernel: kernel.image, root, reconnect: reconnect(&qemu_version()), _folder: folder }
    }
}

fn qemu_version() -> String {
    let output = Command::new(QEMU).arg("--version").output();
    let output = output.unwrap_or_else(|error| panic!("cannot run {QEMU}: {error}; {REMEDY}"));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// How to connect again a second after the switch went away: QEMU 9.2 gave the option another name and unit.
fn reconnect(version: &str) -> &'static str {
    let number = version.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let mut parts = number.unwrap_or_default().split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if version >= (9, 2) { "reconnect-ms=1000" } else { "reconnect=1" }
}

/// How a guest is plugged in.
#[derive(Clone, Debug)]
pub struct Plug<'a> {
    /// The vhost-user socket.
    pub socket: &'a Path,
    /// Whether QEMU listens; otherwise it connects, again and again.
    pub server: bool,
    /// Whether the card offers packed rings.
    pub packed: bool,
    /// The guest's address is 10.0.0.x, its MAC 02:00:00:00:01:xx.
    pub number: u8,
}

impl Plug<'_> {
    /// The guest's address.
    pub fn address(&self) -> String {
        format!("10.0.0.{}", self.number)
    }

    /// QEMU's options for memory and network.
    pub fn options(&self, image: &Image) -> Vec<String> {
        let socket = self.socket.display();
        let mode = if self.server { "server=on,wait=on" } else { image.reconnect };
        let packed = if self.packed { "on" } else { "off" };
        let options = [
            ("-m", MEMORY.to_owned()),
            ("-object", format!("memory-backend-memfd,id=m,size={MEMORY},share=on")),
            ("-numa", "node,memdev=m".to_owned()),
            ("-chardev", format!("socket,id=c,path={socket},{mode}")),
            ("-netdev", "vhost-user,id=n,chardev=c".to_owned()),
            ("-device", format!("{},packed={packed}", card(self.number))),
        ];
        flat(options).collect()
    }
}

/// The options of a guest whose network is `netdev` (without its `id`), without shared memory.
pub fn unshared(number: u8, netdev: &str) -> Vec<String> {
    let (kind, rest) = netdev.split_once(',').unwrap_or((netdev, ""));
    let options =
        [("-m", MEMORY.to_owned()), ("-netdev", format!("{kind},id=n,{rest}")), ("-device", card(number))];
    flat(options).collect()
}

/// The network card of guest `number`.
fn card(number: u8) -> String {
    format!("virtio-net-pci,netdev=n,mac=02:00:00:00:01:{number:02x},vectors=0,romfile=")
}

fn flat<const N: usize>(options: [(&str, String); N]) -> impl Iterator<Item = String> {
    options.into_iter().flat_map(|(option, value)| [option.to_owned(), value])
}

impl Image {
    /// Whether QEMU is one that counts the time until it connects again in milliseconds.
    pub fn is_of_qemu_9_2(&self) -> bool {
        self.reconnect.starts_with("reconnect-ms")
    }

    /// The options that say nothing about memory and network.
    fn machine(&self, address: &str) -> impl Iterator<Item = String> {
        let boot = format!("console=ttyS0 quiet panic=-1 mitigations=off address={address}");
        let options = [
            ("-machine", "q35,accel=tcg".to_owned()),
            // QEMU 7.2 emulates CMPXCHG16B wrongly, and the kernel's allocator uses it where the CPU claims it.
            ("-cpu", "qemu64,-cx16".to_owned()),
            ("-display", "none".to_owned()),
            ("-serial", "stdio".to_owned()),
            ("-kernel", self.kernel.display().to_string()),
            ("-initrd", self.root.display().to_string()),
            ("-append", boot),
        ];
        ["-nodefaults", "-no-reboot"].map(str::to_owned).into_iter().chain(flat(options))
    }
}

/// A running guest.
pub struct Vm {
    process: Process,
    address: String,
    commands: usize,
}

impl Vm {
    /// Starts a guest; [`Vm::ready`] waits until it is up.
    pub fn start(folder: &Path, name: &str, image: &Image, plug: &Plug) -> Vm {
        let words: Vec<_> = image.machine(&plug.address()).chain(plug.options(image)).collect();
        let process = Process::spawn(folder, name, QEMU, &words);
        Vm { process, address: plug.address(), commands: 0 }
    }

    /// Starts a guest with the address 10.0.0.`number` whose QEMU stays on one CPU with all of its threads; `options`
    /// say how it is plugged in.
    pub fn pinned(folder: &Path, image: &Image, number: u8, cpu: usize, options: &[String]) -> Vm {
        let address = format!("10.0.0.{number}");
        let cpu = cpu.to_string();
        let pinned = ["-c", &cpu, QEMU].map(str::to_owned).into_iter();
        let words: Vec<_> = pinned.chain(image.machine(&address)).chain(options.iter().cloned()).collect();
        let process = Process::spawn(folder, &format!("guest-{number}"), "taskset", &words);
        Vm { process, address, commands: 0 }
    }

    /// Starts a guest with the address 10.0.0.`number` in a shell, with `options` pasted behind the others.
    pub fn pasted(folder: &Path, name: &str, image: &Image, number: u8, options: &str) -> Vm {
        let address = format!("10.0.0.{number}");
        let machine: Vec<String> = image.machine(&address).map(|word| format!("'{word}'")).collect();
        let line = format!("exec {QEMU} {} {options}", machine.join(" "));
        Vm { process: Process::spawn(folder, name, "sh", &["-c", &line]), address, commands: 0 }
    }

    /// Waits until the guest has configured its network card and reads commands.
    pub fn ready(&mut self) {
        let mark = format!("guest {} is up", self.address);
        self.process.wait_for(&mark, 0, BOOT);
    }

    /// Runs a shell command in the guest and returns its exit code with what it printed; panics when it takes
    /// longer than `limit`.
    pub fn run(&mut self, command: &str, limit: Duration) -> (i32, String) {
        self.commands += 1;
        let mark = format!("=end-{}=", self.commands);
        let from = self.process.output().len();
        // The mark is put together by the guest, so that the text of the command never looks like its end.
        self.process.say(&format!("{command}; printf '\\n=%s-%d=%d=\\n' end {} $?", self.commands));
        let text = self.process.wait_for(&mark, from, limit);
        let end = from + text.find(&mark).unwrap_or_default() + mark.len();
        let code = self.process.wait_for("\n", end, REPLY);
        let code = code.split('=').next().and_then(|word| word.parse().ok()).unwrap_or(-1);
        let printed = text.split(&mark).next().unwrap_or_default();
        (code, printed.replace('\r', "").trim().to_owned())
    }

    /// Runs a command that must succeed and returns what it printed.
    pub fn succeed(&mut self, command: &str, limit: Duration) -> String {
        let (code, output) = self.run(command, limit);
        assert!(code == 0, "{command:?} in guest {} ended with {code}: {output}", self.address);
        output
    }

    /// Ends it as a power cut would.
    pub fn kill(mut self) {
        self.process.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_to_connect_again_follows_qemus_version() {
        assert_eq!(reconnect("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)"), "reconnect=1");
        assert_eq!(reconnect("QEMU emulator version 9.1.0"), "reconnect=1");
        assert_eq!(reconnect("QEMU emulator version 10.0.3 (Debian)"), "reconnect-ms=1000");
    }
}
