//! EXPLAIN: who runs a statement and how, for people, and as trees for programs.
//!
//! As text it is the lines that an engine gives of itself. The other formats have PostgreSQL's
//! shape, so that tools find their way: a list of one query, whose `Plan` has a `Node Type` and its
//! children as `Plans`. The outermost node is the engine; each of its lines is a node below it,
//! named by its first word, with the line as `Detail`, and nested as the lines are indented. There
//! are no costs, since none are estimated.

use std::fmt::Write as _;

use procedure::Procedure;
use procedure::explain::{NameResolver, explain};
use types::{DataType, TableId, TableSchema};

use crate::schema::catalog::Catalog;
use crate::syntax::explain::{ExplainFormat, ExplainOptions};

impl NameResolver for Catalog {
    fn schema(&self, table: TableId) -> Option<&TableSchema> {
        self.table_by_id(table).map(|table| &*table.schema)
    }
}

/// The program, one line of text each.
pub fn lines(catalog: &Catalog, procedure: &Procedure) -> Vec<String> {
    explain(procedure, catalog).lines().map(str::to_owned).collect()
}

impl ExplainOptions {
    /// The type of what it answers.
    pub fn data_type(&self) -> DataType {
        match self.format {
            ExplainFormat::Json => DataType::Json,
            ExplainFormat::Text | ExplainFormat::Xml | ExplainFormat::Yaml => DataType::Text,
        }
    }

    /// What it answers, a row each.
    pub fn rows(&self, explained: &Explained) -> Vec<String> {
        match self.format {
            ExplainFormat::Text => explained.as_text(self),
            ExplainFormat::Json => vec![json(&explained.query(self))],
            ExplainFormat::Yaml => vec![yaml(&explained.query(self))],
            ExplainFormat::Xml => vec![xml(&explained.query(self))],
        }
    }
}

/// What is known of a statement.
#[derive(Clone, PartialEq, Debug)]
pub struct Explained {
    /// Who runs it, and why, where that was chosen.
    pub engine: String,
    pub reason: String,
    /// As the engine gives them.
    pub lines: Vec<String>,
    /// Rows, and how long it took, where it has run and the engine has not said so itself.
    pub measured: Option<(u64, f64)>,
}

impl Explained {
    fn as_text(&self, options: &ExplainOptions) -> Vec<String> {
        let mut all = Vec::with_capacity(self.lines.len() + 3);
        if !self.reason.is_empty() {
            all.push(format!("Router: {}, {}", self.engine, self.reason));
        }
        all.extend(self.lines.iter().cloned());
        if let Some((rows, elapsed_ms)) = self.measured {
            all.push(format!("Rows: {rows}"));
            if !options.without_time {
                all.push(format!("Elapsed: {elapsed_ms:.3} ms"));
            }
        }
        all
    }

    /// A list of the one query.
    fn query(&self, options: &ExplainOptions) -> Tree {
        let mut plan = vec![("Node Type", Tree::Text(self.engine.clone()))];
        if !self.reason.is_empty() {
            plan.push(("Reason", Tree::Text(self.reason.clone())));
        }
        let mut query = Vec::new();
        if let Some((rows, elapsed_ms)) = self.measured {
            plan.push(("Actual Rows", Tree::Number(rows.to_string())));
            plan.push(("Actual Loops", Tree::Number("1".to_owned())));
            if !options.without_time {
                let elapsed = Tree::Number(format!("{elapsed_ms:.3}"));
                plan.push(("Actual Total Time", elapsed.clone()));
                query.push(("Execution Time", elapsed));
            }
        }
        let lines: Vec<&str> = self.lines.iter().map(|line| line.trim_end()).collect();
        let lines: Vec<&str> = lines.into_iter().filter(|line| !line.is_empty()).collect();
        let children = nodes(&mut lines.as_slice(), 0);
        if !children.is_empty() {
            plan.push(("Plans", Tree::List("Plan", children)));
        }
        query.insert(0, ("Plan", Tree::Object(plan)));
        Tree::List("Query", vec![Tree::Object(query)])
    }
}

