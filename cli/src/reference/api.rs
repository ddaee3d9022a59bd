//! Pages of the control APIs: routes and schemas of each, and its OpenAPI document.

use super::schema::{Schemas, members, sentence, text};
use crate::api::{routes, stack};
use console::markdown;
use console::reference::Page;
use serde_json::Value;
use utoipa::openapi::OpenApi;

/// An API.
struct Api {
    title: &'static str,
    page: &'static str,
    /// File of the OpenAPI document.
    json: &'static str,
    document: fn() -> OpenApi,
    example: &'static str,
}

const SWITCH: Api = Api {
    title: "Control API",
    page: super::API,
    json: "openapi.json",
    document: routes::document,
    example: "curl --unix-socket /run/linerate/control.sock http://localhost/v1/status",
};
const STACK: Api = Api {
    title: "Stack API",
    page: "api-stack.md",
    json: "openapi-stack.json",
    document: stack::document,
    example: "curl --unix-socket /run/echo.sock http://localhost/v1/stack/counters",
};

/// The pages of all APIs.
pub(super) fn pages() -> anyhow::Result<[Page; 4]> {
    Ok([
        (SWITCH.page, SWITCH.text()?),
        (SWITCH.json, SWITCH.openapi()?),
        (STACK.page, STACK.text()?),
        (STACK.json, STACK.openapi()?),
    ])
}

impl Api {
    fn openapi(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(&(self.document)())? + "\n")
    }

    fn text(&self) -> anyhow::Result<String> {
        let schemas = Schemas::new(&(self.document)(), self.page)?;
        let mut page = super::page(self.title, schemas.about());
        markdown::code(&mut page, "sh", self.example);
        let json = self.json;
        let about =
            format!("[{json}]({json}) is the OpenAPI description that `GET /v1/openapi.json` returns.");
        markdown::paragraph(&mut page, &about);
        page.push_str("## Routes\n\n");
        for (path, methods) in schemas.paths() {
            for (method, operation) in members(methods) {
                route(&mut page, &schemas, &format!("{} {path}", method.to_uppercase()), operation);
            }
        }
        page.push_str("## Schemas\n\n");
        for (name, schema) in schemas.all() {
            schemas.describe(&mut page, name, schema);
        }
        Ok(markdown::finish(&page))
    }
}

fn route(page: &mut String, schemas: &Schemas, title: &str, operation: &Value) {
    let about = [text(&operation["summary"]), text(&operation["description"])];
    let about: Vec<String> =
        about.iter().filter(|text| !text.is_empty()).map(|text| sentence(text)).collect();
    markdown::section(page, &format!("### `{title}`"), &about.join(" "));
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let parameters: Vec<_> = parameters.map(|of| parameter(schemas, of)).collect();
    if !parameters.is_empty() {
        markdown::table(page, ["parameter", "in", "type", "meaning"], parameters);
    }
    if let Some(body) = body(schemas, &operation["requestBody"]) {
        markdown::paragraph(page, &format!("Body: {body}."));
    }
    let responses = members(&operation["responses"]).map(|(status, response)| {
        let body = body(schemas, response).unwrap_or_default();
        [status.clone(), body, text(&response["description"]).to_owned()]
    });
    markdown::table(page, ["status", "body", "meaning"], responses);
}

fn parameter(schemas: &Schemas, parameter: &Value) -> [String; 4] {
    let field = |key: &str| text(&parameter[key]).to_owned();
    [format!("`{}`", field("name")), field("in"), schemas.type_of(&parameter["schema"]), field("description")]
}

/// Type of the JSON body of a request or a response.
fn body(schemas: &Schemas, holder: &Value) -> Option<String> {
    let content = holder["content"].as_object()?;
    content.get("application/json").map(|content| schemas.type_of(&content["schema"]))
}
