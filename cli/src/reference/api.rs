//! `api.md`: routes and schemas of the control API.

use super::schema::{Schemas, members, rows, text, type_of};
use console::markdown;
use serde_json::Value;

const EXAMPLE: &str = "curl --unix-socket /run/linerate/control.sock http://localhost/v1/status";
const DOCUMENT: &str =
    "[openapi.json](openapi.json) is the OpenAPI description that `GET /v1/openapi.json` returns.";

/// The page.
pub(super) fn page() -> anyhow::Result<String> {
    let schemas = Schemas::new()?;
    let mut page = super::page("Control API", schemas.about());
    markdown::code(&mut page, "sh", EXAMPLE);
    markdown::paragraph(&mut page, DOCUMENT);
    page.push_str("## Routes\n\n");
    for (path, methods) in schemas.paths() {
        for (method, operation) in members(methods) {
            route(&mut page, &format!("{} {path}", method.to_uppercase()), operation);
        }
    }
    page.push_str("## Schemas\n\n");
    for (name, schema) in schemas.all() {
        describe(&mut page, name, schema);
    }
    Ok(markdown::finish(&page))
}

fn route(page: &mut String, title: &str, operation: &Value) {
    let about = [text(&operation["summary"]), text(&operation["description"])];
    let about: Vec<String> =
        about.iter().filter(|text| !text.is_empty()).map(|text| sentence(text)).collect();
    markdown::section(page, &format!("### `{title}`"), &about.join(" "));
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let parameters: Vec<_> = parameters.map(parameter).collect();
    if !parameters.is_empty() {
        markdown::table(page, ["parameter", "in", "type", "meaning"], parameters);
    }
    if let Some(body) = body(&operation["requestBody"]) {
        markdown::paragraph(page, &format!("Body: {body}."));
    }
    let responses = members(&operation["responses"]).map(|(status, response)| {
        [status.clone(), body(response).unwrap_or_default(), text(&response["description"]).to_owned()]
    });
    markdown::table(page, ["status", "body", "meaning"], responses);
}

fn parameter(parameter: &Value) -> [String; 4] {
    let field = |key: &str| text(&parameter[key]).to_owned();
    [format!("`{}`", field("name")), field("in"), type_of(&parameter["schema"]), field("description")]
}

/// Type of the JSON body of a request or a response.
fn body(holder: &Value) -> Option<String> {
    let content = holder["content"].as_object()?;
    content.get("application/json").map(|content| type_of(&content["schema"]))
}

fn sentence(text: &str) -> String {
    if text.ends_with('.') { text.to_owned() } else { format!("{text}.") }
}

/// One schema: the table of its fields, its values, or the tables of its parts.
fn describe(page: &mut String, name: &str, schema: &Value) {
    markdown::section(page, &format!("### {name}"), text(&schema["description"]));
    fields(page, schema);
    for part in schema["allOf"].as_array().into_iter().flatten() {
        fields(page, part);
        for choice in part["oneOf"].as_array().into_iter().flatten() {
            let about = sentence(text(&choice["description"]));
            markdown::paragraph(page, &format!("`{}`: {about}", text(&choice["title"])));
            fields(page, choice);
        }
    }
    let values = schema["enum"].as_array().into_iter().flatten().map(text);
    let values: Vec<String> = values.map(|value| format!("`\"{value}\"`")).collect();
    if !values.is_empty() {
        markdown::paragraph(page, &format!("One of {}.", values.join(", ")));
    }
}

fn fields(page: &mut String, schema: &Value) {
    let rows = rows(schema);
    if !rows.is_empty() {
        markdown::table(page, ["field", "type", "meaning"], rows);
    }
}
