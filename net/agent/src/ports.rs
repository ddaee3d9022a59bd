//! Ports and their queues (OpenFlow 1.3.5, 7.2.2, 7.3.4.3, 7.3.5.6 to 7.3.5.8 and 7.4.3).

use crate::request::{Answer, Request};
use crate::session::Session;
use crate::settings::Event;
use flow::PortNo;
use openflow::{
    ALL_QUEUES, ErrorCode, Message, MultipartReply, Port, PortMod, PortReason, PortStatus, QueueConfig,
    QueueDesc, QueueRequest, QueueStats, Version,
};

impl Request<'_> {
    /// Before OpenFlow 1.5, the controller that changes a port gets no notice of it.
    pub(crate) fn port_mod(&mut self, change: &PortMod) -> Answer {
        let before = self.check_port(change)?;
        self.datapath.configure_port(change)?;
        let Some(after) = self.port(change.number).filter(|after| *after != before) else { return Ok(()) };
        for other in self.others.values_mut() {
            other.port_status(PortReason::Modify, &after);
        }
        if self.version() >= Version::V15 {
            self.session.port_status(PortReason::Modify, &after);
        }
        Ok(())
    }

    /// The port of a valid modification.
    pub(crate) fn check_port(&self, change: &PortMod) -> Result<Port, ErrorCode> {
        let port = self.port(change.number).ok_or(ErrorCode::PortModBadPort)?;
        if port.address != change.address {
            return Err(ErrorCode::PortModBadHwAddr);
        }
        self.datapath.check_port(change)?;
        Ok(port)
    }

    fn port(&self, number: PortNo) -> Option<Port> {
        self.datapath.ports().into_iter().find(|port| port.number == number)
    }

    /// A port that does not exist has no entry.
    pub(crate) fn port_stats(&mut self, number: PortNo) -> Answer {
        let mut stats = self.datapath.port_stats();
        stats.retain(|stats| is_selected(stats.port, number));
        self.reply_list(stats, |stats| stats, MultipartReply::Port)
    }

    pub(crate) fn port_desc(&mut self, number: PortNo) -> Answer {
        let mut ports = self.datapath.ports();
        ports.retain(|port| is_selected(port.number, number));
        self.reply_list(ports, |port| port, MultipartReply::PortDesc)
    }

    pub(crate) fn queue_stats(&mut self, request: QueueRequest) -> Answer {
        let queues = self.select_queues(request)?;
        self.reply_list(queues, |(_, stats)| stats, MultipartReply::Queue)
    }

    pub(crate) fn queue_desc(&mut self, request: QueueRequest) -> Answer {
        let queues = self.select_queues(request)?;
        self.reply_list(queues, |(desc, _)| desc, MultipartReply::QueueDesc)
    }

    pub(crate) fn queue_config(&mut self, port: PortNo) -> Answer {
        let queues = self.select_queues(QueueRequest { port, queue: ALL_QUEUES })?;
        let queues = queues.into_iter().map(|(desc, _)| desc).collect();
        self.reply(&Message::QueueConfigReply(QueueConfig { port, queues }))
    }

    /// The queues of a request, whose port must exist, and whose queue too if it is a particular one.
    fn select_queues(&self, request: QueueRequest) -> Result<Vec<(QueueDesc, QueueStats)>, ErrorCode> {
        if !is_all(request.port) && self.port(request.port).is_none() {
            return Err(ErrorCode::QueueBadPort);
        }
        let mut queues = self.datapath.queues();
        queues.retain(|(desc, _)| is_all(request.port) || desc.port == request.port);
        queues.retain(|(desc, _)| [ALL_QUEUES, desc.queue].contains(&request.queue));
        let is_found = request.queue == ALL_QUEUES || !queues.is_empty();
        if is_found { Ok(queues) } else { Err(ErrorCode::QueueBadQueue) }
    }
}

/// Whether a request selects all ports; OpenFlow 1.0 has `OFPP_ALL` for queues.
fn is_all(port: PortNo) -> bool {
    [PortNo::ANY, PortNo::ALL].contains(&port)
}

fn is_selected(port: PortNo, number: PortNo) -> bool {
    number == PortNo::ANY || port == number
}

impl Session {
    pub(crate) fn port_status(&mut self, reason: PortReason, port: &Port) {
        if self.settings.wants(self.kind, self.role, Event::PortStatus, reason.number()) {
            self.notify(&Message::PortStatus(Box::new(PortStatus { reason, port: port.clone() })));
        }
    }
}
