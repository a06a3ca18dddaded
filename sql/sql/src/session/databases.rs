//! CREATE, ALTER and DROP DATABASE: what a node does beside what the ledger records.
//!
//! ```text
//!   CREATE   the node makes a ledger in a folder ─► it is recorded ─► the node opens it
//!   DROP     sessions leave, none comes in ───────► it is recorded ─► the node moves it aside
//! ```
//!
//! The record decides. A node that dies before it removes what it has made at its next start, and
//! one that dies after it does the rest then.

use std::any::Any;
use std::sync::Arc;

use concurrency::Outcome;
use engine::Body;
use engine::transaction::Asked;
use types::{Error, Result, SqlState};

use super::Session;
use super::answer::{Answer, plain};
use super::chance::NO_SEED;
use super::schema::parse_ddl;
use super::shared_state::databases::{Databases, NewDatabase};
use crate::ddl::databases::{first_statements, no_database};
use crate::schema::catalog::Catalog;
use crate::syntax::databases::{DatabaseOptions, DatabaseStatement, MadeLedger};
use crate::syntax::ddl::Ddl;
use crate::syntax::names::DATABASES;
use crate::syntax::own_database;

/// What a ledger that is yet to be made is called when it is looked whether it may be.
const NO_LEDGER: MadeLedger = MadeLedger { id: [0; 16], genesis: [0; 32] };

impl Session {
    pub(super) async fn change_databases(
        &mut self,
        statement: &DatabaseStatement,
    ) -> Result<Answer> {
        let tag = statement.tag();
        if self.transaction.is_some() {
            let what = format!("{tag} cannot run inside a transaction block");
            return Err(Error::new(SqlState::ACTIVE_SQL_TRANSACTION, what));
        }
        self.check_may_write_alone()?;
        let node = self.databases_of_node(tag)?;
        match statement {
            DatabaseStatement::Create { made: Some(_), .. } => {
                return Err(Error::unsupported("LEDGER and GENESIS in a statement of a session")
                    .with_hint("The node adds them, when it has made the ledger."));
            }
            DatabaseStatement::Create { name, options, made: None } => {
                self.create_database(node, name, options).await?;
            }
            DatabaseStatement::Drop { name, if_exists, force } => {
                let missing = self.view().versioned.catalog.database(name).is_none();
                if *if_exists && missing && !crate::ddl::databases::is_own(name) {
                    let what = format!("database \"{name}\" does not exist, skipping");
                    self.tell(Error::new(SqlState::SUCCESSFUL_COMPLETION, what));
                    return Ok(plain(tag));
                }
                let (ledger, _kept_out) =
                    self.empty_database(&node, name, *force, statement).await?;
                self.record_databases(statement).await?;
                let moved = node.reconcile().await?.moved.into_iter();
                for moved in moved.filter(|moved| moved.ledger == ledger) {
                    let what = format!("the ledger of database \"{name}\" is kept");
                    let detail = format!("Its folder is {} now.", moved.folder.display());
                    self.tell(
                        Error::new(SqlState::SUCCESSFUL_COMPLETION, what).with_detail(detail),
                    );
                }
            }
            DatabaseStatement::Rename { name, .. } => {
                let (_, _kept_out) = self.empty_database(&node, name, false, statement).await?;
                self.record_databases(statement).await?;
                node.reconcile().await?;
            }
        }
        Ok(plain(tag))
    }

    /// What is said of the session's database by the name that it is connected by, as the ledger is
    /// told it, which knows no other name of itself than the first.
    pub(super) fn about_own_database(
        &self,
        ddl: &Ddl,
        text: &str,
    ) -> Result<Option<(Ddl, String)>> {
        let own = self.info.database.as_str();
        let catalog = &self.view().versioned.catalog;
        if DATABASES.contains(&own) || catalog.database(own).is_some() || !ddl.names_database(own) {
            return Ok(None);
        }
        let text = own_database::renamed(text, own, DATABASES[0])?;
        Ok(Some((parse_ddl(catalog, &text)?, text)))
    }

