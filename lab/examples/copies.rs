//! What copies between host and guest cost, by size and by where lines are: the second study in the simulator.
//! With a folder's name as its argument it also leaves two pictures and the results there.
use lab::cache::copystudy::{Direction, plot, simulate_all};
use lab::cache::simulated::Profile;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let results = simulate_all(&Profile::two_sockets())?;
    println!("Simulated: {}. Cycles per packet.\n", results.processor);
    println!("Host to guest\n{}", results.table(Direction::HostToGuest));
    println!("Guest to host\n{}", results.table(Direction::GuestToHost));
    for note in &results.notes {
        println!("{note}");
    }
    if let Some(folder) = std::env::args_os().nth(1).map(std::path::PathBuf::from) {
        std::fs::write(folder.join("copies-to-guest.svg"), plot(&results, Direction::HostToGuest))?;
        std::fs::write(folder.join("copies-from-guest.svg"), plot(&results, Direction::GuestToHost))?;
        std::fs::write(folder.join("copies.json"), serde_json::to_string_pretty(&results)?)?;
    }
    Ok(())
}
