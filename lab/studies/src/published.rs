//! Numbers published by the study, for comparison by the reader; they enter no analysis.
//!
//! Limits: the study gives one number of misses and of RFO cycles per configuration, and does not state whether it
//! refers to one of its three threads or to all. According to its text, the guest's misses govern throughput, not those
//! of Rx or Tx. Our results are therefore shown per thread, and none is selected.
//!
//! Source: A comprehensive evaluation of cache effects in vhost-user (Nagoya Institute of Technology and BOSCO
//! Technologies, 2022), on an Intel Core i9-7940X at 3.1 GHz.

use super::results::Row;

/// Source of the numbers.
pub const SOURCE: &str = "A comprehensive evaluation of cache effects in vhost-user, Nagoya Institute of Technology \
     and BOSCO Technologies, 2022; measured there on an Intel Core i9-7940X, 3.1 GHz";

/// Quantity of a published number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Millions of packets per second
    Mpps,
    /// First-level load misses per thousand instructions
    L1Mpki,
    /// Second-level load misses per thousand instructions
    L2Mpki,
    /// Cycles per packet with a demand request for ownership outstanding
    RfoCycles,
}

impl Quantity {
    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Quantity::Mpps => "throughput, Mpps",
            Quantity::L1Mpki => "L1 misses / kilo-instruction",
            Quantity::L2Mpki => "L2 misses / kilo-instruction",
            Quantity::RfoCycles => "off-core RFO, cycles / packet",
        }
    }

    /// Returns the same quantity of one of our rows: one number, or one each for Rx, Guest and Tx, because the study
    /// does not state the thread of its counts.
    pub fn of(self, row: &Row) -> Vec<f64> {
        let each = |read: fn(&super::results::ThreadRow) -> f64| row.threads.iter().map(read).collect();
        match self {
            Quantity::Mpps => vec![row.mpps],
            Quantity::L1Mpki => each(super::results::ThreadRow::l1_mpki),
            Quantity::L2Mpki => each(super::results::ThreadRow::l2_mpki),
            Quantity::RfoCycles => each(|thread| thread.rfo_cycles),
        }
    }
}

/// One published number.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    /// Our name of the configuration
    pub configuration: &'static str,
    /// Quantity
    pub quantity: Quantity,
    /// Published value
    pub value: f64,
    /// Whether the value is only a lower bound
    pub at_least: bool,
}

const fn reference(configuration: &'static str, quantity: Quantity, value: f64) -> Reference {
    Reference { configuration, quantity, value, at_least: false }
}

/// All published numbers: the four headline cases, the uses of the header, and the best result.
pub const REFERENCES: [Reference; 19] = [
    reference("base", Quantity::Mpps, 13.5),
    reference("a", Quantity::Mpps, 17.8),
    reference("d", Quantity::Mpps, 20.8),
    reference("a+d", Quantity::Mpps, 37.5),
    Reference { at_least: true, ..reference("a+b+c+d+e+f", Quantity::Mpps, 50.0) },
    reference("header-prefetched", Quantity::Mpps, 17.3),
    reference("header-not-written", Quantity::Mpps, 20.8),
    reference("base", Quantity::L1Mpki, 4.1),
    reference("a", Quantity::L1Mpki, 3.6),
    reference("d", Quantity::L1Mpki, 1.8),
    reference("a+d", Quantity::L1Mpki, 0.7),
    reference("base", Quantity::L2Mpki, 3.6),
    reference("a", Quantity::L2Mpki, 3.5),
    reference("d", Quantity::L2Mpki, 1.1),
    reference("a+d", Quantity::L2Mpki, 0.5),
    reference("base", Quantity::RfoCycles, 206.4),
    reference("a", Quantity::RfoCycles, 1.4),
    reference("d", Quantity::RfoCycles, 2.8),
    reference("a+d", Quantity::RfoCycles, 1.5),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::factors;

    #[test]
    fn each_reference_has_a_runnable_configuration() {
        for reference in REFERENCES {
            let named = factors::find(reference.configuration).expect("it is listed");
            assert_eq!(named.name, reference.configuration);
        }
    }
}
