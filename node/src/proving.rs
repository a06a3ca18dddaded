//! What a running node proves from its ledger's files: receipts, headers, signed heads, and the way
//! between them.
//!
//! ```text
//!   asked ─► results written so far ─► tree of heads, brought up to them ─► root, signed
//!                                       └─► inclusion, consistency, each checked before it leaves
//! ```
//!
//! Nothing here is on the way of a block: the tree of heads ([`ledger::heads`]) follows from the
//! results, and is brought up to date by those that ask. The first to ask after a long time waits
//! for that: some two hashes a block, and reading the results.
//!
//! The key is the node's own, a file of its folder (`secrets`); its name is the ledger's origin.

use std::io;
use std::sync::Arc;

use engine::Engine;
use ledger::files::sqlstate_of;
use ledger::headers::{pieces, read_piece};
use ledger::note::origin;
use ledger::{
    Anchor, Body, Files, Hash, HeadTree, LogReader, Proof, Receipt, ResultHeader, SignedHead,
    Signer, Stream, Trust, first_record, read_record,
};
use order::EnvelopeBytes;
use parking_lot::{Mutex, MutexGuard};
use sql::session::ledger_proofs::LedgerProofs;
use types::{Error, Height, Result, SqlState};

use crate::receipts;

pub struct ProofSource {
    files: Arc<dyn Files>,
    engine: Arc<Engine>,
    signer: Signer,
    heads: Mutex<Option<HeadTree>>,
}

impl ProofSource {
    pub fn new(files: Arc<dyn Files>, engine: Arc<Engine>, key: [u8; 32]) -> ProofSource {
        let signer = Signer::new(origin(&engine.ledger_id()), key);
        ProofSource { files, engine, signer, heads: Mutex::default() }
    }

    /// The tree with the heads of all results that are in the files; held while it is used.
    fn heads(&self) -> Result<MutexGuard<'_, Option<HeadTree>>> {
        let Some((written, _)) = self.engine.written()? else {
            let what = "no block is in the ledger's files yet";
            return Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, what));
        };
        let mut kept = self.heads.lock();
        if kept.is_none() {
            let tree =
                HeadTree::open(&*self.files, &mut |height| Ok(self.head_at(height).ok().flatten()));
            *kept = Some(tree.map_err(unusable)?);
        }
        let Some(tree) = kept.as_mut() else { return Err(unusable(io::Error::other("none"))) };
        let brought = self.bring(tree, written);
        if let Err(error) = brought {
            // What was written of it counts as far as it goes; it is looked at anew.
            *kept = None;
            return Err(error);
        }
        Ok(kept)
    }

    fn bring(&self, tree: &mut HeadTree, to: Height) -> Result<()> {
        let first = first_record(&*self.files, Stream::Results)?;
        if tree.leaves() < first {
            for piece in pieces(&*self.files, Stream::Results).map_err(unusable)? {
                let piece = read_piece::<ResultHeader>(&*self.files, piece)?;
                for header in piece.headers() {
                    if header.height == tree.leaves() {
                        tree.push(&header.hash()).map_err(unusable)?;
                    }
                }
            }
        }
        if tree.leaves() > to {
            return Ok(());
        }
        let from = tree.leaves();
        let mut reader = LogReader::open_at(Arc::clone(&self.files), Stream::Results, from)?;
        while tree.leaves() <= to {
            let Some(record) = reader.next_record()? else { break };
            if record.height() == tree.leaves() {
                tree.push(&record.hash()).map_err(unusable)?;
            }
        }
        Ok(())
    }

    fn head_at(&self, height: Height) -> Result<Option<Hash>> {
        let head = receipts::head_at(&self.files, height);
        head.map_err(|error| unusable(io::Error::other(error.to_string())))
    }

    fn sign(&self, tree: &HeadTree, size: u64) -> Result<String> {
        let origin = origin(&self.engine.ledger_id());
        let root = tree.root(size).map_err(unusable)?;
        Ok(self.signer.sign(&SignedHead { origin, size, root }))
    }

    /// A proof that does not hold does not leave.
    fn checked(&self, proof: Proof) -> Result<Proof> {
        let holds = proof.verify(&Trust::Key(self.signer.verifier()));
        holds.map_err(|why| {
            Error::from(why).with_hint(format!(
                "The file {} may be damaged: stop the node, remove it, and start again.",
                ledger::heads::HEADS_FILE
            ))
        })?;
        Ok(proof)
    }
}

