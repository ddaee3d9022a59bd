//! Schema of a port in the control API: the keys of a `[[port]]` section.

use crate::settings::topology::PortSettings;
use std::borrow::Cow;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, Schema};
use utoipa::openapi::{RefOr, Type};
use utoipa::{PartialSchema, ToSchema};

impl PartialSchema for PortSettings {
    fn schema() -> RefOr<Schema> {
        let name = ObjectBuilder::new().schema_type(Type::String).description(Some("Name of the port."));
        let port = ObjectBuilder::new()
            .schema_type(Type::Object)
            .description(Some("The keys of a `[[port]]` section. A response has the defaults filled in."))
            .property("name", name)
            .required("name")
            .additional_properties(Some(AdditionalProperties::FreeForm(true)));
        port.into()
    }
}

impl ToSchema for PortSettings {
    fn name() -> Cow<'static, str> {
        "Port".into()
    }
}