    fn databases_of_node(&self, tag: &str) -> Result<Arc<dyn Databases>> {
        if self.database.engine.is_in_cluster() {
            return Err(Error::unsupported(format_args!("{tag} in a cluster")).with_hint(
                "Its members order one ledger: run a cluster of its own for each other one.",
            ));
        }
        let node = self.database.shared_state.databases.get();
        node.map(Arc::clone).ok_or_else(|| {
            Error::unsupported(format_args!("{tag} in a database that was made by another"))
                .with_hint("Connect to the database \"postgres\", in which they are made.")
        })
    }

    /// What the statement would make of the catalog.
    fn databases_behind(&self, statement: DatabaseStatement) -> Result<Catalog> {
        let catalog = &self.view().versioned.catalog;
        let party = self.info.party();
        let actor = catalog.roles().actor(party.principal, party.role)?;
        let behind = catalog.apply_as(actor, &Ddl::Database(Box::new(statement)))?;
        Ok(behind.0)
    }

    async fn create_database(
        &mut self,
        node: Arc<dyn Databases>,
        name: &str,
        options: &DatabaseOptions,
    ) -> Result<()> {
        let recorded = |made| {
            let (name, options) = (name.to_owned(), options.clone());
            DatabaseStatement::Create { name, options, made: Some(made) }
        };
        let behind = self.databases_behind(recorded(NO_LEDGER))?;
        let entry = behind.database(name).ok_or_else(|| no_database(name))?;
        let made = node
            .make(NewDatabase {
                name: name.to_owned(),
                superuser: behind.roles().name(identity::BOOTSTRAP).to_owned(),
                protocol: options.protocol.clone(),
                statements: first_statements(&behind, entry.owner),
            })
            .await?;
        // Whatever else goes wrong, it may be recorded all the same.
        match self.ask_for_record(&recorded(made)).await {
            Ok(Outcome::Committed(_)) => {}
            Ok(Outcome::Rejected(error) | Outcome::Retry(error)) => {
                node.forget(made);
                return Err(error);
            }
            Err(error) => {
                if !may_be_recorded(&error) {
                    node.forget(made);
                }
                return Err(error);
            }
        }
        let failed = node.reconcile().await?.failed.into_iter().find(|(id, _)| *id == made.id);
        failed.map_or(Ok(()), |(_, error)| Err(error))
    }

    async fn empty_database(
        &mut self,
        node: &Arc<dyn Databases>,
        name: &str,
        force: bool,
        statement: &DatabaseStatement,
    ) -> Result<([u8; 16], Box<dyn Any + Send>)> {
        self.databases_behind(statement.clone())?;
        let ledger = match self.view().versioned.catalog.database(name) {
            Some(entry) => entry.ledger.id,
            None => return Err(no_database(name)),
        };
        Ok((ledger, node.keep_out(ledger, name, force).await?))
    }

    async fn ask_for_record(&mut self, statement: &DatabaseStatement) -> Result<Outcome> {
        let schema = Body::Schema { text: statement.to_string() };
        let completion = self.submit(&Asked::from(&schema), None, NO_SEED).await?;
        Ok(completion.outcome)
    }

    async fn record_databases(&mut self, statement: &DatabaseStatement) -> Result<()> {
        match self.ask_for_record(statement).await? {
            Outcome::Committed(_) => Ok(()),
            Outcome::Rejected(error) | Outcome::Retry(error) => Err(error),
        }
    }
}

/// Whether the ledger may hold what was asked for, although an error came: all but where it says
/// that the statement itself was refused.
fn may_be_recorded(error: &Error) -> bool {
    let SqlState(code) = error.code();
    let is_refusal = matches!(&code[..2], b"0A" | b"22" | b"23" | b"42");
    !is_refusal && error.code() != SqlState::SERIALIZATION_FAILURE
}
