//! What copies between host and guest cost, by size and by where lines are: the second study, simulated, or measured here where
//! the first argument is `real`. `linerate lab copies` does the same, keeps it, and turns it into a report.
use std::num::NonZeroUsize;

use lab::cache::copystudy::{Plan, Selection, measure, simulate_all};
use lab::cache::simulated::Profile;
use lab::report::copies_text;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut quiet = |_: usize, _: usize, _: &str| ();
    let selection = Selection::default();
    let jobs = std::thread::available_parallelism()?;
    let results = if std::env::args().nth(1).is_some_and(|memory| memory == "real") {
        let batches = NonZeroUsize::MIN.saturating_add(63);
        measure(&Plan { selection, rounds: 30, batches, seed: 1 }, &mut quiet)?
    } else {
        simulate_all(&Profile::two_sockets(), &selection, jobs, &mut quiet)?
    };
    println!("{}", copies_text(&results));
    Ok(())
}
