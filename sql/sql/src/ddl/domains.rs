//! CREATE DOMAIN, ALTER DOMAIN, DROP DOMAIN; the domains of columns.
//!
//! A new rule is held against every column of the domain, and of those over it, before it counts.
//! No row is written anew: values are those of the base type ([`domains`](crate::schema::domains)).

use std::sync::Arc;

use procedure::Expr;
use sqlparser::ast;
use types::{ColumnId, DataType, Error, Result, SqlState, TableId};

use super::apply::{Transition, free_among};
use super::collations::DEFAULT_COLLATION;
use super::parts::check_parts;
use super::table::{Draft, bare_text};
use super::user_types::{Uses, no_type};
use crate::bind::{Binder, Scope, ScopeColumn};
use crate::schema::catalog::{Catalog, DeclaredIndex, Table};
use crate::schema::collations::check_collatable;
use crate::schema::domains::{CheckConstraint, DEPTH_MAX, Domain, DomainDefault, VALUE};
use crate::settings::session_info::SessionInfo;
use crate::syntax::domains::{CreateDomain, DomainChange, DomainCheck, DomainStatement};
use crate::syntax::names::{as_sql, bare, beside, fold, key, no_schema, object_name, quoted};
use crate::syntax::parse::parse_expression;
use crate::syntax::walk::{self, Tree};

fn type_exists(key: &str) -> Error {
    Error::new(SqlState::DUPLICATE_OBJECT, format!("type \"{}\" already exists", bare(key)))
}

fn no_constraint(domain: &Domain, name: &str) -> Error {
    let what = format!("constraint \"{name}\" of domain \"{}\" does not exist", bare(&domain.name));
    Error::new(SqlState::UNDEFINED_OBJECT, what)
}

impl Transition {
    pub(super) fn domain_statement(&mut self, statement: &DomainStatement) -> Result<()> {
        match statement {
            DomainStatement::Create(create) => self.create_domain(create),
            DomainStatement::Alter { name, change } => {
                let domain = self.domain(&object_name(name)?, "")?;
                if change.is_of_rules() {
                    self.catalog.check_rules_can_change(&domain)?;
                }
                self.alter_domain(domain, change)
            }
            DomainStatement::Drop { names, if_exists, cascade } => {
                self.drop_domains(names, *if_exists, *cascade)
            }
        }
    }

    /// `quote`: what stands around its name where it is none.
    fn domain(&self, key: &str, quote: &str) -> Result<Arc<Domain>> {
        match self.catalog.find_domain(key) {
            Some(domain) => Ok(Arc::clone(domain)),
            None if self.catalog.has_type(key) => {
                let what = format!("{quote}{}{quote} is not a domain", bare(key));
                Err(Error::new(SqlState::WRONG_OBJECT_TYPE, what))
            }
            None => Err(no_type(key)),
        }
    }

