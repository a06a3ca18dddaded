//! Lowering: statements to steps, variables to registers.

use std::collections::{BTreeMap, BTreeSet};

use identity::RoleId;
use procedure::step::{OnError, Phi};
use procedure::{
    BinaryOp, Block, Column, Expr, Output, Procedure, Reg, Step, UnaryOp, draws, prune,
};
use types::{DataType, Error, Result, SqlState, Value};

use super::loops::LoopFrame;
use super::scope::{Mark, Record, Rules, Slot};
use super::syntax::{self, Declaration, DeclarationKind, Node, Statement, TypeName};
use super::tokens::{Reads, at_line};
use crate::bind::{Binder, Typed};
use crate::schema::catalog::Catalog;
use crate::settings::session_info::SessionInfo;
use crate::syntax::routine::{CreateFunction, Parameter, ParameterMode, Returns, RoutineKind};

const CASE_NOT_FOUND: SqlState = SqlState(*b"20000");
const NO_RETURN: SqlState = SqlState(*b"2F005");

/// The state of lowering one routine.
pub struct Lowering<'a> {
    pub(super) binder: Binder<'a>,
    /// Parallel to the binder's variables.
    pub(super) rules: Vec<Rules>,
    pub(super) records: Vec<Record>,
    pub(super) register_names: BTreeMap<Reg, Box<str>>,
    pub(super) loops: Vec<LoopFrame>,
    /// Names of the blocks around, innermost last; none for most.
    labels: Vec<String>,
    /// Whether control can get here.
    pub(super) reachable: bool,
    pub(super) found: Slot,
    pub(super) row_count: Slot,
    /// Whether the body reads FOUND and ROW_COUNT at all.
    pub(super) tracks_found: bool,
    /// Registers that have been the value of FOUND: never NULL.
    pub(super) flags: BTreeSet<Reg>,
    pub(super) tracks_row_count: bool,
    returns: Returns,
    /// OUT and INOUT parameters.
    outputs: Vec<Slot>,
}

/// What of its session a body depends on.
#[derive(Clone, Copy, Debug)]
pub struct Dependence {
    /// It calls `current_user` or its kin.
    pub session: bool,
    pub zone: bool,
    /// It converts times by the clocks of a place.
    pub clocks: bool,
}

/// Compiles a parsed body.
pub fn lower(
    (catalog, session): (&Catalog, &SessionInfo),
    (function, role): (&CreateFunction, Option<RoleId>),
    body: &syntax::Block,
    reads: Reads,
) -> Result<(Procedure, Dependence)> {
    let inputs: Vec<&Parameter> = function
        .parameters
        .iter()
        .filter(|parameter| parameter.mode != ParameterMode::Out)
        .collect();
    let types = inputs.iter().map(|parameter| Some(parameter.data_type.clone()));
    let mut binder = Binder::new(catalog, session, types.collect());
    binder.bound_by_text(function.body.len());
    binder.strict_variables = true;
    role.into_iter().for_each(|role| binder.check_role(role));
    let mut lowering = Lowering {
        binder,
        rules: Vec::new(),
        records: Vec::new(),
        register_names: BTreeMap::new(),
        loops: Vec::new(),
        labels: Vec::new(),
        reachable: true,
        found: 0,
        row_count: 0,
        tracks_found: reads.found,
        flags: BTreeSet::new(),
        tracks_row_count: reads.row_count,
        returns: function.returns.clone(),
        outputs: Vec::new(),
    };
    lowering.declare_parameters(function);
    lowering.block(body)?;
    if lowering.reachable {
        lowering.end_of_body(function)?;
    }
    let mut steps = std::mem::take(&mut lowering.binder.steps);
    if let Some(Step::Return) = steps.last() {
        steps.pop();
    }
    let mut body: Block = steps.into();
    prune(&mut body, lowering.binder.next_register);
    let read_only = procedure::analysis::Footprint::of_block(&body).is_read_only();
    let mut procedure = Procedure {
        name: function.name.clone(),
        parameters: inputs
            .iter()
            .map(|parameter| Column {
                name: parameter.name.clone(),
                data_type: parameter.data_type.clone(),
            })
            .collect(),
        registers: lowering.binder.next_register,
        register_names: lowering.register_names.into_iter().collect(),
        body,
        output: output(function),
        tag: match function.kind {
            RoutineKind::Procedure => "CALL".to_string(),
            RoutineKind::Function => "SELECT".to_string(),
        },
        read_only,
        draws: false,
        sequences: Box::default(),
    };
    draws::place(&mut procedure)?;
    let Binder { session_dependent, zone_dependent, by_clocks, .. } = lowering.binder;
    let (session, zone, clocks) = (session_dependent, zone_dependent, by_clocks);
    Ok((procedure, Dependence { session, zone, clocks }))
}

