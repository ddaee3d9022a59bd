//! Roles of controllers (OpenFlow 1.3.5, 6.3.5 and 7.3.9).

use crate::request::{Answer, Request};
use crate::session::Session;
use crate::settings::Event;
use openflow::{ErrorCode, Message, Role, RoleMessage, RoleStatus, Version};

/// Reason of a role status: another controller became primary.
const PRIMARY_REQUEST: u8 = 0;
/// The number of elections before the first one.
const NO_GENERATION: u64 = u64::MAX;

impl Request<'_> {
    pub(crate) fn role(&mut self, request: RoleMessage) -> Answer {
        match request.role {
            Role::NoChange => {}
            Role::Equal => self.set_role(Role::Equal),
            Role::Primary | Role::Secondary => {
                self.elect(request.generation)?;
                if request.role == Role::Primary {
                    self.demote_others();
                }
                self.set_role(request.role);
            }
        }
        let generation = self.switch.generation.unwrap_or(NO_GENERATION);
        self.reply(&Message::RoleReply(RoleMessage { role: self.session.role, generation }))
    }

    /// Nicira's messages of OpenFlow 1.0 have no generation.
    fn elect(&mut self, generation: u64) -> Answer {
        if self.version() == Version::V10 {
            return Ok(());
        }
        let distance = |last: u64| generation.wrapping_sub(last).cast_signed();
        if self.switch.generation.is_some_and(|last| distance(last) < 0) {
            return Err(ErrorCode::RoleStale);
        }
        self.switch.generation = Some(generation);
        Ok(())
    }

    /// All connections of a controller have one role.
    fn set_role(&mut self, role: Role) {
        let main = self.session.main();
        self.session.role = role;
        self.others.values_mut().filter(|other| other.main() == main).for_each(|other| other.role = role);
    }

    fn demote_others(&mut self) {
        let (generation, main) = (self.switch.generation.unwrap_or(NO_GENERATION), self.session.main());
        let is_demoted = |other: &&mut Session| other.role == Role::Primary && other.main() != main;
        for other in self.others.values_mut().filter(is_demoted) {
            other.role = Role::Secondary;
            notify(other, generation);
        }
    }
}

fn notify(session: &mut Session, generation: u64) {
    let status = RoleStatus { role: session.role, reason: PRIMARY_REQUEST, generation };
    if session.settings.wants(session.kind, session.role, Event::RoleStatus, PRIMARY_REQUEST) {
        session.notify(&Message::RoleStatus(status));
    }
}
