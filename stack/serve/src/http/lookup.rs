//! Files of requests: results of lookups, and the responses with a file.

use super::conditional::{Outcome, evaluate};
use super::connection::State;
use super::entry::{Body, Entry, Found, Identity, status_of};
use super::exchange::Turn;
use super::head::Persistence;
use super::range::Selected;
use super::request::{Method, Request};
use super::status::Status;
use super::stream::Stream;
use super::{Use, path};
use files::Block;
use host::{Buffer, Calls};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use stack::Slice;
use std::ops::Range;
use std::sync::Arc;

impl<S: Calls> Turn<'_, S> {
    /// A file was opened.
    pub(super) fn opened(&mut self, result: Result<OwnedFd, Errno>) {
        let State::Lookup { path, .. } = std::mem::take(&mut self.c.state) else { return };
        let found = result.and_then(|file| {
            let stat = rustix::fs::fstat(&file)?;
            self.examine(path, file, stat)
        });
        match found {
            Ok(None) => {}
            Ok(Some(found)) => self.ready(found),
            Err(error) => self.ready(Found::Missing(status_of(error))),
        }
    }

    fn ready(&mut self, found: Found) {
        self.c.state = State::Ready(found);
        self.advance();
    }

    /// Decides how an open file is sent. `None` if its bytes are read first.
    fn examine(&mut self, path: Box<[u8]>, file: OwnedFd, stat: Stat) -> Result<Option<Found>, Errno> {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Ok(Some(Found::Directory)),
            _ => return Ok(Some(Found::Missing(Status::NOT_FOUND))),
        }
        let (len, identity) = (stat.st_size.cast_unsigned(), Identity::of(&stat));
        if let Some(entry) = self.shared.cache.unchanged(&path, identity, self.now) {
            return Ok(Some(Found::File(entry)));
        }
        let is_small = len <= self.shared.memory.small && self.shared.cache.reserve(len);
        self.shared.files.prepare(&file, !is_small)?;
        if is_small {
            let token = self.token(Use::File(len));
            self.shared.files.read(&Arc::new(file), 0, len as u32, Block::new(len as usize), token);
            self.c.state = State::Lookup { path, stat: Some(Box::new(stat)) };
            return Ok(None);
        }
        let entry = Arc::new(Entry::new(&path, &stat, Body::Blocks(Arc::new(file))));
        self.shared.cache.insert(path, &entry, self.now);
        Ok(Some(Found::File(entry)))
    }

    /// A whole file was read.
    pub(super) fn loaded(&mut self, len: u64, block: &Block, result: Result<usize, Errno>) {
        let State::Lookup { path, stat: Some(stat) } = std::mem::take(&mut self.c.state) else {
            return self.shared.cache.release(len);
        };
        if result != Ok(len as usize) {
            self.shared.cache.release(len);
            self.shared.counts.read_errors += 1;
            return self.ready(Found::Missing(Status::INTERNAL));
        }
        let body = Body::memory(block, len as usize, self.shared.bodies);
        let entry = Arc::new(Entry::new(&path, &stat, body));
        self.shared.cache.insert(path, &entry, self.now);
        self.ready(Found::File(entry));
    }

    /// Responds with the result of a lookup.
    pub(super) fn found(&mut self, request: &Request<'_, '_>, persistence: Persistence, found: Found) {
        let has_body = request.method == Method::Get;
        match found {
            Found::File(entry) => self.entry(request, persistence, &entry, None),
            Found::Missing(status) => self.status(status, has_body, persistence, format_args!("")),
            // A directory in the place of an index.
            Found::Directory if request.target.split(['?', '#']).next().is_some_and(|p| p.ends_with('/')) => {
                self.status(Status::NOT_FOUND, has_body, persistence, format_args!(""));
            }
            Found::Directory => {
                let location = path::directory(request.target);
                let fields = format_args!("Location: {location}\r\n");
                self.status(Status::MOVED, has_body, persistence, fields);
            }
        }
    }

    /// Responds with a file. `head` is that of a response with the whole file.
    pub(super) fn entry(
        &mut self,
        request: &Request<'_, '_>,
        persistence: Persistence,
        entry: &Arc<Entry>,
        head: Option<Slice<Buffer>>,
    ) {
        let (facts, fields) = (&entry.facts, format_args!("{}{}", entry.fields, entry.validators));
        let has_body = request.method == Method::Get;
        let range = match evaluate(request, facts, self.shared.clock.today) {
            Outcome::Send(Selected::Whole) => {
                self.whole_head(persistence, entry, head);
                0..facts.len
            }
            Outcome::Send(Selected::Part(range)) => {
                self.shared.counts.ranges += 1;
                let Range { start, end } = range;
                let range = format_args!("Content-Range: bytes {start}-{}/{}\r\n", end - 1, facts.len);
                let fields = format_args!("{fields}{range}");
                self.head(Status::PARTIAL_CONTENT, persistence, fields, Some(end - start));
                start..end
            }
            Outcome::Send(Selected::Unsatisfiable) => {
                let fields = format_args!("Content-Range: bytes */{}\r\n", facts.len);
                return self.status(Status::RANGE_NOT_SATISFIABLE, has_body, persistence, fields);
            }
            Outcome::Status(Status::NOT_MODIFIED) => {
                self.shared.counts.not_modified += 1;
                self.head(Status::NOT_MODIFIED, persistence, format_args!("{}", entry.validators), None);
                return self.finish();
            }
            Outcome::Status(status) => {
                return self.status(status, has_body, persistence, format_args!(""));
            }
        };
        if has_body { self.body(entry, range) } else { self.finish() }
    }

    /// Sends the head of a response with a whole file, from the cache if it has the current date.
    fn whole_head(&mut self, persistence: Persistence, entry: &Entry, head: Option<Slice<Buffer>>) {
        let is_usual = persistence == Persistence::Implied;
        if let Some(head) = head.filter(|_| is_usual) {
            return self.send(head);
        }
        let fields = format_args!("{}{}", entry.fields, entry.validators);
        let head = self.head(Status::OK, persistence, fields, Some(entry.facts.len));
        if let Some(head) = head.filter(|_| is_usual) {
            self.shared.cache.keep_head(&self.shared.path, self.shared.clock.today, &head);
        }
    }

    fn body(&mut self, entry: &Entry, range: Range<u64>) {
        match &entry.body {
            Body::Memory { data, .. } => {
                let mut data = data.clone();
                data.narrow(range.start as usize..range.end as usize);
                self.send_body(data);
                self.finish();
            }
            Body::Blocks(file) => {
                self.c.state = State::Stream(Stream::new(file.clone(), range));
            }
        }
    }
}
