//! Export of one bridge: samples and counters become datagrams for its collectors.

use super::collector::Collector;
use super::ports::{Ports, interface};
use crate::dataplane::export_report::ExporterReport;
use crate::settings::export::{IpfixSettings, SflowSettings};
use crate::settings::topology::BridgeSettings;
use ::export::ipfix::{Exporter, ExporterConfig, Packet, Totals};
use ::export::sample::{Counts, Purpose, Sample};
use ::export::sflow::{Agent, FlowSample, InterfaceCounters, Output, Switched};
use engine::PortSnapshot;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, SystemTime};
use wire::Ethernet;

/// A bridge with sFlow, IPFIX or both.
pub(super) struct BridgeExport {
    pub(super) name: String,
    sflow: Option<Sflow>,
    ipfix: Option<Ipfix>,
}

struct Sflow {
    settings: SflowSettings,
    agent: Agent,
    collectors: Vec<Collector>,
    /// When counters are due.
    poll: Duration,
}

struct Ipfix {
    settings: IpfixSettings,
    exporter: Exporter,
    collectors: Vec<Collector>,
}

impl BridgeExport {
    /// The export of a bridge, the one with this number.
    pub(super) fn new(bridge: &BridgeSettings, number: u32) -> Self {
        Self {
            name: bridge.name.clone(),
            sflow: bridge.export.sflow.clone().map(|settings| Sflow::new(settings, number)),
            ipfix: bridge.export.ipfix.clone().map(Ipfix::new),
        }
    }

    /// Adds a sample of a port of this bridge.
    pub(super) fn add(&mut self, sample: &Sample, counts: Counts, ports: &Ports, now: Duration) {
        let is_for = |purpose: Purpose| sample.purposes[purpose as usize];
        if let Some(sflow) = self.sflow.as_mut().filter(|_| is_for(Purpose::Sflow)) {
            sflow.add(sample, counts, ports, now);
        }
        if let Some(ipfix) = self.ipfix.as_mut().filter(|_| is_for(Purpose::Ipfix)) {
            ipfix.add(sample, now);
        }
    }

    /// Whether counters of the ports are due.
    pub(super) fn is_polling(&self, now: Duration) -> bool {
        self.sflow.as_ref().is_some_and(|sflow| now >= sflow.poll)
    }

    /// Reports the counters of a port of this bridge.
    pub(super) fn poll(&mut self, port: &PortSnapshot, speed: u64, now: Duration) {
        if let Some(sflow) = &mut self.sflow {
            sflow.agent.add_counters(&counters(port, speed), now);
        }
    }

    /// Ends a round of counters.
    pub(super) fn polled(&mut self, now: Duration) {
        if let Some(sflow) = &mut self.sflow {
            sflow.poll = now + sflow.settings.polling.0;
        }
    }

    /// Forgets a port.
    pub(super) fn remove(&mut self, index: u32) {
        if let Some(sflow) = &mut self.sflow {
            sflow.agent.remove(index);
        }
    }

    /// Sends what is due. `counts` are those of all ports.
    pub(super) fn tick(&mut self, counts: Counts, now: Duration) {
        if let Some(Sflow { agent, collectors, .. }) = &mut self.sflow {
            agent.tick(now);
            send(collectors, &agent.take_datagrams());
        }
        if let Some(Ipfix { exporter, collectors, .. }) = &mut self.ipfix {
            let at = Purpose::Ipfix as usize;
            let selected = counts.sampled[at].saturating_sub(counts.dropped[at]);
            exporter.tick(Totals { observed: counts.seen, selected }, now);
            send(collectors, &exporter.take_messages());
        }
    }

    /// Sends all that waits.
    pub(super) fn finish(&mut self, now: Duration) {
        if let Some(Sflow { agent, collectors, .. }) = &mut self.sflow {
            agent.flush(now);
            send(collectors, &agent.take_datagrams());
        }
        if let Some(Ipfix { exporter, collectors, .. }) = &mut self.ipfix {
            exporter.finish(now);
            send(collectors, &exporter.take_messages());
        }
    }

