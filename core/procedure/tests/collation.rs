//! Orders of languages: which they are, and that they stay what they are.

use procedure::collation::check_locale;
use procedure::{Expr, Function};
use sha2::{Digest, Sha256};
use types::{DataType, SqlState, Value};

fn call(function: Function, arguments: Vec<Value>, result: DataType) -> Value {
    let arguments = arguments.into_iter().map(Expr::Const).collect();
    Expr::Call { function, arguments, result }.eval(&[], &[], 0).unwrap()
}

fn key(text: &str, locale: &str, is_deterministic: bool) -> Value {
    let arguments = vec![Value::text(text), Value::text(locale), Value::Bool(is_deterministic)];
    call(Function::SortKey, arguments, DataType::Bytea)
}

fn sorted<'t>(locale: &str, texts: &[&'t str]) -> Vec<&'t str> {
    let mut texts = texts.to_vec();
    texts.sort_by_key(|text| key(text, locale, true).as_bytes().unwrap().to_vec());
    texts
}

#[test]
fn each_language_has_its_order() {
    let texts = ["zebra", "Ärlig", "arg", "öl", "Ost", "åka", "ZZ"];
    assert_eq!(sorted("sv", &texts), ["arg", "Ost", "zebra", "ZZ", "åka", "Ärlig", "öl"]);
    assert_eq!(sorted("de", &texts), ["åka", "arg", "Ärlig", "öl", "Ost", "zebra", "ZZ"]);
    assert_eq!(sorted("en-u-kn-true", &["a10", "a9", "a", "A9"]), ["a", "a9", "A9", "a10"]);
    let without_case = |text: &str| key(text, "und-u-ks-level2", false);
    assert_eq!(without_case("Andrew"), without_case("ANDREW"));
    assert_ne!(without_case("Andrew"), without_case("Andréw"));
}

#[test]
fn a_key_says_what_it_was_made_of() {
    for text in ["", "a", "åäö", "a\u{1}b", "\u{10ffff}"] {
        let made = call(Function::SortedText, vec![key(text, "sv", true)], DataType::Text);
        assert_eq!(made, Value::text(text));
    }
}

#[test]
fn what_names_no_locale_is_refused() {
    for name in ["", "sv_", "und-u-ks-level9", "not a locale"] {
        let error = check_locale(name).unwrap_err();
        assert_eq!(error.code(), SqlState::INVALID_PARAMETER_VALUE, "{name}");
    }
}

/// What is recorded may have compared by keys: they stay as they are to the byte.
#[test]
fn keys_do_not_change() {
    let mut digest = Sha256::new();
    for locale in
        ["und", "sv", "de", "de-u-co-phonebk", "en", "fr-CA", "ja", "zh", "zh-Hant", "ko", "da"]
    {
        for letter in (0..0x3_0000).step_by(7).filter_map(char::from_u32) {
            let key = key(&format!("a{letter}b"), locale, false);
            let key = key.as_bytes().unwrap();
            digest.update((key.len() as u64).to_le_bytes());
            digest.update(key);
        }
    }
    let shown: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(shown, "cbc91ee14dc5b585e7ed7f52d47dd76f946d2d784994575ec42b2c128f7ee958");
}
