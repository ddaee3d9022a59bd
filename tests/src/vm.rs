//! A Linux guest in QEMU with one vhost-user network card, controlled through its serial line. It runs without KVM,
//! so that it runs on every machine.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::process::Process;
use crate::{initramfs, kernel, need, scope};

const QEMU: &str = "qemu-system-x86_64";
const BOOT: Duration = Duration::from_mins(3);
const REPLY: Duration = Duration::from_secs(20);
const PING: Duration = Duration::from_mins(1);
const TRANSFER: Duration = Duration::from_mins(3);
const MEMORY: &str = "192M";

/// Kernel and root file system of guests.
pub struct Image {
    kernel: PathBuf,
    root: PathBuf,
    reconnect: &'static str,
    _folder: TempDir,
}

impl Image {
    /// Builds the root file system. Panics if the kernel or busybox is missing.
    pub fn make() -> Image {
        Image::with(&[], &[])
    }

    /// [`Image::make`] with additional programs of this machine, and modules of the kernel.
    pub fn with(programs: &[&str], modules: &[&str]) -> Image {
        let folder = crate::folder();
        let root = folder.path().join("initramfs");
        let kernel = kernel::find(modules);
        initramfs::write(&root, &kernel, programs);
        Image { kernel: kernel.image, root, reconnect: reconnect(&qemu_version()), _folder: folder }
    }
}

fn qemu_version() -> String {
    need::program(QEMU);
    let output = Command::new(QEMU).arg("--version").output();
    let output = output.unwrap_or_else(|error| panic!("cannot run {QEMU}: {error}"));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Option to reconnect one second after a disconnect. QEMU 9.2 changed its name and unit.
fn reconnect(version: &str) -> &'static str {
    let number = version.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let mut parts = number.unwrap_or_default().split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if version >= (9, 2) { "reconnect-ms=1000" } else { "reconnect=1" }
}

/// Network configuration of a guest.
#[derive(Clone, Debug)]
pub struct GuestNic<'a> {
    /// The vhost-user socket.
    pub socket: &'a Path,
    /// Whether QEMU listens; otherwise it connects, and reconnects.
    pub server: bool,
    /// Whether the card offers packed rings.
    pub packed: bool,
    /// The guest's address is 10.0.0.x, its MAC address 02:00:00:00:01:xx.
    pub number: u8,
}

impl GuestNic<'_> {
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

/// Options of a guest with private memory and network `netdev` (without its `id`).
pub fn unshared(number: u8, netdev: &str) -> Vec<String> {
    let (kind, rest) = netdev.split_once(',').unwrap_or((netdev, ""));
    let options =
        [("-m", MEMORY.to_owned()), ("-netdev", format!("{kind},id=n,{rest}")), ("-device", card(number))];
    flat(options).collect()
}

/// Network card of guest `number`.
fn card(number: u8) -> String {
    format!("virtio-net-pci,netdev=n,mac=02:00:00:00:01:{number:02x},vectors=0,romfile=")
}

fn flat<const N: usize>(options: [(&str, String); N]) -> impl Iterator<Item = String> {
    options.into_iter().flat_map(|(option, value)| [option.to_owned(), value])
}

impl Image {
    /// Whether this QEMU takes the reconnect interval in milliseconds.
    pub fn is_of_qemu_9_2(&self) -> bool {
        self.reconnect.starts_with("reconnect-ms")
    }

