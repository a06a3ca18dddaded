//! `?`, `?|` and `?&`: which of some texts are keys of an object, or strings of an array.
//!
//! *Cost.* Texts asked for may be as many as those that are there. So they are sorted, and what is
//! there is gone through once, each looked up among them.

use std::borrow::Cow;

use types::json::raw::{Kind, Raw};
use types::{Result, Value};

use super::JsonFunction;
use crate::meter::Meter;

pub(super) fn has_keys(
    function: JsonFunction,
    value: Raw<'_>,
    keys: &Value,
    meter: &Meter,
) -> Result<Value> {
    let one = std::slice::from_ref(keys);
    let keys = keys.as_array().unwrap_or(one);
    let mut wanted: Vec<&str> = keys.iter().filter_map(Value::as_text).collect();
    let digits = wanted.len().checked_ilog2().unwrap_or(0) as usize + 1;
    let bytes: usize = wanted.iter().map(|key| key.len()).sum();
    meter.spend((wanted.len() * digits) as u64)?;
    meter.spend_bytes(bytes.saturating_add(value.text().len()).saturating_mul(digits))?;
    wanted.sort_unstable();
    wanted.dedup();
    let wants_all = function == JsonFunction::HasAllKeys;
    let mut left = Missing { found: vec![false; wanted.len()], count: wanted.len(), wanted };
    let mut meet = |text: Cow<'_, str>| left.meet(&text) && (!wants_all || left.count == 0);
    let mut has = wants_all && keys.iter().all(|key| key.as_text().is_none());
    match value.kind() {
        Kind::Object => {
            for (key, _) in value.members() {
                has = has || meet(key.said()?);
            }
        }
        Kind::Array => {
            for element in value.elements().filter(|one| one.kind() == Kind::String) {
                has = has || meet(element.said()?);
            }
        }
        Kind::String => has = has || meet(value.said()?),
        _ => {}
    }
    Ok(Value::Bool(has))
}

/// Texts that are looked for.
struct Missing<'a> {
    /// Ascending, each once.
    wanted: Vec<&'a str>,
    found: Vec<bool>,
    /// Of those that were not found.
    count: usize,
}

impl Missing<'_> {
    /// Whether it is one of them.
    fn meet(&mut self, text: &str) -> bool {
        let Ok(place) = self.wanted.binary_search(&text) else { return false };
        if !self.found[place] {
            self.found[place] = true;
            self.count -= 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use types::json::Jsonb;

    use super::*;

    fn has(function: JsonFunction, json: &str, keys: &[Option<&str>]) -> bool {
        let json = Jsonb::read(json).unwrap();
        let texts = keys.iter().map(|key| key.map_or(Value::Null, Value::text));
        let keys = Value::from(texts.collect::<Vec<_>>());
        has_keys(function, json.raw(), &keys, &Meter::default()).unwrap() == Value::Bool(true)
    }

    /// PostgreSQL 15's answers.
    #[test]
    fn keys_strings_and_a_text_alone_are_met() {
        use JsonFunction::{HasAllKeys as All, HasAnyKey as Any};
        let object = r#"{"a":1,"b":{"c":2}}"#;
        let array = r#"["a","b",1,null]"#;
        for (json, keys, any, all) in [
            (object, &[Some("a"), Some("b")][..], true, true),
            (object, &[Some("b"), Some("c"), Some("b")], true, false),
            (object, &[Some("c")], false, false),
            (object, &[None], false, true),
            (object, &[Some("a"), None], true, true),
            (object, &[], false, true),
            (array, &[Some("b"), Some("a"), Some("a")], true, true),
            (array, &[Some("1")], false, false),
            (array, &[Some("1"), Some("a")], true, false),
            (r#""a""#, &[Some("a")], true, true),
            (r#""a""#, &[Some("a"), Some("b")], true, false),
            ("1", &[Some("1")], false, false),
        ] {
            assert_eq!(has(Any, json, keys), any, "{json} ?| {keys:?}");
            assert_eq!(has(All, json, keys), all, "{json} ?& {keys:?}");
        }
    }

    /// As many texts as there are keys are paid for by their number, not by its square.
    #[test]
    fn many_keys_in_a_large_object_cost_its_length() {
        const COUNT: usize = 100_000;
        let members: Vec<String> = (0..COUNT).map(|n| format!("\"k{n}\":{n}")).collect();
        let json = Jsonb::read(&format!("{{{}}}", members.join(","))).unwrap();
        let keys: Vec<Value> = (0..COUNT).map(|n| Value::text(&format!("k{n}"))).collect();
        let meter = Meter::default();
        let before = meter.left();
        let all = JsonFunction::HasAllKeys;
        let has = has_keys(all, json.raw(), &Value::from(keys), &meter).unwrap();
        assert_eq!(has, Value::Bool(true));
        let spent = before - meter.left();
        assert!(spent < 5_000_000, "{spent} units");
    }
}
