//! Types that users have made, and what a type's name in a statement means.
//!
//! A type has two numbers of those that tables have: its own and that of its arrays. Columns,
//! parameters and expressions hold the type itself as it is in their catalog
//! ([`DataType::Enum`]), so that formatting, reading or comparing a value asks no catalog; a change
//! of a type puts the new one in the place of the old in all that the catalog has.

use std::sync::Arc;

use procedure::{Expr, Function};
use sqlparser::ast;
use types::{DataType, EnumType, Error, Result, SqlState, TableId, Value};

use crate::schema::catalog::{Catalog, Routine};
use crate::schema::collations::FIRST_USER;
use crate::schema::domains::{Domain, not_here};
use crate::syntax::names::{self, object_name};
use crate::syntax::routine::{CreateFunction, Returns};

impl Catalog {
    /// All enum types, by number.
    pub fn enums(&self) -> impl Iterator<Item = (TableId, &Arc<EnumType>)> {
        self.enums.iter().map(|(id, of)| (*id, of))
    }

    /// By its key.
    pub fn find_enum(&self, key: &str) -> Option<(TableId, &Arc<EnumType>)> {
        self.enums().find(|(_, of)| of.name == key)
    }

    pub fn enum_by_id(&self, id: TableId) -> Option<&Arc<EnumType>> {
        self.enums.get(&id)
    }

    /// Whether a type has this key.
    pub fn has_type(&self, key: &str) -> bool {
        self.find_enum(key).is_some()
            || self.find_domain(key).is_some()
            || self.find_table(key).is_some()
            || self.view(key).is_some()
    }

    /// The type of that key which a statement has made, by its number.
    pub fn find_made_type(&self, key: &str) -> Option<TableId> {
        let domain = || self.find_domain(key).map(|domain| domain.id);
        self.find_enum(key).map(|(id, _)| id).or_else(domain)
    }

    /// The key of a type that a statement has made.
    pub fn made_type(&self, id: TableId) -> Option<&str> {
        let domain = || self.domain_by_id(id).map(|domain| domain.name.as_str());
        self.enum_by_id(id).map(|of| of.name.as_str()).or_else(domain)
    }

    /// Those that statements have made, by number.
    pub fn made_types(&self) -> impl Iterator<Item = TableId> {
        self.enums.keys().chain(self.domains.keys()).copied()
    }

    /// The type that a client names by a number, be it an array's; no domain's, whose rules a
    /// parameter would pass by.
    pub fn type_of_oid(&self, oid: u32) -> Option<DataType> {
        DataType::from_oid(oid).or_else(|| {
            let number = oid.checked_sub(FIRST_USER)?;
            if let Some(of) = self.enums.get(&TableId(number)) {
                return Some(DataType::Enum(Arc::clone(of)));
            }
            let of = self.enums.get(&TableId(number.checked_sub(1)?))?;
            Some(DataType::Array(Box::new(DataType::Enum(Arc::clone(of)))))
        })
    }

    /// The type that SQL text names.
    ///
    /// # Errors
    /// 42704: there is none of that name.
    pub fn data_type(&self, ast: &ast::DataType) -> Result<DataType> {
        if let ast::DataType::Array(
            ast::ArrayElemTypeDef::SquareBracket(element, _)
            | ast::ArrayElemTypeDef::AngleBracket(element),
        ) = ast
        {
            let element = self.data_type(element)?;
            return match element {
                // How many dimensions a type says is no matter, as with PostgreSQL.
                DataType::Array(_) => Ok(element),
                element if element.array_oid() == 0 => {
                    Err(Error::unsupported(format_args!("type {element}[]")))
                }
                element => Ok(DataType::Array(Box::new(element))),
            };
        }
        // A bare name is the system's first.
        let error = match names::data_type(ast) {
            Ok(known) => return Ok(known),
            Err(error) => error,
        };
        match ast {
            ast::DataType::Custom(name, modifiers) if modifiers.is_empty() => {
                let key = object_name(name)?;
                if let Some((_, of)) = self.find_enum(&key) {
                    return Ok(DataType::Enum(Arc::clone(of)));
                }
                if let Some(domain) = self.find_domain(&key) {
                    return Err(not_here(domain));
                }
                let parts = name.0.iter().filter_map(|part| part.as_ident()).map(names::fold);
                let called = parts.collect::<Vec<_>>().join(".");
                Err(match error.code() {
                    SqlState::UNDEFINED_OBJECT => {
                        let what = format!("type \"{called}\" does not exist");
                        Error::new(SqlState::UNDEFINED_OBJECT, what)
                    }
                    _ => error,
                })
            }
            _ => Err(error),
        }
    }