    /// Options other than memory and network.
    fn machine(&self, address: &str) -> impl Iterator<Item = String> {
        let boot = format!("console=ttyS0 quiet panic=-1 mitigations=off address={address}");
        let options = [
            ("-machine", "q35,accel=tcg".to_owned()),
            // QEMU 7.2 emulates CMPXCHG16B incorrectly, and the kernel's allocator uses it if the CPU reports it.
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
    pub fn start(folder: &Path, name: &str, image: &Image, plug: &GuestNic) -> Vm {
        let words: Vec<_> = image.machine(&plug.address()).chain(plug.options(image)).collect();
        let process = Process::spawn(folder, name, QEMU, &words);
        Vm { process, address: plug.address(), commands: 0 }
    }

    /// [`Vm::start`] with a monitor at `monitor`. With `incoming`, the guest does not boot, but continues one that
    /// migrates to this socket.
    pub fn movable(
        folder: &Path,
        image: &Image,
        plug: &GuestNic,
        monitor: &Path,
        incoming: Option<&Path>,
    ) -> Vm {
        let monitored = ["-monitor".to_owned(), format!("unix:{},server=on,wait=off", monitor.display())];
        let incoming = incoming.map(|socket| ["-incoming".to_owned(), format!("unix:{}", socket.display())]);
        let address = plug.address();
        let words = image.machine(&address).chain(plug.options(image)).chain(monitored);
        let words: Vec<_> = words.chain(incoming.into_iter().flatten()).collect();
        let name = monitor.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Vm { process: Process::spawn(folder, &name, QEMU, &words), address, commands: 0 }
    }

    /// The memory of a guest with a vhost-user port, which its QEMU shares.
    pub fn memory(&self) -> File {
        let folder = format!("/proc/{}/fd", self.process.pid());
        let open = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder}: {error}"));
        let is_memory = |path: &PathBuf| {
            fs::read_link(path)
                .is_ok_and(|target| target.starts_with("/memfd:memory-backend-memfd (deleted)"))
        };
        let found = open.flatten().map(|entry| entry.path()).find(is_memory);
        let path = found.unwrap_or_else(|| panic!("{folder}: no memory of the guest"));
        File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Continues as `other`, to which this guest has migrated, with the same numbers of commands.
    pub fn continue_as(&mut self, other: Vm) {
        *self = Vm { commands: self.commands, ..other };
    }

    /// Starts a guest with the address 10.0.0.`number`, with all threads of its QEMU pinned to one CPU; `options` are
    /// those for memory and network.
    pub fn pinned(folder: &Path, image: &Image, number: u8, cpu: usize, options: &[String]) -> Vm {
        let address = format!("10.0.0.{number}");
        let cpu = cpu.to_string();
        let pinned = ["-c", &cpu, QEMU].map(str::to_owned).into_iter();
        let words: Vec<_> = pinned.chain(image.machine(&address)).chain(options.iter().cloned()).collect();
        let process = Process::spawn(folder, &format!("guest-{number}"), "taskset", &words);
        Vm { process, address, commands: 0 }
    }

    /// Starts a guest with the address 10.0.0.`number` through a shell, with `options` appended.
    pub fn pasted(folder: &Path, name: &str, image: &Image, number: u8, options: &str) -> Vm {
        let address = format!("10.0.0.{number}");
        let machine: Vec<String> = image.machine(&address).map(|word| format!("'{word}'")).collect();
        let line = format!("exec {QEMU} {} {options}", machine.join(" "));
        Vm { process: Process::spawn(folder, name, "sh", &["-c", &line]), address, commands: 0 }
    }

    /// Waits until the guest has configured its network card and accepts commands.
    pub fn ready(&mut self) {
        let mark = format!("guest {} is up", self.address);
        self.process.wait_for(&mark, 0, BOOT);
    }

    /// Runs a shell command in the guest. Returns its exit code and output. Panics after `limit`.
    pub fn run(&mut self, command: &str, limit: Duration) -> (i32, String) {
        self.commands += 1;
        let mark = format!("=end-{}=", self.commands);
        let from = self.process.output().len();
        // The guest composes the mark, so that an echo of the command cannot match it.
        self.process.say(&format!("{command}; printf '\\n=%s-%d=%d=\\n' end {} $?", self.commands));
        let text = self.process.wait_for(&mark, from, limit);
        let end = from + text.find(&mark).unwrap_or_default() + mark.len();
        let code = self.process.wait_for("\n", end, REPLY);
        let code = code.split('=').next().and_then(|word| word.parse().ok()).unwrap_or(-1);
        let printed = text.split(&mark).next().unwrap_or_default();
        (code, printed.replace('\r', "").trim().to_owned())
    }

    /// Runs a command and returns its output. Panics if it fails.
    pub fn succeed(&mut self, command: &str, limit: Duration) -> String {
        let (code, output) = self.run(command, limit);
        assert!(code == 0, "{command:?} in guest {} ended with {code}: {output}", self.address);
        output
    }

    /// Pings guest 10.0.0.`number` until it answers once, since a restarted switch or guest may lose some packets;
    /// after that each of five large pings must be answered.
    pub fn ping(&mut self, number: u8) {
        let command =
            format!("for i in $(seq 30); do ping -c 1 -W 1 10.0.0.{number} && exit 0; sleep 1; done; exit 1");
        self.succeed(&format!("({command})"), PING);
        self.succeed(&format!("ping -c 5 -i 0.2 -s 1400 -W 5 10.0.0.{number}"), PING);
    }

    /// Offers a file of noise, 8 MiB with `--all`, that another guest downloads; compares their checksums.
    pub fn send_file(&mut self, to: &mut Vm) {
        let bytes = scope::pick(8 << 20, 2 << 20);
        let offer = format!("head -c {bytes} /dev/urandom >/tmp/file && httpd -p 8080 -h /tmp");
        self.succeed(&offer, TRANSFER);
        to.succeed(&format!("wget -q -O /tmp/file http://{}:8080/file", self.address), TRANSFER);
        let sums = [self, to].map(|guest| guest.succeed("sha256sum </tmp/file", TRANSFER));
        assert_eq!(sums[0].len(), 64 + "  -".len(), "no checksum: {sums:?}");
        assert_eq!(sums[0], sums[1], "the file changed on its way");
    }

    /// Kills it, as in a power failure.
    pub fn kill(mut self) {
        self.process.kill();
    }
}

/// Executes a command at the monitor of a guest. Returns its answer.
///
/// # Errors
/// If the monitor does not answer.
pub fn command(monitor: &Path, line: &str) -> io::Result<String> {
    const PROMPT: &str = "(qemu) ";
    let mut stream = UnixStream::connect(monitor)?;
    stream.set_read_timeout(Some(REPLY))?;
    let until_prompt = |stream: &mut UnixStream| -> io::Result<String> {
        let (mut text, mut byte) = (String::new(), [0]);
        while !text.ends_with(PROMPT) {
            stream.read_exact(&mut byte)?;
            text.push(char::from(byte[0]));
        }
        Ok(text)
    };
    until_prompt(&mut stream)?;
    stream.write_all(format!("{line}\n").as_bytes())?;
    until_prompt(&mut stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reconnect_option_follows_the_qemu_version() {
        assert_eq!(reconnect("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)"), "reconnect=1");
        assert_eq!(reconnect("QEMU emulator version 9.1.0"), "reconnect=1");
        assert_eq!(reconnect("QEMU emulator version 10.0.3 (Debian)"), "reconnect-ms=1000");
    }
}
