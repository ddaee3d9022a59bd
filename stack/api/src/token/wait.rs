//! Waiting for operations. Only these calls run the device.

use super::operation::Action;
use super::{Device, Outcome, Queue, Queues, Token};
use std::time::{Duration, Instant};

/// Results that are taken before the device is run again, so that a queue whose operations complete at once does not
/// stop the others.
const MAX_TAKEN: u32 = 64;
/// Sleep of the device at a time.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// Reason why a wait has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WaitError {
    /// No operation completed within the limit. All continue.
    #[error("timed out")]
    TimedOut,
    /// This position of the tokens has no operation: its result was taken or dropped.
    #[error("token {0} has no operation")]
    Unknown(usize),
}

impl<D: Device> Queues<D> {
    /// Waits for the result of an operation, at most `limit`; [`Duration::ZERO`] runs the device once, `None` waits
    /// without a limit.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] after the limit, [`WaitError::Unknown`] if the result was taken before.
    pub fn wait(&mut self, token: Token, limit: Option<Duration>) -> Result<Outcome, WaitError> {
        self.wait_any(&[token], limit).map(|(_, outcome)| outcome)
    }

    /// Waits for any of several operations. Returns the position of the token, and its result. Of several complete
    /// ones, the first that completed is taken.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] after the limit, [`WaitError::Unknown`] if a result was taken before.
    pub fn wait_any(
        &mut self,
        tokens: &[Token],
        limit: Option<Duration>,
    ) -> Result<(usize, Outcome), WaitError> {
        self.run_until(limit, |queues| queues.take_first(tokens))
    }

    /// Waits for all of several operations and appends their results to `outcomes`, in the order of the tokens.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] after the limit, without taking a result; [`WaitError::Unknown`] if one was taken
    /// before.
    pub fn wait_all(
        &mut self,
        tokens: &[Token],
        limit: Option<Duration>,
        outcomes: &mut Vec<Outcome>,
    ) -> Result<(), WaitError> {
        self.run_until(limit, |queues| {
            for (i, token) in tokens.iter().enumerate() {
                if queues.completion(i, *token)?.is_none() {
                    return Ok(None);
                }
            }
            outcomes
                .extend(tokens.iter().filter_map(|token| queues.take(token.at)).map(|(.., outcome)| outcome));
            Ok(Some(()))
        })
    }

    /// Waits for any operation of all queues. Takes the same time for any number of operations.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] after the limit.
    pub fn wait_next(&mut self, limit: Option<Duration>) -> Result<(Token, Queue, Outcome), WaitError> {
        self.run_until(limit, |queues| Ok(queues.complete.first().and_then(|at| queues.take(at))))
    }

    /// Runs the device until `take` has a result.
    fn run_until<T>(
        &mut self,
        limit: Option<Duration>,
        mut take: impl FnMut(&mut Self) -> Result<Option<T>, WaitError>,
    ) -> Result<T, WaitError> {
        if self.taken >= MAX_TAKEN {
            self.run(Duration::ZERO);
        }
        self.taken += 1;
        if let Some(taken) = take(self)? {
            return Ok(taken);
        }
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            self.run(left.unwrap_or(MAX_SLEEP).min(MAX_SLEEP));
            if let Some(taken) = take(self)? {
                return Ok(taken);
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Err(WaitError::TimedOut);
            }
        }
    }

    /// Runs the device once, and the operations of queues that became ready.
    fn run(&mut self, limit: Duration) {
        self.taken = 0;
        let mut ready = std::mem::take(&mut self.ready);
        self.device.run(limit, &mut ready);
        for end in ready.drain(..) {
            self.progress(end, false);
            self.progress(end, true);
        }
        self.ready = ready;
    }

    /// The number of the completion of token `i`'s operation; `None` if it is pending.
    #[inline]
    fn completion(&self, i: usize, token: Token) -> Result<Option<u64>, WaitError> {
        let operation = self.operations.get(token.at).filter(|known| known.number == token.number);
        match operation.ok_or(WaitError::Unknown(i))?.action {
            Action::Complete(number, _) => Ok(Some(number)),
            _ => Ok(None),
        }
    }

    fn take_first(&mut self, tokens: &[Token]) -> Result<Option<(usize, Outcome)>, WaitError> {
        let mut first: Option<(u64, usize, u32)> = None;
        for (i, token) in tokens.iter().enumerate() {
            if let Some(number) = self.completion(i, *token)?
                && first.is_none_or(|(earliest, ..)| number < earliest)
            {
                first = Some((number, i, token.at));
            }
        }
        Ok(first.and_then(|(_, i, at)| self.take(at).map(|(.., outcome)| (i, outcome))))
    }

    /// Takes the result of a complete operation.
    fn take(&mut self, at: u32) -> Option<(Token, Queue, Outcome)> {
        self.operations.unlink(&mut self.complete, at);
        let operation = self.operations.remove(at)?;
        let Action::Complete(_, outcome) = operation.action else { return None };
        Some((Token { at, number: operation.number }, operation.queue, outcome))
    }
}
