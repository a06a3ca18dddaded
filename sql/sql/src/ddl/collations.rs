//! CREATE COLLATION, ALTER COLLATION, DROP COLLATION; the collations of columns.
//!
//! No statement about a collation touches a row or an index: both are ordered by bytes
//! ([`collations`](crate::schema::collations)).

use std::sync::Arc;

use sqlparser::ast;
use types::{ColumnId, Error, Result, SqlState, TableId};

use super::apply::Transition;
use super::table::Draft;
use super::user_types::Uses;
use crate::schema::catalog::{Catalog, Table};
use crate::schema::collations::{
    Collation, FIRST_USER, Provider, check_collatable, check_key, no_collation, of_libc,
};
use crate::syntax::collations::{CollationSource, CollationStatement};
use crate::syntax::names::{bare, beside, fold, key, no_schema, object_name};
use crate::syntax::parse::parse_expression;

fn invalid_definition(what: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_OBJECT_DEFINITION, what)
}

impl Transition {
    pub(super) fn collation_statement(&mut self, statement: &CollationStatement) -> Result<()> {
        use CollationStatement as S;
        match statement {
            S::Create { name, if_not_exists, like } => {
                self.create_collation(&object_name(name)?, *if_not_exists, like)
            }
            S::Rename { name, to } => {
                let name = object_name(name)?;
                self.rename_collation(&name, beside(&name, &fold(to)))
            }
            S::SetSchema { name, schema } => {
                let (name, schema) = (object_name(name)?, fold(schema));
                match self.catalog.has_namespace(&schema) {
                    true => self.rename_collation(&name, key(&schema, bare(&name))),
                    false => Err(no_schema(&schema)),
                }
            }
            S::Refresh { name } => self.catalog.collation(name).map(drop),
            S::Drop { names, if_exists, cascade } => {
                self.drop_collations(names, *if_exists, *cascade)
            }
        }
    }

    fn create_collation(
        &mut self,
        key: &str,
        if_not_exists: bool,
        like: &CollationSource,
    ) -> Result<()> {
        self.check_namespace(key)?;
        let id = TableId(self.catalog.next_table);
        let mut made = match like {
            CollationSource::Another(name) => {
                let known = self.catalog.collation(name)?;
                if known.provider == Provider::Default {
                    let what = "collation \"default\" cannot be copied";
                    return Err(invalid_definition(what));
                }
                Collation::clone(&known)
            }
            CollationSource::Attributes(attributes) => of_attributes(attributes)?,
        };
        if self.catalog.find_collation(key).is_some() {
            return match if_not_exists {
                true => Ok(()),
                false => Err(collation_exists(key)),
            };
        }
        key.clone_into(&mut made.name);
        made.oid = FIRST_USER + id.0;
        self.catalog.next_table += 1;
        self.catalog.collations.insert(id, Arc::new(made));
        Ok(())
    }

    fn rename_collation(&mut self, name: &str, new: String) -> Result<()> {
        let Some((id, old)) = self.catalog.find_collation(name) else {
            return Err(no_collation(name));
        };
        let mut renamed = Collation::clone(old);
        self.check_namespace(&new)?;
        if self.catalog.find_collation(&new).is_some() {
            return Err(collation_exists(&new));
        }
        renamed.name = new;
        let renamed = Arc::new(renamed);
        self.catalog.collations.insert(id, Arc::clone(&renamed));
        for table in self.catalog.tables.values_mut() {
            if table.collations.values().any(|known| known.oid == renamed.oid) {
                let known = Arc::make_mut(table).collations.values_mut();
                known
                    .filter(|known| known.oid == renamed.oid)
                    .for_each(|known| *known = Arc::clone(&renamed));
            }
        }
        for domain in self.catalog.domains.values_mut() {
            if domain.collation.as_ref().is_some_and(|known| known.oid == renamed.oid) {
                Arc::make_mut(domain).collation = Some(Arc::clone(&renamed));
            }
        }
        Ok(())
    }

