//! Threads that take turns: a schedule that is chosen, and comes back.
//!
//! Which of several threads gets on, and where, is decided by processors, caches and the operating
//! system; a fault that needs one interleaving in thousands shows on one machine and not on
//! another. Here the threads of one job, its *players*, run one at a time, and a seed says which
//! one goes on:
//!
//! ```text
//!   player 0   ──┤pause      ├──┤give way ├────┤ leave
//!   player 1     ├──┤pause          ├─┤…
//!   player 2        ├──────┤pause                        one line is drawn at any moment
//! ```
//!
//! Each player has a clock, and the one whose clock is least has the turn.
//!
//! * *pause*: once in so many times, drawn for each job, the clock is put forward, mostly by a
//!   little and now and then by much: a player that has lost its processor at the worst moment,
//!   while others begin and end;
//! * *give way*: the player waits for another, which has a turn before it looks again: its clock is
//!   put after the next one's. Whatever waits in [`sync`](crate::sync) does so;
//! * *leave*: its part of the job is over, by an end or by a panic.
//!
//! *Invariants.* Players touch each other's memory in one order only, that of the turns, and all
//! that chooses is drawn under one lock by the player that has the turn: the same seed gives the
//! same interleaving, on any machine and under any load.
//!
//! *What players must not do:* pause while they hold a mutex that another may want, or wait for
//! another by anything but [`sync`](crate::sync). Players that only give way to each other wait for
//! ever; that is noticed, and panics.
//!
//! Without the feature `turns` no thread plays: all of it is empty.

#[cfg(feature = "turns")]
pub use switched_on::{Guard, Turns, give_way, pause, plays};

/// Whether another player had a turn.
#[cfg(not(feature = "turns"))]
#[inline(always)]
pub fn give_way() -> bool {
    false
}

#[cfg(feature = "turns")]
mod switched_on {
    use std::cell::RefCell;
    use std::sync::{Arc, Condvar, Mutex, MutexGuard};

    use crate::random::Random;

    /// Times that players may give way to each other before none can be waited for any more.
    const WAITS_MAX: u32 = 10_000;

    /// Pauses of which one takes time, drawn for each job.
    const PAUSES: [u64; 4] = [2, 4, 10, 40];

    /// A pause takes one unit of time, two, four, … with the same chance.
    const LENGTHS: u64 = 8;

    /// Of a player that waits for another and looks again.
    const WAIT: u64 = 16;

    thread_local! {
        static PLAYING: RefCell<Option<Player>> = const { RefCell::new(None) };
    }

    struct Player {
        turns: Arc<Turns>,
        number: usize,
    }

    /// The players of one job.
    pub struct Turns {
        state: Mutex<State>,
        /// By player: it has the turn.
        called: Box<[Condvar]>,
    }

    struct State {
        random: Random,
        /// One in so many pauses takes time.
        pauses: u64,
        turn: usize,
        /// By player; `None`: it has left.
        clocks: Vec<Option<u64>>,
        /// Since a player last got on.
        waits: u32,
    }

    /// Leaves when it is dropped.
    #[must_use]
    pub struct Guard {
        before: Option<Player>,
    }

    impl Turns {
        /// For players 0.. of a job, each of which must [enter](Turns::enter).
        pub fn new(seed: u64, players: usize) -> Arc<Turns> {
            let mut random = Random::new(seed);
            let pauses = PAUSES[random.below(PAUSES.len() as u64) as usize];
            let clocks = (0..players).map(|_| Some(random.below(1 << LENGTHS))).collect();
            let mut state = State { random, pauses, turn: 0, clocks, waits: 0 };
            state.call_next();
            let called = (0..players).map(|_| Condvar::new()).collect();
            Arc::new(Turns { state: Mutex::new(state), called })
        }

        /// The calling thread plays from now on; returns when it has the turn.
        pub fn enter(self: &Arc<Turns>, number: usize) -> Guard {
            drop(self.wait(self.lock(), number));
            let player = Player { turns: Arc::clone(self), number };
            Guard { before: PLAYING.replace(Some(player)) }
        }

        fn lock(&self) -> MutexGuard<'_, State> {
            self.state.lock().unwrap_or_else(|e| e.into_inner())
        }

