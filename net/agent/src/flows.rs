//! Changes of flows (OpenFlow 1.3.5, 7.3.4.2).

use crate::codes::change_code;
use crate::limits;
use crate::request::{Answer, Request};
use flow::tables::{Changes, Modification, Tables};
use flow::{ChangeError, FlowCommand, FlowMod, TableId};
use openflow::{ErrorCode, FlowModRequest, Version};

impl Request<'_> {
    pub(crate) fn flow_mod(&mut self, request: FlowModRequest) -> Answer {
        check_buffer(&request)?;
        let flow = FlowMod { matching: self.normal(&request.flow.matching)?, ..request.flow };
        if self.datapath.tables().effort(&flow) > limits::TURN {
            self.session.output.end_turn();
        }
        let is_modify = matches!(flow.command, FlowCommand::Modify | FlowCommand::ModifyStrict);
        if is_modify && self.version() == Version::V10 {
            let changes = modifications_of_v10(&flow, &self.datapath.tables());
            return self.modify(&changes);
        }
        self.modify(&[Modification::Flow(Box::new(flow))])
    }

    /// Executes all changes, or none, and reports them to all sessions.
    pub(crate) fn modify(&mut self, changes: &[Modification]) -> Answer {
        let done = self.execute_changes(changes).map_err(|error| change_code(&error))?;
        self.publish(&done);
        Ok(())
    }

    /// Executes all changes, or none. Changes by others before them are reported first.
    pub(crate) fn execute_changes(&mut self, changes: &[Modification]) -> Result<Changes, ChangeError> {
        let done = self.datapath.modify(changes, self.now);
        let earlier = self.datapath.earlier();
        self.report_others(&earlier);
        done
    }

    /// Reports changes of this session to all sessions.
    pub(crate) fn publish(&mut self, done: &Changes) {
        self.session.report_changes(done, Some(self.xid), self.now);
        self.others.values_mut().for_each(|other| other.report_changes(done, None, self.now));
        self.report_vacancies();
    }

    /// Reports changes that no session has made.
    pub(crate) fn report_others(&mut self, changes: &Changes) {
        if changes.is_empty() {
            return;
        }
        self.session.report_changes(changes, None, self.now);
        self.others.values_mut().for_each(|other| other.report_changes(changes, None, self.now));
    }
}

/// No packet is ever buffered, so that no buffer is known.
pub(crate) fn check_buffer(request: &FlowModRequest) -> Answer {
    let is_delete = matches!(request.flow.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
    if is_delete || request.buffer.is_none() { Ok(()) } else { Err(ErrorCode::RequestBufferUnknown) }
}

/// In OpenFlow 1.0, a modification applies to all tables, and adds the flow if there is none.
fn modifications_of_v10(change: &FlowMod, tables: &Tables) -> Vec<Modification> {
    let candidates = if change.table == TableId::ALL { tables.used_tables() } else { vec![change.table] };
    let selects = |table: &TableId| match change.command {
        FlowCommand::ModifyStrict => tables.exact(*table, &change.matching, change.priority).is_some(),
        _ => !tables.covered(*table, &change.matching).is_empty(),
    };
    let modify = |table| Modification::Flow(Box::new(FlowMod { table, ..change.clone() }));
    let mut changes: Vec<_> = candidates.into_iter().filter(selects).map(modify).collect();
    if changes.is_empty() && change.cookie_mask == 0 {
        let table = if change.table == TableId::ALL { TableId(0) } else { change.table };
        let added = FlowMod { command: FlowCommand::Add, table, ..change.clone() };
        changes.push(Modification::Flow(Box::new(added)));
    }
    changes
}
