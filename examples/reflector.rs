//! An application beside the switch: attaches to a memif port of a running switch and returns every frame to its
//! sender.
//!
//! `cargo run --release -p linerate-examples --example reflector -- SOCKET`
//! attaches as a client, reattaches after the switch has restarted, and prints counters every second.

use port::memif::{AttachError, Endpoint, Options};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(1);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let socket = std::env::args().nth(1).ok_or("usage: reflector SOCKET")?;
    loop {
        let Err(error) = reflect(&socket) else { continue };
        eprintln!("reflector: {error}");
        std::thread::sleep(TIMEOUT);
    }
}

fn reflect(socket: &str) -> Result<(), AttachError> {
    let mut switch = Endpoint::attach(socket, Options::default(), TIMEOUT)?;
    let (mut frames, mut received, mut returned) = (Vec::new(), 0, 0);
    let mut told = Instant::now();
    loop {
        frames.clear();
        let n = switch.receive(|frame| frames.push(swapped(frame)))?;
        received += n;
        returned += switch.send(frames.iter().map(Vec::as_slice))?;
        if told.elapsed() >= TIMEOUT {
            println!("received {received} returned {returned}");
            told = Instant::now();
        }
        if n == 0 {
            switch.wait(TIMEOUT)?;
        }
    }
}

/// The frame with its addresses exchanged. Frames are long enough: the endpoint has validated their length.
fn swapped(frame: &[u8]) -> Vec<u8> {
    let (to, rest) = frame.split_at(6);
    let (from, rest) = rest.split_at(6);
    [from, to, rest].concat()
}
