//! One world: nodes, their disks, clients, the network between, and what befalls them.
//!
//! Each step draws one thing that happens: a message arrives, a client acts, a batch is ordered, a
//! node does one of the tasks that its pipeline wants done, a disk is told to fail, a node is
//! killed, the power goes. Then a time without faults, in which everything must come to an end, and
//! what is left is checked once more from the disks alone.

use std::cell::Cell;

use bytes::Bytes;
use engine::KeyStatus;
use kit::random::Random;
use ledger::memory_files::{Failure, MANNERS};
use ledger::{Genesis, MemoryFiles, Parameters};
use order::model::{Faults, Model};
use order::{Limits, Orderer, Solo, Submission};

use crate::client::{Client, Waits, draw_read};
use crate::node::{Answer, Node, Output, begin, block_of, language};
use crate::options::Options;
use crate::reader::{read, read_tables};
use crate::witness::Witness;
use crate::{Stats, Wrong, wrong};

pub const LEDGER_ID: [u8; 16] = [7; 16];

/// Steps after which a client sends again.
const PATIENCE: u64 = 40;
/// Rounds without faults in which all must end.
const ROUNDS_MAX: u64 = 4_000;
/// What the network holds at most; more is lost.
const MESSAGES_MAX: usize = 200;

enum Message {
    Request { node: usize, client: usize, envelope: Bytes },
    Answer(Box<Answer>),
}

enum Orderers {
    Solo(Box<Solo>),
    Model(Box<Model>),
}

impl Orderers {
    fn of(&mut self, node: usize) -> &mut dyn Orderer {
        match self {
            Orderers::Solo(solo) => &mut **solo,
            Orderers::Model(model) => model.node(node),
        }
    }
}

struct World<'a> {
    options: &'a Options,
    random: Random,
    step: &'a Cell<u64>,
    now_us: i64,
    disks: Vec<MemoryFiles>,
    /// Whether the last stop of a node was a power cut is in its disk; `None`: it is down.
    nodes: Vec<Option<Node>>,
    /// The newest height that each node ever released.
    released: Vec<u64>,
    orderers: Orderers,
    limits: Limits,
    clients: Vec<Client>,
    network: Vec<Message>,
    witness: Witness,
    /// One in so many chances to cut a batch is taken: what waits makes larger ones.
    cut_one_in: u64,
    /// Clients that act, and messages that arrive, in a step of theirs.
    crowd: u64,
    /// Faults are over.
    quiet: bool,
    stats: Stats,
}

pub fn run(seed: u64, options: &Options, step: &Cell<u64>) -> Result<Stats, Wrong> {
    let mut world = World::new(seed, options, step)?;
    for _ in 0..options.steps {
        step.set(step.get() + 1);
        world.step()?;
    }
    world.end()?;
    Ok(world.stats)
}

fn genesis(options: &Options) -> Genesis {
    let parameters = Parameters::new(&options.protocol);
    Genesis { ledger_id: LEDGER_ID, time_us: 0, parameters, executor: engine::EXECUTOR }
}