        fn wait<'a>(
            &'a self,
            state: MutexGuard<'a, State>,
            number: usize,
        ) -> MutexGuard<'a, State> {
            let not_yet = |state: &mut State| state.turn != number;
            self.called[number].wait_while(state, not_yet).unwrap_or_else(|e| e.into_inner())
        }

        /// The player that comes next has the turn, until it comes back to this player.
        fn change(&self, mut state: MutexGuard<'_, State>, number: usize) {
            state.call_next();
            if state.turn != number {
                self.called[state.turn].notify_one();
                drop(self.wait(state, number));
            }
        }

        fn pause(&self, number: usize) {
            let mut state = self.lock();
            state.waits = 0;
            let pauses = state.pauses;
            if state.random.chance(pauses) {
                let length = 1 << state.random.below(LENGTHS);
                state.clocks[number] = state.clocks[number].map(|clock| clock + length);
                self.change(state, number);
            }
        }

        fn give_way(&self, number: usize) -> bool {
            let mut state = self.lock();
            let Some(next) = state.next_but(number) else { return false };
            state.waits += 1;
            if state.waits > WAITS_MAX {
                drop(state);
                panic!("all players wait for each other");
            }
            let wait = 1 + state.random.below(WAIT);
            state.clocks[number] = state.clocks[number].map(|clock| clock.max(next) + wait);
            self.change(state, number);
            true
        }

        fn leave(&self, number: usize) {
            let mut state = self.lock();
            state.waits = 0;
            state.clocks[number] = None;
            state.call_next();
            self.called[state.turn].notify_one();
        }
    }

    impl State {
        fn call_next(&mut self) {
            let clocks = self.clocks.iter().enumerate();
            let next = clocks.filter_map(|(player, clock)| Some(((*clock)?, player))).min();
            self.turn = next.map_or(self.turn, |(_, player)| player);
        }

        /// The least clock of the others.
        fn next_but(&self, number: usize) -> Option<u64> {
            let clocks = self.clocks.iter().enumerate();
            clocks.filter(|(player, _)| *player != number).filter_map(|(_, clock)| *clock).min()
        }
    }

    impl Drop for Guard {
        fn drop(&mut self) {
            if let Some(Player { turns, number }) = PLAYING.replace(self.before.take()) {
                turns.leave(number);
            }
        }
    }

    /// Whether the thread is a player.
    pub fn plays() -> bool {
        PLAYING.with_borrow(Option::is_some)
    }

    /// A good moment for another player to come in between. False: the thread does not play.
    pub fn pause() -> bool {
        PLAYING.with_borrow(|playing| {
            playing.as_ref().is_some_and(|Player { turns, number }| {
                turns.pause(*number);
                true
            })
        })
    }

    /// The thread waits for another. Whether another player had a turn.
    pub fn give_way() -> bool {
        PLAYING.with_borrow(|playing| {
            playing.as_ref().is_some_and(|Player { turns, number }| turns.give_way(*number))
        })
    }
}

#[cfg(all(test, feature = "turns", not(shuttle)))]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::sync::{self, Condvar};

    /// What four players wrote, one letter at a time.
    fn written(seed: u64, per_player: usize) -> Vec<usize> {
        let (turns, log) = (Turns::new(seed, 4), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for number in 0..4 {
                let (turns, log) = (Arc::clone(&turns), &log);
                scope.spawn(move || {
                    let _playing = turns.enter(number);
                    for _ in 0..per_player {
                        log.lock().unwrap().push(number);
                        pause();
                    }
                });
            }
        });
        log.into_inner().unwrap()
    }

    #[test]
    fn a_seed_is_an_interleaving() {
        let mut seen = Vec::new();
        for seed in 0..40 {
            let first = written(seed, 12);
            assert_eq!(first.len(), 48);
            assert_eq!(first, written(seed, 12), "seed {seed}");
            seen.push(first);
        }
        seen.sort();
        seen.dedup();
        assert!(seen.len() > 35, "{} interleavings", seen.len());
    }

    /// One waits on a condition variable for what the other, which comes after it, sets.
    #[test]
    fn who_waits_gives_way() {
        for seed in 0..20 {
            let (turns, state, changed) = (Turns::new(seed, 2), Mutex::new(0), Condvar::new());
            std::thread::scope(|scope| {
                for number in 0..2 {
                    let (turns, state, changed) = (Arc::clone(&turns), &state, &changed);
                    scope.spawn(move || {
                        let _playing = turns.enter(number);
                        for round in 0..10 {
                            let mut reached = state.lock().unwrap();
                            while *reached != 2 * round + number {
                                reached = sync::wait(changed, state, reached);
                            }
                            *reached += 1;
                            changed.notify_all();
                        }
                    });
                }
            });
            assert_eq!(state.into_inner().unwrap(), 20);
        }
    }

    #[test]
    fn players_who_only_wait_are_told() {
        let turns = Turns::new(1, 2);
        let ends = std::thread::scope(|scope| {
            let play = |number| {
                let turns = Arc::clone(&turns);
                scope.spawn(move || {
                    let _playing = turns.enter(number);
                    while give_way() {}
                })
            };
            [play(0), play(1)].map(|thread| thread.join().is_err())
        });
        assert_eq!(ends.iter().filter(|panicked| **panicked).count(), 1, "the other is alone then");
    }

    #[test]
    fn a_player_who_panics_leaves() {
        let turns = Turns::new(3, 2);
        std::thread::scope(|scope| {
            let play = |number| {
                let turns = Arc::clone(&turns);
                scope.spawn(move || {
                    let _playing = turns.enter(number);
                    assert_ne!(number, 0);
                    assert!((0..100).all(|_| pause()));
                })
            };
            let ends = [play(0), play(1)].map(|thread| thread.join().is_err());
            assert_eq!(ends, [true, false]);
        });
    }
}
