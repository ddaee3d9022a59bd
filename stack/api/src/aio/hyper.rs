//! Streams as input and output of hyper.

use super::TcpStream;
use hyper::rt::{Read, ReadBufCursor, Write};
use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};

/// Bytes that are copied at a time from memory that is not private.
const CHUNK: usize = 4096;

impl Read for TcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut to: ReadBufCursor<'_>,
    ) -> Poll<Result<()>> {
        if to.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let copied = self.poll_take(context, |data| {
            let len = data.len().min(to.remaining());
            if let Some(bytes) = data.data().bytes().and_then(|bytes| bytes.get(data.range())) {
                to.put_slice(&bytes[..len]);
                return len;
            }
            let mut chunk = [0; CHUNK];
            for at in (0..len).step_by(CHUNK) {
                let piece = &mut chunk[..CHUNK.min(len - at)];
                data.copy_to(at, piece);
                to.put_slice(piece);
            }
            len
        });
        copied.map_ok(drop)
    }
}

impl Write for TcpStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, from: &[u8]) -> Poll<Result<usize>> {
        self.poll_copy(context, std::iter::once(from))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Result<()>> {
        self.poll_shut()
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        self.poll_copy(context, from.iter().map(|piece| &**piece))
    }
}
