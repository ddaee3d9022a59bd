//! Rates of the last minutes as a line of blocks.

use crate::dataplane::rate_history::PortHistory;

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Packets received and sent by a port, in at most `width` blocks of equal time, each of which shows the highest rate
/// in its time. The highest block is the highest rate of all.
pub(super) fn sparkline(history: &PortHistory, width: usize) -> String {
    let sums: Vec<f32> = history.rx.iter().zip(&history.tx).map(|(rx, tx)| rx + tx).collect();
    let each = sums.len().div_ceil(width).max(1);
    // Full blocks at the right, where the latest samples are.
    let blocks: Vec<f32> = sums.rchunks(each).map(|part| part.iter().copied().fold(0.0, f32::max)).collect();
    let highest = blocks.iter().copied().fold(0.0, f32::max);
    let block = |rate: &f32| match (rate / highest * 7.0).round() {
        _ if *rate <= 0.0 => ' ',
        level => BLOCKS[level as usize % BLOCKS.len()],
    };
    blocks.iter().rev().map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_stays_visible_in_a_block_of_many_samples() {
        let history = |rx: Vec<f32>| PortHistory { tx: vec![0.0; rx.len()], rx, drops: Vec::new() };
        assert_eq!(sparkline(&history(vec![]), 4), "");
        assert_eq!(sparkline(&history(vec![0.0, 1.0, 7.0]), 4), " ▂█");
        let mut rates = vec![1.0; 20];
        rates[9] = 7.0;
        assert_eq!(sparkline(&history(rates), 4), "▂█▂▂");
        assert_eq!(sparkline(&history(vec![0.0; 9]), 3), "   ");
    }
}
