//! Collations: the orders that texts are compared in, by name.
//!
//! | Collation | Texts are compared |
//! |---|---|
//! | `default`, `C`, `POSIX`, `C.utf8`, `ucs_basic` | by their bytes |
//! | `sv-x-icu`, and each other language of ICU's | by [`collation`](procedure::collation) |
//! | `sv_SE.utf8`, `sv_SE`: names of an operating system's | by the same, of that language |
//! | what CREATE COLLATION names | as it says |
//!
//! Nothing is stored in any order but that of bytes, keys of indexes least of all: a collation is
//! asked where an expression compares, and its keys are values of the moment. So no index has to be
//! rebuilt when a new version of the crate orders some letter otherwise.
//!
//! *Departures.* A nondeterministic collation, which takes different texts for the same, is that of
//! `=`, `<` and ORDER BY; where texts would have to be equal in a key, in groups or in lists it is
//! refused. Arrays and rows are compared by bytes. There is one order for each name that an
//! operating system would have.

use std::sync::{Arc, LazyLock};

use types::{DataType, Error, Result, SqlState};

use crate::syntax::names::{bare, quoted_if_needed, split};

/// The first number of what users make, among PostgreSQL's.
pub const FIRST_USER: u32 = 16_384;

/// A collation as the catalog has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Collation {
    /// Its number.
    pub oid: u32,
    /// Its key; of the system's its name.
    pub name: String,
    pub provider: Provider,
    /// The locale of ICU by which texts are compared, not by their bytes.
    pub locale: Option<Arc<str>>,
    /// Texts that are equal have the same bytes.
    pub deterministic: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Provider {
    Default,
    Libc,
    Icu,
}

impl Collation {
    pub fn is_system(&self) -> bool {
        self.oid < FIRST_USER
    }

    /// As SQL names it.
    pub fn shown(&self) -> String {
        match split(&self.name) {
            _ if self.is_system() => format!("\"{}\"", self.name),
            (_, name) if name == self.name => quoted_if_needed(name),
            (schema, name) => format!("{}.{}", quoted_if_needed(schema), quoted_if_needed(name)),
        }
    }

    /// Its own name, without the schema's.
    pub fn name(&self) -> &str {
        if self.is_system() { &self.name } else { bare(&self.name) }
    }
}

/// Of ICU 72, as PostgreSQL 15 lists them.
const LOCALES: &str = include_str!("icu_locales.txt");
/// PostgreSQL's number of the first of ICU's.
const FIRST_ICU: u32 = 12_342;

/// Those of the system, by number.
static SYSTEM: LazyLock<Vec<Arc<Collation>>> = LazyLock::new(|| {
    let of_bytes = |oid: u32, name: &str, provider: Provider| Collation {
        oid,
        name: name.to_owned(),
        provider,
        locale: None,
        deterministic: true,
    };
    let mut all = vec![
        of_bytes(100, "default", Provider::Default),
        of_bytes(950, "C", Provider::Libc),
        of_bytes(951, "POSIX", Provider::Libc),
        of_bytes(12_340, "ucs_basic", Provider::Libc),
        of_bytes(12_341, "C.utf8", Provider::Libc),
    ];
    let locales = || LOCALES.split_whitespace();
    for (oid, locale) in (FIRST_ICU..).zip(locales()) {
        all.push(Collation {
            oid,
            name: format!("{locale}-x-icu"),
            provider: Provider::Icu,
            locale: Some(locale.into()),
            deterministic: true,
        });
    }
    let first = FIRST_ICU + all.len() as u32;
    for (oid, locale) in (first..).zip(locales().filter(|locale| is_country(locale))) {
        all.push(Collation {
            oid,
            name: format!("{}.utf8", locale.replace('-', "_")),
            provider: Provider::Libc,
            locale: Some(locale.into()),
            deterministic: true,
        });
    }
    all.into_iter().map(Arc::new).collect()
});

