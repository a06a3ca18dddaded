//! Names of result columns.

use sqlparser::ast;
use types::DataType;

use crate::syntax::names::fold;

/// PostgreSQL's names for columns without an alias.
pub fn output_name(expr: &ast::Expr) -> String {
    use ast::Expr as E;
    match expr {
        E::Identifier(ident) => fold(ident),
        E::CompoundIdentifier(parts) => parts.last().map(fold).unwrap_or_default(),
        E::Nested(inner) | E::Collate { expr: inner, .. } => output_name(inner),
        E::Function(call) => match call.name.0.last() {
            Some(ast::ObjectNamePart::Identifier(ident)) => fold(ident),
            _ => "?column?".into(),
        },
        // The outermost of several casts names a value that has no name of its own.
        E::Cast { expr, .. } if matches!(innermost(expr), E::Array(_)) => "array".into(),
        E::Cast { expr, data_type, .. } => match innermost(expr) {
            E::Value(_) | E::TypedString(_) => type_label(data_type),
            inner => match output_name(inner) {
                name if name == "?column?" => type_label(data_type),
                name => name,
            },
        },
        E::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                ast::AccessExpr::Dot(E::Identifier(name)) => Some(fold(name)),
                _ => None,
            });
            field.unwrap_or_else(|| output_name(root))
        }
        E::Case { else_result, .. } => match else_result.as_deref().map(output_name) {
            Some(name) if name != "?column?" => name,
            _ => "case".into(),
        },
        E::Extract { .. } => "extract".into(),
        E::AtTimeZone { .. } => "timezone".into(),
        E::Interval(_) => "interval".into(),
        E::Substring { shorthand: true, .. } => "substr".into(),
        E::Substring { .. } => "substring".into(),
        E::Position { .. } => "position".into(),
        E::Ceil { .. } => "ceil".into(),
        E::Floor { .. } => "floor".into(),
        E::Trim { trim_where, .. } => match trim_where {
            Some(ast::TrimWhereField::Leading) => "ltrim".into(),
            Some(ast::TrimWhereField::Trailing) => "rtrim".into(),
            _ => "btrim".into(),
        },
        E::Overlay { .. } => "overlay".into(),
        E::Exists { .. } => "exists".into(),
        E::Array(_) => "array".into(),
        E::Tuple(_) => "row".into(),
        E::TypedString(typed) => type_label(&typed.data_type),
        E::Subquery(query) => match &*query.body {
            ast::SetExpr::Select(select) => match select.projection.as_slice() {
                [ast::SelectItem::UnnamedExpr(expr)] => output_name(expr),
                [ast::SelectItem::ExprWithAlias { alias, .. }] => fold(alias),
                _ => "?column?".into(),
            },
            _ => "?column?".into(),
        },
        E::Value(value) if matches!(value.value, ast::Value::Boolean(_)) => "bool".into(),
        _ => "?column?".into(),
    }
}

fn innermost(expr: &ast::Expr) -> &ast::Expr {
    match expr {
        ast::Expr::Cast { expr, .. } | ast::Expr::Nested(expr) => innermost(expr),
        other => other,
    }
}

/// The internal name of a type, which a bare cast gives its column.
fn type_label(data_type: &ast::DataType) -> String {
    if let ast::DataType::Array(ast::ArrayElemTypeDef::SquareBracket(element, _)) = data_type {
        return type_label(element);
    }
    let label = match crate::syntax::names::data_type(data_type) {
        Ok(DataType::Int2) => "int2",
        Ok(DataType::Int4) => "int4",
        Ok(DataType::Int8) => "int8",
        Ok(DataType::Float4) => "float4",
        Ok(DataType::Float8) => "float8",
        Ok(DataType::Bool) => "bool",
        Ok(DataType::Varchar(_)) => "varchar",
        Ok(DataType::Char(_)) => "bpchar",
        Ok(DataType::Timestamp(_)) => "timestamp",
        Ok(DataType::Interval(_)) => "interval",
        Ok(DataType::Time(_)) => "time",
        Ok(DataType::Timetz(_)) => "timetz",
        Ok(DataType::Timestamptz(_)) => "timestamptz",
        Ok(other) => return other.base_name().to_owned(),
        Err(_) if let ast::DataType::Custom(name, _) = data_type => {
            let last = name.0.last().and_then(|part| part.as_ident());
            return last.map(fold).unwrap_or_default();
        }
        // What only system catalogs have is called as it is written.
        Err(_) => {
            let text = data_type.to_string().to_ascii_lowercase().replace('"', "");
            let name = text.rsplit('.').next().unwrap_or_default();
            return name.split(['(', '[']).next().unwrap_or_default().to_owned();
        }
    };
    label.to_owned()
}
