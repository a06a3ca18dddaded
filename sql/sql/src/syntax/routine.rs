//! CREATE FUNCTION and CREATE PROCEDURE, read from the syntax tree.

use procedure::Column;
use sqlparser::ast;
use types::{DataType, Error, Result, SqlState};

use crate::syntax::names::{fold, object_name};
use crate::syntax::path::SearchPath;

/// What types' names mean.
pub(crate) type TypeNames<'a> = &'a dyn Fn(&ast::DataType) -> Result<DataType>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RoutineKind {
    Procedure,
    Function,
}

/// A stored procedure or function as its author wrote it; `body` is the text between the quotes.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateFunction {
    pub kind: RoutineKind,
    pub name: String,
    pub parameters: Vec<Parameter>,
    pub returns: Returns,
    /// Folded: `plpgsql` or `sql`.
    pub language: String,
    pub body: String,
    /// By which names in its body are settled.
    pub path: SearchPath,
    /// It has its owner's privileges, and not those of the role that calls it.
    pub security_definer: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Empty: known by its number (`$1`) only.
    pub name: String,
    pub mode: ParameterMode,
    pub data_type: DataType,
    pub default: Option<ast::Expr>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParameterMode {
    In,
    Out,
    InOut,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Returns {
    /// A procedure, or `RETURNS void`.
    Void,
    Scalar(DataType),
    Set(DataType),
    Table(Vec<Column>),
}

impl CreateFunction {
    pub(crate) fn from_ast(
        definition: &ast::CreateFunction,
        is_procedure: bool,
        path: &SearchPath,
        data_type: TypeNames<'_>,
    ) -> Result<CreateFunction> {
        let kind = match is_procedure {
            true => RoutineKind::Procedure,
            false => RoutineKind::Function,
        };
        if !definition.set_params.is_empty() {
            return Err(Error::unsupported("SET in a function definition"));
        }
        if matches!(
            definition.called_on_null,
            Some(
                ast::FunctionCalledOnNull::Strict
                    | ast::FunctionCalledOnNull::ReturnsNullOnNullInput
            )
        ) {
            return Err(Error::unsupported("STRICT").with_hint(
                "Test the arguments in the body: IF a IS NULL THEN RETURN NULL; END IF;",
            ));
        }
        let language = definition.language.as_ref().map_or("sql".into(), fold);
        check_language(&language)?;
        let parameters = definition.args.iter().flatten().map(|arg| parameter(arg, data_type));
        Ok(CreateFunction {
            kind,
            name: object_name(&definition.name)?,
            parameters: parameters.collect::<Result<_>>()?,
            returns: returns(definition, is_procedure, data_type)?,
            language,
            body: body_text(definition)?,
            path: path.clone(),
            security_definer: matches!(definition.security, Some(ast::FunctionSecurity::Definer)),
        })
    }

    /// The block of a DO statement, as a procedure.
    pub(crate) fn anonymous(
        language: &str,
        body: &str,
        path: &SearchPath,
    ) -> Result<CreateFunction> {
        check_language(language)?;
        if language != "plpgsql" {
            let what = format!("language \"{language}\" does not support inline code execution");
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what));
        }
        Ok(CreateFunction {
            kind: RoutineKind::Procedure,
            name: "inline_code_block".into(),
            parameters: Vec::new(),
            returns: Returns::Void,
            language: language.to_owned(),
            body: body.to_owned(),
            path: path.clone(),
            security_definer: false,
        })
    }

    /// Types of the arguments that a call gives.
    pub fn input_types(&self) -> impl Iterator<Item = &DataType> {
        self.parameters.iter().filter(|p| p.mode != ParameterMode::Out).map(|p| &p.data_type)
    }
}

/// The parameters that a call gives, as the procedure's.
pub fn parameter_columns(function: &CreateFunction) -> Vec<Column> {
    let inputs = function.parameters.iter().filter(|p| p.mode != ParameterMode::Out);
    let column = |p: &Parameter| Column { name: p.name.clone(), data_type: p.data_type.clone() };
    inputs.map(column).collect()
}

