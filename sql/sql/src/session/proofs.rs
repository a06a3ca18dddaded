//! Proofs for clients: rows from the engine, everything else from the ledger's files
//! ([`LedgerProofs`]).
//!
//! A proof of rows is of the newest state that is durable, and so of no older one than what its
//! session has been told; never of what an open transaction sees or has written. A receipt holds
//! the text and the arguments of its transaction, so it is for the user who sent that, and for
//! those who may read everything.

use std::sync::Arc;

use identity::RoleId;
use ledger::hash::to_hex;
use ledger::{Body, KeyRange, Proof};
use procedure::Expr;
use types::key::encode_column;
use types::{Error, Key, Result, SqlState, TableId, Value};

use super::Session;
use super::answer::{Answer, Tag};
use super::guard::aside;
use crate::bind::{ProofQuery, WhichRows, no_value};
use crate::session::ledger_proofs::LedgerProofs;

impl Session {
    pub(super) async fn run_proof(
        &mut self,
        query: &ProofQuery,
        parameters: &[Value],
    ) -> Result<Answer> {
        let rows = match query {
            ProofQuery::Rows { table, which, key } => {
                let range = self.key_range(*table, *which, key, parameters)?;
                self.proofs()?;
                let engine = Arc::clone(&self.database.engine);
                let rows = engine.prove_rows(&range).await?;
                check_found(*which, rows.rows.len())?;
                one(self.anchored(Body::Rows(Box::new(rows)))?)
            }
            ProofQuery::LastCommit => self.last_commit()?,
            other => one(self.prove_from_files(other, parameters)?),
        };
        Ok(Answer::Rows { rows, tag: Tag::Select, lease: None })
    }

    fn prove_from_files(&self, query: &ProofQuery, parameters: &[Value]) -> Result<String> {
        let proofs = self.proofs()?;
        let number = |value: &Expr, what: &str| -> Result<u64> {
            let value = self.argument(value, parameters)?;
            let value = value.as_int().ok_or_else(|| no_value(what))?;
            u64::try_from(value).map_err(|_| {
                let what = format!("{what} {value} is below zero");
                Error::new(SqlState::INVALID_PARAMETER_VALUE, what)
            })
        };
        match query {
            ProofQuery::Receipt { block, index } => {
                let (block, index) = (number(block, "block")?, number(index, "index")?);
                let index = u32::try_from(index).map_err(|_| {
                    let what = format!("block {block} has no transaction {index}");
                    Error::new(SqlState::INVALID_PARAMETER_VALUE, what)
                })?;
                let (receipt, user) = aside(false, || proofs.receipt(block, index))?;
                if user.as_deref() != Some(self.info.party().principal) {
                    let what = "take the receipt of another user's transaction";
                    self.check_must_be(RoleId::READ_ALL_DATA, what)?;
                }
                self.anchored(Body::Receipt(Box::new(receipt)))
            }
            ProofQuery::Head { block } => {
                let block = number(block, "block")?;
                let header = aside(false, || proofs.header(block))?;
                self.anchored(Body::Head(Box::new(header)))
            }
            ProofQuery::SignedHead => aside(false, || proofs.signed_head()),
            ProofQuery::VerifierKey => Ok(proofs.verifier_key()),
            ProofQuery::Consistency { old, new } => {
                let (old, new) = (number(old, "old")?, number(new, "new")?);
                let proof = aside(false, || proofs.consistency(old, new))?;
                Ok(proof.to_json()?.to_string())
            }
            ProofQuery::Rows { .. } | ProofQuery::LastCommit => {
                let what = "rows and places are not proven from files";
                Err(Error::new(SqlState::INTERNAL_ERROR, what))
            }
        }
    }

    fn proofs(&self) -> Result<Arc<dyn LedgerProofs>> {
        let proofs = self.database.shared_state.proofs.get().cloned();
        proofs.ok_or_else(|| {
            let what = "this server has no ledger's files to make proofs from";
            Error::new(SqlState::FEATURE_NOT_SUPPORTED, what)
        })
    }

    /// A proof's file, with the way to a signed head.
    fn anchored(&self, body: Body) -> Result<String> {
        let proofs = self.proofs()?;
        let mut proof = Proof { body, anchor: ledger::Anchor::None };
        let height = proof.header().map_or(0, |header| header.height);
        proof.anchor = aside(false, || proofs.anchor(height))?;
        Ok(proof.to_json()?.to_string())
    }

    /// Where the session's last transaction was ordered, and the head of the block that decided it.
    fn last_commit(&self) -> Result<Vec<Box<[Value]>>> {
        let Some((decided, origin)) = self.seen.last_commit else { return Ok(Vec::new()) };
        let head = match self.database.engine.retention().head_of(decided) {
            Some(head) => head.hash,
            None => {
                let proofs = self.proofs()?;
                aside(false, || proofs.header(decided))?.hash()
            }
        };
        let [block, index] = [origin.height as i64, i64::from(origin.index)].map(Value::Int);
        Ok(vec![[block, index, Value::Int(decided as i64), Value::from(to_hex(&head))].into()])
    }

    fn key_range(
        &self,
        id: TableId,
        which: WhichRows,
        key: &[Expr],
        parameters: &[Value],
    ) -> Result<KeyRange> {
        let key = key.iter().map(|part| self.argument(part, parameters));
        let key = key.collect::<Result<Vec<Value>>>()?;
        let catalog = self.database.engine.store().catalog();
        let table = catalog.table(id).ok_or_else(|| {
            Error::new(SqlState::UNDEFINED_TABLE, "the table was dropped meanwhile")
        })?;
        let schema = table.schema();
        let encode = |place: usize, value: &Value, out: &mut Key| {
            let column = &schema.columns[usize::from(schema.primary_key[place])];
            encode_column(&column.data_type, column.nullable, value, out)
        };
        if which == WhichRows::Between {
            let bound = |value: &Value| -> Result<Vec<u8>> {
                let mut bound = Key::default();
                if !value.is_null() {
                    encode(0, value, &mut bound)?;
                }
                Ok(bound.as_bytes().to_vec())
            };
            let range = KeyRange {
                table: id.0,
                first: bound(&key[0])?,
                last: bound(&key[1])?,
                extends: true,
            };
            if !range.contains(&range.first) {
                let what = "the range ends before it begins";
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, what));
            }
            return Ok(range);
        }
        let mut encoded = Key::default();
        for (place, value) in key.iter().enumerate() {
            if value.is_null() {
                return Err(no_value("a column of the primary key"));
            }
            encode(place, value, &mut encoded)?;
        }
        Ok(match which {
            WhichRows::Beginning => KeyRange::beginning(id.0, encoded.as_bytes()),
            _ => KeyRange::of(id.0, encoded.as_bytes()),
        })
    }
}

fn one(text: String) -> Vec<Box<[Value]>> {
    vec![[Value::from(text)].into()]
}

/// Of a row that is not there an absence can be proven, and the other way round.
fn check_found(which: WhichRows, rows: usize) -> Result<()> {
    match (which, rows) {
        (WhichRows::One, 0) => {
            Err(Error::new(SqlState::NO_DATA_FOUND, "there is no row with this key")
                .with_hint("tally_absence_proof proves that."))
        }
        (WhichRows::None, 1..) => {
            Err(Error::new(SqlState::CARDINALITY_VIOLATION, "there is a row with this key")
                .with_hint("tally_row_proof proves it."))
        }
        _ => Ok(()),
    }
}