    fn create_domain(&mut self, create: &CreateDomain) -> Result<()> {
        let key = object_name(&create.name)?;
        self.check_namespace(&key)?;
        if self.catalog.has_type(&key) {
            return Err(type_exists(&key));
        }
        let of = self.catalog.domain_named(&create.data_type).cloned();
        if of.as_ref().is_some_and(|of| self.catalog.line_of(of).len() >= DEPTH_MAX) {
            let what = format!("there can be {DEPTH_MAX} domains over each other at most");
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what));
        }
        let base = match &of {
            Some(of) => of.base.clone(),
            None => self.catalog.data_type(&create.data_type)?,
        };
        if !base.is_storable() {
            let what = format!("\"{base}\" is not a valid base type for a domain");
            return Err(Error::new(SqlState::DATATYPE_MISMATCH, what));
        }
        let collation = match &create.collation {
            None => of.as_ref().and_then(|of| of.collation.clone()),
            Some(name) => {
                let named = self.catalog.collation(name)?;
                check_collatable(&base)?;
                Some(named).filter(|named| named.oid != DEFAULT_COLLATION)
            }
        };
        let id = TableId(self.catalog.next_table);
        self.catalog.next_table += 2;
        let mut made = Domain {
            id,
            name: key,
            base,
            of: of.as_ref().map(|of| of.id),
            not_null: create.not_null,
            default: of.and_then(|of| of.default.clone()),
            checks: Vec::new(),
            collation,
        };
        if let Some(default) = &create.default {
            made.default = self.domain_default(&made, default)?;
        }
        for check in &create.checks {
            let check = self.domain_check(&made, check)?;
            made.checks.push(check);
        }
        self.catalog.domains.insert(id, Arc::new(made));
        Ok(())
    }

    fn domain_default(&self, domain: &Domain, given: &ast::Expr) -> Result<Option<DomainDefault>> {
        let value = super::table::default_of(&self.catalog, given, VALUE, &domain.base)?;
        match value {
            Expr::Const(value) if value.is_null() => Ok(None),
            value => Ok(Some(DomainDefault { value, text: bare_text(given) })),
        }
    }

    fn domain_check(&self, domain: &Domain, check: &DomainCheck) -> Result<CheckConstraint> {
        if self.catalog.casts_to(&check.condition, None) {
            return Err(Error::unsupported("a cast to a domain in a domain's check constraint")
                .with_hint("Make the domain over the other one, or cast to its base type."));
        }
        let session = SessionInfo::default();
        let mut binder = Binder::new(&self.catalog, &session, Vec::new());
        binder.clause = "in check constraints";
        binder.bound_by_text(check.condition.to_string().len());
        let typed = binder.expression(&scope_of(domain), &check.condition)?;
        let condition = binder.boolean(typed, "CHECK")?;
        if !binder.steps.is_empty() {
            let what = "cannot use subquery in check constraint";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what));
        }
        if binder.session_dependent {
            return Err(Error::unsupported("a session's own functions in a check constraint"));
        }
        if condition.draws() {
            return Err(Error::unsupported("a random value in a check constraint"));
        }
        check_parts(domain.checks.len(), "CHECK constraints")?;
        let mut names = domain.checks.iter().map(|check| check.name.as_str());
        let name = match &check.name {
            Some(name) => fold(name),
            None => free_among(&format!("{}_check", bare(&domain.name)), names.clone()),
        };
        if names.any(|taken| taken == name) {
            let what = format!(
                "constraint \"{name}\" for domain \"{}\" already exists",
                bare(&domain.name)
            );
            return Err(Error::new(SqlState::DUPLICATE_OBJECT, what));
        }
        let text = bare_text(&check.condition);
        Ok(CheckConstraint { name, condition, text, validated: true })
    }

    fn alter_domain(&mut self, domain: Arc<Domain>, change: &DomainChange) -> Result<()> {
        use DomainChange as C;
        let mut new = Domain::clone(&domain);
        match change {
            C::SetDefault(None) => new.default = None,
            C::SetDefault(Some(given)) => new.default = self.domain_default(&new, given)?,
            C::SetNotNull(not_null) => {
                if *not_null && !new.not_null {
                    self.require_values_of(&domain)?;
                }
                new.not_null = *not_null;
            }
            C::Add { check, not_valid } => {
                let mut check = self.domain_check(&new, check)?;
                check.validated = !not_valid;
                if check.validated {
                    self.require_domain_check(&domain, &check.text)?;
                }
                new.checks.push(check);
            }
            C::DropConstraint { name, if_exists } => {
                let name = fold(name);
                new.checks.retain(|check| check.name != name);
                if new.checks.len() == domain.checks.len() && !if_exists {
                    return Err(no_constraint(&domain, &name));
                }
            }
            C::RenameConstraint { name, to } => {
                let (name, to) = (fold(name), fold(to));
                let shown = bare(&domain.name);
                let is_taken = new.checks.iter().any(|check| check.name == to);
                let renamed = new.checks.iter_mut().find(|check| check.name == name);
                let renamed = renamed.ok_or_else(|| {
                    let what = format!("constraint \"{name}\" for domain {shown} does not exist");
                    Error::new(SqlState::UNDEFINED_OBJECT, what)
                })?;
                if is_taken {
                    let what = format!("constraint \"{to}\" for domain {shown} already exists");
                    return Err(Error::new(SqlState::DUPLICATE_OBJECT, what));
                }
                renamed.name = to;
            }
            C::Validate(name) => {
                let name = fold(name);
                let mut checks = new.checks.iter_mut();
                let known = checks.find(|check| check.name == name);
                let check = known.ok_or_else(|| no_constraint(&domain, &name))?;
                check.validated = true;
                let text = check.text.clone();
                self.require_domain_check(&domain, &text)?;
            }
            C::Rename(to) => new.name = self.free_type(&beside(&domain.name, &fold(to)))?,
            C::SetSchema(schema) => {
                let schema = fold(schema);
                if !self.catalog.has_namespace(&schema) {
                    return Err(no_schema(&schema));
                }
                new.name = self.free_type(&key(&schema, bare(&domain.name)))?;
            }
        }
        self.catalog.domains.insert(domain.id, Arc::new(new));
        Ok(())
    }

    fn free_type(&self, key: &str) -> Result<String> {
        match self.catalog.has_type(key) {
            true => Err(type_exists(key)),
            false => Ok(key.to_owned()),
        }
    }

    /// No column of the domain has a NULL.
    fn require_values_of(&mut self, domain: &Domain) -> Result<()> {
        for (table, column) in self.catalog.columns_of_domain(domain.id) {
            let name = table.column_name(column);
            let what =
                format!("column \"{name}\" of table \"{}\" contains null values", table.name());
            let error = Error::new(SqlState::NOT_NULL_VIOLATION, what);
            let text = format!(
                "SELECT 1 FROM {} WHERE {} IS NULL LIMIT 1",
                as_sql(table.key()),
                quoted(name)
            );
            self.require_no_row(&text, error)?;
        }
        Ok(())
    }

    fn require_domain_check(&mut self, domain: &Domain, text: &str) -> Result<()> {
        for (table, column) in self.catalog.columns_of_domain(domain.id) {
            let name = table.column_name(column);
            let what = format!(
                "column \"{name}\" of table \"{}\" contains values that violate the new constraint",
                table.name()
            );
            let error = Error::new(SqlState::CHECK_VIOLATION, what);
            let text = format!(
                "SELECT 1 FROM (SELECT {} AS {VALUE} FROM {}) AS t WHERE NOT ({text}) LIMIT 1",
                quoted(name),
                as_sql(table.key())
            );
            self.require_no_row(&text, error)?;
        }
        Ok(())
    }

    pub(super) fn drop_domains(
        &mut self,
        names: &[ast::ObjectName],
        if_exists: bool,
        cascade: bool,
    ) -> Result<()> {
        for name in names {
            let name = object_name(name)?;
            let domain = match self.domain(&name, "\"") {
                Ok(domain) => domain,
                Err(error) if error.code() == SqlState::WRONG_OBJECT_TYPE => return Err(error),
                Err(_) if if_exists => continue,
                Err(error) => return Err(error),
            };
            self.drop_domain(&domain, cascade)?;
        }
        Ok(())
    }

    /// With what depends on it, those over it first.
    pub(super) fn drop_domain(&mut self, domain: &Arc<Domain>, cascade: bool) -> Result<()> {
        let name = bare(&domain.name);
        let over: Vec<Arc<Domain>> = self
            .catalog
            .domains()
            .filter(|other| other.of == Some(domain.id))
            .map(Arc::clone)
            .collect();
        let dependents = self.catalog.dependents_of_domain(domain);
        if !cascade && !(over.is_empty() && dependents.is_empty()) {
            let what = format!("cannot drop type {name} because other objects depend on it");
            let over = over.iter().map(|other| format!("type {}", bare(&other.name)));
            let details: Vec<String> = over
                .chain(dependents.into_iter().map(|(shown, _)| shown))
                .take(100)
                .map(|shown| format!("{shown} depends on type {name}"))
                .collect();
            return Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, what)
                .with_detail(details.join("\n"))
                .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        for other in &over {
            self.drop_domain(other, true)?;
        }
        for (_, what) in dependents {
            self.drop_dependent(what)?;
        }
        self.catalog.domains.remove(&domain.id);
        Ok(())
    }

    /// A column of old rows gets this value, or this domain: what they then hold satisfies it.
    pub(super) fn require_rules(&mut self, table: &Table, column: ColumnId) -> Result<()> {
        let Some(domain) = self.catalog.column_domain(table, column).cloned() else {
            return Ok(());
        };
        let line = self.catalog.line_of(&domain);
        let shown = domain.name.as_str();
        let select = format!(
            "SELECT 1 FROM (SELECT {} AS {VALUE} FROM {}) AS t",
            quoted(table.column_name(column)),
            as_sql(table.key())
        );
        if line.iter().any(|one| one.not_null) {
            let text = format!("{select} WHERE {VALUE} IS NULL LIMIT 1");
            self.require_no_row(&text, procedure::domain_fault(shown, None))?;
        }
        for check in line.iter().flat_map(|one| &one.checks) {
            let text = format!("{select} WHERE NOT ({}) LIMIT 1", check.text);
            self.require_no_row(&text, procedure::domain_fault(shown, Some(&check.name)))?;
        }
        Ok(())
    }
}

