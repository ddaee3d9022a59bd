//! Echo (RFC 862): the reply is the request.

use super::super::input::{Framing, Input, Reply, WrongReply};
use super::Workload;
use super::pattern::Pattern;
use host::Buffer;
use stack::Slice;

const START: u8 = 0;
const BODY: u8 = 1;

/// Requests to an echo server.
#[derive(Debug)]
pub struct EchoLoad {
    pattern: Pattern,
    number: u32,
    is_checked: bool,
}

impl EchoLoad {
    /// Requests of `size` bytes, at least one. The bytes of replies are compared if `is_checked`, otherwise counted.
    pub fn new(size: u32, is_checked: bool) -> Self {
        Self { pattern: Pattern::new(size.max(1) as usize), number: 0, is_checked }
    }
}

impl Workload for EchoLoad {
    #[inline]
    fn request(&mut self, send: &mut impl FnMut(Slice<Buffer>)) -> u32 {
        self.number = self.number.wrapping_add(1);
        send(self.pattern.slice(self.number));
        self.number
    }

    fn longest(&self) -> usize {
        self.pattern.len()
    }

    #[inline]
    fn reply(
        &self,
        framing: &mut Framing,
        tag: u32,
        input: &mut Input<'_>,
    ) -> Result<Option<Reply>, WrongReply> {
        let size = self.pattern.len() as u64;
        if framing.stage() == START {
            *framing = Framing::new(BODY, size)?;
        }
        let passed = if self.is_checked {
            let wrong = |offset| WrongReply::new("byte differs", size - framing.left() + offset);
            input.expect(self.pattern.rest(tag, framing.left())).map_err(wrong)?
        } else {
            input.skip(framing.left())
        };
        framing.pass(passed);
        Ok((framing.left() == 0).then_some(Reply::default()))
    }
}
