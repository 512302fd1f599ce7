//! Replies of a configuration server, and foreign bytes in the shared data of its followers.
//!
//! The first three bytes choose the options and the status; then come operations of two bytes each,
//! with their arguments.

use super::input::Input;
use diana_base::time::{Span, Time};
use diana_limiter::cells::store::{Memory, Store};
use diana_remote_config::{
    FetchError, Follower, MAX_REPLY_BYTES, PollResult, RemoteOptions, ServerReply, Task, Validators, pointer,
};

const STATUSES: [u32; 6] = [200, 200, 304, 0, 404, 503];
const POINTERS: [&str; 5] = ["", "/a", "/kvs/0/value", "/0/~1~0", "/"];
const FOLLOWERS: usize = 3;

/// Any reply is a document or an error. Whatever is replied, written, lost or late, followers
/// activate only documents that one of them found valid, and in the end the newest.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let pointer = pointer(POINTERS[input.below(POINTERS.len())]).unwrap();
    let is_base64 = input.flag();
    let status = STATUSES[input.below(STATUSES.len())];
    let options = options(pointer, is_base64);
    read(&options, status, &input);
    let mut run = Run::new(options);
    while !input.is_empty() {
        run.step(&mut input);
    }
    run.end();
}

fn options(pointer: Vec<String>, is_base64: bool) -> RemoteOptions {
    RemoteOptions {
        cluster: "config".into(),
        authority: "config".into(),
        path: "/".into(),
        headers: Vec::new(),
        body: None,
        interval: Span::from_secs(4),
        timeout: Span::from_secs(1),
        max_stale: Span::from_secs(60),
        pointer,
        is_base64,
    }
}

fn read(options: &RemoteOptions, status: u32, input: &Input) {
    let reply = options.read(status, input.0);
    assert_eq!(options.read(status, input.0), reply);
    match reply {
        Ok(ServerReply::Document(document)) => {
            assert_eq!(status, 200);
            let is_plain = options.pointer.is_empty() && !options.is_base64;
            assert!(if is_plain { document == input.0 } else { document.len() <= input.0.len() * 4 });
        }
        Ok(ServerReply::Unchanged) => assert_eq!(status, 304),
        Err(FetchError::Status(code)) => assert!(code == status && status > 304),
        Err(FetchError::None) => assert_eq!(status, 0),
        Err(failure) => assert!(failure.is_contact() && status == 200),
    }
    assert!(input.0.len() <= MAX_REPLY_BYTES);
}

struct Run {
    options: RemoteOptions,
    store: Memory,
    followers: Vec<Follower>,
    now: Time,
    /// The documents found valid.
    good: Vec<Vec<u8>>,
}

impl Run {
    fn new(options: RemoteOptions) -> Run {
        let store = Memory::new();
        let followers = (1..=FOLLOWERS as u64).map(|id| Follower::new(options.clone(), id)).collect();
        let now = Time::ZERO.after(Span::from_secs(1_000));
        Run { options, store, followers, now, good: Vec::new() }
    }

    fn step(&mut self, input: &mut Input) {
        let (what, which) = (input.below(8), input.below(FOLLOWERS));
        let length = if what > 4 { input.byte().into() } else { 0 };
        let bytes = input.bytes(length);
        match what {
            0 => self.now = self.now.after(Span::from_ms(bytes.len() as u64 + 100)),
            1 => self.now = self.now.after(Span::from_secs(1 << (which * 3))),
            2 | 3 => self.follow(which),
            4 => _ = self.followers[which].claim_poll(&self.store, self.now, false),
            5 => {
                let key = self.key(["d", "c", "d"][which % 3], ["0", "", "1"][which % 3]);
                let version = self.store.load(&key).unwrap().map(|loaded| loaded.version);
                self.store.swap(&key, bytes, version).unwrap();
            }
            _ => {
                let status = if what == 6 { 200 } else { STATUSES[which % STATUSES.len()] };
                let validators =
                    Validators::of(bytes.get(..4).map(Vec::from), bytes.get(4..).map(Vec::from), None);
                let reply = self.options.read(status, bytes);
                self.answered(which, reply, validators);
            }
        }
    }

    fn key(&self, kind: &str, end: &str) -> Vec<u8> {
        let id: String = self.options.id().to_le_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("diana/{kind}{id}{end}").into_bytes()
    }

    fn answered(
        &mut self,
        which: usize,
        reply: Result<ServerReply, FetchError>,
        validators: Validators,
    ) -> PollResult {
        let good = &mut self.good;
        let validate = |document: &[u8]| {
            let is_good = document.len().is_multiple_of(2);
            is_good.then(|| good.push(document.to_vec())).ok_or("odd".to_owned())
        };
        self.followers[which].answered(&self.store, self.now, reply, validators, 7, validate)
    }

    fn follow(&mut self, which: usize) {
        let follower = &mut self.followers[which];
        match follower.follow(&self.store, self.now) {
            Some(Task::Activate(snapshot)) => {
                assert!(self.good.contains(&snapshot.document), "{snapshot:?}");
                follower.set_active(snapshot.generation);
                assert_eq!(follower.active_generation(), snapshot.generation);
            }
            Some(Task::Local { .. }) => follower.set_active(0),
            None => {}
        }
    }

    /// The server replies until all followers have the document.
    fn end(mut self) {
        // A document that is new.
        let mut document = self.good.concat();
        document.extend(vec![b'+'; 2 - document.len() % 2]);
        for _ in 0..160 {
            self.now = self.now.after(Span::from_ms(500));
            for which in 0..FOLLOWERS {
                if self.followers[which].claim_poll(&self.store, self.now, false).is_some() {
                    self.answered(which, Ok(ServerReply::Document(document.clone())), Validators::default());
                }
                self.follow(which);
            }
        }
        let mut newcomer = Follower::new(self.options.clone(), 99);
        let Some(Task::Activate(snapshot)) = newcomer.follow(&self.store, self.now) else {
            panic!("there is no document");
        };
        assert_eq!(snapshot.document, document);
        assert!(self.followers.iter().all(|follower| follower.active_generation() == snapshot.generation));
    }
}
