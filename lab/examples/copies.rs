//! What copies between host and guest cost, by size and by where lines are: the second study, simulated, or measured here where
//! the first argument is `real` (and the second a number of rounds). `linerate lab copies` does the same, keeps it, and turns it into a report.
use std::num::NonZeroUsize;

use lab::cache::copystudy::{Plan, Selection, measure, simulate_all};
use lab::cache::simulated::Profile;
use lab::report::copies_text;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut quiet = |_: usize, _: usize, _: &str| ();
    let selection = Selection::default();
    let jobs = std::thread::available_parallelism()?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let results = if arguments.first().is_some_and(|memory| memory == "real") {
        let rounds = arguments.get(1).map_or(Ok(30), |rounds| rounds.parse())?;
        let batches = NonZeroUsize::MIN.saturating_add(63);
        measure(&Plan { selection, rounds, batches, seed: 1 }, &mut quiet)?
    } else {
        simulate_all(&Profile::two_sockets(), &selection, jobs, &mut quiet)?
    };
    println!("{}", copies_text(&results));
    Ok(())
}
