//! Names in sight: the relations of a FROM clause, and a routine's variables.

use std::collections::HashSet;
use std::sync::Arc;

use procedure::Expr;
use types::{DataType, Error, Result, SqlState};

use super::collated::Collated;
use crate::schema::catalog::Table;
use crate::schema::collations::Collation;
use crate::syntax::names::{PUBLIC, object_name, schema_of, split};

/// The relations of one FROM clause. Their columns are numbered through: column c of a relation is
/// `Column(offset + c)` in bound expressions, until the planner has decided where it will be.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    pub relations: Vec<Relation>,
    /// What `*` shows, where USING has put columns first that do not stand there. Relations that
    /// come later stand after.
    pub order: Vec<u16>,
}

#[derive(Clone, Debug)]
pub struct Relation {
    pub name: String,
    pub columns: Vec<ScopeColumn>,
    pub offset: u16,
    /// The table it is, where it is one.
    pub table: Option<Arc<Table>>,
    /// The view.
    pub view: Option<Arc<ReadView>>,
    /// The schema of what is neither.
    pub schema: Option<&'static str>,
    /// The column whose values are no two rows', of what is neither.
    pub key: Option<u16>,
    /// The place of a column that is never NULL.
    pub presence: Option<u16>,
    /// An outer join may leave it out.
    pub may_be_absent: bool,
    /// A function of one value, which its name alone stands for.
    pub is_scalar: bool,
}

/// A view that is read, whose columns may be granted one by one.
#[derive(Debug)]
pub struct ReadView {
    pub name: String,
    /// As it calls them, whatever they are called where it is read.
    pub columns: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct ScopeColumn {
    pub name: String,
    pub data_type: DataType,
    /// Found by its qualified name only: hidden row ids, dropped columns, and the second of two
    /// columns that USING has merged.
    pub hidden: bool,
    /// Found by its name, and not shown by `*`.
    pub is_beside: bool,
    /// What it is without its relation's name, and its type, where USING has merged two columns of
    /// different types, or of which an outer join may have either.
    pub merged: Option<(Expr, DataType)>,
    pub collated: Collated,
}

impl ScopeColumn {
    pub fn new(name: String, data_type: DataType) -> ScopeColumn {
        let (hidden, is_beside, merged) = (false, false, None);
        ScopeColumn { name, data_type, hidden, is_beside, merged, collated: Collated::Default }
    }

    pub fn of_collation(self, collation: Option<&Arc<Collation>>) -> ScopeColumn {
        let collated = collation.map_or(Collated::Default, |it| Collated::Implicit(Arc::clone(it)));
        ScopeColumn { collated, ..self }
    }

    /// Whether `*` shows it.
    pub fn is_shown(&self) -> bool {
        !self.hidden && !self.is_beside
    }

    /// What it is without its relation's name.
    pub fn unqualified(&self, place: u16) -> (Expr, DataType) {
        let own = || (Expr::Column(place), self.data_type.clone());
        self.merged.clone().unwrap_or_else(own)
    }
}

/// A routine's parameter or variable.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Name of the routine, block or record that may stand before the name; may be empty.
    pub qualifier: String,
    pub name: String,
    pub value: Expr,
    pub data_type: DataType,
    /// Found by its qualified name only: the field of a record.
    pub qualified_only: bool,
}

/// What statements that a session words itself call a hidden row id.
pub const ROW_ID_NAME: &str = "\0row id";

impl Scope {
    /// One table under its own name, its columns numbered as in the table.
    pub fn of_table(table: &Arc<Table>) -> Scope {
        let mut scope = Scope::default();
        scope.add_table(table, table.name());
        scope
    }

    pub fn add_table(&mut self, table: &Arc<Table>, name: &str) {
        let visible = |i: usize| {
            let last_hidden = table.schema.hidden_row_id && i + 1 == table.schema.columns.len();
            let column = &table.schema.columns[i];
            !last_hidden && !column.dropped && !column.is_hidden()
        };
        let columns = table.schema.columns.iter().enumerate();
        let columns = columns.map(|(i, column)| ScopeColumn {
            // No SQL name is empty or has a NUL, so what is invisible cannot be named.
            name: match visible(i) {
                true => column.name.clone(),
                false if column.dropped || column.is_hidden() => String::new(),
                false => ROW_ID_NAME.to_owned(),
            },
            data_type: column.data_type.clone(),
            hidden: !visible(i),
            is_beside: false,
            merged: None,
            collated: match table.collations.get(&(i as u16)) {
                Some(collation) => Collated::Implicit(Arc::clone(collation)),
                None => Collated::Default,
            },
        });
        let columns = columns.collect();
        self.add(name, columns, Some(table.clone()));
    }

    pub fn add(&mut self, name: &str, columns: Vec<ScopeColumn>, table: Option<Arc<Table>>) {
        let offset = self.width();
        let presence = table.as_ref().and_then(|table| table.schema.primary_key.first().copied());
        self.relations.push(Relation {
            name: name.to_owned(),
            columns,
            offset,
            table,
            view: None,
            schema: None,
            key: None,
            presence,
            may_be_absent: false,
            is_scalar: false,
        });
    }

    pub fn width(&self) -> u16 {
        self.relations.last().map_or(0, |r| r.offset + r.columns.len() as u16)
    }

    /// The column of that name, if there is exactly one.
    pub fn find(&self, name: &str) -> Result<Option<(Expr, DataType)>> {
        find_in(&self.relations, name)
    }

