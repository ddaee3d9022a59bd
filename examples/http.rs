//! A web server: hyper on the stack of linerate, over a TAP interface.
//!
//! `cargo run --release -p linerate-examples --example http -- NETNS ADDRESS BYTES`
//! creates `web0` in a network namespace and answers `GET` on port 80 of ADDRESS (with its prefix length) with BYTES
//! bytes: those of their positions modulo 251. Other methods return their body. SIGKILL ends it.

use api::aio::{Handle, Runtime, TcpListener};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use std::net::SocketAddr;

const PORT: u16 = 80;
const USAGE: &str = "usage: http NETNS ADDRESS/PREFIX BYTES";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(netns), Some(address), Some(bytes)) = (words.next(), words.next(), words.next()) else {
        return Err(USAGE.into());
    };
    let address: stack::Cidr = address.parse()?;
    let body: Bytes = (0..bytes.parse()?).map(|i: usize| (i % 251) as u8).collect();
    let host = linerate_examples::tap_host(&netns, address)?;
    let runtime = Runtime::new(host)?;
    let local = SocketAddr::new(address.address.ip(), PORT);
    runtime.block_on(serve(runtime.handle(), local, body))?;
    Ok(())
}

async fn serve(net: Handle, local: SocketAddr, body: Bytes) -> std::io::Result<()> {
    let listener = TcpListener::bind(&net, local)?;
    eprintln!("listening on {local}");
    loop {
        let (stream, peer) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let body = body.clone();
        let service = service_fn(move |request| answer(request, body.clone()));
        let connection = http1::Builder::new().pipeline_flush(true).serve_connection(stream, service);
        let task = async move {
            if let Err(error) = connection.await {
                eprintln!("{peer}: {error}");
            }
        };
        net.spawn(task).detach();
    }
}

async fn answer(request: Request<Incoming>, body: Bytes) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let body = match *request.method() {
        Method::GET => body,
        _ => request.into_body().collect().await?.to_bytes(),
    };
    Ok(Response::new(Full::new(body)))
}
