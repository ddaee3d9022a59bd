//! Requests and responses of a connection.

use super::connection::{Connection, Input, State};
use super::content::Discarded;
use super::head::{Persistence, write};
use super::limits::{Bodies, MAX_FIELDS};
use super::request::{Method, Parsed, Request, check_len, head_len, parse};
use super::status::Status;
use super::{Shared, Use, path};
use host::{Buffer, Calls};
use stack::{Slice, Time};
use std::ffi::CString;
use std::fmt::Arguments;
use std::mem::MaybeUninit;

/// Field of responses to requests with another method, and to OPTIONS.
const ALLOW: &str = "Allow: GET, HEAD, OPTIONS\r\n";

/// A connection, and what its requests work with.
pub(super) struct Turn<'a, S> {
    pub(super) stack: &'a mut S,
    pub(super) shared: &'a mut Shared,
    pub(super) c: &'a mut Connection,
    pub(super) now: Time,
    /// Number of blocks that this turn may take.
    pub(super) quota: usize,
}

/// Result of a request.
pub(super) enum Step {
    /// The head is incomplete, or its file is looked up.
    Wait,
    /// The response was passed to the stack, or its body follows.
    Answered,
}

impl<S: Calls> Turn<'_, S> {
    /// Processes requests and continues responses, as far as possible and for one turn.
    pub(super) fn advance(&mut self) {
        for _ in 0..self.shared.limits.turn {
            if !self.step() {
                return self.rest();
            }
        }
        if !std::mem::replace(&mut self.c.is_queued, true) {
            self.shared.more.push_back(self.c.id);
        }
    }

    /// Returns whether there may be more to do.
    fn step(&mut self) -> bool {
        match &self.c.state {
            State::Head => !self.is_full() && self.next_request(),
            State::Ready(_) => self.next_request(),
            State::Lookup { .. } => false,
            State::Stream(_) => {
                let is_complete = self.stream();
                if is_complete {
                    self.finish();
                }
                is_complete
            }
            State::Discard => self.discard(),
            State::Closing => {
                self.consume(self.c.input.rest().len());
                false
            }
        }
    }

    /// Asks for acknowledgements if something waits for them.
    fn rest(&mut self) {
        // Blocks of a body that was sent completely.
        if !self.c.held.is_empty() {
            self.release();
        }
        let is_streaming = matches!(self.c.state, State::Stream(_)) || !self.c.held.is_empty();
        let reports = is_streaming || self.is_full();
        if std::mem::replace(&mut self.c.reports, reports) != reports {
            self.stack.report_acks(self.c.id, reports);
        }
    }

    /// Bytes that the peer has not acknowledged, in whole slices. All of the send buffer if the connection has ended
    /// and its last event is still to come.
    pub(super) fn unacknowledged(&self) -> u32 {
        let free = self.stack.send_space(self.c.id);
        self.stack.send_buffer().saturating_sub(free) as u32
    }

    /// Whether responses wait for acknowledgements, so that further requests wait.
    fn is_full(&self) -> bool {
        self.unacknowledged() >= self.shared.limits.queued
    }

    /// Removes processed bytes, which opens the receive window.
    fn consume(&mut self, len: usize) {
        self.c.input.consume(len);
        self.stack.consumed(self.c.id, len);
    }

    /// Discards the content of a request.
    fn discard(&mut self) -> bool {
        match self.c.content.discard(self.c.input.rest()) {
            Ok(n) => self.consume(n),
            Err(_) => self.close(),
        }
        let is_complete = self.c.content.is_complete();
        if is_complete {
            (self.c.state, self.c.since) = (State::Head, self.now);
        } else if self.c.is_finished {
            self.close();
        }
        is_complete
    }

    /// Parses the next head and responds. Returns whether there was one.
    fn next_request(&mut self) -> bool {
        // RFC 9112 section 2.2: empty lines before a request are ignored.
        let empty = self.c.input.rest().iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        if empty > 0 {
            self.consume(empty);
        }
        let mut input = std::mem::take(&mut self.c.input);
        let end = head_len(input.rest(), input.scanned);
        let step = self.process(&mut input, end);
        self.c.input = input;
        match step {
            Step::Wait if end.is_none() && self.c.is_finished => self.close(),
            Step::Wait => return false,
            Step::Answered => self.consume(end.unwrap_or(0)),
        }
        true
    }

    fn process(&mut self, input: &mut Input, end: Option<usize>) -> Step {
        if let Err(status) = check_len(input.rest(), end, &self.shared.limits) {
            return self.refuse(status, true);
        }
        let Some(head) = end.and_then(|end| input.rest().get(..end)) else {
            input.scanned = input.rest().len();
            return Step::Wait;
        };
        match parse(head, &mut [const { MaybeUninit::uninit() }; MAX_FIELDS]) {
            Parsed::Request(request) => self.request(&request),
            Parsed::Invalid(status) => self.refuse(status, true),
            Parsed::Partial => self.refuse(Status::BAD_REQUEST, true),
        }
    }

    /// Responds to a request that cannot be understood, and closes.
    pub(super) fn refuse(&mut self, status: Status, has_body: bool) -> Step {
        self.c.closes = true;
        self.status(status, has_body, Persistence::Close, format_args!(""));
        Step::Answered
    }

    fn request(&mut self, request: &Request<'_, '_>) -> Step {
        let has_body = request.method != Method::Head;
        let Some(content) = Discarded::new(request.content, self.shared.limits.content) else {
            return self.refuse(Status::CONTENT_TOO_LARGE, has_body);
        };
        if request.expects == Some(false) {
            return self.refuse(Status::EXPECTATION_FAILED, has_body);
        }
        // The client may or may not send content that it asked for permission to send.
        self.c.closes = !request.is_persistent || request.expects.is_some() && !content.is_complete();
        self.c.content = content;
        let persistence = Persistence::of(!self.c.closes, request.minor);
        match request.method {
            Method::Get | Method::Head => return self.file(request, persistence),
            Method::Refused => {
                self.status(Status::METHOD_NOT_ALLOWED, true, persistence, format_args!("{ALLOW}"));
            }
            Method::Unknown => self.status(Status::NOT_IMPLEMENTED, true, persistence, format_args!("")),
            Method::Options => {
                self.head(Status::NO_CONTENT, persistence, format_args!("{ALLOW}"), None);
                self.finish();
            }
        }
        Step::Answered
    }

    /// Responds with a file, if it is known.
    fn file(&mut self, request: &Request<'_, '_>, persistence: Persistence) -> Step {
        let has_body = request.method == Method::Get;
        if let Err(status) = path::resolve(request.target, &mut self.shared.path) {
            self.status(status, has_body, persistence, format_args!(""));
            return Step::Answered;
        }
        if let State::Ready(found) = std::mem::take(&mut self.c.state) {
            self.found(request, persistence, found);
            return Step::Answered;
        }
        let (path, today) = (&self.shared.path, self.shared.clock.today);
        if let Some((entry, head)) = self.shared.cache.find(path, self.now, today) {
            self.entry(request, persistence, &entry, head);
            return Step::Answered;
        }
        let path = path.clone().into_boxed_slice();
        let token = self.token(Use::Open);
        // A path with a zero byte was refused.
        self.shared.files.open(CString::new(&path[..]).unwrap_or_default(), token);
        self.c.state = State::Lookup { path, stat: None };
        Step::Wait
    }

    /// Sends a response without a file: its body is the status as text.
    pub(super) fn status(
        &mut self,
        status: Status,
        has_body: bool,
        persistence: Persistence,
        fields: Arguments<'_>,
    ) {
        let Status { code, reason } = status;
        self.shared.counts.errors += u64::from(code >= 400);
        let fields = format_args!("{fields}Content-Type: text/plain\r\n");
        self.head(status, persistence, fields, Some(reason.len() as u64 + 5));
        if has_body {
            let text = format!("{code} {reason}\n");
            self.send(Slice::new(Buffer::from(text.into_bytes())));
        }
        self.finish();
    }

    /// Sends a head, and returns it.
    pub(super) fn head(
        &mut self,
        status: Status,
        persistence: Persistence,
        fields: Arguments<'_>,
        length: Option<u64>,
    ) -> Option<Slice<Buffer>> {
        let Shared { text, heads, clock, .. } = self.shared;
        write(text, status, &clock.text, fields, length, persistence);
        let Some(head) = heads.fill(text.len(), |to| to.copy_from_slice(text)) else {
            self.shared.counts.no_memory += 1;
            self.stack.abort(self.c.id);
            return None;
        };
        let head = Slice::new(head);
        self.send(head.clone());
        Some(head)
    }

    /// Sends bytes from memory, in the configured way.
    pub(super) fn send_body(&mut self, data: Slice<Buffer>) {
        if self.shared.bodies != Bodies::Copied {
            return self.send(data);
        }
        let copy = self.shared.heads.fill(data.len(), |to| data.copy_to(0, to));
        self.send(Slice::new(copy.unwrap_or_else(|| data.to_vec().into())));
    }

    /// Passes data to the stack. It fails only if the connection has ended, or if limits are configured wrongly.
    pub(super) fn send(&mut self, data: Slice<Buffer>) {
        let len = data.len() as u64;
        match self.stack.send(self.c.id, data) {
            Ok(()) => {
                self.c.sent += len;
                self.shared.served.sent += len;
            }
            Err(stack::SendError::Closed) => {}
            Err(stack::SendError::Full) => self.stack.abort(self.c.id),
        }
    }

    /// Continues after a response.
    pub(super) fn finish(&mut self) {
        self.shared.counts.requests += 1;
        self.c.since = self.now;
        if self.c.closes {
            self.close();
        } else {
            self.c.state = if self.c.content.is_complete() { State::Head } else { State::Discard };
        }
    }

    /// Closes the sending side. The client's end is awaited, so that it reads the response before a reset could discard
    /// it (RFC 9112 section 9.6).
    pub(super) fn close(&mut self) {
        (self.c.state, self.c.since) = (State::Closing, self.now);
        self.stack.close(self.c.id);
    }
}
