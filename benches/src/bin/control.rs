//! Measures the cost of opening and closing connections for the data path of the service.
//!
//! `control [REQUESTS] [REPEATS]` prints the replies per second of an echo server behind the service, while another
//! client does nothing, attaches and detaches, or opens and closes connections; and how long the service works in a
//! round. The variants take turns, and the median of all repeats is printed.

use anyhow::Result;
use benches::stack::control::{Other, Reading, measure};

const OTHERS: [Other; 3] = [Other::Nothing, Other::Attach, Other::Open];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let (requests, repeats) = (number(0, 20_000)?, number(1, 5)?);
    let mut readings = OTHERS.map(|_| Vec::new());
    for _ in 0..repeats {
        for (other, readings) in OTHERS.iter().zip(&mut readings) {
            readings.push(measure(*other, requests)?);
        }
    }
    println!("median of {repeats}, {requests} requests each");
    println!(
        "{:>8} {:>12} {:>14} {:>20} {:>20}",
        "other", "requests/s", "operations/s", "longest round (us)", "rounds >= 100 us/s"
    );
    for (other, readings) in OTHERS.iter().zip(&readings) {
        let [requests, others, longest, long] = [
            |reading: &Reading| reading.requests,
            |reading: &Reading| reading.others,
            |reading: &Reading| reading.longest,
            |reading: &Reading| reading.long,
        ]
        .map(|value| median(readings.iter().map(value).collect()));
        let name = format!("{other:?}").to_lowercase();
        println!("{name:>8} {requests:>12.0} {others:>14.0} {longest:>20.0} {long:>20.1}");
    }
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
