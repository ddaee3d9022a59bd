//! A server of hyper, which is independent of the stack, and a client that writes requests by hand.

use crate::hosts::{PORT, Wire, bytes, connected, pair, server};
use api::aio::{Runtime, TcpListener, TcpStream};
use futures_util::{AsyncReadExt, AsyncWriteExt};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

const BODY: usize = 10_000_000;

/// Returns a body that was sent, and a large one otherwise.
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body =
        request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let body = if body.is_empty() { bytes(BODY).into() } else { body };
    Ok(Response::new(Full::new(body)))
}

#[test]
fn a_server_of_hyper_answers_pipelined_requests() {
    let (first, second, _folder) = pair(Wire::Patch);
    let serving = thread::spawn(move || {
        let runtime = Runtime::new(connected(first)).unwrap();
        let net = runtime.handle();
        let listener = TcpListener::bind(&net, SocketAddr::from(([0, 0, 0, 0], PORT))).unwrap();
        runtime.block_on(async {
            let (stream, _) = listener.accept().await.unwrap();
            let server =
                http1::Builder::new().pipeline_flush(true).serve_connection(stream, service_fn(answer));
            server.await.unwrap();
        });
        drop((listener, net));
        assert!(runtime.close(Duration::from_secs(5)).is_some());
    });
    let runtime = Runtime::new(connected(second)).unwrap();
    let net = runtime.handle();
    let replies = runtime.block_on(async {
        let mut stream = TcpStream::connect(&net, server()).await.unwrap();
        let small = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
        let last = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        stream.write_all([small, small, last].concat().as_bytes()).await.unwrap();
        let mut replies = Vec::new();
        stream.read_to_end(&mut replies).await.unwrap();
        replies
    });
    serving.join().unwrap();
    let text = String::from_utf8_lossy(&replies[..replies.len() - BODY]);
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 3, "{text}");
    assert_eq!(text.matches("\r\n\r\nhello").count(), 2, "{text}");
    assert!(replies.ends_with(&bytes(BODY)));
}
