//! Single actions.

use super::operation::{ControllerOperation, Operation, Site};
use super::pipeline::{Halt, Progress, Translator};
use super::record::Recorder;
use super::{Environment, TranslateError, limits};
use crate::action::{Action, ControllerOutput, Resubmit, Subfield};
use crate::field::{Field, Prerequisite, frag};
use crate::key::Key;
use crate::matching::Match;
use crate::modify::{PortNo, TableId};

const PRESENT: u128 = 0x1000;

impl<E: Environment, R: Recorder> Translator<'_, E, R> {
    pub(super) fn action(&mut self, action: &Action, site: Site) -> Progress {
        match action {
            Action::Output { port, max_len } => self.output(*port, *max_len, site),
            Action::OutputField { from, max_len } => {
                let port = self.port(*from)?;
                self.output(port, *max_len, site)
            }
            Action::Controller(output) => self.controller(output, site),
            Action::Group(id) => self.group(*id, site),
            Action::SetQueue(queue) => self.set_queue(*queue),
            Action::SetField { field, value, mask } => self.set_field(*field, *value, *mask),
            Action::Move { from, to } => self.copy(*from, *to),
            Action::DeleteField(field) => {
                self.delete_field(*field);
                Ok(())
            }
            Action::StackPush(from) => self.push(*from),
            Action::StackPop(to) => self.pop(*to),
            Action::Meter(id) => self.meter(*id),
            Action::Resubmit(resubmit) => self.resubmit(*resubmit, site),
            Action::Learn(learn) => self.learn(learn),
            Action::FinTimeout { idle, hard } => self.fin_timeout((*idle, *hard)),
            Action::Ct(tracking) => self.ct(tracking),
            Action::CtClear => self.ct_clear(),
            Action::Clone(actions) => self.on_copy(|copy| copy.actions(actions, site)),
            Action::Exit => Err(Halt::Exit),
            Action::Conjunction { .. } | Action::Note(_) => Ok(()),
            header => self.header(header),
        }
    }

    pub(super) fn in_port(&self) -> PortNo {
        PortNo(self.state.key.get(Field::InPort) as u32)
    }

    pub(super) fn output(&mut self, port: PortNo, max_len: u16, site: Site) -> Progress {
        let in_port = self.in_port();
        match port {
            PortNo::CONTROLLER => {
                let (reason, userdata) = (site.reason, Box::default());
                self.controller(&ControllerOutput { max_len, controller: 0, reason, userdata }, site)
            }
            PortNo::TABLE => self.enter(TableId(0)),
            PortNo::ANY => Ok(()),
            PortNo::IN_PORT => self.send_to(in_port),
            PortNo::NORMAL => self.normal(in_port),
            PortNo::FLOOD => self.flood(Operation::Flood { except: in_port }, in_port),
            PortNo::ALL => self.flood(Operation::All { except: in_port }, in_port),
            port if port == in_port => Ok(()),
            port => self.send_to(port),
        }
    }

    pub(super) fn send(&mut self, operation: Operation) -> Progress {
        self.commit()?;
        self.emit(operation)
    }

    fn controller(&mut self, output: &ControllerOutput, site: Site) -> Progress {
        let (key, mask) = self.state.pipeline();
        self.send(Operation::Controller(Box::new(ControllerOperation {
            max_len: output.max_len,
            controller: output.controller,
            reason: output.reason,
            table: site.table,
            cookie: site.cookie,
            userdata: output.userdata.clone(),
            pipeline: Match::new(&key, &mask),
        })))
    }

    fn set_queue(&mut self, queue: Option<u32>) -> Progress {
        if self.queue == queue {
            return Ok(());
        }
        self.queue = queue;
        self.emit(Operation::Queue(queue))
    }

    pub(super) fn meter(&mut self, id: u32) -> Progress {
        let Some(meter) = self.tables.meter(id) else { return Ok(()) };
        self.commit()?;
        self.result.meters.push(id);
        if meter.remarks() {
            let mut dscp = Key::ZERO;
            dscp.set(Field::IpDscp, Field::IpDscp.full());
            self.state.become_opaque(&dscp);
        }
        self.emit(Operation::Meter(id))
    }

    /// The value of a part of a field; 0 if the packet does not have the field.
    pub(super) fn part(&mut self, part: Subfield) -> Progress<u128> {
        let present = self.holds(part.field.info().requires)?;
        let value = if present { self.read(part.field, part.mask())? } else { 0 };
        Ok(value >> part.offset)
    }

    /// The port that a part of a field names. Numbers of 16 bits may name the reserved ports of OpenFlow 1.0.
    pub(super) fn port(&mut self, from: Subfield) -> Progress<PortNo> {
        let number = u32::try_from(self.part(from)?).unwrap_or(PortNo::ANY.0);
        Ok(PortNo(if (0xff00..=0xffff).contains(&number) { number | 0xffff_0000 } else { number }))
    }

    fn copy(&mut self, from: Subfield, to: Subfield) -> Progress {
        if !self.holds(from.field.info().requires)? {
            return Ok(());
        }
        let value = self.part(from)?;
        self.set_field(to.field, value << to.offset, to.mask())
    }

    fn push(&mut self, from: Subfield) -> Progress {
        if self.stack.len() >= limits::STACK {
            return Err(Halt::Error(TranslateError::StackTooDeep));
        }
        let value = self.part(from)?;
        self.stack.push(value);
        Ok(())
    }

    fn pop(&mut self, to: Subfield) -> Progress {
        let Some(value) = self.stack.last().copied() else { return Ok(()) };
        self.set_field(to.field, value << to.offset & to.mask(), to.mask())?;
        self.stack.pop();
        Ok(())
    }

    /// Sets bits of a field, if the packet has the field.
    pub(super) fn set_field(&mut self, field: Field, value: u128, mask: u128) -> Progress {
        if !self.holds(field.info().requires)? {
            return Ok(());
        }
        match field {
            Field::VlanTci => return self.set_tci(value, mask),
            Field::VlanVid if self.read(Field::VlanTci, PRESENT)? == 0 => return Ok(()),
            // The bit that tells a tag is not a part of the VLAN.
            Field::VlanVid => self.state.set(field, value, mask & !PRESENT),
            _ => self.state.set(field, value, mask),
        }
        if let Some(n) = field.option() {
            self.state.set(Field::TunOptions, 1 << n, 1 << n);
        }
        Ok(())
    }

    /// Removes an option of a tunnel. A later action that sets a part of it begins with 0.
    fn delete_field(&mut self, field: Field) {
        if let Some(n) = field.option() {
            self.state.set(field, 0, field.full());
            self.state.set(Field::TunOptions, 0, 1 << n);
        }
    }

    /// Sets tag control information, adding or removing a tag if its presence is set.
    fn set_tci(&mut self, value: u128, mask: u128) -> Progress {
        let present = self.read(Field::VlanTci, PRESENT)? != 0;
        let (value, bits) = (value & mask, mask & !PRESENT);
        match (present, mask & PRESENT != 0, value & PRESENT != 0) {
            (true, true, false) => return self.header(&Action::PopVlan),
            (false, true, true) => self.header(&Action::PushVlan(0x8100))?,
            (false, ..) => return Ok(()),
            (true, ..) => {}
        }
        self.state.set(Field::VlanTci, value & bits, bits);
        Ok(())
    }

    /// Whether the packet has what a field requires.
    pub(super) fn holds(&mut self, requires: Prerequisite) -> Progress<bool> {
        Ok(match requires {
            Prerequisite::Any | Prerequisite::InPort => true,
            Prerequisite::Vlan => self.read(Field::VlanTci, PRESENT)? != 0,
            Prerequisite::Mpls => self.is_type(&[0x8847, 0x8848])?,
            Prerequisite::Pbb => self.is_type(&[0x88e7])?,
            Prerequisite::Ipv4 => self.is_type(&[0x0800])?,
            Prerequisite::Ipv6 => self.is_type(&[0x86dd])?,
            Prerequisite::Ip => self.is_type(&[0x0800, 0x86dd])?,
            Prerequisite::Arp => self.is_type(&[0x0806, 0x8035])?,
            Prerequisite::Tcp => self.is_protocol(&[0x0800, 0x86dd], 6)?,
            Prerequisite::Udp => self.is_protocol(&[0x0800, 0x86dd], 17)?,
            Prerequisite::Sctp => self.is_protocol(&[0x0800, 0x86dd], 132)?,
            Prerequisite::Icmp => self.is_protocol(&[0x0800], 1)?,
            Prerequisite::Icmpv6 => self.is_protocol(&[0x86dd], 58)?,
            Prerequisite::Nd => self.is_nd(&[135, 136])?,
            Prerequisite::NdSolicit => self.is_nd(&[135])?,
            Prerequisite::NdAdvert => self.is_nd(&[136])?,
            Prerequisite::Ct => self.is_type(&[0x0800, 0x86dd])? && self.value(Field::CtState)? != 0,
            Prerequisite::CtIpv4 => self.is_type(&[0x0800])? && self.value(Field::CtState)? != 0,
            Prerequisite::CtIpv6 => self.is_type(&[0x86dd])? && self.value(Field::CtState)? != 0,
        })
    }

    pub(super) fn is_type(&mut self, types: &[u128]) -> Progress<bool> {
        let kind = self.value(Field::EthType)?;
        Ok(types.contains(&kind))
    }

    fn is_protocol(&mut self, types: &[u128], protocol: u128) -> Progress<bool> {
        Ok(self.is_type(types)?
            && self.value(Field::IpProto)? == protocol
            && self.read(Field::IpFrag, frag::LATER.into())? == 0)
    }

    fn is_nd(&mut self, kinds: &[u128]) -> Progress<bool> {
        Ok(self.is_protocol(&[0x86dd], 58)?
            && kinds.contains(&self.value(Field::Icmpv6Type)?)
            && self.value(Field::Icmpv6Code)? == 0)
    }

    fn resubmit(&mut self, resubmit: Resubmit, site: Site) -> Progress {
        let table = resubmit.table.unwrap_or(site.table);
        if resubmit.ct {
            return match self.original_direction()? {
                Some(values) => self.enter_as(table, &values),
                None => Ok(()),
            };
        }
        match resubmit.in_port {
            None | Some(PortNo::IN_PORT) => self.enter(table),
            Some(port) => self.enter_as(table, &[(Field::InPort, port.0.into())]),
        }
    }

    /// The addresses and ports of the connection's original direction; `None` without a connection.
    fn original_direction(&mut self) -> Progress<Option<Vec<(Field, u128)>>> {
        if !self.holds(Prerequisite::Ct)? {
            return Ok(None);
        }
        let (v4, v6) = (self.is_type(&[0x0800])?, self.is_type(&[0x86dd])?);
        let pairs = [
            (v4, Field::Ipv4Src, Field::CtNwSrc),
            (v4, Field::Ipv4Dst, Field::CtNwDst),
            (v6, Field::Ipv6Src, Field::CtIpv6Src),
            (v6, Field::Ipv6Dst, Field::CtIpv6Dst),
            (true, Field::IpProto, Field::CtNwProto),
            (true, Field::TcpSrc, Field::CtTpSrc),
            (true, Field::TcpDst, Field::CtTpDst),
        ];
        let present = pairs.into_iter().filter(|(present, ..)| *present);
        let values = present.map(|(_, field, original)| Ok((field, self.value(original)?)));
        values.collect::<Progress<_>>().map(Some)
    }

    /// Looks up a table with other values of some fields, which the actions that it finds do not see.
    fn enter_as(&mut self, table: TableId, values: &[(Field, u128)]) -> Progress {
        let (key, written) = (self.state.key, self.state.written);
        for (field, value) in values {
            self.state.key.set(*field, *value);
            self.state.written.set(*field, field.full());
        }
        let found = self.lookup(table);
        (self.state.key, self.state.written) = (key, written);
        let Some(flow) = found? else { return Ok(()) };
        self.deeper()?;
        let end = self.follow(flow);
        self.depth -= 1;
        end
    }

    /// Looks up a table and returns.
    fn enter(&mut self, table: TableId) -> Progress {
        self.deeper()?;
        let end = self.walk(table, true);
        self.depth -= 1;
        end
    }
}
