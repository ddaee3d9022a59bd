//! The log of a running switch, on standard error: lines for people on a terminal; fields for the journal if systemd has
//! connected standard error to it; else one JSON object a line.

use clap::ValueEnum;
use console::Diagnostic;
use std::io::{IsTerminal, stderr};
use tracing::Level;
use tracing_subscriber::filter::LevelFilter;
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

/// Starts the log and returns its format. Without a terminal or a journal to connect to, it is JSON.
pub(crate) fn start(format: LogFormat, level: Level) -> Result<LogFormat, Diagnostic> {
    let level = LevelFilter::from_level(level);
    let format = match format {
        LogFormat::Auto if stderr().is_terminal() => LogFormat::Text,
        LogFormat::Auto if std::env::var_os(JOURNAL_VARIABLE).is_some() => LogFormat::Journal,
        LogFormat::Auto => LogFormat::Json,
        chosen => chosen,
    };
    let registry = tracing_subscriber::registry().with(level);
    let started = match format {
        LogFormat::Text | LogFormat::Auto => {
            let layer = fmt::layer().with_writer(stderr).with_target(false).with_ansi(stderr().is_terminal());
            registry.with(layer).try_init()
        }
        LogFormat::Json => registry
            .with(fmt::layer().json().flatten_event(true).with_writer(stderr).with_target(false))
            .try_init(),
        LogFormat::Journal => match tracing_journald::layer() {
            Ok(layer) => registry.with(layer).try_init(),
            Err(error) => {
                let remedy = "start systemd-journald, or choose another format with --log";
                return Err(Diagnostic::failed("the journal", error, remedy));
            }
        },
    };
    started.map(|()| format).map_err(|error| Diagnostic::failed("the log", error, "report this"))
}
