//! Actions that add and remove headers, and those on the time to live.

use super::Environment;
use super::operation::Operation;
use super::pipeline::{Progress, Translator};
use super::record::Recorder;
use super::state::Header;
use crate::action::Action;
use crate::field::Field;
use crate::key::Key;

const MPLS: [u128; 2] = [0x8847, 0x8848];
const IP: [u128; 2] = [0x0800, 0x86dd];
const PBB: [u128; 1] = [0x88e7];

/// All bits of fields.
fn bits(fields: &[Field]) -> Key {
    let mut bits = Key::ZERO;
    for field in fields {
        bits.set(*field, field.full());
    }
    bits
}

impl<E: Environment, R: Recorder> Translator<'_, E, R> {
    pub(super) fn header(&mut self, action: &Action) -> Progress {
        match action {
            Action::PushVlan(kind) => self.push_vlan(*kind),
            Action::PopVlan => self.pop_vlan(),
            Action::PushMpls(kind) => self.push_mpls(*kind),
            Action::PopMpls(kind) => self.pop_mpls(*kind),
            Action::PushPbb(kind) => self.push_pbb(*kind),
            Action::PopPbb => self.pop_pbb(),
            Action::SetMplsTtl(ttl) => self.set_field(Field::MplsTtl, (*ttl).into(), 0xff),
            Action::SetNwTtl(ttl) => self.set_field(Field::IpTtl, (*ttl).into(), 0xff),
            Action::DecMplsTtl => self.decrement(&MPLS, Field::MplsTtl, Operation::DecMplsTtl),
            Action::DecNwTtl(ids) => self.decrement(&IP, Field::IpTtl, Operation::DecNwTtl(ids.clone())),
            Action::CopyTtlOut => self.copy_ttl_out(),
            Action::CopyTtlIn => self.copy_ttl_in(),
            _ => Ok(()),
        }
    }

    fn change(&mut self, operation: Operation) -> Progress {
        self.commit()?;
        self.emit(operation)
    }

    fn push_vlan(&mut self, kind: u16) -> Progress {
        self.change(Operation::PushVlan(kind))?;
        self.state.hide(Header::Vlan);
        // The new tag has the VLAN and priority of the old one, whose bits are 0 if there is none.
        self.state.become_constant(Field::VlanTci, 0x1000, 0x1000);
        Ok(())
    }

    fn pop_vlan(&mut self) -> Progress {
        if self.read(Field::VlanTci, 0x1000)? == 0 {
            return Ok(());
        }
        self.change(Operation::PopVlan)?;
        self.state.uncover(Header::Vlan);
        Ok(())
    }

    fn push_mpls(&mut self, kind: u16) -> Progress {
        let inner = self.is_type(&MPLS)?;
        self.change(Operation::PushMpls(kind))?;
        self.state.hide(Header::Mpls);
        self.state.become_constant(Field::EthType, kind.into(), 0xffff);
        if !inner {
            let mut hidden = Key::ZERO;
            hidden.0[Key::BELOW_ETHERNET].fill(u64::MAX);
            self.state.become_absent(&hidden);
            self.state.become_opaque(&bits(&[Field::MplsLabel, Field::MplsTc, Field::MplsTtl]));
        }
        self.state.become_constant(Field::MplsBos, (!inner).into(), 1);
        Ok(())
    }

    fn pop_mpls(&mut self, kind: u16) -> Progress {
        if !self.is_type(&MPLS)? {
            return Ok(());
        }
        self.change(Operation::PopMpls(kind))?;
        self.state.uncover(Header::Mpls);
        let expected = self.state.opaque.get(Field::EthType) == 0
            && self.state.key.get(Field::EthType) == u128::from(kind);
        if !expected {
            let mut inner = Key::ZERO;
            inner.0[Key::BELOW_ETHERNET].fill(u64::MAX);
            self.state.become_opaque(&inner);
        }
        self.state.become_constant(Field::EthType, kind.into(), 0xffff);
        Ok(())
    }

    fn push_pbb(&mut self, kind: u16) -> Progress {
        self.change(Operation::PushPbb(kind))?;
        self.state.hide(Header::Pbb);
        self.state.become_constant(Field::EthType, kind.into(), 0xffff);
        let mut hidden = bits(&[Field::VlanTci]);
        hidden.0[Key::BELOW_ETHERNET].fill(u64::MAX);
        self.state.become_absent(&hidden);
        self.state.become_opaque(&bits(&[Field::PbbIsid, Field::PbbUca]));
        Ok(())
    }

    fn pop_pbb(&mut self) -> Progress {
        if !self.is_type(&PBB)? {
            return Ok(());
        }
        self.change(Operation::PopPbb)?;
        self.state.uncover(Header::Pbb);
        Ok(())
    }

    fn decrement(&mut self, types: &[u128], field: Field, operation: Operation) -> Progress {
        if !self.is_type(types)? {
            return Ok(());
        }
        self.change(operation)?;
        // A packet at 0 does not get further.
        let ttl = self.state.key.get(field);
        self.state.become_function(field, ttl.saturating_sub(1));
        Ok(())
    }

    fn copy_ttl_out(&mut self) -> Progress {
        if self.is_type(&MPLS)? {
            self.change(Operation::CopyTtlOut)?;
            self.state.become_opaque(&bits(&[Field::MplsTtl]));
        }
        Ok(())
    }

    fn copy_ttl_in(&mut self) -> Progress {
        if self.is_type(&MPLS)? {
            self.change(Operation::CopyTtlIn)?;
            self.state.forget_inner_ttl();
        }
        Ok(())
    }
}
