//! Functions that give a changed `jsonb`, and `json_strip_nulls`.
//!
//! What is made of canonical parts in canonical order is canonical: nothing is read again.

use std::borrow::Cow;
use std::cmp::Ordering;

use types::arithmetic::check_made_bytes;
use types::json::Jsonb;
use types::json::parse::compare_keys;
use types::json::raw::{Kind, Raw};
use types::json::write::push_string;
use types::{DataType, Error, Result, SqlState, Value};

use super::{JsonFunction, invalid, place_of, whole};
use crate::functions::arguments::nth;
use crate::meter::Meter;

pub(super) fn call(
    function: JsonFunction,
    arguments: &[Cow<'_, Value>],
    result: &DataType,
    meter: &Meter,
) -> Result<Value> {
    use JsonFunction as F;
    let (first, second) = (nth(arguments, 0), nth(arguments, 1));
    let value = whole(first);
    let path = || Path::of(second.as_array().unwrap_or_default());
    let mut out = String::with_capacity(value.text().len());
    match function {
        F::Concat => concat(value, whole(second), &mut out)?,
        F::Delete => match second {
            Value::Int(place) => delete_element(value, *place, &mut out)?,
            keys => {
                let one = std::slice::from_ref(keys);
                let keys = keys.as_array().unwrap_or(one);
                let keys: Vec<&str> = keys.iter().filter_map(Value::as_text).collect();
                delete_keys(value, &keys, meter, &mut out)?;
            }
        },
        F::DeletePath => {
            if value.kind().is_scalar() {
                return Err(invalid("cannot delete path in scalar"));
            }
            match is_empty(value) {
                // Whatever the path is.
                true => out.push_str(value.text()),
                false => {
                    let mut edit = Edit { path: path()?, change: Change::Delete, meter };
                    edit.walk(value, 0, &mut out)?;
                }
            }
        }
        F::Set | F::Insert => {
            let new = whole(nth(arguments, 2));
            let flag = nth(arguments, 3).as_bool().unwrap_or(function == F::Set);
            if value.kind().is_scalar() {
                return Err(invalid("cannot set path in scalar"));
            }
            let change = match function {
                F::Set => Change::Set { new, creates: flag },
                _ => Change::Insert { new, after: flag },
            };
            match is_empty(value) && matches!(change, Change::Set { creates: false, .. }) {
                true => out.push_str(value.text()),
                false => Edit { path: path()?, change, meter }.walk(value, 0, &mut out)?,
            }
        }
        _ => strip_nulls(value, *result == DataType::Jsonb, &mut out),
    }
    check_made_bytes(out.len())?;
    meter.spend_bytes(out.len())?;
    Raw::of_valid(&out).check_depth()?;
    Ok(match result {
        DataType::Jsonb => Value::Jsonb(Jsonb::of_canonical(out.into())),
        _ => Value::from(out),
    })
}

fn is_empty(value: Raw<'_>) -> bool {
    value.elements().next().is_none() && value.members().next().is_none()
}

/// Writes elements or members with what stands between them.
struct Listing<'o> {
    out: &'o mut String,
    close: char,
    is_first: bool,
}

