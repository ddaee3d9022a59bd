//! Options of Geneve tunnels of OpenFlow bridges, and the fields that they are bound to.

use super::{Flows, refused};
use crate::dataplane::interface::DataPlaneError;
use crate::dataplane::tunnels::{OptionEntry, OptionFilter, OptionRequest};
use console::Diagnostic;
use flow::tables::Modification;
use flow::text::{TextError, parse_option, parse_option_field};
use flow::{Field, Mapping, OptionChange};

const REMEDY: &str =
    "see `linerate tunnels options show`, and the flows that use the field in `linerate flows show`";

impl Flows {
    /// The options that match a filter, by bridge and field.
    pub(in crate::dataplane) fn options(
        &self,
        wanted: &OptionFilter,
    ) -> Result<Vec<OptionEntry>, DataPlaneError> {
        let field = wanted.field.as_deref().map(field).transpose()?;
        let mut found = Vec::new();
        for bridge in self.named(wanted.bridge.as_deref())? {
            let tables = self.switch.tables(bridge).map_err(|e| refused(bridge, &e))?;
            let options = tables.options().iter().filter(|(n, _)| field.is_none_or(|field| field == *n));
            found.extend(options.map(|(n, mapping)| entry(bridge, n, mapping)));
        }
        Ok(found)
    }

    /// Binds options to fields, all or none. Returns their number.
    pub(in crate::dataplane) fn add_options(&self, request: &OptionRequest) -> Result<usize, DataPlaneError> {
        let parsed = request.options.iter().map(|text| parse_option(text).map_err(|e| bad(text, &e)));
        let options = parsed.collect::<Result<Vec<_>, _>>()?;
        let n = options.len();
        self.change_options(request.bridge.as_deref(), OptionChange::Add(options)).map(|()| n)
    }

    /// Frees a field, or all of a bridge. Returns the number of options that were bound.
    pub(in crate::dataplane) fn remove_options(
        &self,
        wanted: &OptionFilter,
    ) -> Result<usize, DataPlaneError> {
        let bridge = self.one(wanted.bridge.as_deref())?.to_owned();
        let change = match &wanted.field {
            Some(name) => OptionChange::Delete(vec![field(name)?]),
            None => OptionChange::Clear,
        };
        let before = self.options(&OptionFilter { bridge: Some(bridge.clone()), ..wanted.clone() })?.len();
        self.change_options(Some(&bridge), change).map(|()| before)
    }

    fn change_options(&self, bridge: Option<&str>, change: OptionChange) -> Result<(), DataPlaneError> {
        let bridge = self.one(bridge)?;
        let done = self.switch.modify_recorded(bridge, &[Modification::Options(change)], self.now());
        let place = || format!("tunnel options of bridge \"{bridge}\"");
        done.map(drop).map_err(|e| DataPlaneError::Refused(Diagnostic::bad(place(), e, REMEDY)))
    }
}

fn entry(bridge: &str, n: u8, Mapping { class, kind, len }: Mapping) -> OptionEntry {
    OptionEntry {
        bridge: bridge.to_owned(),
        field: Field::of_option(n).map_or("", |field| field.info().name).to_owned(),
        class: format!("{class:#x}"),
        kind: format!("{kind:#x}"),
        length: len,
    }
}

fn field(name: &str) -> Result<u8, DataPlaneError> {
    parse_option_field(name).map_err(|e| bad(name, &e))
}

fn bad(text: &str, error: &TextError) -> DataPlaneError {
    let remedy = "write an option such as `{class=0x102,type=0x80,len=4}->tun_metadata0`";
    DataPlaneError::Refused(Diagnostic::bad(format!("tunnel option \"{text}\""), error, remedy))
}
