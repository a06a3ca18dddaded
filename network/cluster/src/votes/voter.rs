//! The thread that signs, counts and keeps what is certified.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use kit::sync::lock;
use ledger::hash::to_hex;
use ledger::votes::counting::{Counts, Divergence, Found, Signer, Tally, wire};
use ledger::votes::{Said, Succession, Vote};
use ledger::{Certificate, ZERO_HASH};
use tracing::{error, info, warn};
use types::{Error, Height};

use super::heard::{Heard, Standing};
use super::inbox::{Block, Inbox};
use super::keys::OwnKeys;
use super::shared::{PATIENCE, Votes};
use super::voters::Voters;
use crate::Seldom;

/// The newest block is voted on when nothing has come for so long.
const QUIET: Duration = Duration::from_millis(15);

/// When no certificate was added for so long, others may have some that this node lacks.
const STALE: Duration = Duration::from_secs(2);

/// Certificates are synced as often.
const SYNC_EVERY: Duration = Duration::from_secs(1);

pub struct Voter {
    votes: Arc<Votes>,
    signer: Signer,
    tally: Tally,
    /// When a certificate was kept last.
    kept_at: Option<Instant>,
    /// Not kept yet, as older ones may come first.
    held: Option<(Certificate, Instant)>,
    /// When a block came last.
    block_at: Instant,
    synced_at: Instant,
    seldom: Seldom,
    is_synced: bool,
    own_keys: OwnKeys,
    voters: Voters,
    /// For electors that no block has named here yet.
    early: Option<Certificate>,
    /// It does not know what it may sign, or its results are not the others'.
    is_mute: bool,
}

impl Voter {
    pub fn new(
        votes: Arc<Votes>,
        signer: Signer,
        tally: Tally,
        voters: Voters,
        own_keys: OwnKeys,
    ) -> Voter {
        Voter {
            votes,
            signer,
            tally,
            kept_at: None,
            held: None,
            block_at: Instant::now(),
            synced_at: Instant::now(),
            seldom: Seldom::default(),
            is_synced: true,
            own_keys,
            voters,
            early: None,
            is_mute: false,
        }
    }

    pub fn run(mut self) {
        loop {
            let taken = self.wait();
            self.block_at = taken.block_at.unwrap_or(self.block_at);
            self.choose_keys();
            self.tally.distrust(taken.convicted);
            for block in taken.blocks {
                self.executed(&block);
            }
            for certificate in taken.certificates.into_values().flatten() {
                match self.tally.believe(&certificate) {
                    Ok(found) => self.fetched(found),
                    // Of electors whose succession is not here yet, or a lie.
                    Err(error) => {
                        if let Some(before) = self.seldom.is_due(&error.to_string()) {
                            let what = "a member sent a certificate that does not hold here";
                            warn!(%error, before, "{what}");
                        }
                    }
                }
            }
            for succession in taken.successions {
                self.succeed(succession);
            }
            for vote in taken.votes.into_values().flatten() {
                let found = self.tally.count(vote);
                self.found(found);
            }
            self.sign(self.block_at.elapsed() >= QUIET);
            self.keep_held(&taken.asked);
            self.sync(taken.ends);
            self.tell();
            if taken.ends {
                return;
            }
        }
    }