/// Of an index, what can have casts in it.
fn texts_of(declared: &DeclaredIndex) -> impl Iterator<Item = &String> {
    let parts = declared.parts.iter().filter(|part| part.column.is_none());
    parts.map(|part| &part.text).chain(&declared.predicate)
}

/// VALUE alone.
fn scope_of(domain: &Domain) -> Scope {
    let column = ScopeColumn::new(VALUE.to_owned(), domain.base.clone());
    let mut scope = Scope::default();
    scope.add("", vec![column.of_collation(domain.collation.as_ref())], None);
    scope
}

impl Draft {
    /// The type of a column that a definition names, and its domain.
    pub(super) fn declared_type(
        catalog: &Catalog,
        named: &ast::DataType,
    ) -> Result<(DataType, Option<Arc<Domain>>)> {
        match catalog.domain_named(named) {
            Some(domain) => Ok((domain.base.clone(), Some(Arc::clone(domain)))),
            None => Ok((catalog.data_type(named)?, None)),
        }
    }

    /// Gives a column its domain, and with it the domain's collation.
    pub(super) fn set_domain(&mut self, column: ColumnId, domain: Option<&Arc<Domain>>) {
        self.table.domains.remove(&column);
        if let Some(domain) = domain {
            self.table.domains.insert(column, domain.id);
            if let Some(collation) = &domain.collation {
                self.table.collations.entry(column).or_insert_with(|| Arc::clone(collation));
            }
        }
    }
}

