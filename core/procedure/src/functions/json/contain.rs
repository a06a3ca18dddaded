//! `@>`: whether one `jsonb` is found within another.
//!
//! Each member of an object is in the other object, under its key; each element of an array is some
//! element of the other array, wherever. On top, a scalar is an element of an array.

use types::Result;
use types::json::Jsonb;
use types::json::raw::{Kind, Raw};

use crate::meter::Meter;

pub(super) fn contains(value: Raw<'_>, wanted: Raw<'_>, meter: &Meter) -> Result<bool> {
    let is_in_array = value.kind() == Kind::Array && wanted.kind().is_scalar();
    match is_in_array {
        true => has_element(value, wanted, meter),
        false => contains_inside(value, wanted, meter),
    }
}

/// Below the top, kinds are the same.
fn contains_inside(value: Raw<'_>, wanted: Raw<'_>, meter: &Meter) -> Result<bool> {
    meter.spend_bytes(value.text().len() + wanted.text().len())?;
    if value.kind() != wanted.kind() {
        return Ok(false);
    }
    match value.kind() {
        Kind::Object => has_members(value, wanted, meter),
        Kind::Array => {
            for element in wanted.elements() {
                if !has_element(value, element, meter)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        _ => Ok(same_scalar(value, wanted)),
    }
}

/// Both are in the order of their keys.
fn has_members(value: Raw<'_>, wanted: Raw<'_>, meter: &Meter) -> Result<bool> {
    let mut members = value.members();
    'wanted: for (key, wanted) in wanted.members() {
        for (name, member) in members.by_ref() {
            if name == key {
                match contains_inside(member, wanted, meter)? {
                    true => continue 'wanted,
                    false => return Ok(false),
                }
            }
        }
        return Ok(false);
    }
    Ok(true)
}

fn has_element(array: Raw<'_>, wanted: Raw<'_>, meter: &Meter) -> Result<bool> {
    meter.spend_bytes(array.text().len())?;
    for element in array.elements() {
        let is_it = match wanted.kind().is_scalar() {
            true => element.kind() == wanted.kind() && same_scalar(element, wanted),
            false => contains_inside(element, wanted, meter)?,
        };
        if is_it {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Of one kind, in canonical form.
fn same_scalar(a: Raw<'_>, b: Raw<'_>) -> bool {
    let number = |raw: Raw<'_>| Jsonb::stored(raw.text().into());
    a == b || (a.kind() == Kind::Number && number(a) == number(b))
}
