//! One reading of `cargo xtask bench guests`: two Linux guests in QEMU, connected by a switch or directly, and iperf3
//! from one to the other. Prints the received bits per second and the number of retransmitted segments. All started
//! processes end with it.
//!
//!     guest_stream SUBJECT SECONDS SENDER_CPU RECEIVER_CPU SWITCH_CPU

use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use linerate_tests::ovs::{Ovs, Side};
use linerate_tests::switch::Switch;
use linerate_tests::vm::{GuestNic, Image, Vm, unshared};
use linerate_tests::{folder, netns, wait};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(20);
const PING: Duration = Duration::from_mins(1);
const SIDES: [&str; 2] = ["sender", "receiver"];

/// The connection between the guests.
enum Between {
    Ours {
        _switch: Switch,
    },
    Theirs {
        _switch: Ovs,
    },
    /// The sender listens on this port itself.
    Nothing {
        port: u16,
    },
}

/// Parameters of the reading.
struct Reading<'a> {
    folder: &'a Path,
    subject: &'a str,
    seconds: u64,
    guest_cpus: [usize; 2],
    switch_cpu: usize,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<usize> = words.iter().skip(1).map_while(|word| word.parse().ok()).collect();
    let (Some(subject), [seconds, sender, receiver, switch]) = (words.first(), numbers.as_slice()) else {
        eprintln!("usage: guest_stream SUBJECT SECONDS SENDER_CPU RECEIVER_CPU SWITCH_CPU");
        return ExitCode::from(2);
    };
    let folder = folder();
    let reading = Reading {
        folder: folder.path(),
        subject,
        seconds: *seconds as u64,
        guest_cpus: [*sender, *receiver],
        switch_cpu: *switch,
    };
    let [bits, again] = reading.take();
    println!("{bits} {again}");
    ExitCode::SUCCESS
}

impl Reading<'_> {
    /// Received bits per second, and retransmitted segments.
    fn take(&self) -> [f64; 2] {
        let image = Image::with(&["iperf3"], &[]);
        let between = self.between();
        let [first, second] = self.plugs(&image, &between);
        let mut sender = self.guest(&image, 0, &first);
        if let Between::Nothing { port } = between {
            listening(port);
        }
        let mut receiver = self.guest(&image, 1, &second);
        sender.ready();
        receiver.ready();
        // A switch that was just started may lose some packets.
        let ping = "for i in $(seq 40); do ping -c 1 -W 1 10.0.0.2 && exit 0; sleep 0.5; done; exit 1";
        sender.succeed(&format!("({ping})"), PING);
        receiver.succeed("iperf3 -s -D && sleep 1", TIMEOUT);
        let line = format!("iperf3 -c 10.0.0.2 -t {} -O 1 -J", self.seconds);
        let said = sender.succeed(&line, Duration::from_secs(self.seconds) + PING);
        let report = said.find('{').and_then(|from| serde_json::from_str::<Value>(&said[from..]).ok());
        let end = report.map(|report| report["end"].clone()).unwrap_or_default();
        let numbers = [&end["sum_received"]["bits_per_second"], &end["sum_sent"]["retransmits"]];
        numbers.map(|value| value.as_f64().unwrap_or_else(|| panic!("iperf3 reports no such number: {said}")))
    }

    fn guest(&self, image: &Image, side: usize, options: &[String]) -> Vm {
        Vm::pinned(self.folder, image, side as u8 + 1, self.guest_cpus[side], options)
    }

    fn socket(&self, side: usize) -> PathBuf {
        self.folder.join(SIDES[side])
    }

    fn between(&self) -> Between {
        match self.subject {
            "ours" => Between::Ours { _switch: self.ours("vhost-user") },
            "ours-stream" => Between::Ours { _switch: self.ours("stream") },
            "ovs" => Between::Theirs { _switch: self.theirs(&[]) },
            "ovs-tso" => {
                Between::Theirs { _switch: self.theirs(&["other_config:userspace-tso-enable=true"]) }
            }
            "socket" => Between::Nothing { port: free_port() },
            other => panic!("no subject is called {other:?}"),
        }
    }

    fn ours(&self, kind: &str) -> Switch {
        let mut text = format!("[[worker]]\ncpu = {}\n", self.switch_cpu);
        for (side, name) in SIDES.iter().enumerate() {
            let socket = self.socket(side);
            // Writing to a String cannot fail.
            let _ = write!(
                text,
                "[[port]]\nname = \"{name}\"\nkind = \"{kind}\"\nsocket = \"{}\"\n",
                socket.display()
            );
        }
        Switch::start_from(self.folder, &text)
    }

    /// Open vSwitch with huge pages, which must be reserved beforehand.
    fn theirs(&self, more: &[&str]) -> Ovs {
        let dpdk = format!(
            "other_config:dpdk-extra=--no-pci --no-telemetry --file-prefix=o{} --single-file-segments",
            std::process::id()
        );
        let switch = Ovs::start_with(
            self.folder,
            self.switch_cpu,
            &[&["other_config:dpdk-socket-mem=512", &dpdk], more].concat(),
        );
        for (side, name) in SIDES.iter().enumerate() {
            switch.add_port(name, Side::Connects(&self.socket(side)));
        }
        switch
    }

    /// QEMU's options for each guest.
    fn plugs(&self, image: &Image, between: &Between) -> [Vec<String>; 2] {
        let number = |side: usize| side as u8 + 1;
        let shared = |side: usize, server| {
            let socket = self.socket(side);
            GuestNic { socket: &socket, server, packed: false, number: number(side) }.options(image)
        };
        let stream = |side: usize| {
            let path = self.socket(side);
            unshared(number(side), &format!("stream,server=off,addr.type=unix,addr.path={}", path.display()))
        };
        match between {
            Between::Ours { .. } if self.subject == "ours-stream" => [0, 1].map(stream),
            Between::Ours { .. } => [shared(0, false), shared(1, false)],
            Between::Theirs { .. } => [shared(0, true), shared(1, true)],
            Between::Nothing { port } => ["listen", "connect"].map(|verb| {
                let side = usize::from(verb == "connect");
                unshared(number(side), &format!("socket,{verb}=127.0.0.1:{port}"))
            }),
        }
    }
}

fn free_port() -> u16 {
    let address = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    address.unwrap_or_else(|error| panic!("no address is free: {error}")).port()
}

/// Waits until the port is listening: QEMU connects once, without retries.
fn listening(port: u16) {
    let listens = || netns::has_listener(port).then_some(());
    assert!(wait::until(TIMEOUT, listens).is_some(), "QEMU does not listen on {port}");
}
