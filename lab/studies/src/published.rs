//! What the study published, for the reader to compare with: reference points, which enter no analysis of ours.
//!
//! What is known of them: the study gives one number of misses and of RFO cycles for each configuration, and does not say
//! of which of its three threads, or whether of all together. It says in words that the guest's misses govern the
//! throughput, not Rx's or Tx's. So ours stand beside them thread by thread, and no thread is picked.
//!
//! Source: A comprehensive evaluation of cache effects in vhost-user (Nagoya Institute of Technology and BOSCO
//! Technologies, 2022), on an Intel Core i9-7940X at 3.1 GHz.

use super::results::Row;

/// Where the numbers come from.
pub const SOURCE: &str = "A comprehensive evaluation of cache effects in vhost-user, Nagoya Institute of Technology \
     and BOSCO Technologies, 2022; measured there on an Intel Core i9-7940X, 3.1 GHz";

/// What a published number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Millions of packets a second
    Mpps,
    /// Load misses of the first level in a thousand instructions
    L1Mpki,
    /// Load misses of the second level in a thousand instructions
    L2Mpki,
    /// Cycles per packet with a demand request for ownership outstanding
    RfoCycles,
}

impl Quantity {
    /// As a table has it.
    pub fn name(self) -> &'static str {
        match self {
            Quantity::Mpps => "throughput, Mpps",
            Quantity::L1Mpki => "L1 misses / kilo-instruction",
            Quantity::L2Mpki => "L2 misses / kilo-instruction",
            Quantity::RfoCycles => "off-core RFO, cycles / packet",
        }
    }

    /// The same of a row of ours: one number, or one for each of Rx, Guest and Tx. The study does not say of which
    /// thread its counts are.
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
    /// The configuration, by our name
    pub configuration: &'static str,
    /// What it is
    pub quantity: Quantity,
    /// As published
    pub value: f64,
    /// Only a lower bound was published
    pub at_least: bool,
}

const fn reference(configuration: &'static str, quantity: Quantity, value: f64) -> Reference {
    Reference { configuration, quantity, value, at_least: false }
}

/// All of them: the four headline cases, the uses of the header, and the best of all.
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
    fn each_is_of_a_configuration_that_can_be_run_here() {
        for reference in REFERENCES {
            let named = factors::find(reference.configuration).expect("it is listed");
            assert_eq!(named.name, reference.configuration);
        }
    }
}