/// Lines that are indented at least as far, and those below each of them.
fn nodes(lines: &mut &[&str], indentation: usize) -> Vec<Tree> {
    let indented = |line: &str| line.len() - line.trim_start().len();
    let mut nodes = Vec::new();
    while let Some((line, rest)) = lines.split_first()
        && indented(line) >= indentation
    {
        *lines = rest;
        let detail = line.trim();
        let unnumbered = detail.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let name = unnumbered.split(|c| !is_name(c)).find(|name| !name.is_empty());
        let mut node = vec![
            ("Node Type", Tree::Text(name.unwrap_or(detail).to_owned())),
            ("Detail", Tree::Text(detail.to_owned())),
        ];
        let below = nodes_below(lines, indented(line));
        if !below.is_empty() {
            node.push(("Plans", Tree::List("Plan", below)));
        }
        nodes.push(Tree::Object(node));
    }
    nodes
}

fn nodes_below(lines: &mut &[&str], indentation: usize) -> Vec<Tree> {
    nodes(lines, indentation + 1)
}

/// What all formats are made of.
#[derive(Clone, PartialEq, Debug)]
enum Tree {
    Text(String),
    Number(String),
    Object(Vec<(&'static str, Tree)>),
    /// With the name that XML has for each of it.
    List(&'static str, Vec<Tree>),
}

fn indent(depth: usize, out: &mut String) {
    out.extend(std::iter::repeat_n("  ", depth));
}

fn quoted(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => _ = write!(out, "\\u{:04x}", u32::from(c)),
            c => out.push(c),
        }
    }
    out.push('"');
}

fn json(tree: &Tree) -> String {
    let mut out = String::new();
    put_json(tree, 0, &mut out);
    out
}

fn put_json(tree: &Tree, depth: usize, out: &mut String) {
    let separate = |place: usize, out: &mut String| {
        out.push_str(if place > 0 { ",\n" } else { "\n" });
        indent(depth + 1, out);
    };
    match tree {
        Tree::Text(text) => quoted(text, out),
        Tree::Number(digits) => out.push_str(digits),
        Tree::Object(fields) => {
            out.push('{');
            for (place, (name, value)) in fields.iter().enumerate() {
                separate(place, out);
                quoted(name, out);
                out.push_str(": ");
                put_json(value, depth + 1, out);
            }
            out.push('\n');
            indent(depth, out);
            out.push('}');
        }
        Tree::List(_, items) => {
            out.push('[');
            for (place, item) in items.iter().enumerate() {
                separate(place, out);
                put_json(item, depth + 1, out);
            }
            out.push('\n');
            indent(depth, out);
            out.push(']');
        }
    }
}

fn yaml(tree: &Tree) -> String {
    let mut out = String::new();
    put_yaml(tree, 0, &mut out);
    out.trim_start().to_owned()
}

/// A text in YAML is one of JSON.
fn put_yaml(tree: &Tree, depth: usize, out: &mut String) {
    match tree {
        Tree::Text(text) => quoted(text, out),
        Tree::Number(digits) => out.push_str(digits),
        Tree::Object(fields) => {
            for (place, (name, value)) in fields.iter().enumerate() {
                if place > 0 {
                    out.push('\n');
                    indent(depth, out);
                }
                _ = write!(out, "{name}: ");
                if let Tree::Object(_) = value {
                    out.push('\n');
                    indent(depth + 1, out);
                }
                put_yaml(value, depth + 1, out);
            }
        }
        Tree::List(_, items) => {
            for item in items {
                out.push('\n');
                indent(depth, out);
                out.push_str("- ");
                put_yaml(item, depth + 1, out);
            }
        }
    }
}

fn xml(tree: &Tree) -> String {
    let mut out = "<explain xmlns=\"http://www.postgresql.org/2009/explain\">".to_owned();
    put_xml(tree, 1, &mut out);
    out.push_str("\n</explain>");
    out
}

fn put_xml(tree: &Tree, depth: usize, out: &mut String) {
    let element = |name: &str, value: &Tree, out: &mut String| {
        let name = name.replace(' ', "-");
        out.push('\n');
        indent(depth, out);
        _ = write!(out, "<{name}>");
        put_xml(value, depth + 1, out);
        if matches!(value, Tree::Object(_) | Tree::List(..)) {
            out.push('\n');
            indent(depth, out);
        }
        _ = write!(out, "</{name}>");
    };
    match tree {
        Tree::Text(text) => {
            for c in text.chars() {
                match c {
                    '<' => out.push_str("&lt;"),
                    '>' => out.push_str("&gt;"),
                    '&' => out.push_str("&amp;"),
                    // XML has no others.
                    c if c < ' ' && c != '\n' && c != '\t' => out.push('\u{fffd}'),
                    c => out.push(c),
                }
            }
        }
        Tree::Number(digits) => out.push_str(digits),
        Tree::Object(fields) => {
            fields.iter().for_each(|(name, value)| element(name, value, out));
        }
        Tree::List(name, items) => items.iter().for_each(|item| element(name, item, out)),
    }
}

#[cfg(test)]
mod tests {
    use types::Error;

