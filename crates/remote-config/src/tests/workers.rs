//! A gateway whose workers follow one source, in simulated shared data.

use super::*;

/// A gateway whose workers follow one source.
pub(crate) struct Workers {
    pub(crate) store: Memory,
    pub(crate) followers: Vec<Follower>,
    pub(crate) now: Time,
}

impl Workers {
    pub(crate) fn new(count: u64) -> Workers {
        Workers::of(count, &options())
    }

    pub(crate) fn of(count: u64, options: &RemoteOptions) -> Workers {
        let followers = (1..=count).map(|id| Follower::new(options.clone(), id)).collect();
        let store = Memory::new();
        Workers { store, followers, now: Time::ZERO.after(Span::from_secs(1_000)) }
    }

    pub(crate) fn pass(&mut self, ms: u64) {
        self.now = self.now.after(Span::from_ms(ms));
    }

    /// The workers that poll now, and `if-none-match` of each request.
    pub(crate) fn polls(&mut self) -> Vec<(usize, Option<String>)> {
        let ask = |(at, follower): (usize, &mut Follower)| {
            Some((at, header(&follower.claim_poll(&self.store, self.now, false)?, "if-none-match")))
        };
        self.followers.iter_mut().enumerate().filter_map(ask).collect()
    }

    /// Time passes until a worker polls; the worker, and the time in ms.
    pub(crate) fn until_poll(&mut self) -> (usize, u64) {
        for ms in 0..100_000 {
            if let [(poller, _), rest @ ..] = &*self.polls() {
                assert!(rest.is_empty(), "one at a time");
                return (*poller, ms);
            }
            self.pass(1);
        }
        panic!("nobody polls");
    }

    pub(crate) fn reply(
        &mut self,
        poller: usize,
        reply: Result<ServerReply, FetchError>,
        etag: &str,
    ) -> PollResult {
        let validate = |document: &[u8]| match document.starts_with(b"good") {
            true => Ok(()),
            false => Err("bad".into()),
        };
        self.followers[poller].answered(&self.store, self.now, reply, validators(etag), 0, validate)
    }

    pub(crate) fn serve(&mut self, poller: usize, document: &str) -> PollResult {
        self.reply(poller, Ok(ServerReply::Document(document.into())), document)
    }

    /// The active document of each worker after a look.
    pub(crate) fn look(&mut self) -> Vec<u64> {
        for follower in &mut self.followers {
            match follower.follow(&self.store, self.now) {
                Some(Task::Activate(snapshot)) if snapshot.document == b"good elsewhere" => {
                    follower.mark_invalid(snapshot.generation);
                }
                Some(Task::Activate(snapshot)) => follower.set_active(snapshot.generation),
                Some(Task::Local { .. }) => follower.set_active(0),
                None => {}
            }
        }
        self.followers.iter().map(Follower::active_generation).collect()
    }
}