impl<'o> Listing<'o> {
    fn new(is_object: bool, out: &'o mut String) -> Listing<'o> {
        out.push(if is_object { '{' } else { '[' });
        Listing { out, close: if is_object { '}' } else { ']' }, is_first: true }
    }

    /// The place for the next element.
    fn next(&mut self) -> &mut String {
        if !std::mem::take(&mut self.is_first) {
            self.out.push_str(", ");
        }
        self.out
    }

    fn element(&mut self, element: Raw<'_>) {
        self.next().push_str(element.text());
    }

    /// The place for the value of a key, which is a string of JSON.
    fn key(&mut self, key: &str) -> &mut String {
        let out = self.next();
        out.push_str(key);
        out.push_str(": ");
        out
    }

    fn member(&mut self, (key, value): (Raw<'_>, Raw<'_>)) {
        self.key(key.text()).push_str(value.text());
    }

    fn end(self) {
        self.out.push(self.close);
    }
}

/// Elements of an array; anything else is the only one of its array.
fn as_elements(value: Raw<'_>) -> impl Iterator<Item = Raw<'_>> {
    let alone = (value.kind() != Kind::Array).then_some(value);
    value.elements().chain(alone)
}

fn concat(left: Raw<'_>, right: Raw<'_>, out: &mut String) -> Result<()> {
    if (left.kind(), right.kind()) != (Kind::Object, Kind::Object) {
        let mut list = Listing::new(false, out);
        as_elements(left).chain(as_elements(right)).for_each(|element| list.element(element));
        list.end();
        return Ok(());
    }
    let mut list = Listing::new(true, out);
    let (mut left, mut right) = (left.members().peekable(), right.members().peekable());
    loop {
        let order = match (left.peek(), right.peek()) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((a, _)), Some((b, _))) => compare_keys(&a.said()?, &b.said()?),
        };
        // Of two of a key the right one is kept.
        if order.is_ge() {
            right.next().into_iter().for_each(|member| list.member(member));
            if order.is_eq() {
                left.next();
            }
        } else {
            left.next().into_iter().for_each(|member| list.member(member));
        }
    }
    list.end();
    Ok(())
}

fn delete_keys(value: Raw<'_>, keys: &[&str], meter: &Meter, out: &mut String) -> Result<()> {
    if value.kind().is_scalar() {
        return Err(invalid("cannot delete from scalar"));
    }
    let mut list = Listing::new(value.kind() == Kind::Object, out);
    for member in value.members() {
        meter.spend(keys.len() as u64)?;
        if !keys.contains(&&*member.0.said()?) {
            list.member(member);
        }
    }
    for element in value.elements() {
        meter.spend(keys.len() as u64)?;
        if element.kind() != Kind::String || !keys.contains(&&*element.said()?) {
            list.element(element);
        }
    }
    list.end();
    Ok(())
}

fn delete_element(value: Raw<'_>, place: i64, out: &mut String) -> Result<()> {
    match value.kind() {
        Kind::Array => {}
        Kind::Object => return Err(invalid("cannot delete from object using integer index")),
        _ => return Err(invalid("cannot delete from scalar")),
    }
    let count = value.elements().count() as i64;
    let place = if place < 0 { count + place } else { place };
    let mut list = Listing::new(false, out);
    let kept = (0..).zip(value.elements()).filter(|(at, _)| *at != place);
    kept.for_each(|(_, element)| list.element(element));
    list.end();
    Ok(())
}

fn strip_nulls(value: Raw<'_>, is_jsonb: bool, out: &mut String) {
    let (comma, colon) = if is_jsonb { (", ", ": ") } else { (",", ":") };
    let mut separate = separator(comma);
    match value.kind() {
        Kind::Object => {
            out.push('{');
            for (key, member) in value.members().filter(|member| member.1.kind() != Kind::Null) {
                separate(out);
                push_scalar(key, is_jsonb, out);
                out.push_str(colon);
                strip_nulls(member, is_jsonb, out);
            }
            out.push('}');
        }
        Kind::Array => {
            out.push('[');
            for element in value.elements() {
                separate(out);
                strip_nulls(element, is_jsonb, out);
            }
            out.push(']');
        }
        _ => push_scalar(value, is_jsonb, out),
    }
}

/// Strings of a `json` are written anew.
fn push_scalar(value: Raw<'_>, is_jsonb: bool, out: &mut String) {
    match value.said() {
        Ok(said) if !is_jsonb && value.kind() == Kind::String => push_string(&said, out),
        _ => out.push_str(value.text()),
    }
}

fn separator(comma: &'static str) -> impl FnMut(&mut String) {
    let mut is_first = true;
    move |out| {
        if !std::mem::take(&mut is_first) {
            out.push_str(comma);
        }
    }
}

struct Path<'a>(Vec<&'a str>);

