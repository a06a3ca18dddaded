//! What CometBFT asks over its socket, and the answers.
//!
//! ```text
//! message  [ length: varint | Request or Response of tendermint.abci, protocol buffers ]
//! ```
//!
//! CometBFT opens four connections, for the consensus, the mempool, questions and snapshots; each
//! has a thread here, and is answered in turn. The messages are those of 0.38, which 0.39 speaks,
//! from `tendermint-proto`. Its servers (`tendermint-abci`, `tower-abci`) are not used: the one
//! listens on TCP alone, where any program of the machine could order, both take messages of any
//! length, and what is left of them is the hundred lines below.
//!
//! An error is answered by an exception, at which CometBFT ends itself; so it does when a
//! connection is lost, and so it never outlives its node.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::net::UnixStream;

use bytes::Bytes;
use prost::Message;
use prost::encoding::{decode_varint, encode_varint};
use tendermint_proto::google::protobuf::Timestamp;
use tendermint_proto::v0_38::abci::request::Value as Ask;
use tendermint_proto::v0_38::abci::response::Value as Answer;
use tendermint_proto::v0_38::abci::{
    ExecTxResult, Misbehavior, MisbehaviorType, Request, RequestFinalizeBlock, RequestInitChain,
    RequestQuery, Response, ResponseCheckTx, ResponseCommit, ResponseEcho, ResponseException,
    ResponseFinalizeBlock, ResponseFlush, ResponseInfo, ResponseInitChain, ResponseListSnapshots,
    ResponsePrepareProposal, ResponseProcessProposal, ResponseQuery, ValidatorUpdate,
};
use tendermint_proto::v0_38::crypto::{PublicKey, public_key::Sum};
use tracing::{error, warn};

use crate::app::{Address, Block, Outcome};
use crate::misbehaviour::{Kind, Misbehaviour};
use crate::node::Shared;
use crate::validators::Update;

/// Of a message; a block has fewer.
const MESSAGE_BYTES_MAX: u64 = 100 << 20;
/// 2000-01-01 UTC, where the ledger's time begins, in seconds of Unix time.
const EPOCH_S: i64 = 946_684_800;
const ACCEPT: i32 = 1;
const REJECT: i32 = 2;

/// Until CometBFT closes the connection, or is to end.
pub(crate) fn answer_all(shared: &Shared, stream: &UnixStream) -> io::Result<()> {
    let mut from = BufReader::with_capacity(64 << 10, stream);
    let mut to = BufWriter::with_capacity(64 << 10, stream);
    while let Some(request) = read(&mut from)? {
        let Some(ask) = request.value else {
            return Err(io::Error::other("CometBFT asks for what this program does not know"));
        };
        let flushes = matches!(ask, Ask::Flush(_));
        let (answered, ends) = match answer(shared, ask) {
            Ok(answered) => (answered, false),
            Err(what) => {
                if !shared.has_ended() {
                    error!("CometBFT is refused: {what}");
                    shared.complain(&what);
                }
                (Answer::Exception(ResponseException { error: what }), true)
            }
        };
        write(&mut to, &Response { value: Some(answered) })?;
        if flushes || ends || from.buffer().is_empty() {
            to.flush()?;
        }
        if ends {
            break;
        }
    }
    Ok(())
}

fn read(from: &mut impl BufRead) -> io::Result<Option<Request>> {
    let mut length = Vec::with_capacity(10);
    loop {
        let mut byte = [0];
        if from.read(&mut byte)? == 0 {
            return Ok(None);
        }
        length.push(byte[0]);
        if byte[0] < 0x80 || length.len() == 10 {
            break;
        }
    }
    let length = decode_varint(&mut &length[..]).map_err(io::Error::other)?;
    if length > MESSAGE_BYTES_MAX {
        return Err(io::Error::other(format!("a message of {length} bytes")));
    }
    let mut bytes = Vec::with_capacity((length as usize).min(1 << 20));
    from.take(length).read_to_end(&mut bytes)?;
    if (bytes.len() as u64) < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Request::decode(Bytes::from(bytes)).map(Some).map_err(io::Error::other)
}

fn write(to: &mut impl Write, response: &Response) -> io::Result<()> {
    let bytes = response.encode_to_vec();
    let mut length = Vec::with_capacity(10);
    encode_varint(bytes.len() as u64, &mut length);
    to.write_all(&length)?;
    to.write_all(&bytes)
}