impl Catalog {
    /// Columns whose values are a domain's, or one's over it.
    fn columns_of_domain(&self, id: TableId) -> Vec<(Arc<Table>, ColumnId)> {
        let is_of = |domain: &TableId| {
            let domain = self.domain_by_id(*domain);
            domain.is_some_and(|domain| self.line_of(domain).iter().any(|one| one.id == id))
        };
        let mut found = Vec::new();
        for table in self.tables() {
            let columns = table.domains.iter().filter(|(_, domain)| is_of(domain));
            let columns =
                columns.filter(|(column, _)| !table.schema.columns[usize::from(**column)].dropped);
            found.extend(columns.map(|(column, _)| (Arc::clone(table), *column)));
        }
        found
    }

    fn dependents_of_domain(&self, domain: &Arc<Domain>) -> Vec<(String, Uses)> {
        let mut found = Vec::new();
        let casts = |text: &str| {
            parse_expression(text).is_ok_and(|expr| self.casts_to(&expr, Some(domain.id)))
        };
        for view in self.views().filter(|view| self.casts_to(&*view.query, Some(domain.id))) {
            found.push((format!("view {}", bare(&view.name)), Uses::View(view.name.clone())));
        }
        for table in self.tables() {
            for (column, declared) in table.schema.visible_columns() {
                let generated = table.generated(column);
                if table.domains.get(&column) == Some(&domain.id)
                    || generated.is_some_and(|generated| casts(&generated.text))
                {
                    let shown = format!("column {} of table {}", declared.name, table.key());
                    found.push((shown, Uses::Column(table.id(), declared.name.clone())));
                }
            }
            for check in table.checks.iter().filter(|check| casts(&check.text)) {
                let shown = format!("constraint {} on table {}", check.name, table.key());
                found.push((shown, Uses::Check(table.id(), check.name.clone())));
            }
            for (id, index) in table.live_indexes() {
                let Some(declared) = table.declared.get(&id) else { continue };
                if texts_of(declared).any(|text| casts(text)) {
                    let shown = format!("index {}", index.name);
                    found.push((shown, Uses::Index(beside(table.key(), &index.name))));
                }
            }
        }
        found
    }

    /// What is stored is bound already, a cast's rules in it.
    ///
    /// # Errors
    /// 0A000: something stored casts to the domain, or to one over it, whose rules would change.
    fn check_rules_can_change(&self, domain: &Arc<Domain>) -> Result<()> {
        let over =
            self.domains().filter(|it| self.line_of(it).iter().any(|one| one.id == domain.id));
        for domain in over {
            let casts = |text: &str| {
                parse_expression(text).is_ok_and(|expr| self.casts_to(&expr, Some(domain.id)))
            };
            let mut texts = self.tables().flat_map(move |table| {
                let checks = table.checks.iter().map(|check| &check.text);
                let generated = table.schema.visible_columns();
                let generated = generated.filter_map(move |(column, _)| table.generated(column));
                let indexes = table.live_indexes();
                let indexes = indexes.filter_map(move |(id, _)| table.declared.get(&id));
                checks
                    .chain(generated.map(|it| &it.text))
                    .chain(indexes.flat_map(|it| texts_of(it)))
            });
            if texts.any(|text| casts(text)) {
                let name = bare(&domain.name);
                let what = format!("other rules of domain {name}, which a definition casts to");
                return Err(Error::unsupported(what).with_hint(
                    "Drop the constraint, the index or the generated column that has the cast, and \
                     make it again afterwards.",
                ));
            }
        }
        Ok(())
    }

    /// Whether a text casts to the domain; `None`: to any.
    fn casts_to(&self, tree: &dyn Tree, id: Option<TableId>) -> bool {
        walk::casts(tree, |named| {
            let found = self.domain_named(named);
            found.is_some_and(|found| id.is_none_or(|id| found.id == id))
        })
    }
}
