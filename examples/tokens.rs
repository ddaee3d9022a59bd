//! An echo server on tokens: one source over sockets of the kernel and over a TAP interface with a stack of our own.
//!
//! `cargo run --release -p linerate-examples --example tokens -- kernel ADDRESS:PORT`
//! `cargo run --release -p linerate-examples --example tokens -- tap NETNS ADDRESS/PREFIX PORT`

use api::token::{Device, Kernel, Outcome, Ports, Queues};
use std::net::SocketAddr;

const USAGE: &str = "usage: tokens kernel ADDRESS:PORT, or tokens tap NETNS ADDRESS/PREFIX PORT";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["kernel", local] => serve(Kernel::new()?, local.parse()?),
        ["tap", netns, address, port] => {
            let address: stack::Cidr = address.parse()?;
            let local = SocketAddr::new(address.address.ip(), port.parse()?);
            serve(Ports::new(linerate_examples::tap_host(netns, address)?), local)
        }
        _ => Err(USAGE.into()),
    }
}

/// Returns the data of all connections. The next pop follows a push, so that a slow receiver stops its sender.
fn serve<D: Device>(device: D, local: SocketAddr) -> Result<(), Box<dyn std::error::Error>> {
    let mut queues = Queues::new(device);
    let listener = queues.listen(local).map_err(std::io::Error::from)?;
    eprintln!("listening on {local}");
    queues.accept(listener);
    loop {
        let (_, queue, outcome) = queues.wait_next(None)?;
        match outcome {
            Outcome::Accepted(accepted, _) => {
                queues.pop(accepted);
                queues.accept(listener);
            }
            Outcome::Popped(data) => drop(queues.push(queue, data)),
            Outcome::Pushed => drop(queues.pop(queue)),
            Outcome::Finished | Outcome::Failed(_) => drop(queues.close(queue)),
            Outcome::Connected | Outcome::Shut | Outcome::Closed | Outcome::PoppedFrom(..) => {}
        }
    }
}
