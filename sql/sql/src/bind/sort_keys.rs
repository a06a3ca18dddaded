//! What compares by a collation: keys of texts, in the place of the texts
//! ([`collated`](super::collated)).

use procedure::{BinaryOp, Expr, Function};
use types::{DataType, Error, Result, SqlState, Value};

use super::binder::{Binder, Typed, fold};
use super::collated::Collated;
use super::operators::comparable;
use super::scope::Scope;
use crate::schema::collations::{Collation, is_collatable};

impl Collated {
    /// # Errors
    /// 42P21.
    pub(super) fn of_all(inputs: &[Typed]) -> Result<Collated> {
        let mut all = Collated::Default;
        let texts = inputs
            .iter()
            .filter(|input| input.collated.named().is_some() || is_collatable(&input.data_type));
        for input in texts {
            all = all.with(&input.collated)?;
        }
        Ok(all)
    }
}

impl Collation {
    /// The key of a text.
    pub(super) fn key_of(&self, text: Expr) -> Expr {
        let locale = self.locale.as_deref().unwrap_or("und");
        let settings = [Value::text(locale), Value::Bool(self.deterministic)].map(Expr::Const);
        let arguments = [text].into_iter().chain(settings).collect();
        fold(Expr::Call { function: Function::SortKey, arguments, result: DataType::Bytea })
    }
}

pub(super) fn text_of_key(key: Expr, collated: Collated) -> Typed {
    let (function, arguments) = (Function::SortedText, [key].into());
    let expr = Expr::Call { function, arguments, result: DataType::Text };
    Typed { collated, ..Typed::new(expr, DataType::Text) }
}

/// # Errors
/// Values of the type cannot be told apart, or not as the rows are that have them.
pub(super) fn distinct_by(value: &Typed) -> Result<()> {
    comparable(&value.data_type)?;
    value.collated.check_equality()
}

impl Scope {
    /// Of what a column's name stands for.
    pub(super) fn collated(&self, expr: &Expr) -> Collated {
        match expr {
            Expr::Column(place) => {
                let found = self.column(*place);
                found.map_or(Collated::Default, |(_, column)| column.collated.clone())
            }
            // What USING has made of two columns.
            Expr::Cast { input, to, .. } if is_collatable(to) => self.collated(input),
            Expr::Coalesce(sides) => sides.iter().fold(Collated::Default, |all, side| {
                all.with(&self.collated(side)).unwrap_or_default()
            }),
            _ => Collated::Default,
        }
    }
}

impl Binder<'_> {
    /// What rows are sorted by, where they are by this.
    pub(super) fn sorted_by(&mut self, typed: Typed) -> Result<Expr> {
        if !typed.data_type.stored().is_string() {
            return Ok(typed.expr);
        }
        if let Collated::Unclear(a, b) = &typed.collated {
            let what = format!(
                "collation mismatch between implicit collations \"{}\" and \"{}\"",
                a.name(),
                b.name()
            );
            return Err(Error::new(SqlState(*b"42P21"), what).with_hint(
                "You can choose the collation by applying the COLLATE clause to one or both \
                 expressions.",
            ));
        }
        Ok(match typed.collated.order(BinaryOp::Less)? {
            Some(collation) => collation.key_of(typed.expr),
            None => typed.expr,
        })
    }

    /// GREATEST and LEAST of texts that are not compared by their bytes.
    pub(super) fn extreme_by_collation(
        &mut self,
        name: &str,
        arguments: &[Typed],
    ) -> Result<Option<Typed>> {
        let collated = Collated::of_all(arguments)?;
        let Some(collation) = collated.order(BinaryOp::Less)? else { return Ok(None) };
        collated.check_equality()?;
        let (inputs, _) = self.unify(arguments.to_vec(), &name.to_ascii_uppercase())?;
        let function = if name == "greatest" { Function::Greatest } else { Function::Least };
        let arguments = inputs.into_iter().map(|text| collation.key_of(text)).collect();
        let extreme = Expr::Call { function, arguments, result: DataType::Bytea };
        Ok(Some(text_of_key(fold(extreme), collated.clone())))
    }
}