impl World<'_> {
    fn new<'a>(seed: u64, options: &'a Options, step: &'a Cell<u64>) -> Result<World<'a>, Wrong> {
        let mut random = Random::new(seed);
        let genesis = genesis(options);
        let disks: Vec<MemoryFiles> = (0..options.nodes).map(|_| MemoryFiles::new()).collect();
        for disk in &disks {
            begin(disk, &genesis).map_err(|error| wrong("start", error))?;
        }
        let limits = Limits {
            transactions_max: [1, 4, 30][random.below(3) as usize],
            queued_max: 40,
            ..Limits::default()
        };
        let crowd = [1, 4, 12][random.below(3) as usize];
        let cut_one_in = [1, 5, 15][random.below(3) as usize];
        let orderers = match options.nodes {
            1 => Orderers::Solo(Box::new(Solo::new(limits, [0; 32]))),
            nodes => {
                let mut model = Model::new(random.next_u64(), nodes, limits, 20_000);
                if options.network_faults {
                    model.set_faults(Faults::MANY);
                }
                Orderers::Model(Box::new(model))
            }
        };
        let mut world = World {
            options,
            random,
            step,
            now_us: 0,
            nodes: disks.iter().map(|_| None).collect(),
            released: vec![0; disks.len()],
            disks,
            orderers,
            limits,
            clients: (0..options.clients).map(Client::new).collect(),
            network: Vec::new(),
            witness: Witness::new(&genesis)?,
            cut_one_in,
            crowd,
            quiet: false,
            stats: Stats::default(),
        };
        (0..options.nodes).try_for_each(|node| world.start(node))?;
        Ok(world)
    }

    fn draw(&mut self, below: usize) -> usize {
        self.random.below(below as u64) as usize
    }

    fn step(&mut self) -> Result<(), Wrong> {
        self.stats.steps += 1;
        self.now_us += self.random.below(8_000) as i64;
        match self.random.below(100) {
            0..30 => (0..self.crowd).try_for_each(|_| self.deliver()),
            30..60 => (0..self.crowd).try_for_each(|_| self.client()),
            60..73 => self.poll(),
            73..92 => self.task(),
            92..95 => self.restart(),
            95..97 => self.lookup(),
            _ => self.disaster(),
        }
    }

    // Messages.

    fn send(&mut self, message: impl Fn() -> Message) {
        let faulty = self.options.network_faults && !self.quiet;
        if faulty && self.random.chance(6) {
            return;
        }
        let copies = if faulty && self.random.chance(8) { 2 } else { 1 };
        for _ in 0..copies {
            if self.network.len() < MESSAGES_MAX {
                self.network.push(message());
            }
        }
    }

    /// Any message that is on its way arrives.
    fn deliver(&mut self) -> Result<(), Wrong> {
        if self.network.is_empty() {
            return Ok(());
        }
        let place = self.draw(self.network.len());
        match self.network.swap_remove(place) {
            Message::Request { node, client, envelope } => self.submit(node, client, envelope),
            Message::Answer(answer) => return self.hear(&answer),
        }
        Ok(())
    }

    fn submit(&mut self, node: usize, client: usize, envelope: Bytes) {
        let Some(up) = self.nodes[node].as_mut().filter(|node| node.halted.is_none()) else {
            return;
        };
        if self.orderers.of(node).submit(envelope.clone()).is_ok() {
            up.wait(envelope, client);
        }
    }

    fn hear(&mut self, answer: &Answer) -> Result<(), Wrong> {
        let Answer { client, envelope, height, origin, outcome } = answer;
        self.witness.check_answer(*height, *origin, outcome)?;
        self.stats.answers += 1;
        let client = &mut self.clients[*client];
        client.seen = client.seen.max(*height);
        let current = client.asked.as_ref().is_some_and(|asked| asked.envelope == *envelope);
        if current {
            client.hear(outcome, LEDGER_ID, self.now_us, &mut self.random)?;
        }
        Ok(())
    }

    // Clients.

    fn client(&mut self) -> Result<(), Wrong> {
        let id = self.draw(self.clients.len());
        if self.random.chance(4) {
            return self.read(id);
        }
        match &self.clients[id].asked {
            None if self.quiet => Ok(()),
            None => {
                let client = &mut self.clients[id];
                client.ask(LEDGER_ID, self.now_us, self.options, &mut self.random)?;
                self.ask(id);
                Ok(())
            }
            Some(asked) if asked.sent == 0 || self.step.get() > asked.sent + PATIENCE => {
                let over = asked.expires_us < self.now_us - 1_000_000;
                match asked.waits {
                    Waits::Answer if over => self.clients[id].asked = None,
                    Waits::Answer => self.ask(id),
                    Waits::Standing => self.ask_standing(id)?,
                }
                Ok(())
            }
            Some(_) => Ok(()),
        }
    }

    /// Sends a client's request to any node.
    fn ask(&mut self, client: usize) {
        let node = self.draw(self.nodes.len());
        let step = self.step.get();
        let Some(asked) = &mut self.clients[client].asked else { return };
        asked.sent = step;
        let envelope = asked.envelope.clone();
        self.send(|| Message::Request { node, client, envelope: envelope.clone() });
    }

    /// Asks how what stands in the ledger has ended.
    fn ask_standing(&mut self, id: usize) -> Result<(), Wrong> {
        let node = self.draw(self.nodes.len());
        let Some(node) = self.nodes[node].as_ref().filter(|node| node.is_idle()) else {
            return Ok(());
        };
        let client = &self.clients[id];
        let Some(asked) = &client.asked else { return Ok(()) };
        let Submission::Key(key) = &asked.submission else { return Ok(()) };
        let standing = node.key_standing(&client.principal, key);
        let height = node.replica.head().height;
        self.witness.check_standing(height, &client.principal, key, standing)?;
        self.stats.lookups += 1;
        let over = asked.expires_us < self.now_us - 1_000_000;
        match standing.map(|standing| standing.status) {
            Some(KeyStatus::Committed | KeyStatus::Rejected(_) | KeyStatus::Retry) => {
                self.clients[id].asked = None;
            }
            Some(KeyStatus::Pending) => {}
            None if over => self.clients[id].asked = None,
            None => {}
        }
        Ok(())
    }

    /// A client reads between blocks, on any node that has come as far as it has seen.
    fn read(&mut self, id: usize) -> Result<(), Wrong> {
        let place = self.draw(self.nodes.len());
        let call = draw_read(&mut self.random);
        let alone = self.nodes.len() == 1;
        let Some(node) = &mut self.nodes[place] else { return Ok(()) };
        let client = &mut self.clients[id];
        let waits = !alone || !node.is_idle();
        let Some(snapshot) = node.read(client.seen) else {
            let what = format!("block {} was seen, and nothing is there to read", client.seen);
            return if waits { Ok(()) } else { Err(wrong("own past", what)) };
        };
        let height = snapshot.height();
        client.seen = height;
        self.stats.reads += 1;
        let found = read(snapshot, &call)?;
        let seen = self.witness.show(height)?;
        let specified = seen.state.clone().call(&call);
        match found == specified {
            true => Ok(()),
            false => {
                let what = format!("{call:?} behind block {height}: {found:?}, not {specified:?}");
                Err(wrong("own past", what))
            }
        }
    }

    /// What any node says of any key.
    fn lookup(&mut self) -> Result<(), Wrong> {
        let place = self.draw(self.nodes.len());
        let Some(node) = self.nodes[place].as_ref() else { return Ok(()) };
        if !node.is_idle() || node.halted.is_some() {
            return Ok(());
        }
        self.stats.lookups += 1;
        self.check_keys(place)
    }

    fn check_keys(&self, place: usize) -> Result<(), Wrong> {
        let Some(node) = &self.nodes[place] else { return Ok(()) };
        let height = node.replica.head().height;
        for (principal, key) in self.witness.keys() {
            let standing = node.key_standing(&principal, &key);
            self.witness.check_standing(height, &principal, &key, standing)?;
        }
        Ok(())
    }

    // Nodes.

    fn poll(&mut self) -> Result<(), Wrong> {
        if !self.random.chance(self.cut_one_in) {
            return Ok(());
        }
        if let Orderers::Model(model) = &mut self.orderers {
            model.pass();
        }
        (0..self.nodes.len()).try_for_each(|node| self.poll_node(node))
    }

    fn poll_node(&mut self, place: usize) -> Result<(), Wrong> {
        let now_us = self.now_us;
        loop {
            let Some(node) = &mut self.nodes[place] else { return Ok(()) };
            if node.halted.is_some() || !node.may_order() {
                return Ok(());
            }
            let orderer = self.orderers.of(place);
            if node.is_idle() && node.replica.has_deferred() && self.random.chance(3) {
                orderer.nudge();
            }
            let Some(delivery) = orderer.poll(now_us) else { return Ok(()) };
            let Some(proposal) = delivery.content else { continue };
            if node.passed_over > 0 && self.nodes.len() > 1 {
                self.nodes[place].as_mut().expect("it is up").passed_over -= 1;
                continue;
            }
            return self.on_node(place, |node, out| node.order(proposal, out));
        }
    }

    fn task(&mut self) -> Result<(), Wrong> {
        let place = self.draw(self.nodes.len());
        let tasks = self.nodes[place].as_ref().map_or(0, |node| node.tasks.len());
        if tasks == 0 {
            return self.checkpoint(place);
        }
        let task = self.draw(tasks);
        self.on_node(place, |node, out| node.perform(task, out))
    }

    /// Writes a checkpoint that was begun, or begins one.
    fn checkpoint(&mut self, place: usize) -> Result<(), Wrong> {
        let (begin, write) = (self.random.chance(20), self.random.chance(3));
        if !self.options.checkpoints {
            return Ok(());
        }
        let mut taken = false;
        self.on_node(place, |node, _| {
            node.wanted |= begin && node.checkpoint.is_none();
            node.leave_boundary()?;
            if write {
                taken = node.write_checkpoint()?;
            }
            Ok(())
        })?;
        self.stats.checkpoints += u64::from(taken);
        Ok(())
    }

    /// Lets a node do something; what it tells is heard, and an error stops its writing.
    fn on_node(
        &mut self,
        place: usize,
        act: impl FnOnce(&mut Node, &mut Vec<Output>) -> types::Result<()>,
    ) -> Result<(), Wrong> {
        let Some(node) = self.nodes[place].as_mut().filter(|node| node.halted.is_none()) else {
            return Ok(());
        };
        let mut out = Vec::new();
        let done = act(node, &mut out);
        if let Err(error) = done {
            let disk = self.disks[place].has_failed();
            if !disk {
                return Err(wrong("halt", format!("node {place} stopped: {error:?}")));
            }
            node.halt(error);
            self.stats.halts += 1;
        }
        self.take(place, out)
    }

    fn take(&mut self, place: usize, out: Vec<Output>) -> Result<(), Wrong> {
        for output in out {
            match output {
                Output::Published(batch, result) => {
                    self.witness.observe(&batch, &result)?;
                    self.stats.transactions += batch.envelopes().len() as u64;
                    self.stats.blocks += 1;
                    self.stats.deferred += self.witness.deferred() as u64;
                    self.released[place] = batch.height();
                    if let Orderers::Solo(solo) = &mut self.orderers {
                        solo.released(batch.height());
                    }
                }
                Output::Answer(answer) => {
                    let answer = Box::new(answer);
                    self.send(|| Message::Answer(answer.clone()));
                }
            }
        }
        Ok(())
    }

    /// One that is down, or serves reads only, starts.
    fn restart(&mut self) -> Result<(), Wrong> {
        let place = self.draw(self.nodes.len());
        if self.nodes[place].as_ref().is_some_and(|node| node.halted.is_none()) {
            return Ok(());
        }
        self.start(place)
    }

    fn start(&mut self, place: usize) -> Result<(), Wrong> {
        self.nodes[place] = None;
        self.disks[place].fail_at(None);
        if self.options.disk_faults && !self.quiet && self.random.chance(6) {
            self.arm(place, 30);
        }
        let blocks = if self.options.checkpoints { 5 + self.random.below(20) } else { 0 };
        let node = match Node::start(&self.disks[place], blocks, self.nodes.len() == 1) {
            Ok(node) => node,
            Err(_) if self.disks[place].has_failed() => return Ok(()),
            Err(fault) => return Err(wrong("recovery", format!("node {place}: {fault}"))),
        };
        if !self.check_start(place, &node)? {
            return Ok(());
        }
        let head = node.replica.head();
        match &mut self.orderers {
            Orderers::Solo(solo) => {
                **solo = Solo::new(self.limits, [0; 32]);
                solo.resume(head.height, head.time_us);
                solo.released(head.height);
            }
            Orderers::Model(model) => {
                model.restart(place);
                model.node(place).resume(0, i64::MIN).map_err(|e| wrong("start", e))?;
            }
        }
        self.nodes[place] = Some(node);
        self.released[place] = head.height;
        self.check_keys(place)
    }

    /// What was released is there, as it was; `false`: the disk cannot be read just now.
    fn check_start(&mut self, place: usize, node: &Node) -> Result<bool, Wrong> {
        let head = node.replica.head();
        let released = self.released[place];
        if head.height < released {
            let what = format!("node {place} released {released}, has {}", head.height);
            return Err(wrong("acknowledged", what));
        }
        for height in self.witness.height() + 1..=head.height {
            let missing = || wrong("recovery", format!("block {height} is not on disk"));
            match block_of(&self.disks[place], height) {
                Ok(Some((batch, result))) => self.witness.observe(&batch, &result)?,
                // A fault that waits may meet this reader.
                _ if self.disks[place].has_failed() => return Ok(false),
                _ => return Err(missing()),
            }
        }
        let seen = self.witness.at(head.height);
        let seen = seen.ok_or_else(|| wrong("recovery", "a head that is not known"))?;
        if seen.head != head.hash {
            return Err(wrong("one ledger", format!("node {place} has another {}", head.height)));
        }
        let found = read_tables(node.replica.store(), None)?;
        match found == seen.state {
            true => Ok(true),
            false => {
                let what = format!("block {}: {found:?}, not {:?}", head.height, seen.state);
                Err(wrong("recovery", what))
            }
        }
    }

    // What befalls them.

    fn disaster(&mut self) -> Result<(), Wrong> {
        let place = self.draw(self.nodes.len());
        let kind = self.random.below(4);
        if kind == 0 && self.options.disk_faults && self.nodes[place].is_some() {
            self.arm(place, 20);
        }
        if kind == 1 && self.options.crashes && self.random.chance(2) {
            self.stop(place);
        }
        Ok(())
    }

    /// One of the next operations of a disk will fail.
    fn arm(&mut self, place: usize, ahead: u64) {
        let (_, manner) = MANNERS[self.draw(MANNERS.len())];
        let disk = &self.disks[place];
        let failure = match self.random.chance(8) {
            true => Failure::Read(disk.reads() + self.random.below(ahead)),
            false => manner(disk.operations() + self.random.below(ahead)),
        };
        disk.fail_at(Some(failure));
    }

    /// A kill leaves the page cache, a power cut what the disk has.
    fn stop(&mut self, place: usize) {
        self.nodes[place] = None;
        if self.random.chance(2) {
            self.stats.power_cuts += 1;
            self.disks[place] = self.disks[place].crash(&mut self.random);
        } else {
            self.stats.kills += 1;
        }
    }

    // The end.

    fn end(&mut self) -> Result<(), Wrong> {
        self.quiet = true;
        if let Orderers::Model(model) = &mut self.orderers {
            model.set_faults(Faults::NONE);
        }
        let mut rounds = 0;
        while !self.is_done() {
            rounds += 1;
            self.step.set(self.step.get() + 1);
            self.round()?;
            if rounds > ROUNDS_MAX {
                return Err(wrong("progress", self.describe()));
            }
        }
        (0..self.nodes.len()).try_for_each(|place| self.check_disk(place))
    }

    fn round(&mut self) -> Result<(), Wrong> {
        self.now_us += 2_000;
        while !self.network.is_empty() {
            self.deliver()?;
        }
        self.client()?;
        if let Orderers::Model(model) = &mut self.orderers {
            model.pass();
        }
        (0..self.nodes.len()).try_for_each(|place| self.work_off(place))
    }

    /// A node does all there is to do: one that falls behind has its envelopes ordered again.
    fn work_off(&mut self, place: usize) -> Result<(), Wrong> {
        if self.nodes[place].as_ref().is_none_or(|node| node.halted.is_some()) {
            self.start(place)?;
        }
        self.disks[place].fail_at(None);
        loop {
            while let Some(1..) = self.nodes[place].as_ref().map(|node| node.tasks.len()) {
                self.on_node(place, |node, out| node.perform(0, out))?;
            }
            let height = self.nodes[place].as_ref().map(|node| node.pipeline.next_height());
            self.poll_node(place)?;
            if self.nodes[place].as_ref().map(|node| node.pipeline.next_height()) == height {
                return Ok(());
            }
        }
    }

    fn is_done(&self) -> bool {
        let height = self.witness.height();
        let at_rest = |node: &Option<Node>| {
            node.as_ref().is_some_and(|node| {
                node.is_idle()
                    && node.halted.is_none()
                    && node.replica.head().height == height
                    && !node.replica.has_deferred()
            })
        };
        self.network.is_empty()
            && self.clients.iter().all(|client| client.asked.is_none())
            && self.witness.deferred() == 0
            && self.nodes.iter().all(at_rest)
    }

    fn describe(&self) -> String {
        let of = |node: &Option<Node>| match node {
            None => "down".to_owned(),
            Some(node) => format!(
                "at {} with {:?}, deferred {}, halted {:?}",
                node.replica.head().height,
                node.tasks,
                node.replica.deferred_to_next(),
                node.halted
            ),
        };
        let nodes: Vec<String> = self.nodes.iter().map(of).collect();
        let asking = self.clients.iter().filter(|client| client.asked.is_some()).count();
        format!(
            "released {}, {} deferred, {asking} clients wait; nodes: {nodes:?}",
            self.witness.height(),
            self.witness.deferred()
        )
    }

    /// The ledger from genesis on, read and executed once more.
    fn check_disk(&mut self, place: usize) -> Result<(), Wrong> {
        self.check_keys(place)?;
        self.nodes[place] = None;
        let cut = self.disks[place].crash(&mut self.random);
        let files = std::sync::Arc::new(cut.clone());
        let replayed = engine::replay(files, &language, 1, &mut |_| ());
        let replayed = replayed.map_err(|fault| wrong("recovery", format!("verify: {fault}")))?;
        let head = replayed.replica.head();
        if head.height != self.witness.height() {
            let what = format!("of {} blocks {} are left", self.witness.height(), head.height);
            return Err(wrong("acknowledged", what));
        }
        self.disks[place] = cut;
        self.start(place)
    }
}
