//! Types that only PostgreSQL's system catalogs use.
//!
//! Drivers choose decoders by these numbers, so a catalog's answer must carry them. A number that
//! names an object (`oid`, `regclass`, …) is a [`Value::Int`](crate::Value::Int), the others that
//! are not text are what their base type is. On its way to a client, what is shown by name
//! (`regclass`, …) is an array of the number and the name: its binary form has the one, its text
//! the other. No table of a user's has a column of these types.

/// One of PostgreSQL's own types.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SystemType {
    /// `"char"`: one byte.
    Char,
    Name,
    Oid,
    Xid,
    /// Counted from 0, and written without braces.
    Int2Vector,
    OidVector,
    Regproc,
    Regprocedure,
    Regoper,
    Regoperator,
    Regclass,
    Regtype,
    Regnamespace,
    Regrole,
    NodeTree,
    AclItem,
    AnyArray,
    PgLsn,
    Inet,
    Record,
}

/// Type, name, OID, OID of the array (0: none), bytes.
static ALL: [(SystemType, &str, u32, u32, i16); 20] = [
    (SystemType::Char, "\"char\"", 18, 1002, 1),
    (SystemType::Name, "name", 19, 1003, 64),
    (SystemType::Oid, "oid", 26, 1028, 4),
    (SystemType::Xid, "xid", 28, 1011, 4),
    (SystemType::Int2Vector, "int2vector", 22, 1006, -1),
    (SystemType::OidVector, "oidvector", 30, 1013, -1),
    (SystemType::Regproc, "regproc", 24, 1008, 4),
    (SystemType::Regprocedure, "regprocedure", 2202, 2207, 4),
    (SystemType::Regoper, "regoper", 2203, 2208, 4),
    (SystemType::Regoperator, "regoperator", 2204, 2209, 4),
    (SystemType::Regclass, "regclass", 2205, 2210, 4),
    (SystemType::Regtype, "regtype", 2206, 2211, 4),
    (SystemType::Regnamespace, "regnamespace", 4089, 4090, 4),
    (SystemType::Regrole, "regrole", 4096, 4097, 4),
    (SystemType::NodeTree, "pg_node_tree", 194, 0, -1),
    (SystemType::AclItem, "aclitem", 1033, 1034, 12),
    (SystemType::AnyArray, "anyarray", 2277, 0, -1),
    (SystemType::PgLsn, "pg_lsn", 3220, 3221, 8),
    (SystemType::Inet, "inet", 869, 1041, -1),
    (SystemType::Record, "record", 2249, 2287, -1),
];

impl SystemType {
    fn facts(self) -> &'static (SystemType, &'static str, u32, u32, i16) {
        &ALL[ALL.iter().position(|facts| facts.0 == self).unwrap_or(0)]
    }

    pub fn name(self) -> &'static str {
        self.facts().1
    }

    pub fn oid(self) -> u32 {
        self.facts().2
    }

    pub fn array_oid(self) -> u32 {
        self.facts().3
    }

    pub fn type_len(self) -> i16 {
        self.facts().4
    }

    pub fn from_oid(oid: u32) -> Option<SystemType> {
        ALL.iter().find(|facts| facts.2 == oid).map(|facts| facts.0)
    }

    pub fn from_name(name: &str) -> Option<SystemType> {
        match name {
            // Unquoted it is `character`, but after `pg_catalog.` it is this one.
            "pg_catalog.char" => Some(SystemType::Char),
            _ => ALL.iter().find(|facts| facts.1 == name).map(|facts| facts.0),
        }
    }

    /// Values are numbers of objects, and text that names one.
    pub fn is_object(self) -> bool {
        use SystemType::*;
        matches!(
            self,
            Regproc
                | Regprocedure
                | Regoper
                | Regoperator
                | Regclass
                | Regtype
                | Regnamespace
                | Regrole
        )
    }

    /// Whether a client may declare a parameter of it.
    pub fn is_parameter(self) -> bool {
        use SystemType::*;
        self.is_object() || matches!(self, Char | Name | Oid | Xid | Int2Vector | OidVector)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_one_line() {
        for (place, facts) in ALL.iter().enumerate() {
            assert!(std::ptr::eq(facts.0.facts(), facts), "{}", facts.1);
            assert_eq!(SystemType::from_oid(facts.2), Some(facts.0));
            assert!(ALL[..place].iter().all(|other| other.1 != facts.1));
        }
    }
}
