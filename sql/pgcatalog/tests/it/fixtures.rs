//! Fixtures, and a schema to run them on.

use std::collections::BTreeMap;
use std::sync::Arc;

use pgcatalog::{Prepared, Row, Session, Unhurried, World, system_query};
use sql::{Catalog, SessionInfo, Statement};
use types::{DataType, Error, Result, Value};

/// A statement that a client sends.
#[derive(Debug)]
pub struct Sent {
    pub title: String,
    pub text: String,
    /// `None`: NULL.
    pub parameters: Vec<Option<String>>,
    /// Why the answer here is another one.
    pub differs: Option<String>,
}

/// The names of columns, and each row's values as text.
#[derive(Debug)]
pub struct Table {
    pub columns: Vec<String>,
    pub types: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// What a client sees of a server over a schema.
pub struct Server {
    pub world: Arc<World>,
    pub session: Session,
    numbers: BTreeMap<String, String>,
}

/// As psql's `\pset null` has it in the answers of PostgreSQL.
pub const NULL: &str = "<null>";

pub fn catalog(text: &str) -> Catalog {
    let mut catalog = Catalog::genesis();
    for parsed in sql::parse(text).unwrap() {
        match sql::bind(&catalog, &parsed, &[]).unwrap().statement {
            Statement::Ddl(ddl) => catalog = catalog.apply(&ddl).unwrap().0,
            other => panic!("{other:?} is no schema change"),
        }
    }
    catalog
}

const SETTINGS: &[(&str, &str)] = &[
    ("default_table_access_method", "heap"),
    ("jit", "off"),
    ("max_index_keys", "32"),
    ("TimeZone", "UTC"),
];

pub fn session() -> Session {
    Session {
        user: "tally".into(),
        database: "tally".into(),
        backend_pid: 7,
        server_version: "15.18".into(),
        role: "tally".into(),
        settings: SETTINGS
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect(),
        ..Session::default()
    }
}

impl Server {
    pub fn new(schema: &str) -> Server {
        let world = Arc::new(World::new(Arc::new(catalog(schema))));
        let mut server = Server { world, session: session(), numbers: BTreeMap::new() };
        let named = server.ask(NUMBERS, &[]).unwrap();
        let named = named.rows.into_iter().map(|row| (row[1].clone(), row[0].clone()));
        server.numbers = named.collect();
        server
    }

    pub fn prepare(&self, text: &str) -> Result<Prepared> {
        let query = system_query(text)?.ok_or_else(|| Error::unsupported(text))?;
        let info = SessionInfo::default();
        Prepared::new(self.world.clone(), &info, &query, &[], None)
    }

    /// Of a query that may read users' views.
    pub fn bind(&self, text: &str) -> Result<Prepared> {
        let parsed = sql::parse(text)?;
        let query = parsed.first().and_then(|statement| statement.query());
        let query = query.ok_or_else(|| Error::unsupported(text))?;
        Prepared::new(self.world.clone(), &SessionInfo::default(), query, &[], None)
    }

    pub fn run(&self, text: &str, parameters: &[Option<&str>]) -> Result<(Prepared, Vec<Row>)> {
        let prepared = self.prepare(text)?;
        let values = parameters.iter().zip(&prepared.parameters).map(|(text, t)| match text {
            Some(text) => Value::read_text(t, text),
            None => Ok(Value::Null),
        });
        let values = values.collect::<Result<Vec<_>>>()?;
        let session = self.session.clone();
        let rows = prepared.run(session, &values, None, None, Arc::new(Unhurried))?.0;
        Ok((prepared, rows))
    }

    /// The answer as text, numbers as they are.
    pub fn ask(&self, text: &str, parameters: &[Option<&str>]) -> Result<Table> {
        let (prepared, rows) = self.run(text, parameters)?;
        let types: Vec<DataType> =
            prepared.columns.iter().map(|column| column.data_type.clone()).collect();
        let text = |(value, t): (&Value, &DataType)| match value {
            Value::Null => NULL.to_owned(),
            value => value.to_text(t),
        };
        let shown = |row: &Row| row.iter().zip(&types).map(text).collect();
        let rows = rows.iter().map(shown).collect();
        let columns = prepared.columns.iter().map(|column| column.name.clone()).collect();
        let types = types.iter().map(|t| t.to_string()).collect();
        Ok(Table { columns, types, rows })
    }

    /// The answer to what a client sends, names standing for numbers.
    pub fn answer(&self, sent: &Sent) -> Result<Table> {
        let text = self.numbered(&sent.text);
        let parameters: Vec<Option<String>> =
            sent.parameters.iter().map(|p| p.as_deref().map(|p| self.numbered(p))).collect();
        let parameters: Vec<Option<&str>> = parameters.iter().map(Option::as_deref).collect();
        let mut table = self.ask(&text, &parameters)?;
        table.rows.iter_mut().flatten().for_each(|value| *value = self.named(value));
        Ok(table)
    }

    fn numbered(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, number) in &self.numbers {
            text = text.replace(&format!("{{{name}}}"), number);
        }
        text
    }

    fn named(&self, text: &str) -> String {
        let is_digit = |c: char| c.is_ascii_digit();
        let mut named = String::new();
        let mut rest = text;
        while let Some(start) = rest.find(is_digit) {
            let digits = rest[start..].find(|c| !is_digit(c)).unwrap_or(rest.len() - start);
            let number = &rest[start..start + digits];
            named.push_str(&rest[..start]);
            match self.numbers.iter().find(|(_, known)| *known == number) {
                Some((name, _)) => named.push_str(&format!("{{{name}}}")),
                None => named.push_str(number),
            }
            rest = &rest[start + digits..];
        }
        named + rest
    }
}

/// What users' objects are called, and their numbers; `scripts/catalog-answers` asks the same.
const NUMBERS: &str = "SELECT oid::text, relname::text FROM pg_class WHERE oid >= 16384
    UNION ALL SELECT oid::text, conname || '.constraint' FROM pg_constraint WHERE oid >= 16384
    UNION ALL SELECT oid::text, proname || '.routine' FROM pg_proc WHERE oid >= 16384
    UNION ALL SELECT oid::text, typname || '.type' FROM pg_type WHERE oid >= 16384
    UNION ALL SELECT d.oid::text, c.relname || '.default' || d.adnum::text
    FROM pg_attrdef d JOIN pg_class c ON c.oid = d.adrelid";

/// Statements end in `;` at the end of a line; lines with `--` before them tell about them.
pub fn read(text: &str) -> Vec<Sent> {
    let mut statements = Vec::new();
    for block in text.split("\n-- ").skip(1) {
        let (title, rest) = block.split_once('\n').unwrap();
        let is_note = |line: &&str| line.starts_with("--$") || line.starts_with("--!");
        let parameter = |line: &str| match line.split_once(" = ").unwrap().1 {
            "NULL" => None,
            value => Some(value.to_owned()),
        };
        let notes: Vec<&str> = rest.lines().take_while(is_note).collect();
        let parameters = notes.iter().filter(|note| note.starts_with("--$"));
        let differs = notes.iter().find_map(|note| note.strip_prefix("--! "));
        let text: Vec<&str> = rest.lines().skip(notes.len()).collect();
        statements.push(Sent {
            title: title.to_owned(),
            text: text.join("\n").trim().trim_end_matches(';').to_owned(),
            parameters: parameters.map(|note| parameter(note)).collect(),
            differs: differs.map(str::to_owned),
        });
    }
    statements
}
