//! `linerate top`: live rates of the switch. `rates` computes rates from two readings, `view` draws them; this module
//! reads counters, waits and handles the keyboard. Without a terminal, rates are printed repeatedly as text, or as
//! JSON, one object per line.

mod rates;
mod sparkline;
mod view;

use crate::api::client::Client;
use crate::api::model::{BridgeStatus, Status};
use crate::args::TopArgs;
use crate::dataplane::rate_history::HistoryReport;
use console::{Diagnostic, Output, SIGNAL_POLL};
use engine::Snapshot;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use rates::Rates;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time until the first rates on the screen, at most.
const FIRST: Duration = Duration::from_millis(500);

/// All counters at one moment; those of bridges are read a little later than the others.
struct Reading {
    snapshot: Snapshot,
    bridges: Vec<BridgeStatus>,
    history: HistoryReport,
}

impl Reading {
    fn of(client: &Client) -> Result<Self, Diagnostic> {
        let snapshot = client.get("/v1/snapshot")?;
        let Status { bridges, .. } = client.get("/v1/status")?;
        let history = client.get("/v1/history")?;
        Ok(Self { snapshot, bridges, history })
    }

    /// Rates between this reading and a later one.
    fn until(&self, later: &Self) -> Rates {
        let mut rates = rates::between(&self.snapshot, &later.snapshot);
        for port in &mut rates.ports {
            port.history = later.history.ports.get(&port.name).cloned().unwrap_or_default();
        }
        Rates { bridges: rates::of_bridges(&self.bridges, &later.bridges, rates.seconds), ..rates }
    }
}

/// Shows rates until `q` is pressed, or once.
pub(crate) fn run(args: &TopArgs, client: &Client) -> anyhow::Result<()> {
    let interval = args.interval.0;
    let first = Reading::of(client)?;
    let ended = ended()?;
    if args.once {
        // After a signal, the rates are those over the time until it.
        console::sleep(interval, &ended);
        return console::print(&first.until(&Reading::of(client)?), args.show.output, view::text);
    }
    if args.show.output == Output::Json || !console::is_screen(&std::io::stdout()) {
        return follow(client, first, interval, args.show.output, &ended);
    }
    let mut terminal = ratatui::try_init()?;
    let result = Screen { terminal: &mut terminal, client, first: 0, ended }.run(first, interval);
    ratatui::restore();
    result
}

/// A flag set by signals, which end the command with exit code 0.
fn ended() -> std::io::Result<Arc<AtomicBool>> {
    console::register_signals(|| {
        let ended = Arc::new(AtomicBool::new(false));
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, ended.clone())?;
        }
        Ok(ended)
    })
}

/// Prints readings until the output is closed or a signal arrives.
fn follow(
    client: &Client,
    mut last: Reading,
    interval: Duration,
    output: Output,
    ended: &AtomicBool,
) -> anyhow::Result<()> {
    loop {
        if console::sleep(interval, ended) {
            return Ok(());
        }
        let now = Reading::of(client)?;
        let rates = last.until(&now);
        let text = match output {
            Output::Table => format!("over {:.1} s\n{}\n\n", rates.seconds, view::text(&rates)),
            Output::Json => format!("{}\n", serde_json::to_string(&rates)?),
        };
        console::raw(text.as_bytes())?;
        last = now;
    }
}

/// State of the terminal display.
struct Screen<'a> {
    terminal: &'a mut ratatui::DefaultTerminal,
    client: &'a Client,
    /// Index of the first port shown.
    first: usize,
    ended: Arc<AtomicBool>,
}

impl Screen<'_> {
    fn run(&mut self, mut last: Reading, interval: Duration) -> anyhow::Result<()> {
        // Without rates: counters that another process has handed over are older than this one.
        let (mut rates, mut until) = (last.until(&last), interval.min(FIRST));
        loop {
            self.draw(&rates)?;
            if self.wait(std::mem::replace(&mut until, interval), &rates)? {
                return Ok(());
            }
            let now = Reading::of(self.client)?;
            rates = last.until(&now);
            last = now;
        }
    }

    fn draw(&mut self, rates: &Rates) -> anyhow::Result<()> {
        let (socket, first) = (self.client.socket(), &mut self.first);
        self.terminal.draw(|frame| view::draw(frame, rates, socket, first))?;
        Ok(())
    }

    /// Waits for the next reading. Returns `true` if the user quits. Redraws at once when the window is resized.
    fn wait(&mut self, interval: Duration, rates: &Rates) -> anyhow::Result<bool> {
        let until = Instant::now() + interval;
        while !self.ended.load(Ordering::Relaxed) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            if !event::poll(left.min(SIGNAL_POLL))? {
                continue;
            }
            match event::read()? {
                Event::Key(key) if leaves(key) => return Ok(true),
                Event::Key(key) => self.first = scrolled(self.first, key.code),
                Event::Resize(..) => {}
                _ => continue,
            }
            self.draw(rates)?;
        }
        Ok(true)
    }
}

fn leaves(key: KeyEvent) -> bool {
    let control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) || control_c
}

/// Index of the first port after a key press; drawing clamps it.
fn scrolled(first: usize, key: KeyCode) -> usize {
    match key {
        KeyCode::Down | KeyCode::Char('j') => first + 1,
        KeyCode::Up | KeyCode::Char('k') => first.saturating_sub(1),
        KeyCode::PageDown => first + 10,
        KeyCode::PageUp => first.saturating_sub(10),
        KeyCode::Home => 0,
        KeyCode::End => usize::MAX / 2,
        _ => first,
    }
}
