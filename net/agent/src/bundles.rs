//! Bundles (OpenFlow 1.4.1, 7.3.9; extension 230 of the ONF to 1.3).
//!
//! All messages of a bundle are validated before anything is changed: packets with the flows and groups at their
//! places, which change at once for all flags of the bundle. Changes of ports and packets come after them, in the order
//! of their messages. An atomic bundle cannot change ports, as in Open vSwitch.

use crate::codes::{change_code, position};
use crate::flows::check_buffer;
use crate::limits;
use crate::packets::check_packet;
use crate::request::{Answer, Request};
use flow::tables::Modification;
use openflow::{ATOMIC, BundleAdd, BundleControl, BundleStep, ErrorCode, Message, decode};
use port::Now;

/// An open or closed bundle.
pub(crate) struct Bundle {
    flags: u16,
    is_closed: bool,
    /// The messages that add messages. They need less memory than what they decode to.
    messages: Vec<Box<[u8]>>,
    bytes: usize,
    /// Time of the last message.
    pub(crate) used: Now,
    /// The message that opened it.
    pub(crate) opened: Box<[u8]>,
}

/// A refused message of a bundle: its position and why.
type Refused = (usize, ErrorCode);

impl Bundle {
    /// Memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.bytes + self.messages.capacity() * size_of::<Box<[u8]>>()
    }
}

/// A bundle that is executed.
#[derive(Default)]
struct Plan {
    /// Changes of the tables, and the packets that must be valid between them.
    changes: Vec<Modification>,
    /// Position of the message of each change.
    positions: Vec<usize>,
    /// Messages that are executed after the changes, with their position and transaction identifier.
    others: Vec<(usize, u32, Message)>,
}

impl Plan {
    fn change(&mut self, position: usize, change: Modification) {
        self.positions.push(position);
        self.changes.push(change);
    }
}

