//! The studies of use, run and printed as they are.

use lab::usage::{budget, mistake};
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let lengths = budget::Lengths { calls: Duration::from_millis(300), rate: Duration::from_millis(200) };
    let budget = budget::measure([0, 1], lengths, &mut |_| {})?;
    for reading in &budget.delays {
        println!("{reading:?}");
    }
    println!("step {}", budget.step_ns);
    for calls in &budget.calls {
        println!("{calls:?}");
    }
    for prediction in &budget.predictions {
        println!("{:6.2} % {prediction:?}", prediction.error_percent());
    }
    for stage in mistake::measure(100_000)? {
        println!("{stage:?}");
    }
    Ok(())
}
