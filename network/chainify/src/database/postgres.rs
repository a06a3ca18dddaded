//! The connection to PostgreSQL.

use std::pin::pin;

use futures::TryStreamExt;
use futures::future::{MaybeDone, maybe_done};
use tokio_postgres::error::SqlState as Code;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};
use types::{Error, Result, SqlState};

use super::trouble::{Trouble, without_password};
use crate::dialect::postgres::SESSION;

pub struct Link {
    client: Client,
    pub(super) name: String,
}

impl Link {
    pub(super) async fn connect(url: &str) -> Result<Link> {
        let name = without_password(url);
        let refused = |error: &tokio_postgres::Error| {
            let detail = reported(error);
            Error::new(
                SqlState::TRANSACTION_RESOLUTION_UNKNOWN,
                format!("cannot connect to {name}"),
            )
            .with_detail(detail)
            .with_hint("Is it running, and are user, password and database right?")
        };
        let connected = tokio_postgres::connect(url, NoTls).await;
        let (client, connection) = connected.map_err(|error| refused(&error))?;
        // Ends when the client is dropped; what went wrong, the client's calls tell.
        tokio::spawn(connection);
        client.batch_execute(SESSION).await.map_err(|error| refused(&error))?;
        let mut link = Link { client, name };
        link.check().await?;
        Ok(link)
    }

    async fn check(&mut self) -> Result<()> {
        let mut found = Vec::new();
        let asked = "SELECT current_setting('server_version_num'), \
                     current_setting('server_encoding'), current_setting('server_version')";
        let each = self.each(asked, |row| {
            found = row.into_iter().flatten().collect();
            Ok(())
        });
        each.await.map_err(|trouble| trouble.into_error("PostgreSQL"))??;
        let [number, encoding, version] = &found[..] else {
            return Err(Error::new(SqlState::PROTOCOL_VIOLATION, "PostgreSQL names no version"));
        };
        if number.parse::<u32>().is_ok_and(|number| number < 140_000) {
            let what = format!("{} is PostgreSQL {version}, and 14 or later is needed", self.name);
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what));
        }
        if encoding != "UTF8" {
            let what = format!("the encoding of {} is {encoding}, not UTF8", self.name);
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, what));
        }
        Ok(())
    }

    pub(super) async fn run(&mut self, sql: &str) -> Result<u64, Trouble> {
        let messages = self.client.simple_query(sql).await.map_err(|error| of(&error))?;
        let count = |message: &SimpleQueryMessage| match message {
            SimpleQueryMessage::CommandComplete(count) => Some(*count),
            _ => None,
        };
        Ok(messages.iter().rev().find_map(count).unwrap_or(0))
    }

    pub(super) async fn each(
        &mut self,
        sql: &str,
        mut take: impl FnMut(Vec<Option<String>>) -> Result<()>,
    ) -> Result<Result<()>, Trouble> {
        let stream = self.client.simple_query_raw(sql).await.map_err(|error| of(&error))?;
        let mut stream = pin!(stream);
        while let Some(message) = stream.try_next().await.map_err(|error| of(&error))? {
            if let SimpleQueryMessage::Row(row) = message {
                let row = (0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect();
                if let Err(error) = take(row) {
                    return Ok(Err(error));
                }
            }
        }
        Ok(Ok(()))
    }

    /// All of it is sent at once: one way there and back. Clients' statements go by the extended
    /// protocol, which takes one statement each, however it is read.
    pub(super) async fn transaction(
        &mut self,
        begin: &[String],
        statements: &[String],
        ended: &str,
    ) -> Result<(), Trouble> {
        let client = &self.client;
        let begin = begin.join("; ");
        let mut begun = pin!(maybe_done(client.batch_execute(&begin)));
        let sent = |statement: &String| {
            let statement = statement.clone();
            Box::pin(maybe_done(async move { client.execute_typed(&statement, &[]).await }))
        };
        let mut running: Vec<_> = statements.iter().map(sent).collect();
        let mut noted = pin!(maybe_done(client.batch_execute(ended)));
        let mut committed = pin!(maybe_done(client.batch_execute("COMMIT")));
        // The first poll sends.
        let _ = futures::poll!(begun.as_mut());
        for statement in &mut running {
            let _ = futures::poll!(statement.as_mut());
        }
        let _ = futures::poll!(noted.as_mut());
        let _ = futures::poll!(committed.as_mut());
        let mut first: Option<tokio_postgres::Error> = None;
        let mut keep = |result: Option<Result<(), tokio_postgres::Error>>| {
            if let Some(Err(error)) = result {
                first.get_or_insert(error);
            }
        };
        begun.as_mut().await;
        keep(begun.take_output());
        for statement in &mut running {
            statement.as_mut().await;
            let output: Option<Result<u64, _>> = MaybeDone::take_output(statement.as_mut());
            keep(output.map(|result| result.map(|_| ())));
        }
        noted.as_mut().await;
        keep(noted.take_output());
        committed.as_mut().await;
        keep(committed.take_output());
        match first {
            None => Ok(()),
            Some(error) => Err(of(&error)),
        }
    }
}

fn reported(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(server) => format!("{}: {}", server.code().code(), server.message()),
        None => std::error::Error::source(error)
            .map_or_else(|| error.to_string(), |source| format!("{error}: {source}")),
    }
}

/// Whose fault an error is.
fn of(error: &tokio_postgres::Error) -> Trouble {
    let detail = reported(error);
    let Some(code) = error.as_db_error().map(tokio_postgres::error::DbError::code) else {
        return Trouble::Sick(detail);
    };
    let again =
        [Code::T_R_SERIALIZATION_FAILURE, Code::T_R_DEADLOCK_DETECTED, Code::LOCK_NOT_AVAILABLE];
    if again.contains(code) {
        return Trouble::Again(detail);
    }
    // Connections, rights, read-only, resources, an operator, its own faults.
    let sick = ["08", "28", "25", "53", "57", "58", "F0", "XX", "42501"];
    match sick.iter().any(|class| code.code().starts_with(class)) {
        // A statement that follows one that failed.
        true if *code == Code::IN_FAILED_SQL_TRANSACTION => Trouble::Refused(detail),
        true => Trouble::Sick(detail),
        false => Trouble::Refused(detail),
    }
}