    use super::*;

    fn explained() -> Explained {
        Explained {
            engine: "fast path".into(),
            reason: "because it is \"small\"".into(),
            lines: ["steps", "  1  read  t[1]: a < b", "  2  emit (a)", "", "keys  all"]
                .map(str::to_owned)
                .into(),
            measured: Some((1, 0.5)),
        }
    }

    fn shown(format: ExplainFormat) -> String {
        ExplainOptions { analyze: true, format, without_time: false }.rows(&explained()).join("\n")
    }

    #[test]
    fn lines_are_nested_as_they_are_indented() {
        let expected = r#"[
  {
    "Plan": {
      "Node Type": "fast path",
      "Reason": "because it is \"small\"",
      "Actual Rows": 1,
      "Actual Loops": 1,
      "Actual Total Time": 0.500,
      "Plans": [
        {
          "Node Type": "steps",
          "Detail": "steps",
          "Plans": [
            {
              "Node Type": "read",
              "Detail": "1  read  t[1]: a < b"
            },
            {
              "Node Type": "emit",
              "Detail": "2  emit (a)"
            }
          ]
        },
        {
          "Node Type": "keys",
          "Detail": "keys  all"
        }
      ]
    },
    "Execution Time": 0.500
  }
]"#;
        assert_eq!(shown(ExplainFormat::Json), expected);
    }

    #[test]
    fn the_other_formats_say_the_same() {
        let yaml = shown(ExplainFormat::Yaml);
        assert!(yaml.starts_with("- Plan: \n    Node Type: \"fast path\"\n"), "{yaml}");
        assert!(yaml.ends_with("\n  Execution Time: 0.500"), "{yaml}");
        assert!(yaml.contains("\n      - Node Type: \"steps\"\n        Detail:"), "{yaml}");
        let xml = shown(ExplainFormat::Xml);
        for part in [
            "<Query>\n    <Plan>\n      <Node-Type>fast path</Node-Type>",
            "<Detail>1  read  t[1]: a &lt; b</Detail>",
            "<Execution-Time>0.500</Execution-Time>\n  </Query>\n</explain>",
        ] {
            assert!(xml.contains(part), "{xml}");
        }
        let text = shown(ExplainFormat::Text);
        assert!(text.starts_with("Router: fast path, because"), "{text}");
        assert!(text.ends_with("Rows: 1\nElapsed: 0.500 ms"), "{text}");
    }

    #[test]
    fn options_are_postgresqls() {
        let read = |options: &str| {
            let parsed = crate::parse(&format!("EXPLAIN ({options}) SELECT 1"))?.remove(0);
            Ok::<_, Error>(parsed.explained()?.map(|(_, options)| options))
        };
        let all = "ANALYZE, VERBOSE, COSTS off, BUFFERS, TIMING off, SUMMARY, SETTINGS, WAL, \
                   MEMORY, SERIALIZE text, FORMAT json";
        let expected =
            ExplainOptions { analyze: true, format: ExplainFormat::Json, without_time: true };
        assert_eq!(read(all).unwrap(), Some(expected));
        for format in ["text", "JSON", "'xml'", "yaml"] {
            assert!(read(&format!("FORMAT {format}")).is_ok(), "{format}");
        }
        for (options, code) in [
            ("nope", "42601"),
            ("FORMAT html", "22023"),
            ("TIMING", "22023"),
            ("WAL on", "22023"),
            ("COSTS maybe", "42601"),
        ] {
            assert_eq!(read(options).unwrap_err().code().as_str(), code, "{options}");
        }
    }
}
