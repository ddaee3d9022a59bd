//! An echo server with a loop of its own over the completion queue, on a TAP interface `web0` in a network namespace.
//!
//! `cargo run --release -p linerate-examples --example queue_echo -- blue 10.9.0.2/24` serves TCP port 7 until it is
//! killed. Data is consumed when the peer has acknowledged its echo, so the receive window limits what waits in the
//! send buffer, which is larger.

use api::queue::Queue;
use stack::{Address, Endpoint, Event};
use std::time::Duration;

/// Completions of one batch.
const BATCH: usize = 16;

fn serve(queue: &mut Queue) -> ! {
    let mut connections = 0;
    loop {
        queue.wait(BATCH, Duration::from_secs(1));
        while let Some(completion) = queue.pop() {
            match completion.event {
                Event::Accepted { connection, remote, .. } => {
                    connections += 1;
                    queue.set_user(connection, connections);
                    queue.stack().report_acks(connection, true);
                    println!("connection {connections} from {remote}");
                }
                // Fails only if the connection has ended; its last completion follows.
                Event::Data { connection, data } => drop(queue.stack().send(connection, data)),
                Event::Acknowledged { connection, bytes, .. } => {
                    queue.stack().consumed(connection, bytes as usize);
                }
                Event::Finished { connection } => queue.stack().close(connection),
                Event::Closed { reason, .. } => println!("connection {}: {reason}", completion.user),
                _ => {}
            }
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [netns, address] = arguments.as_slice() else {
        return Err("usage: queue_echo NETNS ADDRESS/PREFIX".into());
    };
    let mut queue = Queue::new(linerate_examples::tap_host(netns, address.parse()?)?);
    let local = Endpoint::new(Address::v4([0; 4]), 7);
    queue.listen(local, stack::tcp::Options::default(), 0)?;
    eprintln!("listening on {local}");
    serve(&mut queue)
}