    /// Reports of both protocols.
    pub(super) fn reports(&self, counts: Counts) -> impl Iterator<Item = ExporterReport> {
        let report = |purpose: Purpose, protocol: &str, sampling, collectors: &[Collector]| ExporterReport {
            bridge: self.name.clone(),
            protocol: protocol.to_owned(),
            sampling,
            packets: counts.seen,
            samples: counts.sampled[purpose as usize],
            dropped: counts.dropped[purpose as usize],
            agent: None,
            flows: None,
            collectors: collectors.iter().map(Collector::report).collect(),
        };
        let sflow = self.sflow.as_ref().map(|Sflow { settings, agent, collectors, .. }| ExporterReport {
            agent: Some(agent.address()),
            ..report(Purpose::Sflow, "sflow", settings.sampling, collectors)
        });
        let ipfix = self.ipfix.as_ref().map(|Ipfix { settings, exporter, collectors }| ExporterReport {
            flows: Some(exporter.flows()),
            ..report(Purpose::Ipfix, "ipfix", settings.sampling, collectors)
        });
        sflow.into_iter().chain(ipfix)
    }
}

impl Sflow {
    fn new(settings: SflowSettings, number: u32) -> Self {
        let collectors = open(&settings.collectors);
        let local = || collectors.iter().find_map(Collector::local);
        let address = settings.agent.or_else(local).unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let (agent, poll) = (Agent::new(address, number), settings.polling.0);
        Self { settings, agent, collectors, poll }
    }

    fn add(&mut self, sample: &Sample, counts: Counts, ports: &Ports, now: Duration) {
        let outputs = sample.outputs;
        let output = match (outputs.count, outputs.first) {
            (1, Some(port)) => Output::Interface(interface(port)),
            (0, _) if outputs.punted => Output::Internal,
            (0, _) => Output::Dropped,
            (count, _) => Output::Interfaces(count.into()),
        };
        let header = &sample.header()[..sample.header().len().min(self.settings.header.into())];
        let received = Ethernet::new(header).ok().and_then(|frame| frame.tag());
        let vlan = |tag: Option<wire::Tag>, port| {
            tag.map_or((ports.vlan(port), 0), |tag: wire::Tag| (tag.vlan(), tag.priority()))
        };
        let switched = Switched {
            source: vlan(received, sample.port),
            destination: outputs.first.map_or((0, 0), |port| vlan(outputs.tag, port)),
        };
        let sample = FlowSample {
            interface: interface(sample.port),
            rate: self.settings.sampling,
            // Both are modulo 2^32.
            pool: counts.seen as u32,
            drops: counts.dropped[Purpose::Sflow as usize] as u32,
            output,
            switched,
            frame_len: sample.len,
            header,
        };
        self.agent.add_flow(&sample, now);
    }
}

impl Ipfix {
    fn new(settings: IpfixSettings) -> Self {
        let config = ExporterConfig {
            domain: settings.domain,
            point: settings.point,
            rate: settings.sampling,
            active_timeout: settings.cache_active_timeout.0,
            idle_timeout: settings.cache_idle_timeout.0,
            max_flows: settings.cache_max_flows as usize,
        };
        let start = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let collectors = open(&settings.collectors);
        Self { settings, exporter: Exporter::new(config, start), collectors }
    }

    fn add(&mut self, sample: &Sample, now: Duration) {
        let output = sample.outputs.first.filter(|_| sample.outputs.count == 1);
        let packet = Packet {
            input: interface(sample.port),
            output: output.map_or(0, interface),
            frame_len: sample.len,
            header: sample.header(),
        };
        self.exporter.add(&packet, now);
    }
}

fn counters(port: &PortSnapshot, speed: u64) -> InterfaceCounters {
    InterfaceCounters {
        interface: interface(port::PortId(port.id)),
        speed,
        is_up: port.state == "connected",
        rx: (port.rx_bytes, port.rx_packets),
        rx_dropped: port.drops.values().sum(),
        tx: (port.tx_bytes, port.tx_packets),
    }
}

fn open(addresses: &[SocketAddr]) -> Vec<Collector> {
    addresses.iter().copied().map(Collector::new).collect()
}

fn send(collectors: &mut [Collector], datagrams: &[Vec<u8>]) {
    for datagram in datagrams {
        for collector in collectors.iter_mut() {
            collector.send(datagram);
        }
    }
}
