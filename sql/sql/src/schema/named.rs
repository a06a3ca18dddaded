//! Domains and collations by their names and numbers, and what the rules of a column are.

use std::ops::ControlFlow;
use std::sync::Arc;

use procedure::Expr;
use sqlparser::ast;
use types::{ColumnId, Result, TableId};

use crate::schema::catalog::{Catalog, Table};
use crate::schema::collations::{Collation, no_collation, of_libc, of_system, system};
use crate::schema::domains::{CheckConstraint, Domain, Fault, Rule};
use crate::syntax::names::{self, object_name};
use crate::syntax::walk::{self, Tree};

impl Catalog {
    /// All domains, by number.
    pub fn domains(&self) -> impl Iterator<Item = &Arc<Domain>> {
        self.domains.values()
    }

    /// By its key.
    pub fn find_domain(&self, key: &str) -> Option<&Arc<Domain>> {
        self.domains().find(|domain| domain.name == key)
    }

    pub fn domain_by_id(&self, id: TableId) -> Option<&Arc<Domain>> {
        self.domains.get(&id)
    }

    /// The domain that SQL text names; a bare name is the system's first.
    pub fn domain_named(&self, named: &ast::DataType) -> Option<&Arc<Domain>> {
        match named {
            ast::DataType::Custom(name, modifiers)
                if modifiers.is_empty() && names::data_type(named).is_err() =>
            {
                self.find_domain(&object_name(name).ok()?)
            }
            _ => None,
        }
    }

    /// A column's.
    pub fn column_domain(&self, table: &Table, column: ColumnId) -> Option<&Arc<Domain>> {
        self.domain_by_id(*table.domains.get(&column)?)
    }

    /// What a column stores that an INSERT leaves out: its own default or its domain's.
    pub fn default_of_column<'a>(&'a self, table: &'a Table, column: ColumnId) -> Option<&'a Expr> {
        let own = table.defaults.get(usize::from(column)).and_then(Option::as_ref);
        own.or_else(|| Some(&self.column_domain(table, column)?.default.as_ref()?.value))
    }

    /// A domain and those that it is over, the last of them first.
    pub(crate) fn line_of(&self, domain: &Arc<Domain>) -> Vec<Arc<Domain>> {
        let mut line = vec![Arc::clone(domain)];
        while let Some(of) = line.last().and_then(|last| last.of)
            && let Some(next) = self.domain_by_id(of)
        {
            line.push(Arc::clone(next));
        }
        line.reverse();
        line
    }

    /// What values of a domain must satisfy, in the order in which it is looked at.
    pub(crate) fn rules_of(&self, domain: &Arc<Domain>) -> Vec<Rule> {
        let line = self.line_of(domain);
        let mut rules = Vec::new();
        if line.iter().any(|one| one.not_null) {
            let broken = Expr::is_null(Expr::Column(0), false);
            rules.push(Rule { broken, fault: Fault::new(domain, None) });
        }
        for one in &line {
            let mut checks: Vec<&CheckConstraint> = one.checks.iter().collect();
            checks.sort_by(|a, b| a.name.cmp(&b.name));
            rules.extend(checks.into_iter().map(|check| Rule {
                broken: Expr::negated(check.condition.clone()),
                fault: Fault::new(domain, Some(&check.name)),
            }));
        }
        rules
    }

    /// Those of a table's columns that `changed` names, over its row.
    pub(crate) fn rules_of_row(
        &self,
        table: &Table,
        changed: &dyn Fn(ColumnId) -> bool,
    ) -> Vec<Rule> {
        let mut rules = Vec::new();
        for column in table.domains.keys().filter(|column| changed(**column)) {
            let Some(domain) = self.column_domain(table, *column) else { continue };
            if table.schema.columns[usize::from(*column)].dropped {
                continue;
            }
            for mut rule in self.rules_of(domain) {
                rule.broken.map_columns(&mut |_| Expr::Column(*column));
                rules.push(rule);
            }
        }
        rules
    }
}

impl Catalog {
    /// Those of the system, then those that users have made.
    pub fn collations(&self) -> impl Iterator<Item = &Arc<Collation>> {
        of_system().iter().chain(self.collations.values())
    }

    pub fn collation_by_id(&self, id: TableId) -> Option<&Arc<Collation>> {
        self.collations.get(&id)
    }

    /// By its key, of those that users have made.
    pub fn find_collation(&self, key: &str) -> Option<(TableId, &Arc<Collation>)> {
        let mut all = self.collations.iter();
        all.find(|(_, collation)| collation.name == key).map(|(id, collation)| (*id, collation))
    }

    /// The collation that SQL text names: without a schema the system's comes first.
    ///
    /// # Errors
    /// 42704: there is none of that name.
    pub fn collation(&self, name: &ast::ObjectName) -> Result<Arc<Collation>> {
        let parts: Vec<String> =
            name.0.iter().filter_map(|part| part.as_ident()).map(names::fold).collect();
        let of_the_system = match parts.as_slice() {
            [name] => Some(name),
            [schema, name] if schema == "pg_catalog" => Some(name),
            _ => None,
        };
        let known = of_the_system.and_then(|name| match name.contains('-') {
            true => system(name),
            false => system(name).or_else(|| of_libc(name)),
        });
        if let Some(known) = known {
            return Ok(known);
        }
        let found = object_name(name).ok();
        let found = found.and_then(|key| self.find_collation(&key).map(|(_, it)| Arc::clone(it)));
        found.ok_or_else(|| no_collation(&parts.join(".")))
    }

    /// Whether COLLATE names such a collation.
    pub fn names_collation(&self, tree: &dyn Tree, is_one: impl Fn(&Collation) -> bool) -> bool {
        walk::expressions(tree, |expr| match expr {
            ast::Expr::Collate { collation, .. }
                if self.collation(collation).is_ok_and(|it| is_one(&it)) =>
            {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        })
        .is_break()
    }
}