/// A language and its country, as operating systems name locales.
fn is_country(locale: &str) -> bool {
    let country = locale.split_once('-').map(|(_, country)| country);
    country.is_some_and(|it| it.len() == 2 && it.bytes().all(|b| b.is_ascii_uppercase()))
}

/// The collation that a name of an operating system's locale stands for; `None`: there is none.
pub(crate) fn of_libc(locale: &str) -> Option<Arc<Collation>> {
    let name = match locale.split_once('.') {
        None => locale,
        Some((name, encoding)) if is_utf8(encoding) => name,
        Some(_) => return None,
    };
    match name {
        "C" | "POSIX" => system(name),
        name => system(&format!("{name}.utf8")),
    }
}

fn is_utf8(encoding: &str) -> bool {
    encoding.eq_ignore_ascii_case("utf8") || encoding.eq_ignore_ascii_case("utf-8")
}

pub(crate) fn of_system() -> &'static [Arc<Collation>] {
    &SYSTEM
}

pub(crate) fn system(name: &str) -> Option<Arc<Collation>> {
    SYSTEM.iter().find(|collation| collation.name == name).map(Arc::clone)
}

/// `collation "x" for encoding "UTF8" does not exist`.
pub(crate) fn no_collation(name: &str) -> Error {
    let what = format!("collation \"{name}\" for encoding \"UTF8\" does not exist");
    Error::new(SqlState::UNDEFINED_OBJECT, what)
}

/// # Errors
/// 42804: values of the type have no collation.
pub(crate) fn check_collatable(data_type: &DataType) -> Result<()> {
    match is_collatable(data_type) {
        true => Ok(()),
        false => {
            let what = format!("collations are not supported by type {data_type}");
            Err(Error::new(SqlState::DATATYPE_MISMATCH, what))
        }
    }
}

/// # Errors
/// 0A000: keys are compared by their bytes.
pub(crate) fn check_key(collation: &Collation) -> Result<()> {
    match collation.deterministic {
        true => Ok(()),
        false => Err(Error::unsupported("a key under a nondeterministic collation").with_hint(
            "Make a unique index over an expression such as lower(column) COLLATE \"C\", which is \
             compared by its bytes.",
        )),
    }
}

pub(crate) fn is_collatable(data_type: &DataType) -> bool {
    match data_type {
        DataType::Array(element) => is_collatable(element),
        other => other.is_string(),
    }
}

#[cfg(test)]
mod tests {
    use sqlparser::ast;

    use super::*;
    use crate::schema::catalog::Catalog;

    fn named(name: &str) -> Result<Arc<Collation>> {
        let parts = name.split('/').map(|part| ast::Ident::with_quote('"', part));
        Catalog::genesis().collation(&ast::ObjectName::from(parts.collect::<Vec<_>>()))
    }

    #[test]
    fn names_of_the_system_are_known() {
        for (name, oid, locale) in [
            ("default", 100, None),
            ("C", 950, None),
            ("pg_catalog/POSIX", 951, None),
            ("und-x-icu", 12_342, Some("und")),
            ("zu-ZA-x-icu", 13_147, Some("zu-ZA")),
        ] {
            let found = named(name).unwrap();
            assert_eq!((found.oid, found.locale.as_deref()), (oid, locale), "{name}");
        }
        assert_eq!(named("en_US").unwrap(), named("en_US.utf8").unwrap());
        assert_eq!(of_libc("sv_SE.UTF-8").unwrap().locale.as_deref(), Some("sv-SE"));
        for name in ["nosuch", "en_US.latin1", "EN-x-icu", "public/sv-x-icu", "x/y/C"] {
            assert_eq!(named(name).unwrap_err().code(), SqlState::UNDEFINED_OBJECT, "{name}");
        }
        let numbers: Vec<u32> = SYSTEM.iter().map(|collation| collation.oid).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b) && numbers.last() < Some(&FIRST_USER));
    }

    #[test]
    fn every_locale_has_weights() {
        for collation in SYSTEM.iter() {
            if let Some(locale) = &collation.locale {
                procedure::collation::check_locale(locale).unwrap();
            }
        }
    }
}