impl LedgerProofs for ProofSource {
    fn verifier_key(&self) -> String {
        self.signer.verifier().to_string()
    }

    fn signed_head(&self) -> Result<String> {
        let heads = self.heads()?;
        let tree = heads.as_ref().ok_or_else(|| no_block(0))?;
        self.sign(tree, tree.leaves())
    }

    fn header(&self, height: Height) -> Result<ResultHeader> {
        self.engine.written()?;
        let first = first_record(&*self.files, Stream::Results)?;
        if height >= first {
            let record = read_record(&*self.files, Stream::Results, height)?;
            let record = record.ok_or_else(|| no_block(height))?;
            return Ok(ledger::BlockResult::of(&record)?.header().clone());
        }
        for piece in pieces(&*self.files, Stream::Results).map_err(unusable)? {
            let piece = read_piece::<ResultHeader>(&*self.files, piece)?;
            if let Some(header) = piece.header(height) {
                return Ok(header.clone());
            }
        }
        Err(no_block(height))
    }

    fn anchor(&self, height: Height) -> Result<Anchor> {
        let heads = self.heads()?;
        let tree = heads.as_ref().ok_or_else(|| no_block(height))?;
        let size = tree.leaves();
        if height >= size {
            return Err(no_block(height));
        }
        let hashes = tree.inclusion(height, size).map_err(unusable)?;
        let anchor = Anchor::Signed { note: self.sign(tree, size)?.into_bytes(), hashes };
        drop(heads);
        let body = Body::Head(Box::new(self.header(height)?));
        Ok(self.checked(Proof { body, anchor })?.anchor)
    }

    fn receipt(&self, height: Height, index: u32) -> Result<(Receipt, Option<String>)> {
        self.engine.written()?;
        let receipt = receipts::receipt_of(&self.files, height, index);
        let receipt = receipt.map_err(|error| match error.downcast::<Error>() {
            Ok(error) => error,
            Err(error) => {
                let what = error.root_cause().to_string();
                Error::new(SqlState::INVALID_PARAMETER_VALUE, what)
            }
        })?;
        let envelope = EnvelopeBytes::read(receipt.envelope.clone().into());
        let user = envelope.view().ok().map(|view| view.principal.to_owned());
        Ok((receipt, user))
    }

    fn consistency(&self, old: u64, new: u64) -> Result<Proof> {
        let heads = self.heads()?;
        let tree = heads.as_ref().ok_or_else(|| no_block(new))?;
        if old == 0 || old > new || new > tree.leaves() {
            let what = format!("{old} and {new} are not sizes of this ledger");
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, what)
                .with_detail(format!("It has {} blocks, genesis included.", tree.leaves())));
        }
        let hashes = tree.consistency(old, new).map_err(unusable)?;
        let [old, new] = [self.sign(tree, old)?, self.sign(tree, new)?].map(String::into_bytes);
        let body = Body::Consistency { old, new, hashes };
        self.checked(Proof { body, anchor: Anchor::None })
    }
}

fn no_block(height: Height) -> Error {
    let what = format!("the ledger's files have no result of block {height}");
    Error::new(SqlState::INVALID_PARAMETER_VALUE, what)
}

fn unusable(error: io::Error) -> Error {
    Error::new(sqlstate_of(&error), "the tree of heads cannot be used")
        .with_detail(error.to_string())
}