    /// The same of a type's name in a text.
    ///
    /// # Errors
    /// 42704, or it is no name.
    pub fn type_in(&self, text: &str) -> Result<DataType> {
        if let Some(element) = text.trim_end().strip_suffix("[]") {
            return Ok(match self.type_in(element)? {
                array @ DataType::Array(_) => array,
                element => DataType::Array(Box::new(element)),
            });
        }
        let own = || {
            let name = crate::syntax::parse::name_in(text).ok()?;
            let (_, of) = self.find_enum(&object_name(&name).ok()?)?;
            Some(DataType::Enum(Arc::clone(of)))
        };
        DataType::from_sql_name(text).or_else(|error| own().ok_or(error))
    }

    /// What a type has become by now.
    ///
    /// # Errors
    /// 42704: it is not there any more.
    pub fn current_type(&self, known: &DataType) -> Result<DataType> {
        let Some(of) = known.enum_type() else { return Ok(known.clone()) };
        let id = TableId(of.oid.saturating_sub(FIRST_USER));
        let Some(current) = self.enums.get(&id) else {
            let what = format!("type with OID {} does not exist", of.oid);
            return Err(Error::new(SqlState::UNDEFINED_OBJECT, what));
        };
        let current = DataType::Enum(Arc::clone(current));
        Ok(match known {
            DataType::Array(_) => DataType::Array(Box::new(current)),
            _ => current,
        })
    }

    /// What types that were declared for parameters have become by now.
    ///
    /// # Errors
    /// 42704: one of them is not there any more.
    pub fn current_types(&self, declared: Vec<Option<DataType>>) -> Result<Vec<Option<DataType>>> {
        let current = |known: Option<DataType>| known.map(|t| self.current_type(&t)).transpose();
        declared.into_iter().map(current).collect()
    }

    /// Puts a type that was changed in the place of the one that it was; the tables that have it.
    pub(crate) fn renew_type(&mut self, id: TableId, of: EnumType) -> Vec<TableId> {
        let of = Arc::new(of);
        self.enums.insert(id, Arc::clone(&of));
        let mut changed = Vec::new();
        for (id, table) in &mut self.tables {
            let mut columns = table.schema.columns.iter();
            if columns.any(|column| is_of(&column.data_type, &of)) {
                let schema = Arc::make_mut(&mut Arc::make_mut(table).schema);
                schema.columns.iter_mut().for_each(|column| renew(&mut column.data_type, &of));
                changed.push(*id);
            }
            let mut exprs = table.defaults.iter().flatten();
            let mut others = table.checks.iter().map(|check| &check.condition);
            let mut generated = table.generated.iter().map(|(_, generated)| &generated.value);
            if exprs.any(|expr| names_type(expr, &of))
                || others.any(|expr| names_type(expr, &of))
                || generated.any(|expr| names_type(expr, &of))
            {
                let table = Arc::make_mut(table);
                let defaults = table.defaults.iter_mut().flatten();
                let checks = table.checks.iter_mut().map(|check| &mut check.condition);
                let generated = table.generated.iter_mut().map(|(_, of)| &mut of.value);
                defaults.chain(checks).chain(generated).for_each(|expr| renew_in(expr, &of));
            }
        }
        for domain in self.domains.values_mut().filter(|domain| domain_uses(domain, &of)) {
            let domain = Arc::make_mut(domain);
            renew(&mut domain.base, &of);
            let default = domain.default.iter_mut().map(|default| &mut default.value);
            let checks = domain.checks.iter_mut().map(|check| &mut check.condition);
            default.chain(checks).for_each(|expr| renew_in(expr, &of));
        }
        for routine in self.routines.values_mut() {
            if uses_type(&routine.definition, &of)
                || routine.defaults.iter().flatten().any(|expr| names_type(expr, &of))
            {
                let mut renewed: Routine = routine.of_another();
                types_of(&mut renewed.definition).for_each(|t| renew(t, &of));
                renewed.defaults.iter_mut().flatten().for_each(|expr| renew_in(expr, &of));
                *routine = Arc::new(renewed);
            }
        }
        changed
    }
}

