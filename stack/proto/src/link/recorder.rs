//! A link for tests of this crate and of those above it.

use super::{Link, LinkOffloads, Piece, TxOffload};
use crate::Payload;
use crate::ip::InterfaceId;
use alloc::vec::Vec;
use core::marker::PhantomData;

/// Records the frames of all interfaces. Has no offloads.
#[derive(Debug)]
pub struct Recorder<P> {
    /// The frames, in order.
    pub frames: Vec<Vec<u8>>,
    /// Whether there is no room for more.
    pub is_full: bool,
    payload: PhantomData<P>,
}

impl<P> Default for Recorder<P> {
    fn default() -> Self {
        Self { frames: Vec::new(), is_full: false, payload: PhantomData }
    }
}

impl<P: Payload> Link for Recorder<P> {
    type Payload = P;

    fn offloads(&self, _: InterfaceId) -> LinkOffloads {
        LinkOffloads::default()
    }

    fn has_room(&mut self, _: InterfaceId) -> bool {
        !self.is_full
    }

    fn send<'a>(
        &mut self,
        _: InterfaceId,
        head: &[u8],
        pieces: impl Iterator<Item = Piece<'a, P>>,
        _: TxOffload,
    ) where
        P: 'a,
    {
        let mut frame = head.to_vec();
        for piece in pieces {
            let at = frame.len();
            frame.resize(at + piece.range.len(), 0);
            piece.data.copy_to(piece.range.start, &mut frame[at..]);
        }
        self.frames.push(frame);
    }
}