/// What the parameters are called in the body; one without a name by its number.
pub fn parameter_names(function: &CreateFunction) -> impl Iterator<Item = String> + '_ {
    let numbered = function.parameters.iter().enumerate();
    numbered.map(|(place, parameter)| match parameter.name.as_str() {
        "" => format!("${}", place + 1),
        name => name.to_string(),
    })
}

fn output(function: &CreateFunction) -> Output {
    let column = |name: &str, data_type: &DataType| Column {
        name: name.to_string(),
        data_type: data_type.clone(),
    };
    let outputs: Vec<Column> = function
        .parameters
        .iter()
        .filter(|parameter| parameter.mode != ParameterMode::In)
        .map(|parameter| column(&parameter.name, &parameter.data_type))
        .collect();
    match &function.returns {
        Returns::Table(columns) => Output::Rows(columns.clone()),
        _ if !outputs.is_empty() => Output::Rows(outputs),
        Returns::Scalar(data_type) | Returns::Set(data_type) => {
            Output::Rows(vec![column(&function.name, data_type)])
        }
        Returns::Void => Output::Tag,
    }
}

impl Lowering<'_> {
    fn declare_parameters(&mut self, function: &CreateFunction) {
        let flag = Expr::Const(Value::Bool(false));
        self.found = self.declare("", "found", flag, DataType::Bool, Rules::default());
        let none = Expr::Const(Value::Int(0));
        self.row_count = self.declare("", "", none, DataType::Int8, Rules::default());
        let mut register = 0;
        for (parameter, name) in function.parameters.iter().zip(parameter_names(function)) {
            let value = match parameter.mode {
                ParameterMode::Out => Expr::Const(Value::Null),
                ParameterMode::In | ParameterMode::InOut => {
                    register += 1;
                    Expr::Reg(Reg(register - 1))
                }
            };
            let data_type = parameter.data_type.clone();
            let slot = self.declare(&function.name, &name, value, data_type, Rules::default());
            if parameter.mode != ParameterMode::In {
                self.outputs.push(slot);
            }
        }
        if let Returns::Table(columns) = &function.returns {
            for column in columns {
                let (null, data_type) = (Expr::Const(Value::Null), column.data_type.clone());
                let slot =
                    self.declare(&function.name, &column.name, null, data_type, Rules::default());
                self.outputs.push(slot);
            }
        }
    }

    /// Control fell off the end.
    fn end_of_body(&mut self, function: &CreateFunction) -> Result<()> {
        match &self.returns {
            Returns::Set(_) | Returns::Table(_) => {}
            _ if !self.outputs.is_empty() => self.emit_outputs(),
            Returns::Scalar(_) => {
                let message =
                    format!("control reached end of function \"{}\" without RETURN", function.name);
                let error = OnError::new(NO_RETURN, &message);
                self.binder.steps.push(Step::Raise { error });
            }
            Returns::Void => {}
        }
        Ok(())
    }

    fn emit_outputs(&mut self) {
        let values = self.outputs.iter().map(|slot| self.value(*slot).clone());
        let values = values.collect();
        self.binder.steps.push(Step::Emit { values });
    }

    fn block(&mut self, block: &syntax::Block) -> Result<()> {
        let mark = self.mark();
        self.labels.push(block.label.clone().unwrap_or_default());
        for declaration in &block.declarations {
            let outer = self.binder.begin_part();
            self.declaration(declaration, mark)
                .map_err(|error| at_line(error, declaration.line))?;
            self.binder.end_part(outer);
        }
        self.nodes(&block.body)?;
        self.labels.pop();
        self.forget(mark);
        Ok(())
    }

    fn declaration(&mut self, declaration: &Declaration, block: Mark) -> Result<()> {
        let name = &declaration.name;
        if self.is_declared_since(block, name) {
            return Err(Error::new(
                SqlState::SYNTAX_ERROR,
                format!("duplicate declaration of \"{name}\""),
            ));
        }
        let qualifier = self.labels.last().cloned().unwrap_or_default();
        let (type_name, default, rules) = match &declaration.kind {
            DeclarationKind::Alias(of) => {
                let error = Error::unsupported(format!("ALIAS FOR \"{of}\""));
                return Err(error.with_hint("Use the parameter's own name, or a variable."));
            }
            DeclarationKind::Variable { type_name, constant, not_null, default } => {
                (type_name, default, Rules { constant: *constant, not_null: *not_null })
            }
        };
        let data_type = match type_name {
            TypeName::Sql(sql) => self.binder.type_named(sql)?,
            TypeName::Like(path) => self.type_of(path)?,
            TypeName::Record | TypeName::Row(_) => {
                if default.is_some() {
                    return Err(Error::unsupported("a default value of a record"));
                }
                return self.declare_record(name, type_name);
            }
        };
        if rules.not_null && default.is_none() {
            return Err(Error::new(
                SqlState(*b"22004"),
                format!(
                    "variable \"{name}\" must have a default value, since it's declared NOT NULL"
                ),
            ));
        }
        // The default sees what was declared before, not the variable itself.
        let value = match default {
            Some(default) => self.binder.bare_expression(default)?,
            None => Typed::null(),
        };
        let null = Expr::Const(Value::Null);
        let without_constant = Rules { constant: false, ..rules };
        let slot = self.declare(&qualifier, name, null, data_type, without_constant);
        self.assign(slot, value)?;
        self.rules[slot] = rules;
        Ok(())
    }

    fn declare_record(&mut self, name: &str, type_name: &TypeName) -> Result<()> {
        let has_type = matches!(type_name, TypeName::Row(_));
        self.records.push(Record { name: name.to_string(), fields: None, has_type });
        if let TypeName::Row(table) = type_name {
            let table = self.binder.catalog.table(table)?.clone();
            let columns = table.schema.visible_columns();
            let fields = columns.map(|(_, column)| {
                let null = Expr::Const(Value::Null);
                (column.name.clone(), Typed::new(null, column.data_type.clone()))
            });
            let fields: Vec<_> = fields.collect();
            self.declare_fields(self.records.len() - 1, fields);
        }
        Ok(())
    }

    /// `variable%TYPE`, `table.column%TYPE`.
    fn type_of(&self, path: &[String]) -> Result<DataType> {
        let target = syntax::Target(path.to_vec());
        if let Some(super::scope::Place::Variable(slot)) = self.find(&target) {
            return Ok(self.binder.variables[slot].data_type.clone());
        }
        match path {
            [table, column] | [_, table, column] => {
                let table = self.binder.catalog.table(table)?;
                let place = table.column_named(column)?;
                Ok(table.column_type(place).clone())
            }
            _ => Err(Error::new(
                SqlState::UNDEFINED_OBJECT,
                format!("variable \"{}\" does not exist", path.join(".")),
            )),
        }
    }

    pub(super) fn is_block_label(&self, label: &str) -> bool {
        self.labels.iter().any(|known| known == label)
    }

    pub(super) fn nodes(&mut self, nodes: &[Node]) -> Result<()> {
        for node in nodes {
            let outer = self.binder.begin_part();
            self.statement(&node.statement).map_err(|error| at_line(error, node.line))?;
            self.binder.end_part(outer);
        }
        Ok(())
    }

    fn statement(&mut self, statement: &Statement) -> Result<()> {
        match statement {
            Statement::Null => Ok(()),
            Statement::Block(block) => self.block(block),
            Statement::Assign { target, value } => {
                let value = self.binder.bare_expression(value)?;
                self.assign_to(target, value)
            }
            Statement::Sql { statement, into } => self.sql(statement, into.as_ref()),
            Statement::Perform(query) => self.perform(query),
            Statement::If { branches, otherwise } => self.if_chain(branches, otherwise),
            Statement::Case { .. } => self.case(statement),
            Statement::Loop { label, kind, body } => self.any_loop(label, kind, body),
            Statement::Exit { label, when } => self.leave(label, when, true),
            Statement::Continue { label, when } => self.leave(label, when, false),
            Statement::Raise(raise) => self.raise(raise),
            Statement::Assert { condition, message } => self.assert(condition, message.as_ref()),
            Statement::Return(value) => self.return_value(value.as_ref()),
            Statement::ReturnNext(value) => self.return_next(value.as_ref()),
            Statement::ReturnQuery(query) => self.return_query(query),
            Statement::RowCount(targets) => {
                for target in targets {
                    let count = Typed::new(self.value(self.row_count).clone(), DataType::Int8);
                    self.assign_to(target, count)?;
                }
                Ok(())
            }
        }
    }

    /// True where `condition` is false or unknown.
    pub(super) fn not_true(&self, condition: &Expr) -> Expr {
        not_true(condition, &self.flags)
    }

    pub(super) fn condition(&mut self, condition: &syntax::Expr, place: &str) -> Result<Expr> {
        let condition = self.binder.bare_expression(condition)?;
        self.binder.boolean(condition, place)
    }

    /// What `build` adds to the program, apart. Reachability afterwards is the block's own.
    pub(super) fn apart(&mut self, build: impl FnOnce(&mut Self) -> Result<()>) -> Result<Block> {
        let outside = std::mem::take(&mut self.binder.steps);
        let built = build(self);
        let inside = std::mem::replace(&mut self.binder.steps, outside);
        built?;
        Ok(inside.into())
    }

    fn if_chain(
        &mut self,
        branches: &[(syntax::Expr, Vec<Node>)],
        otherwise: &[Node],
    ) -> Result<()> {
        let Some(((condition, body), rest)) = branches.split_first() else {
            return self.nodes(otherwise);
        };
        let condition = self.condition(condition, "IF")?;
        self.branch(
            condition,
            |lowering| lowering.nodes(body),
            |lowering| lowering.if_chain(rest, otherwise),
        )
    }

    /// Both ways from the same state, merged where they meet.
    pub(super) fn branch(
        &mut self,
        condition: Expr,
        then: impl FnOnce(&mut Self) -> Result<()>,
        otherwise: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let (before, was_reachable) = (self.values(), self.reachable);
        let records = self.records.clone();
        let mark = self.mark();
        let then = self.apart(|lowering| {
            then(lowering)?;
            lowering.forget(mark);
            Ok(())
        })?;
        let (after_then, then_ends) = (self.values(), self.reachable);
        self.restore(&before);
        self.records = records;
        self.reachable = was_reachable;
        let otherwise = self.apart(|lowering| {
            otherwise(lowering)?;
            lowering.forget(mark);
            Ok(())
        })?;
        let otherwise_ends = self.reachable;
        self.reachable = then_ends || otherwise_ends;
        if otherwise.is_empty()
            && let Some(guard) = as_guard(&condition, &then, &self.flags)
        {
            self.binder.steps.push(guard);
            return Ok(());
        }
        let mut phis = Vec::new();
        match (then_ends, otherwise_ends) {
            (true, true) => phis = self.merge(&after_then)?,
            (true, false) => self.restore(&after_then),
            (false, _) => {}
        }
        self.binder.steps.push(Step::If { condition, then, otherwise, phis: phis.into() });
        Ok(())
    }

    /// Phis where the state after `then` differs from the present one, which is after the other
    /// way.
    fn merge(&mut self, after_then: &[Expr]) -> Result<Vec<Phi>> {
        let mut phis = Vec::new();
        for (slot, then) in after_then.iter().enumerate() {
            if self.value(slot) == then {
                continue;
            }
            let out = self.version_of(slot)?;
            phis.push(Phi { out, then: then.clone(), otherwise: self.value(slot).clone() });
            self.set(slot, Expr::Reg(out));
        }
        Ok(phis)
    }

    fn case(&mut self, statement: &Statement) -> Result<()> {
        let Statement::Case { operand, branches, otherwise } = statement else {
            return Ok(());
        };
        let operand = match operand {
            Some(operand) => {
                let operand = self.binder.bare_expression(operand)?;
                let expr = self.binder.let_value(operand.expr)?;
                Some(Typed::new(expr, operand.data_type))
            }
            None => None,
        };
        self.case_branches(operand.as_ref(), branches, otherwise.as_deref())
    }

    fn case_branches(
        &mut self,
        operand: Option<&Typed>,
        branches: &[(Vec<syntax::Expr>, Vec<Node>)],
        otherwise: Option<&[Node]>,
    ) -> Result<()> {
        let Some(((values, body), rest)) = branches.split_first() else {
            return match otherwise {
                Some(body) => self.nodes(body),
                None => {
                    let error = Error::new(CASE_NOT_FOUND, "case not found")
                        .with_hint("CASE statement is missing ELSE part.");
                    let error = OnError::from(error);
                    self.binder.steps.push(Step::Raise { error });
                    self.reachable = false;
                    Ok(())
                }
            };
        };
        let mut matches = Vec::new();
        for value in values {
            matches.push(match operand {
                None => self.condition(value, "CASE/WHEN")?,
                Some(operand) => {
                    let value = self.binder.bare_expression(value)?;
                    self.binder.comparison(BinaryOp::Equal, operand.clone(), value)?.expr
                }
            });
        }
        let condition = match matches.len() {
            1 => matches.remove(0),
            _ => Expr::Or(matches.into()),
        };
        self.branch(
            condition,
            |lowering| lowering.nodes(body),
            |lowering| lowering.case_branches(operand, rest, otherwise),
        )
    }

    fn return_value(&mut self, value: Option<&syntax::Expr>) -> Result<()> {
        match (&self.returns, value) {
            (Returns::Set(_) | Returns::Table(_), Some(_)) => {
                return Err(misplaced(
                    "RETURN cannot have a parameter in function returning set",
                    "Use RETURN NEXT or RETURN QUERY.",
                ));
            }
            (Returns::Set(_) | Returns::Table(_), None) => {}
            (_, Some(_)) if !self.outputs.is_empty() => {
                return Err(misplaced(
                    "RETURN cannot have a parameter in function with OUT parameters",
                    "Assign to the OUT parameters instead.",
                ));
            }
            (_, None) if !self.outputs.is_empty() => self.emit_outputs(),
            (Returns::Scalar(data_type), Some(value)) => {
                let data_type = data_type.clone();
                let value = self.binder.bare_expression(value)?;
                let value = self.converted(value, &data_type)?;
                let values = [value].into();
                self.binder.steps.push(Step::Emit { values });
            }
            (Returns::Scalar(_), None) => {
                return Err(Error::new(SqlState::SYNTAX_ERROR, "missing expression after RETURN"));
            }
            (Returns::Void, Some(_)) => {
                return Err(misplaced(
                    "RETURN cannot have a parameter in a procedure or a function returning void",
                    "Declare an OUT parameter.",
                ));
            }
            (Returns::Void, None) => {}
        }
        self.binder.steps.push(Step::Return);
        self.reachable = false;
        Ok(())
    }

    fn return_next(&mut self, value: Option<&syntax::Expr>) -> Result<()> {
        match (self.returns.clone(), value) {
            (Returns::Set(data_type), Some(value)) => {
                let value = self.binder.bare_expression(value)?;
                let value = self.converted(value, &data_type)?;
                let values = [value].into();
                self.binder.steps.push(Step::Emit { values });
                Ok(())
            }
            (Returns::Table(_), None) => {
                self.emit_outputs();
                Ok(())
            }
            (Returns::Table(_), Some(_)) => Err(misplaced(
                "RETURN NEXT cannot have a parameter in function with OUT parameters",
                "Assign to the columns and say RETURN NEXT alone.",
            )),
            _ => Err(Error::new(
                SqlState::DATATYPE_MISMATCH,
                "cannot use RETURN NEXT in a non-SETOF function",
            )),
        }
    }

    /// The types of the columns that RETURN QUERY must yield.
    pub(super) fn returned_columns(&self) -> Result<Vec<DataType>> {
        match &self.returns {
            Returns::Set(data_type) => Ok(vec![data_type.clone()]),
            Returns::Table(columns) => Ok(columns.iter().map(|c| c.data_type.clone()).collect()),
            _ => Err(Error::new(
                SqlState::DATATYPE_MISMATCH,
                "cannot use RETURN QUERY in a non-SETOF function",
            )),
        }
    }
}