fn answer(shared: &Shared, ask: Ask) -> Result<Answer, String> {
    let app = || shared.app();
    Ok(match ask {
        Ask::Echo(echo) => Answer::Echo(ResponseEcho { message: echo.message }),
        Ask::Flush(_) => Answer::Flush(ResponseFlush {}),
        Ask::Info(_) => {
            let (height, hash) = shared.wait(|app| Ok(app.info()))?;
            shared.is_well();
            Answer::Info(ResponseInfo {
                data: "tally".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                app_version: 0,
                last_block_height: height as i64,
                last_block_app_hash: if height == 0 { Bytes::new() } else { owned(&hash) },
            })
        }
        Ask::InitChain(asked) => Answer::InitChain(init(shared, &asked)?),
        Ask::Query(asked) => Answer::Query(query(shared, &asked)),
        Ask::CheckTx(asked) => Answer::CheckTx(match app().check(&asked.tx) {
            Ok(()) => ResponseCheckTx::default(),
            Err(error) => {
                let log = error.message().to_owned();
                ResponseCheckTx { code: 1, log, ..ResponseCheckTx::default() }
            }
        }),
        Ask::PrepareProposal(asked) => {
            let bytes_max = usize::try_from(asked.max_tx_bytes).unwrap_or(0);
            let txs = app().prepare(&asked.txs, bytes_max);
            Answer::PrepareProposal(ResponsePrepareProposal { txs })
        }
        Ask::ProcessProposal(asked) => {
            let processed = app().process(&asked.txs);
            if let Err(error) = &processed {
                let (height, from) = (asked.height, shared.who(&asked.proposer_address));
                warn!(height, from, "a proposed block is refused: {}", error.message());
            }
            let status = if processed.is_ok() { ACCEPT } else { REJECT };
            Answer::ProcessProposal(ResponseProcessProposal { status })
        }
        Ask::FinalizeBlock(asked) => Answer::FinalizeBlock(finalize(shared, asked)?),
        Ask::Commit(_) => {
            app().commit();
            Answer::Commit(ResponseCommit { retain_height: 0 })
        }
        Ask::ListSnapshots(_) => Answer::ListSnapshots(ResponseListSnapshots::default()),
        other => return Err(format!("this program has no answer to {other:?}")),
    })
}

fn init(shared: &Shared, asked: &RequestInitChain) -> Result<ResponseInitChain, String> {
    let expected = &shared.settings.chain_id;
    if asked.chain_id != *expected {
        let given = &asked.chain_id;
        return Err(format!("CometBFT is of chain {given}, and the ledger's is {expected}"));
    }
    let app_hash = owned(&shared.app().first_hash()?);
    Ok(ResponseInitChain { app_hash, ..ResponseInitChain::default() })
}

fn finalize(shared: &Shared, asked: RequestFinalizeBlock) -> Result<ResponseFinalizeBlock, String> {
    let mut convicted = Vec::with_capacity(asked.misbehavior.len());
    for evidence in &asked.misbehavior {
        let who = evidence.validator.as_ref().map_or(&[][..], |it| &it.address);
        let validator = address(who)?;
        let found = conviction(shared, evidence, validator, asked.height.unsigned_abs());
        convicted.push(validator);
        shared.convict(found).map_err(|error| format!("a conviction is not kept: {error}"))?;
    }
    let tx_results = vec![ExecTxResult::default(); asked.txs.len()];
    let block = Block {
        height: asked.height as u64,
        hash: asked.hash,
        time_us: micros(asked.time.unwrap_or_default()),
        proposer: address(&asked.proposer_address)?,
        txs: asked.txs,
        convicted,
    };
    let Outcome { app_hash, updates } = shared.finalize(&block)?;
    let (app_hash, updates) = (owned(&app_hash), updates.iter().map(update).collect());
    Ok(ResponseFinalizeBlock {
        tx_results,
        app_hash,
        validator_updates: updates,
        ..ResponseFinalizeBlock::default()
    })
}

fn update(update: &Update) -> ValidatorUpdate {
    let key = PublicKey { sum: Some(Sum::Ed25519(update.key.to_vec())) };
    ValidatorUpdate { pub_key: Some(key), power: update.power.into() }
}

/// The evidence that CometBFT has put into a block.
fn conviction(
    shared: &Shared,
    evidence: &Misbehavior,
    validator: Address,
    found: u64,
) -> Misbehaviour {
    let member = shared.who(&validator);
    let kind = match MisbehaviorType::try_from(evidence.r#type) {
        Ok(MisbehaviorType::DuplicateVote) => Kind::DuplicateVote,
        Ok(MisbehaviorType::LightClientAttack) => Kind::LightClientAttack,
        Ok(MisbehaviorType::Unknown) | Err(_) => Kind::Unknown,
    };
    let time_us = micros(evidence.time.unwrap_or_default());
    let height = evidence.height.unsigned_abs();
    Misbehaviour { member, validator, found, height, kind, time_us }
}

/// Since 2000-01-01 UTC.
fn micros(time: Timestamp) -> i64 {
    let seconds = time.seconds.saturating_sub(EPOCH_S).saturating_mul(1_000_000);
    seconds.saturating_add(i64::from(time.nanos) / 1_000)
}

/// Other nodes of CometBFT are known by their keys, which are the members'.
fn query(shared: &Shared, asked: &RequestQuery) -> ResponseQuery {
    let id = asked.path.strip_prefix("/p2p/filter/id/");
    let is_refused = id.is_some_and(|id| !shared.is_member(id));
    if is_refused {
        warn!(id, "CometBFT of a stranger is refused");
    }
    ResponseQuery { code: u32::from(is_refused), ..ResponseQuery::default() }
}

fn address(bytes: &[u8]) -> Result<Address, String> {
    bytes.try_into().map_err(|_| format!("an address of {} bytes", bytes.len()))
}

fn owned(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}