    /// Until something has come, or the newest block is to be voted on.
    fn wait(&self) -> Inbox {
        let pending = self.signs() && self.signer.lacks_newest() || self.held.is_some();
        let quiet_in = QUIET.saturating_sub(self.block_at.elapsed()) + Duration::from_millis(1);
        let most = if pending { quiet_in } else { SYNC_EVERY };
        let mut inbox = lock(&self.votes.inbox);
        inbox.awaits_block = !pending;
        let is_idle = |it: &mut Inbox| {
            let looks_later = pending || it.blocks.is_empty();
            let empty = looks_later && it.votes.values().all(VecDeque::is_empty);
            let fetched = !it.certificates.is_empty() || !it.successions.is_empty();
            empty && !fetched && it.asked.is_empty() && !it.ends
        };
        let waited = self.votes.arrived.wait_timeout_while(inbox, most, is_idle);
        let (mut inbox, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let kept = Inbox {
            elsewhere: inbox.elsewhere.clone(),
            block_at: inbox.block_at,
            convicted: inbox.convicted.clone(),
            ..Inbox::default()
        };
        let (ends, rest) = (inbox.ends, kept);
        let mut taken = std::mem::replace(&mut *inbox, rest);
        inbox.ends = ends;
        taken.asked.sort_unstable();
        taken
    }

    fn signs(&self) -> bool {
        !self.is_mute && self.own_keys.are_named()
    }

    /// By which keys it signs follows from who the electors are, and who will be.
    fn choose_keys(&mut self) {
        let chosen = {
            let kept = lock(&self.votes.kept);
            self.own_keys.choose(kept.all().electors(), self.voters.newest())
        };
        match chosen {
            Ok(Some(keys)) => self.signer.use_keys(keys),
            Ok(None) => {}
            Err(error) => warn!("this node's key cannot be used: {error:#}"),
        }
    }

    fn executed(&mut self, block: &Block) {
        let Block { height, result_hash, time_us, .. } = *block;
        let electors = self.voters.of(&block.parameters_hash);
        let said = Said { height, result_hash, electors: electors.unwrap_or(ZERO_HASH) };
        // Where it is not known who they are, the next block is signed.
        if electors.is_some() && self.signs() {
            self.signer.executed(said, time_us);
        }
        let found = self.tally.executed(said);
        self.found(found);
        if !self.voters.follow(&block.next_parameters) {
            return;
        }
        if let Some(next) = self.voters.newest() {
            self.tally.expect(next.clone());
        }
        self.choose_keys();
        if let Some(certificate) = self.early.take() {
            self.hand_over(certificate);
        }
    }

    /// Others follow the electors, who have certified a block that is for those.
    fn hand_over(&mut self, certificate: Certificate) {
        match self.voters.named(&certificate.said.electors) {
            Some(next) => self.succeed(Succession::new(next.clone(), certificate)),
            None => drop(self.early.get_or_insert(certificate)),
        }
    }

    fn succeed(&mut self, succession: Succession) {
        // One that was found here, and was asked for, too.
        let above = lock(&self.votes.kept).all().electors().above;
        if above >= Some(succession.height()) {
            return;
        }
        if let Some((held, _)) = self.held.take()
            && self.is_theirs(&held)
        {
            self.keep(&held);
        }
        let above = succession.height();
        let succeeded = {
            let mut kept = lock(&self.votes.kept);
            let succeeded = kept.succeed(succession);
            succeeded.map(|()| (kept.all().electors().clone(), kept.all().last()))
        };
        match succeeded {
            Ok((electors, last)) => {
                let members: Vec<u64> = electors.keys.keys().copied().collect();
                info!(above, ?members, votes = electors.votes, "these members vote from now on");
                let found = self.tally.follow(electors, last);
                self.found(found);
            }
            Err(error) => {
                if let Some(before) = self.seldom.is_due(&error.to_string()) {
                    warn!(%error, before, "other electors do not follow those before");
                }
            }
        }
    }

    fn sign(&mut self, quiet: bool) {
        if !self.signs() {
            return;
        }
        let signed = match self.signer.sign(quiet) {
            Ok(signed) => signed,
            Err(error) => {
                self.is_mute = true;
                error!(%error, "this node votes no more: what it signs cannot be made durable");
                return;
            }
        };
        if signed.is_empty() {
            return;
        }
        for vote in &signed {
            let found = self.tally.count(*vote);
            self.found(found);
        }
        self.votes.sent.send_modify(|sent| {
            let mut all: VecDeque<Vote> = sent.iter().copied().chain(signed).collect();
            all.drain(..all.len().saturating_sub(wire::VOTES_MAX));
            *sent = Arc::new(all);
        });
    }

    pub fn found(&mut self, found: Vec<Found>) {
        for found in found {
            match found {
                Found::Certificate(certificate) => self.certified(certificate),
                Found::Divergence(divergence) => self.diverged(&divergence),
            }
        }
    }

    /// Older certificates than the newest are kept too.
    fn fetched(&mut self, found: Vec<Found>) {
        for found in found {
            match found {
                Found::Certificate(certificate) => self.keep(&certificate),
                Found::Divergence(divergence) => self.diverged(&divergence),
            }
        }
    }

    /// Keeps a certificate, or holds the newest back while older ones may be had.
    fn certified(&mut self, certificate: Certificate) {
        let is_fresh = self.kept_at.is_some_and(|at| at.elapsed() < STALE);
        if self.held.is_some() || !is_fresh && self.others_have_more(certificate.said.height) {
            let since = self.held.take().map_or_else(Instant::now, |(_, since)| since);
            self.held = Some((certificate, since));
            return;
        }
        self.accept(certificate);
    }

    /// Whether the electors have certified a block that is for them.
    fn is_theirs(&self, certificate: &Certificate) -> bool {
        certificate.said.electors == lock(&self.votes.kept).all().electors().hash()
    }

    fn accept(&mut self, certificate: Certificate) {
        match self.is_theirs(&certificate) {
            true => self.keep(&certificate),
            false => self.hand_over(certificate),
        }
    }

    /// Whether another member has certificates below a height that this one lacks.
    fn others_have_more(&self, height: Height) -> bool {
        let last = lock(&self.votes.kept).all().last().map_or(0, |said| said.height);
        // Others have added this very one meanwhile; at a start nothing is known of those before.
        let end = if self.kept_at.is_some() { height } else { height.saturating_add(1) };
        lock(&self.votes.inbox).elsewhere.values().any(|there| (last + 1..end).contains(there))
    }

    fn keep_held(&mut self, asked: &[u64]) {
        let Some((certificate, since)) = &self.held else { return };
        if !asked.is_empty() || since.elapsed() > PATIENCE {
            let certificate = certificate.clone();
            self.held = None;
            self.accept(certificate);
        }
    }

    fn keep(&mut self, certificate: &Certificate) {
        let mut kept = lock(&self.votes.kept);
        if kept.all().last().is_some_and(|last| last.height >= certificate.said.height) {
            return;
        }
        if let Err(error) = kept.append(certificate)
            && let Some(before) = self.seldom.is_due(&error.to_string())
        {
            error!(%error, before, "a certificate cannot be kept");
        }
        self.is_synced = false;
        self.kept_at = Some(Instant::now());
    }

    fn sync(&mut self, ends: bool) {
        if self.is_synced || !ends && self.synced_at.elapsed() < SYNC_EVERY {
            return;
        }
        if let Err(error) = lock(&self.votes.kept).sync() {
            warn!(%error, "votes/certificates cannot be synced");
        }
        (self.is_synced, self.synced_at) = (true, Instant::now());
    }

    fn diverged(&mut self, divergence: &Divergence) {
        // It signs nothing that it knows to be wrong.
        self.is_mute = true;
        let cause = divergence.cause();
        let why = describe(&cause);
        if self.votes.cause.set(cause).is_err() {
            return;
        }
        error!(height = divergence.height, "{why}");
        self.votes.stop();
    }

    /// What others may see.
    pub fn tell(&self) {
        let said = |said: Said| (said.height, to_hex(&said.result_hash));
        let heard = |id: &u64| {
            let Counts { counted, refused, contradicting } = self.tally.counts_of(*id);
            let signed = self.tally.newest_of(*id).map(|said| said.height);
            let deviates = self.tally.deviates(*id);
            (*id, Heard { signed, counted, refused, contradicting, deviates })
        };
        let (last, count, electors) = {
            let kept = lock(&self.votes.kept);
            let all = kept.all();
            (all.last(), all.count(), all.electors().clone())
        };
        self.votes.certified_height.send_if_modified(|reported| {
            let height = last.map_or(0, |last| last.height);
            std::mem::replace(reported, height) != height
        });
        let others = electors.keys.keys().filter(|id| **id != self.votes.me);
        let mut standing = lock(&self.votes.standing);
        *standing = Standing {
            signed: self.signer.last().map(said),
            certified: last.map(said),
            certificates: count,
            members: others.map(heard).collect(),
            electors: electors.keys.keys().copied().collect(),
            needed: electors.votes,
            diverged: self.votes.cause.get().map(describe),
        };
    }
}

fn describe(cause: &Error) -> String {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let (detail, hint) = (text(&cause.fields().detail), text(&cause.fields().hint));
    format!("{}: {detail} {hint}", cause.message())
}
