//! Multipart requests (OpenFlow 1.3.5, 7.3.5): which module answers each, and the statistics of flows.

use crate::asynchronous::since;
use crate::limits;
use crate::request::{Answer, Request};
use flow::tables::{Flow, Tables};
use flow::{PortNo, TableId};
use openflow::{Aggregate, ErrorCode, FlowStats, FlowStatsRequest, MultipartReply, MultipartRequest};
use port::Now;

/// The first parts of a request of several messages.
pub(crate) struct Partial {
    xid: u32,
    request: MultipartRequest,
    /// Length of the messages so far.
    bytes: usize,
}

impl Partial {
    /// Memory in bytes, at most: decoded entries are larger than their messages.
    pub(crate) fn memory(&self) -> usize {
        2 * self.bytes
    }
}

impl Request<'_> {
    pub(crate) fn multipart(&mut self, request: MultipartRequest, more: bool) -> Answer {
        let Some(request) = self.assemble(request, more)? else { return Ok(()) };
        match request {
            MultipartRequest::Desc => {
                let description = self.switch.identity.description.clone();
                self.reply_part(MultipartReply::Desc(Box::new(description)))
            }
            MultipartRequest::Flow(request) => self.flow_stats(&request, MultipartReply::Flow),
            MultipartRequest::NxFlow(request) => self.flow_stats(&request, MultipartReply::NxFlow),
            MultipartRequest::Aggregate(request) => {
                let sums = self.aggregate(&request)?;
                self.reply_part(MultipartReply::Aggregate(sums))
            }
            MultipartRequest::NxAggregate(request) => {
                let sums = self.aggregate(&request)?;
                self.reply_part(MultipartReply::NxAggregate(sums))
            }
            MultipartRequest::Table => self.table_stats(),
            MultipartRequest::Port(port) => self.port_stats(port),
            MultipartRequest::Queue(request) => self.queue_stats(request),
            MultipartRequest::Group(id) => self.group_stats(id),
            MultipartRequest::GroupDesc(id) => self.group_desc(id),
            MultipartRequest::GroupFeatures => self.group_features(),
            MultipartRequest::Meter(id) => self.meter_stats(id),
            MultipartRequest::MeterConfig(id) => self.meter_config(id),
            MultipartRequest::MeterFeatures => self.meter_features(),
            MultipartRequest::TableFeatures(tables) => self.table_features(&tables),
            MultipartRequest::PortDesc(port) => self.port_desc(port),
            MultipartRequest::TableDesc => self.table_desc(),
            MultipartRequest::QueueDesc(request) => self.queue_desc(request),
            MultipartRequest::FlowMonitor(requests) => self.flow_monitor(requests),
            MultipartRequest::Experimenter(_) => Err(ErrorCode::RequestBadExperimenter),
        }
    }

    /// Adds a part to the earlier ones; `None` if more parts follow. A request with another transaction identifier
    /// discards them.
    fn assemble(
        &mut self,
        request: MultipartRequest,
        more: bool,
    ) -> Result<Option<MultipartRequest>, ErrorCode> {
        let earlier = self.session.partial.take().filter(|earlier| earlier.xid == self.xid);
        let mut bytes = self.bytes.len();
        let request = match earlier {
            None => request,
            Some(earlier) => {
                bytes += earlier.bytes;
                join(earlier.request, request)
            }
        };
        let is_list =
            matches!(request, MultipartRequest::TableFeatures(_) | MultipartRequest::FlowMonitor(_));
        if bytes > limits::PARTS || more && !is_list {
            return Err(ErrorCode::RequestMultipartBufferOverflow);
        }
        if !more {
            return Ok(Some(request));
        }
        self.session.partial = Some(Partial { xid: self.xid, request, bytes });
        Ok(None)
    }

    fn flow_stats(
        &mut self,
        request: &FlowStatsRequest,
        part: fn(Vec<FlowStats>) -> MultipartReply,
    ) -> Answer {
        let (flows, now) = (self.selected(request)?, self.now);
        self.reply_list(flows, move |flow| stats_of(&flow, now), part)
    }

    fn aggregate(&mut self, request: &FlowStatsRequest) -> Result<Aggregate, ErrorCode> {
        let flows = self.selected(request)?;
        self.session.output.end_turn();
        let none = Aggregate { packets: 0, bytes: 0, flows: flows.len() as u32 };
        Ok(flows.iter().map(|flow| flow.entry().counts()).fold(none, |sums, (packets, bytes)| Aggregate {
            packets: sums.packets.wrapping_add(packets),
            bytes: sums.bytes.wrapping_add(bytes),
            ..sums
        }))
    }

    fn selected(&self, request: &FlowStatsRequest) -> Result<Vec<Flow>, ErrorCode> {
        let mut flows = covered(&self.datapath.tables(), request.table, &self.normal(&request.matching)?);
        flows.retain(|flow| {
            let differs = flow.entry().cookie() ^ request.cookie;
            differs & request.cookie_mask == 0 && leads_to(flow, request.out_port, request.out_group)
        });
        Ok(flows)
    }
}

/// The parts of one list; a part of another kind replaces the earlier ones.
fn join(earlier: MultipartRequest, next: MultipartRequest) -> MultipartRequest {
    match (earlier, next) {
        (MultipartRequest::TableFeatures(mut list), MultipartRequest::TableFeatures(more)) => {
            list.extend(more);
            MultipartRequest::TableFeatures(list)
        }
        (MultipartRequest::FlowMonitor(mut list), MultipartRequest::FlowMonitor(more)) => {
            list.extend(more);
            MultipartRequest::FlowMonitor(list)
        }
        (_, next) => next,
    }
}

/// The flows of one table, or of all, that `matching` covers.
pub(crate) fn covered(tables: &Tables, table: TableId, matching: &flow::Match) -> Vec<Flow> {
    let numbers = if table == TableId::ALL { tables.used_tables() } else { vec![table] };
    numbers.into_iter().flat_map(|table| tables.covered(table, matching)).collect()
}

/// Whether a flow has an output to a port and a group; `None` for any.
pub(crate) fn leads_to(flow: &Flow, port: Option<PortNo>, group: Option<u32>) -> bool {
    port.is_none_or(|port| flow.outputs_to(port)) && group.is_none_or(|group| flow.has_group(group))
}

fn stats_of(flow: &Flow, now: Now) -> FlowStats {
    let entry = flow.entry();
    let ((packets, bytes), (idle_timeout, hard_timeout)) = (entry.counts(), entry.timeouts());
    let age = |start| u16::try_from(since(start, now).as_secs()).unwrap_or(u16::MAX);
    FlowStats {
        table: entry.table(),
        matching: entry.matching(),
        priority: entry.priority(),
        cookie: entry.cookie(),
        idle_timeout,
        hard_timeout,
        flags: entry.flags(),
        importance: entry.importance(),
        duration: since(entry.created(), now),
        idle_age: Some(age(entry.used())),
        hard_age: Some(age(entry.created())),
        packets,
        bytes,
        instructions: (**flow.instructions()).clone(),
    }
}
