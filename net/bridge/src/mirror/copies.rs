//! Selection of the copies of a burst, by the verdicts on its packets.

use super::table::{ActiveMirror, Mirrors, Output};
use crate::ports::{Member, PortTable};
use crate::vlan::Form;
use port::{BURST, Burst, Edit, EditId, Notes, PortId, Verdicts, work};
use wire::Ethernet;

/// A packet for a mirror.
#[derive(Clone, Copy)]
struct Selected {
    packet: u8,
    mirror: u8,
    /// Order of selection.
    number: u16,
    /// The packet as received or as sent.
    edit: EditId,
    form: Form,
}

/// Copies of one burst. Reused; allocates only until the largest number of copies has occurred.
#[derive(Default)]
pub(crate) struct Copies {
    selected: Vec<Selected>,
    /// By packet: mirrors that have a copy.
    seen: Vec<u32>,
    /// Edited forms of packets, to read their VLANs.
    edited: Burst,
    is_edited: bool,
}

/// A burst and its bridge.
pub(super) struct Source<'a> {
    pub(super) burst: &'a mut Burst,
    pub(super) mirrors: &'a Mirrors,
    pub(super) table: &'a PortTable,
    pub(super) verdicts: &'a mut Verdicts,
}

impl Copies {
    /// Begins a burst.
    pub(super) fn begin(&mut self, burst: &Burst) {
        self.selected.clear();
        self.seen.clear();
        self.is_edited = false;
        self.seen.extend((0..burst.len()).map(|i| burst.notes(i).mirrors));
    }

    /// Selects all packets, which were received on `from`.
    pub(super) fn receive(&mut self, source: &Source<'_>, from: PortId) {
        let mask = source.mirrors.of_received(from);
        if let Some(member) = source.table.member(from).filter(|_| mask != 0) {
            (0..source.burst.len()).for_each(|i| self.select(source, (i as u8, EditId::NONE), member, mask));
        }
    }

    /// Selects the packets that are sent.
    pub(super) fn send(&mut self, source: &Source<'_>) {
        for batch in source.verdicts.batches() {
            let mask = source.mirrors.of_sent(batch.port());
            let Some(member) = source.table.member(batch.port()).filter(|_| mask != 0) else { continue };
            for (place, &i) in batch.indices().as_slice().iter().enumerate() {
                self.select(source, (i, batch.edit(place)), member, mask);
            }
        }
    }

    /// Selects one packet at a port for those of the mirrors `mask` that have no copy yet.
    fn select(&mut self, source: &Source<'_>, (packet, edit): (u8, EditId), member: &Member, mask: u32) {
        if mask & !self.seen[usize::from(packet)] == 0 {
            return;
        }
        let Some(form) = self.form(source, (packet, edit), member) else { return };
        for (mirror, active) in source.mirrors.active.iter().enumerate() {
            let seen = &mut self.seen[usize::from(packet)];
            if mask & !*seen & 1 << mirror == 0 || !active.takes(form.vlan()) {
                continue;
            }
            *seen |= active.twins;
            let number = self.selected.len() as u16;
            self.selected.push(Selected { packet, mirror: mirror as u8, number, edit, form });
        }
    }

    /// Form of a packet at a port; `None` if the port does not carry its VLAN.
    fn form(&mut self, source: &Source<'_>, (packet, edit): (u8, EditId), member: &Member) -> Option<Form> {
        let i = usize::from(packet);
        let head = if edit == EditId::NONE {
            source.burst.head(i)
        } else {
            if !self.is_edited || self.edited.len() == BURST {
                self.edited.begin_from(source.burst);
                self.is_edited = true;
            }
            self.edited.push_edited(source.burst, i, source.verdicts.edits(), edit).ok()?;
            self.edited.head(self.edited.len() - 1)
        };
        Form::of(&Ethernet::new(head).ok()?, &member.vlan).ok()
    }

    /// Emits the copies, in the order of the packets, and counts them.
    pub(super) fn emit(&mut self, source: &mut Source<'_>) {
        self.edited.unpin();
        if self.selected.is_empty() {
            return;
        }
        self.selected.sort_unstable_by_key(|copy| (copy.packet, copy.number));
        let mut counts = [(0, 0); 32];
        for copy in &self.selected {
            let len = source.len_of(copy);
            if source.emit(copy) {
                let (packets, bytes) = &mut counts[usize::from(copy.mirror)];
                (*packets, *bytes) = (*packets + 1, *bytes + len);
            }
        }
        for (mirror, (packets, bytes)) in source.mirrors.active.iter().zip(counts) {
            if packets > 0 {
                mirror.counters.add(packets, bytes);
            }
        }
        source.verdicts.charge(self.selected.len() as u64 * work::EDIT);
        for (i, seen) in self.seen.iter().enumerate().filter(|(_, seen)| **seen != 0) {
            // For packets that pass again.
            source.burst.set_notes(i, Notes { mirrors: *seen, ..source.burst.notes(i) });
        }
    }
}

impl ActiveMirror {
    /// Whether it copies packets of a VLAN.
    fn takes(&self, vlan: u16) -> bool {
        self.vlans.as_ref().is_none_or(|vlans| vlans.has(vlan))
    }
}

impl Source<'_> {
    fn len_of(&self, copy: &Selected) -> u64 {
        let (i, growth) = (usize::from(copy.packet), self.verdicts.edits().growth(copy.edit));
        self.burst.frame_len(i).saturating_add_signed(growth) as u64
    }

    /// Returns `false` if the mirror does not copy such packets.
    fn emit(&mut self, copy: &Selected) -> bool {
        let mirror = &self.mirrors.active[usize::from(copy.mirror)];
        match &mirror.output {
            Output::Port(port) => self.emit_to(copy, *port, None),
            Output::Vlan(vlan, _) if copy.form.vlan() == *vlan || self.is_reserved(copy) => return false,
            Output::Vlan(vlan, ports) => {
                let form = copy.form.moved(*vlan);
                for (port, is_tagged) in ports {
                    let edit = form.edit(form.leaving_as(*is_tagged));
                    self.emit_to(copy, *port, edit.as_ref());
                }
            }
        }
        true
    }

    /// Whether the destination is a reserved group. Actions rarely change it.
    fn is_reserved(&self, copy: &Selected) -> bool {
        let frame = Ethernet::new(self.burst.head(usize::from(copy.packet)));
        frame.is_ok_and(|frame| frame.destination().is_bridge_reserved())
    }

    fn emit_to(&mut self, copy: &Selected, to: PortId, tagging: Option<&Edit>) {
        let mirror = &self.mirrors.active[usize::from(copy.mirror)];
        let mut edit = tagging.copied().unwrap_or_default();
        if let Some(length) = mirror.snap_length {
            edit.truncate(length);
        }
        let is_changed = tagging.is_some() || mirror.snap_length.is_some();
        let edit = if is_changed { self.verdicts.edit_after(copy.edit, &edit) } else { copy.edit };
        self.verdicts.emit(copy.packet.into(), to, edit);
    }
}
