//! One request of a session, and which module answers it.

use crate::agent::Switch;
use crate::datapath::Datapath;
use crate::limits;
use crate::session::{Session, SessionId};
use crate::settings::Settings;
use flow::tables::Modification;
use openflow::{Dialect, ErrorCode, Message, MultipartReply, Role, Version};
use port::Now;
use std::collections::BTreeMap;

/// Result of a request; the session gets the error.
pub(crate) type Answer = Result<(), ErrorCode>;

/// A request, and everything that it can change.
pub(crate) struct Request<'a> {
    pub(crate) session: &'a mut Session,
    /// All other sessions.
    pub(crate) others: &'a mut BTreeMap<SessionId, Session>,
    pub(crate) switch: &'a mut Switch,
    pub(crate) datapath: &'a mut dyn Datapath,
    pub(crate) now: Now,
    /// Transaction identifier.
    pub(crate) xid: u32,
    /// The message.
    pub(crate) bytes: &'a [u8],
    pub(crate) dialect: Dialect,
}

impl Request<'_> {
    pub(crate) fn handle(&mut self, message: Message) -> Answer {
        if is_write(&message) && self.session.role == Role::Secondary {
            return Err(ErrorCode::RequestIsSecondary);
        }
        match message {
            Message::EchoRequest(data) => self.reply(&Message::EchoReply(data)),
            Message::Experimenter(_) => Err(ErrorCode::RequestBadExperimenter),
            Message::FeaturesRequest => self.features(),
            Message::GetConfigRequest => self.get_config(),
            Message::SetConfig(config) => self.set_config(config),
            Message::PacketOut(packet) => self.packet_out(&packet),
            Message::FlowMod(change) => self.flow_mod(*change),
            Message::GroupMod(change) => self.group_mod(change),
            Message::MeterMod(change) => self.meter_mod(change),
            Message::PortMod(change) => self.port_mod(&change),
            Message::TableMod(config) => self.table_mod(&config),
            Message::MultipartRequest(request, more) => self.multipart(request, more),
            Message::BarrierRequest => self.reply(&Message::BarrierReply),
            Message::QueueConfigRequest(port) => self.queue_config(port),
            Message::RoleRequest(request) => self.role(request),
            Message::GetAsyncRequest => self.get_async(),
            Message::SetAsync(config) => self.set_async(&config),
            Message::BundleControl(control) => self.bundle_control(control),
            Message::BundleAdd(add) => self.bundle_add(&add),
            Message::MonitorCancel(id) => self.session.monitors.cancel(id),
            Message::CtFlushZone(zone) => {
                self.session.output.end_turn();
                self.datapath.flush_connections(zone)
            }
            Message::TlvTableMod(change) => self.modify(&[Modification::Options(change)]),
            Message::TlvTableRequest => self.tlv_table(),
            other => self.option(&other),
        }
    }

    /// Options of the session, and messages without an answer.
    fn option(&mut self, message: &Message) -> Answer {
        let settings = self.settings();
        match message {
            Message::Hello(_) | Message::Error(_) | Message::EchoReply(_) | Message::FlowAge => {}
            Message::SetPacketInFormat(format) => settings.packet_in = *format,
            Message::SetControllerId(id) => settings.controller = *id,
            Message::SetFlowFormat(0) => settings.nicira_flows = false,
            Message::SetFlowFormat(2) => settings.nicira_flows = true,
            Message::SetFlowFormat(_) => return Err(ErrorCode::RequestPermissions),
            Message::FlowModTableId(is_set) => {
                self.session.dialect = Some(Dialect { table_ids: *is_set, ..self.dialect });
            }
            // Messages that only a switch sends.
            _ => return Err(ErrorCode::RequestBadType),
        }
        Ok(())
    }

    /// The settings of the session; those of its main connection if it is an auxiliary one.
    pub(crate) fn settings(&mut self) -> &mut Settings {
        let main = self.session.auxiliary.and_then(|auxiliary| self.others.get_mut(&auxiliary.main));
        main.map_or(&mut self.session.settings, |main| &mut main.settings)
    }

    pub(crate) fn version(&self) -> Version {
        self.dialect.version
    }

    /// Sends an answer.
    ///
    /// # Errors
    /// If the version cannot express it.
    pub(crate) fn reply(&mut self, message: &Message) -> Answer {
        self.session.send(message, self.xid).map_err(|_| ErrorCode::NxRequestUnencodableError)
    }

    /// Sends an answer of one part.
    pub(crate) fn reply_part(&mut self, part: MultipartReply) -> Answer {
        self.reply(&Message::MultipartReply(part, false))
    }

    /// Sends a list in as many parts as it needs. It is converted while it is sent: `part` makes a part of some
    /// entries.
    ///
    /// # Errors
    /// If the list needs more memory than is left.
    pub(crate) fn reply_list<T, E, F>(
        &mut self,
        list: Vec<T>,
        mut convert: F,
        part: fn(Vec<E>) -> MultipartReply,
    ) -> Answer
    where
        T: Send + 'static,
        E: 'static,
        F: FnMut(T) -> E + Send + 'static,
    {
        let memory = list.len() * size_of::<T>();
        if !self.has_memory(memory) {
            return Err(ErrorCode::RequestMultipartBufferOverflow);
        }
        let (mut list, mut is_first) = (list.into_iter(), true);
        let parts = std::iter::from_fn(move || {
            let entries: Vec<E> = list.by_ref().take(limits::CHUNK).map(&mut convert).collect();
            let is_part = std::mem::take(&mut is_first) || !entries.is_empty();
            is_part.then(|| part(entries))
        });
        self.session.counters.sent += 1;
        self.session.output.dump(Box::new(parts), memory, self.dialect, self.xid);
        Ok(())
    }

    /// Whether all sessions may keep `more` bytes.
    pub(crate) fn has_memory(&self, more: usize) -> bool {
        let others: usize = self.others.values().map(Session::memory).sum();
        others + self.session.memory() + more <= limits::MEMORY
    }
}

/// Whether a secondary controller may not send the message.
fn is_write(message: &Message) -> bool {
    matches!(
        message,
        Message::PacketOut(_)
            | Message::FlowMod(_)
            | Message::GroupMod(_)
            | Message::MeterMod(_)
            | Message::PortMod(_)
            | Message::TableMod(_)
            | Message::BundleControl(_)
            | Message::BundleAdd(_)
            | Message::CtFlushZone(_)
            | Message::TlvTableMod(_)
    )
}