    pub(super) fn drop_collations(
        &mut self,
        names: &[ast::ObjectName],
        if_exists: bool,
        cascade: bool,
    ) -> Result<()> {
        for name in names {
            let found = match self.catalog.collation(name) {
                Ok(found) => found,
                Err(_) if if_exists => continue,
                Err(error) => return Err(error),
            };
            let shown = found.shown();
            if found.is_system() {
                let what = format!(
                    "cannot drop collation {shown} because it is required by the database system"
                );
                return Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, what));
            }
            let dependents = self.catalog.dependents_of_collation(&found);
            if !dependents.is_empty() && !cascade {
                let what =
                    format!("cannot drop collation {shown} because other objects depend on it");
                let details: Vec<String> = dependents
                    .iter()
                    .take(100)
                    .map(|(object, _)| format!("{object} depends on collation {shown}"))
                    .collect();
                return Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, what)
                    .with_detail(details.join("\n"))
                    .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
            }
            for (_, what) in dependents {
                self.drop_dependent(what)?;
            }
            self.catalog.collations.remove(&TableId(found.oid - FIRST_USER));
        }
        Ok(())
    }
}

impl Transition {
    /// # Errors
    /// 0A000: texts would have to be equal in a key that have other bytes.
    pub(super) fn check_collated_keys(&self) -> Result<()> {
        for table in self.catalog.tables().filter(|table| !table.collations.is_empty()) {
            let unique = table.live_indexes().filter(|(_, index)| index.unique);
            let keys = unique.flat_map(|(_, index)| &index.columns);
            let foreign = table.foreign_keys.iter().flat_map(|key| &key.columns);
            for column in keys.chain(&table.schema.primary_key).chain(foreign) {
                table.collations.get(column).map_or(Ok(()), |collation| check_key(collation))?;
            }
        }
        Ok(())
    }
}

fn collation_exists(key: &str) -> Error {
    let what = format!("collation \"{}\" already exists", bare(key));
    Error::new(SqlState::DUPLICATE_OBJECT, what)
}

/// The collation that CREATE COLLATION (…) describes, without a name.
fn of_attributes(attributes: &[(String, String)]) -> Result<Collation> {
    const KNOWN: [&str; 6] =
        ["locale", "lc_collate", "lc_ctype", "provider", "deterministic", "version"];
    for (n, (attribute, _)) in attributes.iter().enumerate() {
        if !KNOWN.contains(&attribute.as_str()) {
            let what = format!("collation attribute \"{attribute}\" not recognized");
            return Err(Error::new(SqlState::SYNTAX_ERROR, what));
        }
        if attributes[..n].iter().any(|(before, _)| before == attribute) {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options"));
        }
    }
    let given = |attribute: &str| {
        let found = attributes.iter().find(|(name, _)| name == attribute);
        found.map(|(_, value)| value.as_str())
    };
    let deterministic = match given("deterministic").map(str::to_ascii_lowercase).as_deref() {
        None | Some("true" | "on" | "1") => true,
        Some("false" | "off" | "0") => false,
        Some(_) => {
            let what = "deterministic requires a Boolean value";
            return Err(Error::new(SqlState::SYNTAX_ERROR, what));
        }
    };
    if given("locale").is_some() && (given("lc_collate").or(given("lc_ctype"))).is_some() {
        return Err(Error::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options")
            .with_detail("LOCALE cannot be specified together with LC_COLLATE or LC_CTYPE."));
    }
    let needs = |attribute: &str| {
        invalid_definition(format!("parameter \"{attribute}\" must be specified"))
    };
    let (name, oid) = (String::new(), 0);
    match given("provider").unwrap_or("libc").to_ascii_lowercase().as_str() {
        "icu" => {
            let locale = given("locale").ok_or_else(|| needs("locale"))?;
            procedure::collation::check_locale(locale)?;
            let (provider, locale) = (Provider::Icu, Some(locale.into()));
            Ok(Collation { oid, name, provider, locale, deterministic })
        }
        "libc" => {
            let locale = given("locale").or(given("lc_collate"));
            let locale = locale.ok_or_else(|| needs("lc_collate"))?;
            if given("locale").or(given("lc_ctype")).is_none() {
                return Err(needs("lc_ctype"));
            }
            if !deterministic {
                let what = "nondeterministic collations not supported with this provider";
                return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what));
            }
            let known = of_libc(locale).ok_or_else(|| {
                let what =
                    format!("could not create locale \"{locale}\": No such file or directory");
                Error::new(SqlState::INVALID_PARAMETER_VALUE, what).with_detail(format!(
                    "The operating system could not find any locale data for the locale name \
                     \"{locale}\"."
                ))
            })?;
            Ok(Collation { oid, name, ..Collation::clone(&known) })
        }
        other => Err(invalid_definition(format!("unrecognized collation provider: {other}"))),
    }
}

