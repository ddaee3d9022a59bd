//! `linerate lab list`: lists every experiment, with the factors that it changes.

use console::Output;
use serde::Serialize;
use studies::factors::{COMBINATIONS, FACTORS, Factor, cell, cells, everything};

/// All experiments.
#[derive(Serialize)]
struct List {
    /// Single factors.
    factors: &'static [Factor],
    /// The study's combinations of factors.
    combinations: Vec<String>,
    /// All combinations of the six factors with a letter.
    cells: Vec<String>,
    /// Number of distinct experiments.
    experiments: usize,
}

/// Prints the list.
pub(super) fn run(output: Output) -> anyhow::Result<()> {
    let list = List {
        factors: &FACTORS,
        combinations: COMBINATIONS.iter().map(|letters| cell(letters.chars()).name).collect(),
        cells: cells().into_iter().map(|named| named.name).collect(),
        experiments: everything().len(),
    };
    console::print(&list, output, table)
}

fn table(list: &List) -> String {
    let rows = list.factors.iter().map(|factor| {
        let letter = factor.letter.map_or_else(String::new, |letter| letter.to_string());
        vec![factor.id.to_string(), factor.name.to_owned(), letter, factor.title.to_owned()]
    });
    let factors = console::table(&[">ID", "NAME", "LETTER", "CHANGE"], rows);
    format!(
        "{factors}\n\nThe study's combinations ({}):\n{}\n\nCombinations of a to f that `--cells` runs ({}):\n{}\n\n\
         {} experiments in all: `linerate lab run --all`",
        list.combinations.len(),
        paragraph(&list.combinations),
        list.cells.len(),
        paragraph(&list.cells),
        list.experiments
    )
}

/// Wraps words into lines of up to 80 characters.
fn paragraph(words: &[String]) -> String {
    let mut lines = vec![String::new()];
    for word in words {
        if lines.last().is_some_and(|line| line.len() + word.len() >= 80) {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
    }
    lines.join("\n")
}
