//! `linerate top`: the switch live. `rates` turns two readings into rates, `view` draws them; this module reads,
//! waits and listens to the keyboard.

mod rates;
mod view;

use crate::api::client::Client;
use crate::api::model::Snapshot;
use crate::args::TopArgs;
use crate::show;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use rates::Rates;
use std::time::{Duration, Instant};

/// Shows rates until `q` is pressed, or once.
pub(crate) fn run(args: &TopArgs, client: &Client) -> anyhow::Result<()> {
    let interval = Duration::from_secs_f64(args.interval);
    let first: Snapshot = client.get("/v1/snapshot")?;
    if args.once {
        std::thread::sleep(interval);
        let second = client.get("/v1/snapshot")?;
        return show::print(&rates::between(&first, &second), args.output, view::text);
    }
    let mut terminal = ratatui::try_init()?;
    let result = live(&mut terminal, client, first, interval);
    ratatui::restore();
    result
}

fn live(
    terminal: &mut ratatui::DefaultTerminal,
    client: &Client,
    mut last: Snapshot,
    interval: Duration,
) -> anyhow::Result<()> {
    let mut rates = rates::between(&Snapshot::default(), &last);
    loop {
        draw(terminal, &rates, client)?;
        if wait(terminal, interval, &rates, client)? {
            return Ok(());
        }
        let now: Snapshot = client.get("/v1/snapshot")?;
        rates = rates::between(&last, &now);
        last = now;
    }
}

fn draw(terminal: &mut ratatui::DefaultTerminal, rates: &Rates, client: &Client) -> anyhow::Result<()> {
    terminal.draw(|frame| view::draw(frame, rates, client.socket()))?;
    Ok(())
}

/// Waits for the next reading; `true` when the user wants to leave. A resized window is drawn anew at once.
fn wait(
    terminal: &mut ratatui::DefaultTerminal,
    interval: Duration,
    rates: &Rates,
    client: &Client,
) -> anyhow::Result<bool> {
    let until = Instant::now() + interval;
    while event::poll(until.saturating_duration_since(Instant::now()))? {
        match event::read()? {
            Event::Key(key) if leaves(key) => return Ok(true),
            Event::Resize(..) => draw(terminal, rates, client)?,
            _ => {}
        }
    }
    Ok(false)
}

fn leaves(key: KeyEvent) -> bool {
    let control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) || control_c
}
