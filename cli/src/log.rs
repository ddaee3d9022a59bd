//! The log of a running switch, on standard error: lines for people on a terminal; fields for the journal if systemd
//! has connected standard error to it; else one JSON object a line.

use crate::event_log::{EventLog, Recorder};
use clap::ValueEnum;
use console::Diagnostic;
use std::io::{IsTerminal, stderr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::fmt;
use tracing_subscriber::prelude::*;

/// systemd sets it to device and inode of the journal's socket for programs whose output goes there.
pub(crate) const JOURNAL_VARIABLE: &str = "JOURNAL_STREAM";

/// Format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Text on a terminal; the journal under systemd; else JSON
    #[default]
    Auto,
    /// Lines for people
    Text,
    /// One JSON object a line
    Json,
    /// Fields of systemd's journal
    Journal,
}

impl LogFormat {
    /// Form of a line that is written beside the log. The journal reads lines.
    pub(crate) fn line(self) -> confine::LogForm {
        if self == Self::Json { confine::LogForm::Json } else { confine::LogForm::Text }
    }
}

/// Whether standard error is the journal's socket. A program inherits the variable also if its output goes elsewhere.
fn is_journal(stream: Option<&str>, output: BorrowedFd<'_>) -> bool {
    let Some((device, inode)) = stream.and_then(|stream| stream.split_once(':')) else { return false };
    rustix::fs::fstat(output)
        .is_ok_and(|found| device == found.st_dev.to_string() && inode == found.st_ino.to_string())
}

/// Starts the log, which is also recorded in `events`, and returns its format. Without a terminal or a journal to
/// connect to, it is JSON.
pub(crate) fn start(
    format: LogFormat,
    level: Level,
    events: Option<Arc<EventLog>>,
) -> Result<LogFormat, Diagnostic> {
    let level = LevelFilter::from_level(level);
    let format = match format {
        LogFormat::Auto if stderr().is_terminal() => LogFormat::Text,
        LogFormat::Auto if is_journal(std::env::var(JOURNAL_VARIABLE).ok().as_deref(), stderr().as_fd()) => {
            LogFormat::Journal
        }
        LogFormat::Auto => LogFormat::Json,
        chosen => chosen,
    };
    let recorder = events.map(|events| Recorder(events).with_filter(filter_fn(Recorder::records)));
    let registry = tracing_subscriber::registry().with(recorder);
    let started = match format {
        LogFormat::Text | LogFormat::Auto => {
            let layer = fmt::layer().with_writer(stderr).with_target(false).with_ansi(stderr().is_terminal());
            registry.with(layer.with_filter(level)).try_init()
        }
        LogFormat::Json => {
            let layer = fmt::layer().json().flatten_event(true).with_writer(stderr).with_target(false);
            registry.with(layer.with_filter(level)).try_init()
        }
        LogFormat::Journal => match tracing_journald::layer() {
            Ok(layer) => registry.with(layer.with_filter(level)).try_init(),
            Err(error) => {
                let remedy = "start systemd-journald, or choose another format with --log";
                return Err(Diagnostic::failed("the journal", error, remedy));
            }
        },
    };
    started.map(|()| format).map_err(|error| Diagnostic::failed("the log", error, "report this"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journal_is_the_file_that_its_variable_names() {
        let file = tempfile::tempfile().unwrap();
        let found = rustix::fs::fstat(&file).unwrap();
        let stream = |inode: u64| format!("{}:{inode}", found.st_dev);
        assert!(is_journal(Some(&stream(found.st_ino)), file.as_fd()));
        let others = [Some(stream(found.st_ino + 1)), Some("8".to_owned()), None];
        assert!(others.iter().all(|other| !is_journal(other.as_deref(), file.as_fd())));
    }
}
