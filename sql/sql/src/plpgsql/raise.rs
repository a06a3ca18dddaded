//! RAISE and ASSERT.

use procedure::condition::sqlstate_of_condition;
use procedure::{Expr, NoticeLevel, OnError, Step};
use types::{DataType, Error, Result, SqlState, Value};

use super::lower::Lowering;
use super::syntax::{self, Raise, RaiseOption};
use crate::bind::Typed;

const WARNING: SqlState = SqlState(*b"01000");
const ASSERT_FAILURE: SqlState = SqlState(*b"P0004");

impl Lowering<'_> {
    pub(super) fn raise(&mut self, raise: &Raise) -> Result<()> {
        let error = self.raised_error(raise)?;
        match raise.level {
            None => {
                self.binder.steps.push(Step::Raise { error });
                self.reachable = false;
            }
            Some(level) => self.binder.steps.push(Step::Notice { level, notice: error }),
        }
        Ok(())
    }

    fn raised_error(&mut self, raise: &Raise) -> Result<OnError> {
        let (code, name) = match &raise.condition {
            Some((code, name)) => (*code, name.as_str()),
            None => match raise.level {
                None => (SqlState::RAISE_EXCEPTION, ""),
                Some(NoticeLevel::Warning) => (WARNING, ""),
                Some(_) => (SqlState::SUCCESSFUL_COMPLETION, ""),
            },
        };
        let format = raise.format.as_deref().unwrap_or(name);
        let mut arguments = Vec::new();
        for argument in &raise.arguments {
            arguments.push(self.shown(argument)?);
        }
        // Without arguments the message stands as it is.
        let message = match arguments.is_empty() {
            true => format.replace("%%", "%"),
            false => format.to_string(),
        };
        let mut error = OnError::from(Error::new(code, message));
        error.arguments = arguments.into();
        for (option, value) in &raise.options {
            let value = self.shown(value)?;
            match option {
                RaiseOption::Message => set_message(&mut error, value),
                RaiseOption::Detail => match constant_text(&value) {
                    Some(text) => error.error = error.error.with_detail(text),
                    None => error.detail = Some(value),
                },
                RaiseOption::Hint => match constant_text(&value) {
                    Some(text) => error.error = error.error.with_hint(text),
                    None => error.hint = Some(value),
                },
                RaiseOption::ErrorCode => set_code(&mut error, value)?,
                RaiseOption::Other => {}
            }
        }
        if error.error.message().is_empty() && error.arguments.is_empty() {
            let code = Value::from(error.error.code().as_str());
            set_message(&mut error, Expr::Const(code));
        }
        Ok(error)
    }

    /// A value that an error's text shows: whatever it is, as text.
    fn shown(&mut self, value: &syntax::Expr) -> Result<Expr> {
        let value = self.binder.bare_expression(value)?;
        let value = match value.data_type {
            DataType::Unknown => Typed::new(value.expr, DataType::Text),
            _ => value,
        };
        self.converted(value, &DataType::Text)
    }

    pub(super) fn assert(
        &mut self,
        condition: &syntax::Expr,
        message: Option<&syntax::Expr>,
    ) -> Result<()> {
        let condition = self.condition(condition, "ASSERT")?;
        let mut error = OnError::new(ASSERT_FAILURE, "assertion failed");
        if let Some(message) = message {
            let message = self.shown(message)?;
            set_message(&mut error, message);
        }
        self.binder.steps.push(Step::Require { condition, error });
        Ok(())
    }
}

fn constant_text(value: &Expr) -> Option<&str> {
    match value {
        Expr::Const(Value::Text(text)) => Some(text),
        _ => None,
    }
}

/// The same error with another code or message.
fn with(error: &Error, code: SqlState, message: &str) -> Error {
    let fields = error.fields();
    let mut changed = Error::new(code, message);
    if let Some(detail) = &fields.detail {
        changed = changed.with_detail(detail);
    }
    if let Some(hint) = &fields.hint {
        changed = changed.with_hint(hint);
    }
    changed
}

fn set_message(error: &mut OnError, message: Expr) {
    let code = error.error.code();
    match constant_text(&message) {
        Some(text) => {
            error.error = with(&error.error, code, text);
            error.arguments = Box::default();
        }
        None => {
            error.error = with(&error.error, code, "%");
            error.arguments = [message].into();
        }
    }
}

/// `ERRCODE = …`: a code or a condition's name. A constant one is checked now.
fn set_code(error: &mut OnError, value: Expr) -> Result<()> {
    let Some(text) = constant_text(&value) else {
        error.code = Some(value);
        return Ok(());
    };
    let code = SqlState::parse(text).or_else(|| sqlstate_of_condition(text));
    let code = code.ok_or_else(|| {
        Error::new(
            SqlState::UNDEFINED_OBJECT,
            format!("unrecognized exception condition \"{text}\""),
        )
    })?;
    error.error = with(&error.error, code, error.error.message());
    Ok(())
}
