//! A table of readings, as text and as JSON.

use serde_json::{Map, Value};

/// Readings under one title.
pub(crate) struct Table {
    /// Key in the JSON output.
    pub(crate) name: &'static str,
    /// Title in the text output.
    pub(crate) title: String,
    pub(crate) columns: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<Value>>,
}

impl Table {
    /// Aligned columns under the title.
    pub(crate) fn text(&self) -> String {
        let heading = self.columns.iter().map(|column| (*column).to_owned()).collect();
        let mut lines: Vec<Vec<String>> = vec![heading];
        lines.extend(self.rows.iter().map(|row| row.iter().map(shown).collect()));
        let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
        let widths: Vec<_> = (0..self.columns.len()).map(width).collect();
        let line = |cells: &Vec<String>| {
            let cells = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
            cells.collect::<Vec<_>>().join("  ") + "\n"
        };
        format!("{}\n{}", self.title, lines.iter().map(line).collect::<String>())
    }

    /// One object per row.
    pub(crate) fn json(&self) -> (String, Value) {
        let key = |column: &&str| column.replace([' ', '+'], "_");
        let row = |row: &Vec<Value>| {
            let fields = self.columns.iter().map(key).zip(row.iter().cloned());
            Value::Object(fields.collect::<Map<_, _>>())
        };
        (self.name.to_owned(), Value::Array(self.rows.iter().map(row).collect()))
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => format!("{:.2}", number.as_f64().unwrap_or(f64::NAN)),
        other => other.to_string(),
    }
}

/// The `share` quantile of the values (nearest rank); NaN if there are none.
pub(crate) fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = ((values.len().saturating_sub(1)) as f64 * share).round() as usize;
    values.get(at).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_columns_are_aligned_and_json_rows_have_named_fields() {
        let table = Table {
            name: "cost",
            title: "Cost".to_owned(),
            columns: vec!["ports", "ns per packet"],
            rows: vec![vec![json!(2), json!(1.234)], vec![json!(64), json!(20.0)]],
        };
        assert_eq!(table.text(), "Cost\nports  ns per packet\n    2           1.23\n   64          20.00\n");
        assert_eq!(table.json().1[1]["ports"], 64);
    }

    #[test]
    fn quantiles_of_unsorted_values() {
        let mut values: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        assert_eq!([0.5, 0.99].map(|share| quantile(&mut values, share).to_string()), ["50", "99"]);
    }
}