    /// The columns that `*` shows, by their numbers.
    pub fn shown(&self) -> Vec<u16> {
        let mut shown = self.order.clone();
        let first: HashSet<u16> = self.order.iter().copied().collect();
        for relation in &self.relations {
            for (i, column) in relation.columns.iter().enumerate() {
                let place = relation.offset + i as u16;
                if column.is_shown() && !first.contains(&place) {
                    shown.push(place);
                }
            }
        }
        shown
    }

    /// Names of columns that both sides of a join show, as NATURAL JOIN has them.
    pub fn common_columns(&self, first: usize, left_relations: usize) -> Vec<String> {
        let (left, right) = self.relations.split_at(left_relations);
        let names = |side: &[Relation]| -> Vec<String> {
            let columns = side.iter().flat_map(|relation| &relation.columns);
            columns.filter(|c| c.is_shown()).map(|column| column.name.clone()).collect()
        };
        let right: HashSet<String> = names(right).into_iter().collect();
        let mut common = names(&left[first.min(left.len())..]);
        common.retain(|name| right.contains(name));
        common
    }

    /// Puts columns that USING has merged in front of the others of their join, which begins with
    /// the relation numbered `first`.
    pub fn show_first(&mut self, first: usize, merged: &[u16]) {
        let mut shown = self.shown();
        let begin = self.relations.get(first).map_or(0, |relation| relation.offset);
        let begin = shown.iter().position(|c| *c >= begin).unwrap_or(shown.len());
        let is_merged: HashSet<&u16> = merged.iter().collect();
        let others: Vec<u16> =
            shown.drain(begin..).filter(|column| !is_merged.contains(column)).collect();
        shown.extend(merged.iter().copied().chain(others));
        self.order = shown;
    }

    pub fn column(&self, place: u16) -> Option<(&Relation, &ScopeColumn)> {
        let relation = self.relations.iter().rfind(|relation| relation.offset <= place)?;
        let column = relation.columns.get(usize::from(place - relation.offset))?;
        Some((relation, column))
    }

    pub fn relation(&self, name: &str) -> Option<&Relation> {
        self.relations.iter().find(|r| r.name == name)
    }

    /// Whether a relation is called so, and is a table or a view of that schema; what is neither is
    /// in public.
    pub fn is_in_schema(&self, schema: &str, name: &str) -> bool {
        let Some(relation) = self.relation(name) else { return false };
        let table = relation.table.as_ref();
        let view = relation.view.as_ref().map(|view| schema_of(&view.name));
        let own = view.or(relation.schema).unwrap_or(PUBLIC);
        table.map_or(own, |table| table.namespace()) == schema
    }

    /// The relation of `name.*` or `schema.name.*`.
    pub fn named(&self, name: &sqlparser::ast::ObjectName) -> Result<String> {
        let key = object_name(name)?;
        let (schema, name_alone) = split(&key);
        match name.0.len() == 1 || self.is_in_schema(schema, name_alone) {
            true => Ok(name_alone.to_owned()),
            false => Ok(key),
        }
    }

    /// `name.column`; `None` if there is no such relation.
    pub fn find_qualified(&self, name: &str, column: &str) -> Result<Option<(Expr, DataType)>> {
        let Some(relation) = self.relation(name) else {
            return Ok(None);
        };
        let is_it = |c: &ScopeColumn| c.name == column && !column.is_empty();
        if relation.columns.iter().filter(|c| is_it(c)).count() > 1 {
            let what = format!("column reference \"{column}\" is ambiguous");
            return Err(Error::new(SqlState::AMBIGUOUS_COLUMN, what));
        }
        match relation.columns.iter().position(is_it) {
            Some(i) => Ok(Some((
                Expr::Column(relation.offset + i as u16),
                relation.columns[i].data_type.clone(),
            ))),
            None => Err(Error::new(
                SqlState::UNDEFINED_COLUMN,
                format!("column {name}.{column} does not exist"),
            )),
        }
    }

    /// How errors name a column.
    pub fn describe(&self, column: u16) -> String {
        let relation = self
            .relations
            .iter()
            .rfind(|r| r.offset <= column && usize::from(column - r.offset) < r.columns.len());
        match relation {
            Some(relation) => {
                let name = &relation.columns[usize::from(column - relation.offset)].name;
                format!("{}.{name}", relation.name)
            }
            None => format!("column {column}"),
        }
    }

    /// PostgreSQL's hint for a misspelt column: the nearest name, if it is near.
    pub fn suggestion(&self, name: &str) -> Option<String> {
        let candidates = self.relations.iter().flat_map(|relation| {
            let columns = relation.columns.iter().filter(|c| !c.hidden);
            columns.map(move |column| (edit_distance(&column.name, name), relation, column))
        });
        let (distance, relation, column) = candidates.min_by_key(|(distance, ..)| *distance)?;
        (distance * 2 <= name.chars().count()).then(|| {
            format!(
                "Perhaps you meant to reference the column \"{}.{}\".",
                relation.name, column.name
            )
        })
    }
}

/// The column of that name in some relations of a scope, if there is exactly one.
pub(super) fn find_in(relations: &[Relation], name: &str) -> Result<Option<(Expr, DataType)>> {
    let mut found = None;
    for relation in relations {
        for (i, column) in relation.columns.iter().enumerate() {
            if column.hidden || column.name != name {
                continue;
            }
            if found.is_some() {
                return Err(Error::new(
                    SqlState::AMBIGUOUS_COLUMN,
                    format!("column reference \"{name}\" is ambiguous"),
                ));
            }
            found = Some(column.unqualified(relation.offset + i as u16));
        }
    }
    Ok(found)
}

fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let substituted = above[j] + usize::from(x != *y);
            row.push(substituted.min(above[j + 1] + 1).min(row[j] + 1));
        }
        above = row;
    }
    above[b.len()]
}
