//! System catalogs as the binder of queries asks for them.
//!
//! Calls are given numbers as the binder meets them, the same number for the same call, so that
//! expressions of one text are equal. The plan keeps what its numbers stand for.

use std::cell::RefCell;
use std::sync::Arc;

use sql::bind::system::{System, SystemCall, SystemColumn, SystemRelation, SystemRows};
use sqlparser::ast;
use types::{DataType, Result, SystemType, Value};

use super::cast::{self, Names};
use super::functions;
use super::sets;
use super::signature::{Function, SetFunction, Takes};
use crate::relation;
use crate::world::World;

/// The columns that every system table has beside its own.
const SYSTEM_COLUMNS: [(&str, SystemType); 2] =
    [("tableoid", SystemType::Oid), ("xmin", SystemType::Xid)];

/// What a number of a call stands for.
#[derive(Clone, Debug)]
pub enum Call {
    Value {
        function: &'static Function,
        types: Vec<DataType>,
    },
    /// `as_record`: a row of several columns is one value.
    Rows {
        function: &'static SetFunction,
        types: Vec<DataType>,
        as_record: bool,
    },
    Conversion {
        from: DataType,
        to: DataType,
    },
}

impl PartialEq for Call {
    fn eq(&self, other: &Call) -> bool {
        match (self, other) {
            (Call::Value { function: f, types: t }, Call::Value { function: g, types: u }) => {
                std::ptr::eq(*f, *g) && t == u
            }
            (
                Call::Rows { function: f, types: t, as_record: a },
                Call::Rows { function: g, types: u, as_record: b },
            ) => std::ptr::eq(*f, *g) && t == u && a == b,
            (Call::Conversion { from: a, to: b }, Call::Conversion { from: c, to: d }) => {
                a == c && b == d
            }
            _ => false,
        }
    }
}

pub struct Binding<'a> {
    pub world: &'a World,
    calls: RefCell<Vec<Call>>,
}

impl<'a> Binding<'a> {
    pub fn new(world: &'a World) -> Binding<'a> {
        Binding { world, calls: RefCell::default() }
    }

    pub fn into_calls(self) -> Arc<[Call]> {
        self.calls.into_inner().into()
    }

    fn number(&self, call: Call) -> u16 {
        let mut calls = self.calls.borrow_mut();
        let known = calls.iter().position(|known| *known == call);
        let place = known.unwrap_or(calls.len());
        if known.is_none() {
            calls.push(call);
        }
        // A statement is bound to fewer expressions.
        u16::try_from(place).unwrap_or(u16::MAX)
    }
}

/// What has no type is text.
fn settled(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Unknown => DataType::Text,
        known => known.clone(),
    }
}

/// Types that arguments are converted to.
fn taken(takes: &[Takes], arguments: &[DataType]) -> Vec<DataType> {
    let to = |(place, argument): (usize, &DataType)| {
        let takes = takes.get(place).or(takes.last()).copied();
        takes.and_then(Takes::data_type).unwrap_or_else(|| settled(argument))
    };
    arguments.iter().enumerate().map(to).collect()
}

fn counts_from_0(data_type: &DataType) -> bool {
    matches!(data_type, DataType::System(SystemType::Int2Vector | SystemType::OidVector))
}

impl System for Binding<'_> {
    fn relation(&self, schema: Option<&str>, name: &str) -> Option<SystemRelation> {
        let place = relation::place(schema.unwrap_or("pg_catalog"), name)?;
        let relation = &relation::all()[place];
        let own = relation.columns.iter().map(|column| SystemColumn {
            name: column.name,
            data_type: column.data_type.clone(),
            is_beside: false,
        });
        let beside = SYSTEM_COLUMNS.iter().map(|(name, system)| SystemColumn {
            name,
            data_type: DataType::System(*system),
            is_beside: true,
        });
        Some(SystemRelation {
            number: u16::try_from(place).ok()?,
            schema: relation.schema,
            columns: own.chain(beside).collect(),
            key: relation.column("oid").and_then(|column| u16::try_from(column).ok()),
        })
    }

    fn data_type(&self, name: &ast::DataType) -> Result<DataType> {
        cast::type_named(&self.world.catalog, name)
    }

    fn is_own(&self, name: &str, arguments: &[DataType]) -> bool {
        let first = arguments.first();
        functions::is_of_catalogs(name)
            || first.is_some_and(|first| match name {
                "array_lower" | "array_upper" | "array_position" | "generate_subscripts" => {
                    counts_from_0(first)
                }
                // Elements that are shown as names.
                "array_to_string" => {
                    matches!(first, DataType::Array(element) if cast::is_named(element))
                }
                // The values that it makes are shorter.
                "quote_literal" => true,
                "generate_series" => arguments.iter().any(|t| matches!(t, DataType::Numeric(_))),
                _ => false,
            })
    }

    fn function(&self, name: &str, arguments: &[DataType]) -> Option<SystemCall> {
        let function = functions::find(name, arguments.len())?;
        let mut takes = taken(function.takes, arguments);
        if name == "format" {
            // A truth is written as it is shown, not as a cast spells it.
            let truths = takes.iter_mut().zip(arguments).filter(|(_, t)| **t == DataType::Bool);
            truths.for_each(|(takes, _)| *takes = DataType::Bool);
        }
        let gives = functions::result_type(function, &takes);
        let number = self.number(Call::Value { function, types: takes.clone() });
        Some(SystemCall { number, takes, gives })
    }

    fn row_function(
        &self,
        name: &str,
        arguments: &[DataType],
        as_record: bool,
    ) -> Option<SystemRows> {
        let function = sets::find(name)?;
        let types = match name {
            "generate_series" => vec![DataType::Numeric(None); arguments.len()],
            _ => taken(function.takes, arguments),
        };
        let columns = sets::columns(function, &types);
        let as_record = as_record && columns.len() > 1;
        let number = self.number(Call::Rows { function, types: types.clone(), as_record });
        Some(SystemRows { number, takes: types, columns })
    }

    fn gives_rows(&self, name: &str) -> bool {
        sets::find(name).is_some()
    }

    fn conversion(&self, from: &DataType, to: &DataType) -> u16 {
        self.number(Call::Conversion { from: from.clone(), to: to.clone() })
    }

    fn convert(&self, value: &Value, from: &DataType, to: &DataType) -> Result<Value> {
        Names { world: self.world }.cast(value, from, to)
    }
}
