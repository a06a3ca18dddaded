//! Variables in sight, and their values at this point of the program.

use procedure::{Expr, OnError, Reg, Step};
use types::cast::CastContext;
use types::{DataType, Error, Result, SqlState, Value};

use super::lower::Lowering;
use super::syntax::Target;
use crate::bind::{Typed, Variable};

/// Place of a variable in the binder's list.
pub type Slot = usize;

/// What PL/pgSQL knows of a variable and the binder need not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rules {
    pub constant: bool,
    pub not_null: bool,
}

/// A variable of type RECORD or of a table's row type: its fields are variables.
#[derive(Clone, Debug)]
pub struct Record {
    pub name: String,
    /// `None` until something has been put into it.
    pub fields: Option<Vec<Slot>>,
    /// A table's row type: its fields stay.
    pub has_type: bool,
}

/// How much was in sight when a block began.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    variables: usize,
    records: usize,
}

/// What an assignment is to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    Variable(Slot),
    Record(usize),
}

const NULL_NOT_ALLOWED: SqlState = SqlState(*b"22004");

impl Lowering<'_> {
    pub(super) fn declare(
        &mut self,
        qualifier: &str,
        name: &str,
        value: Expr,
        data_type: DataType,
        rules: Rules,
    ) -> Slot {
        self.binder.variables.push(Variable {
            qualifier: qualifier.to_string(),
            name: name.to_string(),
            value,
            data_type,
            qualified_only: false,
        });
        self.rules.push(rules);
        self.binder.variables.len() - 1
    }

    pub(super) fn declare_fields(
        &mut self,
        record: usize,
        fields: impl IntoIterator<Item = (String, Typed)>,
    ) -> Vec<Slot> {
        let name = self.records[record].name.clone();
        let mut slots = Vec::new();
        for (field, typed) in fields {
            let slot = self.declare(&name, &field, typed.expr, typed.data_type, Rules::default());
            self.binder.variables[slot].qualified_only = true;
            slots.push(slot);
        }
        self.records[record].fields = Some(slots.clone());
        slots
    }

    /// Whether the name was given since `mark`.
    pub(super) fn is_declared_since(&self, mark: Mark, name: &str) -> bool {
        let mut variables = self.binder.variables[mark.variables..].iter();
        let mut records = self.records[mark.records..].iter();
        variables.any(|v| v.name == name && !v.qualified_only) || records.any(|r| r.name == name)
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { variables: self.binder.variables.len(), records: self.records.len() }
    }

    /// Forget what was declared since `mark`.
    pub(super) fn forget(&mut self, mark: Mark) {
        self.binder.variables.truncate(mark.variables);
        self.rules.truncate(mark.variables);
        self.records.truncate(mark.records);
        for record in &mut self.records {
            let gone = |slots: &Vec<Slot>| slots.iter().any(|slot| *slot >= mark.variables);
            if record.fields.as_ref().is_some_and(gone) {
                record.fields = None;
            }
        }
    }

    pub(super) fn value(&self, slot: Slot) -> &Expr {
        &self.binder.variables[slot].value
    }

    pub(super) fn set(&mut self, slot: Slot, value: Expr) {
        self.binder.variables[slot].value = value;
    }

    /// The values of all variables.
    pub(super) fn values(&self) -> Vec<Expr> {
        self.binder.variables.iter().map(|v| v.value.clone()).collect()
    }

    pub(super) fn restore(&mut self, values: &[Expr]) {
        for (variable, value) in self.binder.variables.iter_mut().zip(values) {
            variable.value = value.clone();
        }
    }

    /// A register that is a version of the variable.
    pub(super) fn version_of(&mut self, slot: Slot) -> Result<Reg> {
        let register = self.binder.register()?;
        self.name_register(register, slot);
        Ok(register)
    }

    pub(super) fn name_register(&mut self, register: Reg, slot: Slot) {
        let variable = &self.binder.variables[slot];
        if variable.name.is_empty() {
            return;
        }
        let name = match variable.qualified_only {
            true => format!("{}.{}", variable.qualifier, variable.name),
            false => variable.name.clone(),
        };
        self.register_names.insert(register, name.into());
    }

    pub(super) fn find(&self, target: &Target) -> Option<Place> {
        let variables = &self.binder.variables;
        match target.0.as_slice() {
            [name] => {
                let variable = variables.iter().rposition(|v| v.name == *name && !v.qualified_only);
                let record = self.records.iter().rposition(|record| record.name == *name);
                // A record is never also a variable of the same block, so the inner one is meant.
                variable.map(Place::Variable).or(record.map(Place::Record))
            }
            [qualifier, name] => variables
                .iter()
                .rposition(|v| v.qualifier == *qualifier && v.name == *name)
                .map(Place::Variable),
            _ => None,
        }
    }

    pub(super) fn place(&self, target: &Target) -> Result<Place> {
        self.find(target).ok_or_else(|| {
            let name = target.0.join(".");
            Error::new(SqlState::SYNTAX_ERROR, format!("\"{name}\" is not a known variable"))
        })
    }

    /// Gives a variable a value of any type that can be assigned to it.
    pub(super) fn assign(&mut self, slot: Slot, value: Typed) -> Result<()> {
        let Variable { name, data_type, .. } = self.binder.variables[slot].clone();
        if self.rules[slot].constant {
            return Err(Error::new(
                SqlState(*b"22005"),
                format!("variable \"{name}\" is declared CONSTANT"),
            ));
        }
        let value = self.converted(value, &data_type)?;
        self.assign_converted(slot, value)
    }

    fn assign_converted(&mut self, slot: Slot, value: Expr) -> Result<()> {
        let value = match value {
            Expr::Const(_) | Expr::Reg(_) => value,
            value => {
                let out = self.version_of(slot)?;
                self.binder.steps.push(Step::Let { out, value });
                Expr::Reg(out)
            }
        };
        if let Expr::Reg(register) = value
            && usize::from(register.0) >= self.binder.parameters.len()
            && !self.register_names.contains_key(&register)
        {
            self.name_register(register, slot);
        }
        self.set(slot, value);
        self.require_not_null(slot);
        Ok(())
    }

    pub(super) fn require_not_null(&mut self, slot: Slot) {
        let value = self.value(slot).clone();
        let is_never_null = matches!(&value, Expr::Const(value) if *value != Value::Null);
        if !self.rules[slot].not_null || is_never_null {
            return;
        }
        let name = &self.binder.variables[slot].name;
        let message =
            format!("null value cannot be assigned to variable \"{name}\" declared NOT NULL");
        self.binder.steps.push(Step::Require {
            condition: Expr::is_null(value, true),
            error: OnError::new(NULL_NOT_ALLOWED, &message),
        });
    }

    /// PL/pgSQL assigns what an assignment cast converts, and else goes by way of text.
    pub(super) fn converted(&mut self, value: Typed, to: &DataType) -> Result<Expr> {
        let by_text = value.data_type.is_string() || to.is_string();
        let context = match by_text {
            true => CastContext::Explicit,
            false => CastContext::Assignment,
        };
        // An explicit cast cuts what is too long for the variable; an assignment must not.
        let bounded = matches!(to, DataType::Varchar(Some(_)) | DataType::Char(_));
        let context = if bounded { CastContext::Assignment } else { context };
        self.binder.coerce(value, to, context)
    }
}
