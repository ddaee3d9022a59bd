//! The varying fields of a stream: their positions, and whether the values fit.

use super::{Description, StreamError};
use crate::headers::FrameLayout;
use crate::template::Field;
use crate::vary::{Amount, Pattern, Values};
use std::net::Ipv6Addr;

/// Low bits of the flow number, which go into the source port.
const PORT_BITS: u32 = 15;

impl Description {
    /// The varying fields and their values, in the same order.
    pub(super) fn fields(&self, laid: &FrameLayout) -> Result<(Vec<Field>, Vec<Values>), StreamError> {
        let mut changes: Vec<(String, Field, Values)> = Vec::new();
        for (name, pattern) in &self.vary {
            let field = find(laid, name)?;
            let base = field.value_in(&laid.bytes);
            like(name, field, laid, pattern)?;
            fits(name, &field, pattern)?;
            let values = Values::of(pattern, base).ok_or_else(|| StreamError::Values(name.clone()))?;
            changes.push((name.clone(), field, values));
        }
        if self.flows > 1 {
            self.flow_fields(laid, &mut changes)?;
        }
        for (i, (name, field, _)) in changes.iter().enumerate() {
            if let Some((other, ..)) = changes[..i].iter().find(|(_, other, _)| other.overlaps(field)) {
                return Err(StreamError::Overlap(other.clone(), name.clone()));
            }
        }
        Ok(changes.into_iter().map(|(_, field, values)| (field, values)).unzip())
    }

    /// Assigns the flow number: low bits to the source port, the others to the source address.
    fn flow_fields(
        &self,
        laid: &FrameLayout,
        changes: &mut Vec<(String, Field, Values)>,
    ) -> Result<(), StreamError> {
        let flows = u64::from(self.flows);
        let has_port = laid.spots.iter().any(|(name, _)| name == "source_port");
        let low = if has_port { PORT_BITS } else { 0 };
        let parts = [("source_port", 0, (1 << low) - 1), ("source", low, u64::MAX)];
        let parts = parts.into_iter().filter(|(_, shift, mask)| *mask > 0 && (flows - 1) >> shift > 0);
        for (name, shift, mask) in parts {
            let field = find(laid, name)?;
            let from = field.value_in(&laid.bytes);
            changes.push((name.to_owned(), field, Values::Flow { flow: 0, flows, from, shift, mask }));
        }
        Ok(())
    }
}

/// Finds a field by name.
fn find(laid: &FrameLayout, name: &str) -> Result<Field, StreamError> {
    let spot = laid.spots.iter().find(|(known, _)| known == name).map(|(_, spot)| *spot);
    spot.map(Field::at).ok_or_else(|| {
        let mut names: Vec<&str> = laid.spots.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        let told = if names.is_empty() { "none that could be changed".to_owned() } else { names.join(", ") };
        StreamError::Field(name.to_owned(), told)
    })
}

/// Checks that values written as addresses fit the type of the field.
fn like(name: &str, field: Field, laid: &FrameLayout, pattern: &Pattern) -> Result<(), StreamError> {
    let upper = field.upper_half(&laid.bytes);
    let is_address = name.ends_with("source") || name.ends_with("destination");
    let expected = match field.limit() {
        _ if name.ends_with("_mac") => "a number or an address such as \"02:00:00:00:00:01\"".to_owned(),
        _ if !is_address => "a number".to_owned(),
        limit if limit == 1 << 32 => "a number or an address such as \"198.18.0.1\"".to_owned(),
        _ => {
            let prefix = Ipv6Addr::from_bits(u128::from(upper) << 64);
            format!("a number or an address of {prefix}/64, the half that does not change")
        }
    };
    let fits = |amount: &Amount| match amount {
        Amount::Number(_) => true,
        Amount::V4(_) => is_address && field.limit() == 1 << 32,
        Amount::V6(address) => {
            is_address && field.limit() == 1 << 64 && (address.to_bits() >> 64) as u64 == upper
        }
        Amount::Mac(_) => name.ends_with("_mac"),
    };
    let wrong = pattern.amounts().iter().find(|amount| !fits(amount));
    wrong.map_or(Ok(()), |amount| Err(StreamError::Unlike(name.to_owned(), *amount, expected)))
}

/// Checks that all values of a pattern fit into the field.
fn fits(name: &str, field: &Field, pattern: &Pattern) -> Result<(), StreamError> {
    let largest = match pattern {
        Pattern::Count { count, from, step } => {
            let last = count.saturating_sub(1).checked_mul(*step);
            last.and_then(|last| last.checked_add(from.map_or(0, Amount::bits))).unwrap_or(u64::MAX)
        }
        Pattern::Random { below, .. } => below.unwrap_or(0).saturating_sub(1),
        Pattern::List { list } => list.iter().map(|value| value.bits()).max().unwrap_or(0),
    };
    let limit = field.limit();
    if u128::from(largest) < limit {
        Ok(())
    } else {
        Err(StreamError::Large(name.to_owned(), largest, limit))
    }
}