pub(crate) fn is_of(data_type: &DataType, of: &EnumType) -> bool {
    data_type.enum_type().is_some_and(|known| **known == *of)
}

pub(crate) fn domain_uses(domain: &Domain, of: &EnumType) -> bool {
    let default = domain.default.iter().map(|default| &default.value);
    let mut exprs = default.chain(domain.checks.iter().map(|check| &check.condition));
    is_of(&domain.base, of) || exprs.any(|expr| names_type(expr, of))
}

fn renew(data_type: &mut DataType, of: &Arc<EnumType>) {
    match data_type {
        DataType::Enum(known) if **known == **of => *known = Arc::clone(of),
        DataType::Array(element) => renew(element, of),
        _ => {}
    }
}

/// Whether a routine's definition has the type.
pub(crate) fn uses_type(definition: &CreateFunction, of: &EnumType) -> bool {
    let mut parameters = definition.parameters.iter().map(|parameter| &parameter.data_type);
    let returned = match &definition.returns {
        Returns::Void => false,
        Returns::Scalar(data_type) | Returns::Set(data_type) => is_of(data_type, of),
        Returns::Table(columns) => columns.iter().any(|column| is_of(&column.data_type, of)),
    };
    returned || parameters.any(|data_type| is_of(data_type, of))
}

fn types_of(definition: &mut CreateFunction) -> impl Iterator<Item = &mut DataType> {
    let parameters = definition.parameters.iter_mut().map(|parameter| &mut parameter.data_type);
    let returned: Vec<&mut DataType> = match &mut definition.returns {
        Returns::Void => Vec::new(),
        Returns::Scalar(data_type) | Returns::Set(data_type) => vec![data_type],
        Returns::Table(columns) => columns.iter_mut().map(|c| &mut c.data_type).collect(),
    };
    parameters.chain(returned)
}

/// Whether an expression has values of the type made or shown.
pub(crate) fn names_type(expr: &Expr, of: &EnumType) -> bool {
    expr.any(&mut |part| match part {
        Expr::Cast { to, .. } => is_of(to, of),
        Expr::Call { function: Function::EnumLabel, arguments, .. } => is_labels_of(arguments, of),
        Expr::Call { result, .. } | Expr::Binary { result, .. } => is_of(result, of),
        _ => false,
    })
}

fn renew_in(expr: &mut Expr, of: &Arc<EnumType>) {
    expr.rewrite(&mut |part| {
        match part {
            Expr::Cast { to, .. } => renew(to, of),
            Expr::Call { function: Function::EnumLabel, arguments, .. }
                if is_labels_of(arguments, of) =>
            {
                if let Some(labels) = arguments.get_mut(1) {
                    *labels = Expr::Const(labels_of(of));
                }
            }
            Expr::Call { result, .. } | Expr::Binary { result, .. } => renew(result, of),
            _ => {}
        }
        false
    });
}

fn is_labels_of(arguments: &[Expr], of: &EnumType) -> bool {
    match arguments.get(1) {
        Some(Expr::Const(Value::Array(labels))) => {
            labels.first() == Some(&Value::Int(i64::from(of.oid)))
        }
        _ => false,
    }
}

/// What [`Function::EnumLabel`] knows labels by: the type's number, then position and label of
/// each, in their order.
pub(crate) fn labels_of(of: &EnumType) -> Value {
    let mut values = vec![Value::Int(i64::from(of.oid))];
    for label in of.labels() {
        values.push(Value::Int(label.position));
        values.push(Value::text(&label.label));
    }
    Value::from(values)
}
