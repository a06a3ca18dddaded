//! Arrays in expressions: their constructor, their elements.

use procedure::Expr;
use sqlparser::ast;
use types::cast::CastContext;
use types::{DataType, Error, Result, SqlState};

use super::binder::{Binder, Typed, fold};
use super::records::named_alone;
use super::scope::Scope;
use super::system::as_array;
use crate::syntax::names::fold as fold_name;

impl Binder<'_> {
    pub(super) fn array(&mut self, scope: &Scope, elements: &[ast::Expr]) -> Result<Typed> {
        let mut inputs = Vec::with_capacity(elements.len());
        for element in elements {
            inputs.push(self.expression(scope, element)?);
        }
        if inputs.is_empty() {
            // What `ARRAY[]::int[]` is cast to says it.
            let what = "cannot determine type of empty array";
            return Err(Error::new(SqlState(*b"42P18"), what).with_hint(
                "Explicitly cast to the desired type, for example ARRAY[]::integer[].",
            ));
        }
        let (inputs, element) = self.unify(inputs, "ARRAY")?;
        if matches!(element, DataType::Array(_)) {
            return Err(Error::unsupported("arrays of more than one dimension"));
        }
        let data_type = DataType::Array(Box::new(element.without_modifier()));
        Ok(Typed::new(fold(Expr::Array(inputs.into())), data_type))
    }

    pub(super) fn subscript(
        &mut self,
        scope: &Scope,
        root: &ast::Expr,
        chain: &[ast::AccessExpr],
    ) -> Result<Typed> {
        // `table.column[1]` comes as a table's name with a chain behind it.
        let mut names = match root {
            ast::Expr::Identifier(name) => vec![name.clone()],
            ast::Expr::CompoundIdentifier(names) => names.clone(),
            _ => Vec::new(),
        };
        let mut chain = chain;
        while let (false, [ast::AccessExpr::Dot(ast::Expr::Identifier(name)), behind @ ..]) =
            (names.is_empty(), chain)
        {
            names.push(name.clone());
            chain = behind;
        }
        let named = (names.len() > 1).then(|| ast::Expr::CompoundIdentifier(names));
        let root = named.as_ref().unwrap_or(root);
        if let [before @ .., ast::AccessExpr::Dot(ast::Expr::Identifier(name))] = chain {
            let name = fold_name(name);
            if let (true, Some(relation)) = (before.is_empty(), named_alone(root))
                && scope.find(&relation)?.is_none()
                && scope.relation(&relation).is_some_and(|relation| !relation.is_scalar)
            {
                return self.qualified_column(scope, &[relation, name]);
            }
            let row = match before {
                [] => self.expression(scope, root)?,
                before => self.subscript(scope, root, before)?,
            };
            return self.field(row, &name);
        }
        let typed = match chain {
            [ast::AccessExpr::Subscript(_), ..] => Some(self.expression(scope, root)?),
            _ => None,
        };
        if let Some(Typed { expr, data_type: DataType::Jsonb }) = typed {
            return self.json_subscript(scope, expr, chain);
        }
        let [ast::AccessExpr::Subscript(ast::Subscript::Index { index })] = chain else {
            return Err(Error::unsupported("this kind of subscript")
                .with_hint("Arrays have one dimension: write a[i]."));
        };
        let array = match typed {
            Some(array) => array,
            None => self.expression(scope, root)?,
        };
        if self.system.is_some() && as_array(&array.data_type) != array.data_type {
            let index = self.expression(scope, index)?;
            let index = self.coerce(index, &DataType::Int8, CastContext::Assignment)?;
            if let Some(element) = self.element_from_0(&array, index) {
                return Ok(element);
            }
            return Err(Error::unsupported("this kind of subscript"));
        }
        let DataType::Array(element) = array.data_type else {
            return Err(Error::new(
                SqlState::DATATYPE_MISMATCH,
                format!(
                    "cannot subscript type {} because it does not support subscripting",
                    array.data_type
                ),
            ));
        };
        let index = self.expression(scope, index)?;
        let index = self.coerce(index, &DataType::Int4, CastContext::Assignment)?;
        let expr = Expr::Element { array: Box::new(array.expr), index: Box::new(index) };
        Ok(Typed::new(fold(expr), *element))
    }
}
