//! A connection to either system: statements go in as text, rows come out as text.

use types::{Error, Result, SqlState};

use super::trouble::Trouble;
use super::{mariadb, postgres};
use crate::dialect::Dialect;

pub enum Link {
    Postgres(postgres::Link),
    MariaDb(mariadb::Link),
}

impl Link {
    pub async fn connect(url: &str) -> Result<Link> {
        let scheme = url.split_once("://").map(|(scheme, _)| scheme).unwrap_or_default();
        match scheme {
            "postgresql" | "postgres" => Ok(Link::Postgres(postgres::Link::connect(url).await?)),
            "mysql" | "mariadb" => Ok(Link::MariaDb(mariadb::Link::connect(url).await?)),
            _ => {
                let what = "a database is named by a URL";
                Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, what).with_hint(
                    "As postgresql://user@host:5432/name or mysql://user@host:3306/name.",
                ))
            }
        }
    }

    pub fn dialect(&self) -> Dialect {
        match self {
            Link::Postgres(_) => Dialect::Postgres,
            Link::MariaDb(_) => Dialect::MariaDb,
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Link::Postgres(link) => &link.name,
            Link::MariaDb(link) => &link.name,
        }
    }

    /// Rows that were changed.
    pub async fn run(&mut self, sql: &str) -> Result<u64, Trouble> {
        match self {
            Link::Postgres(link) => link.run(sql).await,
            Link::MariaDb(link) => link.run(sql).await,
        }
    }

    /// The inner error is that of `take`.
    pub async fn each(
        &mut self,
        sql: &str,
        take: impl FnMut(Vec<Option<String>>) -> Result<()>,
    ) -> Result<Result<()>, Trouble> {
        match self {
            Link::Postgres(link) => link.each(sql, take).await,
            Link::MariaDb(link) => link.each(sql, take).await,
        }
    }

    /// Statements of clients, each by itself whatever it holds, in one transaction that `begin`
    /// begins, with `ended`, which may be empty.
    pub async fn transaction(
        &mut self,
        begin: &[String],
        statements: &[String],
        ended: &str,
    ) -> Result<(), Trouble> {
        match self {
            Link::Postgres(link) => link.transaction(begin, statements, ended).await,
            Link::MariaDb(link) => link.transaction(begin, statements, ended).await,
        }
    }
}