impl Request<'_> {
    pub(crate) fn bundle_control(&mut self, control: BundleControl) -> Answer {
        let step = match control.step {
            BundleStep::Open => {
                self.open_bundle(control)?;
                BundleStep::OpenReply
            }
            BundleStep::Close => {
                self.close_bundle(control)?;
                BundleStep::CloseReply
            }
            BundleStep::Commit => {
                self.commit_bundle(control)?;
                BundleStep::CommitReply
            }
            BundleStep::Discard => {
                self.session.bundles.remove(&control.id).ok_or(ErrorCode::BundleBadId)?;
                BundleStep::DiscardReply
            }
            _ => return Err(ErrorCode::BundleBadType),
        };
        self.reply(&Message::BundleControl(BundleControl { step, flags: 0, ..control }))
    }

    fn open_bundle(&mut self, BundleControl { id, flags, .. }: BundleControl) -> Answer {
        if self.session.bundles.remove(&id).is_some() {
            return Err(ErrorCode::BundleBadId);
        }
        if self.session.bundles.len() >= limits::BUNDLES {
            return Err(ErrorCode::BundleOutOfBundles);
        }
        let opened = self.bytes.into();
        let bundle =
            Bundle { flags, is_closed: false, messages: Vec::new(), bytes: 0, used: self.now, opened };
        self.session.bundles.insert(id, bundle);
        Ok(())
    }

    /// Checks a bundle that gets a message; one that does not fit is discarded.
    fn check_bundle(&mut self, id: u32, flags: u16) -> Answer {
        let code = match self.session.bundles.get(&id) {
            None => return Err(ErrorCode::BundleBadId),
            Some(bundle) if bundle.is_closed => ErrorCode::BundleClosed,
            Some(bundle) if bundle.flags != flags => ErrorCode::BundleBadFlags,
            Some(_) => return Ok(()),
        };
        self.session.bundles.remove(&id);
        Err(code)
    }

    fn close_bundle(&mut self, BundleControl { id, flags, .. }: BundleControl) -> Answer {
        self.check_bundle(id, flags)?;
        if let Some(bundle) = self.session.bundles.get_mut(&id) {
            (bundle.is_closed, bundle.used) = (true, self.now);
        }
        Ok(())
    }

    /// Adds a message to a bundle, which is opened if there is none.
    pub(crate) fn bundle_add(&mut self, add: &BundleAdd) -> Answer {
        match &*add.message {
            Message::FlowMod(change) => check_buffer(change)?,
            Message::PacketOut(packet) => check_packet(packet)?,
            _ => {}
        }
        let (messages, bytes) = self.session.bundles.values().fold((0, 0), |(messages, bytes), bundle| {
            (messages + bundle.messages.len(), bytes + bundle.bytes)
        });
        let is_large = bytes + self.bytes.len() > limits::BUNDLE_BYTES;
        if messages >= limits::BUNDLE_MESSAGES || is_large || !self.has_memory(self.bytes.len()) {
            return Err(ErrorCode::BundleMessageTooMany);
        }
        if !self.session.bundles.contains_key(&add.id) {
            let (id, flags, step) = (add.id, add.flags, BundleStep::Open);
            self.open_bundle(BundleControl { id, step, flags })?;
        }
        self.check_bundle(add.id, add.flags)?;
        if let Some(bundle) = self.session.bundles.get_mut(&add.id) {
            bundle.messages.push(self.bytes.into());
            bundle.bytes += self.bytes.len();
            bundle.used = self.now;
        }
        Ok(())
    }

    /// Executes a bundle, which is gone then. The error of a message is sent before that of the bundle.
    fn commit_bundle(&mut self, BundleControl { id, flags, .. }: BundleControl) -> Answer {
        let bundle = self.session.bundles.remove(&id).ok_or(ErrorCode::BundleBadId)?;
        if bundle.flags != flags {
            return Err(ErrorCode::BundleBadFlags);
        }
        self.session.output.end_turn();
        self.execute(&bundle).map_err(|(position, code)| {
            if let Some(message) = bundle.messages.get(position) {
                self.session.refuse(code, message);
            }
            ErrorCode::BundleMessageFailed
        })
    }

    fn execute(&mut self, bundle: &Bundle) -> Result<(), Refused> {
        let Plan { changes, positions, others } = self.plan(bundle)?;
        if !changes.is_empty() {
            let done = self.execute_changes(&changes).map_err(|error| {
                (positions.get(position(&error)).copied().unwrap_or_default(), change_code(&error))
            })?;
            self.publish(&done);
            for change in changes {
                if let Modification::Group(change) = change {
                    self.forward_group(change);
                }
            }
        }
        let own = self.xid;
        let result = others.into_iter().try_for_each(|(i, xid, message)| {
            self.xid = xid;
            self.handle(message).map_err(|code| (i, code))
        });
        self.xid = own;
        result
    }

    /// Validates what does not depend on the tables.
    fn plan(&self, bundle: &Bundle) -> Result<Plan, Refused> {
        let (mut plan, mut ports) = (Plan::default(), 0);
        for (i, bytes) in bundle.messages.iter().enumerate() {
            let add = decode(bytes, self.dialect).map_err(|error| (i, error.code))?;
            let Message::BundleAdd(add) = add else { return Err((i, ErrorCode::BundleMessageUnsupported)) };
            match *add.message {
                Message::FlowMod(change) => plan.change(i, Modification::Flow(Box::new(change.flow))),
                Message::GroupMod(change) => plan.change(i, Modification::Group(change)),
                Message::PacketOut(packet) => {
                    plan.change(i, Modification::Packet(packet.actions.as_slice().into()));
                    plan.others.push((i, add.xid, Message::PacketOut(packet)));
                }
                Message::PortMod(_) if bundle.flags & ATOMIC != 0 => {
                    return Err((i, ErrorCode::BundleMessageFailed));
                }
                Message::PortMod(_) if ports == limits::BUNDLE_PORTS => {
                    return Err((i, ErrorCode::BundleMessageTooMany));
                }
                Message::PortMod(change) => {
                    ports += 1;
                    self.check_port(&change).map_err(|code| (i, code))?;
                    plan.others.push((i, add.xid, Message::PortMod(change)));
                }
                _ => return Err((i, ErrorCode::BundleMessageUnsupported)),
            }
        }
        Ok(plan)
    }
}