impl<'a> Path<'a> {
    fn of(names: &'a [Value]) -> Result<Path<'a>> {
        let name = |(at, name): (usize, &'a Value)| {
            let message = || format!("path element at position {} is null", at + 1);
            name.as_text().ok_or_else(|| Error::new(SqlState::NULL_VALUE_NOT_ALLOWED, message()))
        };
        names.iter().enumerate().map(name).collect::<Result<_>>().map(Path)
    }

    /// The place that a step names in an array.
    fn place(&self, step: usize) -> Result<i64> {
        let name = self.0[step];
        place_of(name).ok_or_else(|| {
            let message =
                format!("path element at position {} is not an integer: \"{name}\"", step + 1);
            Error::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
        })
    }
}

enum Change<'a> {
    Delete,
    Set { new: Raw<'a>, creates: bool },
    Insert { new: Raw<'a>, after: bool },
}

/// A change at the end of a path.
struct Edit<'a> {
    path: Path<'a>,
    change: Change<'a>,
    meter: &'a Meter,
}

impl Edit<'_> {
    fn walk(&mut self, value: Raw<'_>, step: usize, out: &mut String) -> Result<()> {
        self.meter.spend_bytes(value.text().len())?;
        match value.kind() {
            _ if step >= self.path.0.len() => out.push_str(value.text()),
            Kind::Object => self.walk_object(value, step, out)?,
            Kind::Array => self.walk_array(value, step, out)?,
            _ => out.push_str(value.text()),
        }
        Ok(())
    }

    fn is_last(&self, step: usize) -> bool {
        step + 1 == self.path.0.len()
    }

    fn walk_object(&mut self, value: Raw<'_>, step: usize, out: &mut String) -> Result<()> {
        let name = self.path.0[step];
        let created = match &self.change {
            Change::Set { new, creates: true } | Change::Insert { new, .. }
                if self.is_last(step) =>
            {
                Some(*new)
            }
            _ => None,
        };
        let mut list = Listing::new(true, out);
        // Whether the key has had its place.
        let mut is_past = false;
        for (key, member) in value.members() {
            let order = if is_past { Ordering::Less } else { compare_keys(name, &key.said()?) };
            if let (Ordering::Less, false, Some(new)) = (order, is_past, created) {
                list.key(&quoted(name)).push_str(new.text());
            }
            is_past |= order.is_le();
            match (&self.change, order) {
                (Change::Delete, Ordering::Equal) if self.is_last(step) => {}
                (Change::Set { new, .. }, Ordering::Equal) if self.is_last(step) => {
                    list.key(key.text()).push_str(new.text());
                }
                (Change::Insert { .. }, Ordering::Equal) if self.is_last(step) => {
                    return Err(invalid("cannot replace existing key")
                        .with_hint("Try using the function jsonb_set to replace key value."));
                }
                (_, Ordering::Equal) => {
                    let out = list.key(key.text());
                    self.walk(member, step + 1, out)?;
                }
                _ => list.member((key, member)),
            }
        }
        if let (false, Some(new)) = (is_past, created) {
            list.key(&quoted(name)).push_str(new.text());
        }
        list.end();
        Ok(())
    }

    fn walk_array(&mut self, value: Raw<'_>, step: usize, out: &mut String) -> Result<()> {
        let count = value.elements().count() as i64;
        let named = self.path.place(step)?;
        let place = if named < 0 { count + named } else { named };
        let is_last = self.is_last(step);
        let mut list = Listing::new(false, out);
        let created = match &self.change {
            Change::Set { new, creates: true } | Change::Insert { new, .. } if is_last => {
                Some(*new)
            }
            _ => None,
        };
        // Beyond either end is before the first or after the last.
        let in_front = if place < 0 { created } else { None };
        in_front.into_iter().for_each(|new| list.element(new));
        for (at, element) in (0..).zip(value.elements()) {
            match &self.change {
                _ if at != place => list.element(element),
                Change::Delete if is_last => {}
                Change::Set { new, .. } if is_last => list.element(*new),
                Change::Insert { new, after } if is_last => {
                    let (one, other) = if *after { (element, *new) } else { (*new, element) };
                    list.element(one);
                    list.element(other);
                }
                _ => self.walk(element, step + 1, list.next())?,
            }
        }
        let behind = if place >= count { created } else { None };
        behind.into_iter().for_each(|new| list.element(new));
        list.end();
        Ok(())
    }
}

fn quoted(key: &str) -> String {
    let mut out = String::with_capacity(key.len() + 2);
    push_string(key, &mut out);
    out
}
