//! IPFIX (RFC 7011) with the information elements of RFC 7012 and RFC 5477: flows of sampled packets.
//!
//! An [`Exporter`] adds packets to a bounded cache of flows and returns messages with records of flows that have ended,
//! as Open vSwitch's bridge export does. Counts are those of the sampled packets; an options record tells the sampling
//! rate. `key` has the fields that identify a flow, `template` the layout of records, `message` puts them into
//! messages.

mod cache;
mod key;
mod message;
mod template;
#[cfg(test)]
mod tests;

pub use key::FlowKey;

use cache::{Cache, EndReason, Ended};
use message::Messages;
use std::time::Duration;
use template::SelectorReport;

/// Interval of templates and options records (RFC 7011, section 8.4: they are resent, since UDP may lose them).
const TEMPLATE_INTERVAL: Duration = Duration::from_mins(1);
/// Maximum delay of a record, and resolution of timeouts.
const DELAY: Duration = Duration::from_secs(1);

/// Settings of an exporter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExporterConfig {
    /// Observation domain, unique among those that a collector gets from one address.
    pub domain: u32,
    /// Observation point.
    pub point: u32,
    /// Mean number of packets for a sample, from 1.
    pub rate: u32,
    /// Maximum time from the first packet of a flow to its record; zero: a record for each packet.
    pub active_timeout: Duration,
    /// Maximum time from the last packet of a flow to its record.
    pub idle_timeout: Duration,
    /// Maximum flows; 0: a record for each packet. The oldest flow ends if there is another one.
    pub max_flows: usize,
}

/// A sampled packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Interface that received it.
    pub input: u32,
    /// Interface that sent it; 0 if there is none or several.
    pub output: u32,
    /// Length of the frame in bytes, without its frame check sequence.
    pub frame_len: u32,
    /// First bytes of the frame.
    pub header: &'a [u8],
}

/// Counts of all interfaces of an exporter, for the options record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets that could have been sampled.
    pub observed: u64,
    /// Sampled packets.
    pub selected: u64,
}

/// An exporter for one bridge. All times are since its start.
#[derive(Debug)]
pub struct Exporter {
    config: ExporterConfig,
    cache: Cache,
    messages: Messages,
    /// When templates are due.
    templates: Duration,
    /// When timeouts are checked.
    check: Duration,
}

impl Exporter {
    /// An exporter without flows, which started at `start` since 1970 (UTC).
    pub fn new(config: ExporterConfig, start: Duration) -> Self {
        let cache = Cache::new(config.active_timeout, config.idle_timeout, config.max_flows);
        let messages = Messages::new(config.domain, start);
        Self { config, cache, messages, templates: Duration::ZERO, check: Duration::ZERO }
    }

    /// Flows in the cache.
    pub fn flows(&self) -> usize {
        self.cache.len()
    }

    /// Adds a sampled packet. [`Exporter::tick`] must have been called before, so that templates precede records.
    pub fn add(&mut self, packet: &Packet<'_>, now: Duration) {
        if let Some(ended) = self.cache.add(packet, now) {
            self.report(&ended, now);
        }
    }

    /// Ends flows, and sends templates and messages that are due. Returns the time of the next call.
    pub fn tick(&mut self, totals: Totals, now: Duration) -> Duration {
        if now >= self.templates {
            self.templates = now + TEMPLATE_INTERVAL;
            self.announce(totals, now);
        }
        if now >= self.check {
            self.check = now + DELAY;
            for ended in self.cache.expire(now) {
                self.report(&ended, now);
            }
            self.messages.flush(now);
        }
        self.check.min(self.templates)
    }

    /// Ends all flows and the last message.
    pub fn finish(&mut self, now: Duration) {
        for ended in self.cache.end_all(EndReason::Forced) {
            self.report(&ended, now);
        }
        self.messages.flush(now);
    }

    /// Takes the messages to send, oldest first.
    pub fn take_messages(&mut self) -> Vec<Vec<u8>> {
        self.messages.take()
    }

    fn report(&mut self, ended: &Ended, now: Duration) {
        let mut record = Vec::with_capacity(template::MAX_RECORD);
        template::encode(ended, self.config.point, self.messages.start(), &mut record);
        self.messages.add(ended.key.shape().id(), &record, now);
    }

    fn announce(&mut self, totals: Totals, now: Duration) {
        for template in template::all() {
            self.messages.add_template(template::TEMPLATE_SET, &template, now);
        }
        self.messages.add_template(template::OPTIONS_SET, &template::options(), now);
        let report = SelectorReport { selector: self.config.point, rate: self.config.rate, totals };
        self.messages.add(template::OPTIONS_ID, &report.encode(), now);
        self.messages.flush(now);
    }
}
