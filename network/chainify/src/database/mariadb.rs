//! The connection to MariaDB.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, Row, Value};
use types::{Error, Result, SqlState};

use super::trouble::{Trouble, without_password};
use crate::dialect::mariadb::{NAMES, SESSION};
use crate::schema::PREFIX;

pub struct Link {
    conn: Conn,
    pub(super) name: String,
}

impl Link {
    pub(super) async fn connect(url: &str) -> Result<Link> {
        let name = without_password(url);
        let refused = |detail: String| {
            Error::new(
                SqlState::TRANSACTION_RESOLUTION_UNKNOWN,
                format!("cannot connect to {name}"),
            )
            .with_detail(detail)
            .with_hint("Is it running, and are user, password and database right?")
        };
        let url = url.replacen("mariadb://", "mysql://", 1);
        let opts = Opts::from_url(&url).map_err(|error| refused(error.to_string()))?;
        let mut conn = Conn::new(opts).await.map_err(|error| refused(error.to_string()))?;
        for setting in [NAMES, SESSION] {
            conn.query_drop(setting).await.map_err(|error| refused(error.to_string()))?;
        }
        let version: Option<String> = conn
            .query_first("SELECT VERSION()")
            .await
            .map_err(|error| refused(error.to_string()))?;
        let version = version.unwrap_or_default();
        let mut numbers = version.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
        let number = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        if !version.contains("MariaDB") || number < (10, 7) {
            let what = format!("{name} is {version}, and MariaDB 10.7 or later is needed");
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what));
        }
        Ok(Link { conn, name })
    }

    pub(super) async fn run(&mut self, sql: &str) -> Result<u64, Trouble> {
        self.conn.query_drop(sql).await.map_err(of)?;
        Ok(self.conn.affected_rows())
    }

    pub(super) async fn each(
        &mut self,
        sql: &str,
        mut take: impl FnMut(Vec<Option<String>>) -> Result<()>,
    ) -> Result<Result<()>, Trouble> {
        let mut result = self.conn.query_iter(sql).await.map_err(of)?;
        let mut taken = Ok(());
        while let Some(row) = result.next().await.map_err(of)? {
            let row = row_of(row);
            if let Err(error) = row.and_then(&mut take) {
                taken = Err(error);
                break;
            }
        }
        result.drop_result().await.map_err(of)?;
        Ok(taken)
    }

    /// EXECUTE IMMEDIATE takes one statement, however it is read. The driver's own prepared
    /// statements would take a `:name` within a text for a parameter.
    pub(super) async fn transaction(
        &mut self,
        begin: &[String],
        statements: &[String],
        ended: &str,
    ) -> Result<(), Trouble> {
        let ran = async {
            for statement in begin {
                self.conn.query_drop(statement).await?;
            }
            for statement in statements {
                self.conn.query_drop(immediately(statement)).await?;
            }
            if !ended.is_empty() {
                self.conn.query_drop(ended).await?;
            }
            self.conn.query_drop("COMMIT").await
        }
        .await;
        if let Err(error) = ran {
            let trouble = of(error);
            // Where the connection is lost, the server rolls back.
            let _ = self.conn.query_drop("ROLLBACK").await;
            let _ = self.conn.query_drop(format!("SET @{PREFIX}_place = NULL")).await;
            return Err(trouble);
        }
        // Only statements of the ledger are distinguished by it, and what this session does beside
        // them changes no chained table.
        Ok(())
    }
}

/// The bytes in hexadecimal need no quoting.
fn immediately(statement: &str) -> String {
    format!("EXECUTE IMMEDIATE _utf8mb4 0x{}", ledger::hash::to_hex(statement.as_bytes()))
}

fn row_of(row: Row) -> Result<Vec<Option<String>>> {
    let text = |value| match value {
        Value::NULL => Ok(None),
        Value::Bytes(bytes) => String::from_utf8(bytes).map(Some).map_err(|_| {
            Error::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, "MariaDB has sent what is no UTF-8")
        }),
        other => Ok(Some(other.as_sql(true).trim_matches('\'').to_owned())),
    };
    row.unwrap().into_iter().map(text).collect()
}

/// Whose fault an error is.
fn of(error: mysql_async::Error) -> Trouble {
    let mysql_async::Error::Server(server) = &error else {
        return Trouble::Sick(error.to_string());
    };
    let detail = format!("{} ({}): {}", server.state, server.code, server.message);
    match server.code {
        // Lock wait time-out, deadlock, too many locks of one row.
        1205 | 1213 | 1020 => Trouble::Again(detail),
        // Rights: of user, database, table, column, routine.
        1044 | 1045 | 1142 | 1143 | 1227 | 1290 | 1370 => Trouble::Sick(detail),
        // Disks, memory, connections, engines, shutdown, killed, time limits.
        1016 | 1021 | 1026 | 1030 | 1037 | 1038 | 1040 | 1041 | 1053 | 1080 | 1114 | 1135
        | 1152 | 1180 | 1181 | 1184 | 1194 | 1195 | 1203 | 1206 | 1226 | 1317 | 1792 | 1836
        | 1927 | 1969 | 3024 => Trouble::Sick(detail),
        _ => Trouble::Refused(detail),
    }
}