fn misplaced(message: &str, hint: &str) -> Error {
    Error::new(SqlState::DATATYPE_MISMATCH, message).with_hint(hint)
}

/// `IF condition THEN RAISE …; END IF` is a guard: the condition must not be true.
fn as_guard(condition: &Expr, then: &Block, flags: &BTreeSet<Reg>) -> Option<Step> {
    let [Step::Raise { error }] = &**then else {
        return None;
    };
    Some(Step::Require { condition: not_true(condition, flags), error: error.clone() })
}

/// True where `condition` is false or unknown.
fn not_true(condition: &Expr, flags: &BTreeSet<Reg>) -> Expr {
    let is_flag = |expr: &Expr| matches!(expr, Expr::Reg(register) if flags.contains(register));
    match condition {
        // NOT NOT FOUND; a flag is never unknown.
        Expr::Unary { op: UnaryOp::Not, input } if is_flag(input) => (**input).clone(),
        Expr::IsNull { input, negated } => Expr::is_null((**input).clone(), !negated),
        condition if is_flag(condition) => Expr::negated(condition.clone()),
        condition => Expr::Binary {
            op: BinaryOp::IsDistinctFrom,
            left: Box::new(condition.clone()),
            right: Box::new(Expr::Const(Value::Bool(true))),
            result: DataType::Bool,
        },
    }
}
