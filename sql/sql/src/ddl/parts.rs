//! How many parts a table may have beside its columns.
//!
//! A table's constraints and indexes are gone over whenever it is described, by each that is added,
//! in a block, and by each start. A statement has room for tens of thousands of them.

use types::{Error, Result, SqlState};

pub(super) const COLUMNS_MAX: usize = 1600;

/// CHECK constraints, foreign keys and indexes: of each as many as columns.
const PARTS_MAX: usize = COLUMNS_MAX;

/// Whether a table, or a domain, may have another one beside so many.
pub(super) fn check_parts(parts: usize, what: &str) -> Result<()> {
    if parts < PARTS_MAX {
        return Ok(());
    }
    let what = format!("there can be at most {PARTS_MAX} {what}");
    Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Catalog, Statement, bind, parse};

    fn apply(catalog: &Catalog, text: &str) -> Result<Catalog> {
        let parsed = parse(text).unwrap().remove(0);
        let Statement::Ddl(ddl) = bind(catalog, &parsed, &[]).unwrap().statement else {
            panic!("{text} is no schema change");
        };
        catalog.apply(&ddl).map(|(catalog, ..)| catalog)
    }

    fn is_refused(catalog: &Catalog, text: &str) -> bool {
        let code = apply(catalog, text).map(drop).map_err(|error| error.code());
        code == Err(SqlState::PROGRAM_LIMIT_EXCEEDED)
    }

    fn list(count: usize, part: &str) -> String {
        (0..count).map(|n| format!(", {}", part.replace('#', &n.to_string()))).collect()
    }

    #[test]
    fn a_table_has_so_many_constraints_and_no_more() {
        let genesis = Catalog::genesis();
        for (table, part) in [
            ("checked", "CHECK (id <> #)"),
            ("named", "CONSTRAINT c# CHECK (id <> #)"),
            ("referring", "FOREIGN KEY (id) REFERENCES referring"),
        ] {
            let create = |count: usize| {
                format!("CREATE TABLE {table} (id int PRIMARY KEY{})", list(count, part))
            };
            assert!(is_refused(&genesis, &create(20 * PARTS_MAX)), "{table}");
            let catalog = apply(&genesis, &create(PARTS_MAX)).unwrap();
            let another = part.replace('#', "20000");
            assert!(is_refused(&catalog, &format!("ALTER TABLE {table} ADD {another}")), "{table}");
        }
    }

    #[test]
    fn constraints_get_the_first_name_that_is_free() {
        let create = format!("CREATE TABLE t (id int PRIMARY KEY{})", list(20, "CHECK (id <> #)"));
        let mut catalog = apply(&Catalog::genesis(), &create).unwrap();
        for text in [
            "ALTER TABLE t DROP CONSTRAINT t_id_check7",
            "ALTER TABLE t ADD CHECK (id > 0)",
            "ALTER TABLE t ADD CHECK (id > 1)",
        ] {
            catalog = apply(&catalog, text).unwrap();
        }
        let table = catalog.table("t").unwrap();
        let names: Vec<&str> = table.checks.iter().map(|check| check.name.as_str()).collect();
        assert_eq!(names[0], "t_id_check");
        assert_eq!(names[18], "t_id_check19");
        assert_eq!(names[19..], ["t_id_check7", "t_id_check20"]);
    }

    #[test]
    fn a_domain_has_so_many_checks_and_no_more() {
        let domain = |count: usize| {
            let checks = list(count, "CHECK (VALUE <> #)").replace(',', "");
            format!("CREATE DOMAIN d AS int{checks}")
        };
        assert!(is_refused(&Catalog::genesis(), &domain(PARTS_MAX + 1)));
        apply(&Catalog::genesis(), &domain(PARTS_MAX)).unwrap();
    }

    /// One that is dropped makes room.
    #[test]
    fn a_table_has_so_many_indexes_and_no_more() {
        let create = "CREATE TABLE t (id int PRIMARY KEY, v int)";
        let mut catalog = apply(&Catalog::genesis(), create).unwrap();
        for n in 0..PARTS_MAX {
            catalog = apply(&catalog, &format!("CREATE INDEX i{n} ON t (v)")).unwrap();
        }
        assert!(is_refused(&catalog, "CREATE INDEX another ON t (v)"));
        catalog = apply(&catalog, "DROP INDEX i5").unwrap();
        apply(&catalog, "CREATE INDEX another ON t (v)").unwrap();
    }
}
