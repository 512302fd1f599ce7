//! A gateway whose workers follow one source, in simulated shared data.
//!
//! It does not know: what is tested.

use super::*;

/// A gateway whose workers follow one source.
pub(super) struct Workers {
    pub(super) store: Portable<Simulated>,
    pub(super) followers: Vec<Follower>,
    pub(super) now: Time,
}

impl Workers {
    pub(super) fn new(count: u64) -> Workers {
        Workers::of(count, &options())
    }

    pub(super) fn of(count: u64, options: &RemoteOptions) -> Workers {
        let followers = (1..=count).map(|id| Follower::new(options.clone(), id)).collect();
        let store = Portable::probe(Simulated::new(Rules::Lenient)).unwrap();
        Workers { store, followers, now: Time::ZERO.after(Span::from_secs(1_000)) }
    }

    pub(super) fn pass(&mut self, ms: u64) {
        self.now = self.now.after(Span::from_ms(ms));
    }

    /// Who asks now, and what the request says of what is known.
    pub(super) fn asks(&mut self) -> Vec<(usize, Option<String>)> {
        let ask = |(at, follower): (usize, &mut Follower)| {
            Some((at, header(&follower.asks(&self.store, self.now, false)?, "if-none-match")))
        };
        self.followers.iter_mut().enumerate().filter_map(ask).collect()
    }

    /// Time passes until somebody asks.
    pub(super) fn until_asked(&mut self) -> (usize, u64) {
        for ms in 0..100_000 {
            if let [(asker, _), rest @ ..] = &*self.asks() {
                assert!(rest.is_empty(), "one at a time");
                return (*asker, ms);
            }
            self.pass(1);
        }
        panic!("nobody asks");
    }

    pub(super) fn answer(
        &mut self,
        asker: usize,
        answer: Result<ServerReply, FetchError>,
        mark: &str,
    ) -> PollResult {
        let takes = |document: &[u8]| match document.starts_with(b"good") {
            true => Ok(()),
            false => Err("bad".into()),
        };
        self.followers[asker].answered(&self.store, self.now, answer, marks(mark), 0, takes)
    }

    pub(super) fn serve(&mut self, asker: usize, document: &str) -> PollResult {
        self.answer(asker, Ok(ServerReply::Document(document.into())), document)
    }

    /// What each serves after a look.
    pub(super) fn look(&mut self) -> Vec<u64> {
        for follower in &mut self.followers {
            match follower.follow(&self.store, self.now) {
                Some(Task::Take(stock)) if stock.document == b"good elsewhere" => {
                    follower.cannot_take(stock.generation);
                }
                Some(Task::Take(stock)) => follower.took(stock.generation),
                Some(Task::Local { .. }) => follower.took(0),
                Some(Task::Try { .. } | Task::Drop) | None => {}
            }
        }
        self.followers.iter().map(Follower::serves).collect()
    }

    /// What each has to do when it looks.
    pub(super) fn tasks(&mut self) -> Vec<Option<Task>> {
        let mut tasks = Vec::new();
        for follower in &mut self.followers {
            let task = follower.follow(&self.store, self.now);
            if let Some(Task::Take(stock)) = &task {
                follower.took(stock.generation);
            }
            tasks.push(task);
        }
        tasks
    }

    /// Each tells of so many requests, and that so many of them are newly refused: the one that asks tells last; what
    /// follows.
    pub(super) fn fared(&mut self, seen: u64, rest: u64) -> Vec<CanaryVerdict> {
        let mut here = CanaryCounts::default();
        (here.seen, here.rest) = (seen, rest);
        let judge = |follower: &mut Follower| follower.judge_canary(&self.store, self.now, &here);
        self.followers.iter_mut().rev().filter_map(judge).collect()
    }
}