/// The columns of a function's result; none for void.
pub fn result_columns(function: &CreateFunction) -> Vec<Column> {
    match &function.returns {
        Returns::Void => Vec::new(),
        Returns::Scalar(data_type) | Returns::Set(data_type) => {
            vec![Column { name: function.name.clone(), data_type: data_type.clone() }]
        }
        Returns::Table(columns) => columns.clone(),
    }
}

fn check_language(language: &str) -> Result<()> {
    match language {
        "sql" | "plpgsql" => Ok(()),
        other => Err(Error::unsupported(format_args!("language \"{other}\""))
            .with_hint("Use LANGUAGE plpgsql or LANGUAGE sql.")),
    }
}

fn parameter(arg: &ast::OperateFunctionArg, data_type: TypeNames<'_>) -> Result<Parameter> {
    let mode = match arg.mode {
        None | Some(ast::ArgMode::In) => ParameterMode::In,
        Some(ast::ArgMode::Out) => ParameterMode::Out,
        Some(ast::ArgMode::InOut) => ParameterMode::InOut,
        Some(ast::ArgMode::Variadic) => return Err(Error::unsupported("VARIADIC")),
    };
    Ok(Parameter {
        name: arg.name.as_ref().map(parameter_name).unwrap_or_default(),
        mode,
        data_type: data_type(&arg.data_type)?,
        default: arg.default_expr.clone(),
    })
}

/// sqlparser gives a parameter's name as its source text, quotes included.
fn parameter_name(ident: &ast::Ident) -> String {
    match ident.value.strip_prefix('"').and_then(|v| v.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => fold(ident),
    }
}

fn returns(
    definition: &ast::CreateFunction,
    is_procedure: bool,
    data_type: TypeNames<'_>,
) -> Result<Returns> {
    let (declared, set) = match &definition.return_type {
        None if is_procedure => return Ok(Returns::Void),
        None => {
            let out = definition.args.iter().flatten();
            let mut out =
                out.filter(|a| matches!(a.mode, Some(ast::ArgMode::Out | ast::ArgMode::InOut)));
            return match (out.next(), out.next()) {
                (Some(one), None) => Ok(Returns::Scalar(data_type(&one.data_type)?)),
                (Some(_), Some(_)) => Err(Error::unsupported("more than one OUT parameter")),
                (None, _) => Err(Error::new(
                    SqlState::INVALID_TABLE_DEFINITION,
                    "function result type must be specified",
                )),
            };
        }
        Some(ast::FunctionReturnType::DataType(t)) => (t, false),
        Some(ast::FunctionReturnType::SetOf(t)) => (t, true),
    };
    if let ast::DataType::Table(Some(columns)) = declared {
        let columns = columns.iter().map(|column| {
            Ok(Column { name: fold(&column.name), data_type: data_type(&column.data_type)? })
        });
        return Ok(Returns::Table(columns.collect::<Result<_>>()?));
    }
    match (data_type(declared)?, set) {
        (DataType::Void, _) => Ok(Returns::Void),
        (t, false) => Ok(Returns::Scalar(t)),
        (t, true) => Ok(Returns::Set(t)),
    }
}

fn body_text(definition: &ast::CreateFunction) -> Result<String> {
    match &definition.function_body {
        Some(ast::CreateFunctionBody::AsBeforeOptions { body, link_symbol: None }) => match body {
            ast::Expr::Value(value) => match &value.value {
                ast::Value::DollarQuotedString(s) => Ok(s.value.clone()),
                ast::Value::SingleQuotedString(s) => Ok(s.clone()),
                _ => Err(Error::unsupported("this form of function body")),
            },
            _ => Err(Error::unsupported("this form of function body")),
        },
        Some(ast::CreateFunctionBody::Return(expression)) => Ok(format!("SELECT {expression}")),
        Some(_) => Err(Error::unsupported("this form of function body")),
        None => Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, "no function body specified")),
    }
}