impl Draft {
    /// Gives a column the collation that its definition names.
    pub(super) fn collate(
        &mut self,
        catalog: &Catalog,
        column: ColumnId,
        name: Option<&ast::ObjectName>,
    ) -> Result<()> {
        self.table.collations.remove(&column);
        let Some(name) = name else { return Ok(()) };
        let collation = catalog.collation(name)?;
        check_collatable(self.table.column_type(column))?;
        if collation.oid != DEFAULT_COLLATION {
            self.table.collations.insert(column, collation);
        }
        Ok(())
    }
}

/// What columns have that say nothing.
pub const DEFAULT_COLLATION: u32 = 100;

/// Whether an expression in a text names a collation.
fn text_names(catalog: &Catalog, text: &str, collation: &Collation) -> bool {
    parse_expression(text)
        .is_ok_and(|expr| catalog.names_collation(&expr, |it| it.oid == collation.oid))
}

impl Catalog {
    fn dependents_of_collation(&self, collation: &Collation) -> Vec<(String, Uses)> {
        let mut found = Vec::new();
        for view in self.views() {
            if self.names_collation(&*view.query, |it| it.oid == collation.oid) {
                found.push((format!("view {}", view.name), Uses::View(view.name.clone())));
            }
        }
        let of_it = |known: &Option<Arc<Collation>>| {
            known.as_ref().is_some_and(|known| known.oid == collation.oid)
        };
        for domain in self.domains().filter(|domain| of_it(&domain.collation)) {
            found.push((format!("type {}", bare(&domain.name)), Uses::Domain(domain.id)));
        }
        for table in self.tables() {
            self.collated_in(table, collation, &mut found);
        }
        found
    }

    fn collated_in(&self, table: &Table, collation: &Collation, found: &mut Vec<(String, Uses)>) {
        let is_it = |known: &Arc<Collation>| known.oid == collation.oid;
        for (column, declared) in table.schema.visible_columns() {
            let generated = table.generated(column);
            if table.collations.get(&column).is_some_and(is_it)
                || generated.is_some_and(|it| text_names(self, &it.text, collation))
            {
                let shown = format!("column {} of table {}", declared.name, table.key());
                found.push((shown, Uses::Column(table.id(), declared.name.clone())));
            }
        }
        for check in table.checks.iter().filter(|it| text_names(self, &it.text, collation)) {
            let shown = format!("constraint {} on table {}", check.name, table.key());
            found.push((shown, Uses::Check(table.id(), check.name.clone())));
        }
        for (id, index) in table.live_indexes() {
            let Some(declared) = table.declared.get(&id) else { continue };
            let names = |text: &String| text_names(self, text, collation);
            if declared.parts.iter().any(|part| {
                part.collation.as_ref().is_some_and(is_it)
                    || part.column.is_none() && names(&part.text)
            }) || declared.predicate.as_ref().is_some_and(names)
            {
                let shown = format!("index {}", index.name);
                found.push((shown, Uses::Index(beside(table.key(), &index.name))));
            }
        }
    }
}
