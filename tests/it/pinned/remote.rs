//! The head, the documents and the canary's counts that the workers of a gateway share.

use super::{contents, pinned};
use crate::harness::{at, store};
use diana_base::time::Span;
use diana_limiter::cells::store::{Rules, Simulated};
use diana_limiter::policy::Sample;
use diana_remote_config::{CanaryCounts, CanaryOptions, Follower, RemoteOptions, ServerReply, Validators};

#[test]
fn the_keys_and_values_of_a_remote_configuration() {
    let host = Simulated::new(Rules::Lenient);
    let store = store(&host);
    let canary = CanaryOptions { sample: Sample(10), hold: Span::from_secs(60), max_refused: 5 };
    let options = RemoteOptions {
        pointer: vec!["data".into()],
        body: Some("{}".into()),
        canary: Some(canary),
        ..RemoteOptions::new("config", "/diana.json")
    };
    let mut follower = Follower::new(options, 9).over(11);
    let poll = |follower: &mut Follower, ms, document: &[u8]| {
        assert!(follower.claim_poll(&store, at(ms), false).is_some());
        let validators = Validators::of(Some(b"\"1\"".into()), Some(b"at 37".into()), None);
        let reply = Ok(ServerReply::Document(document.into()));
        _ = follower.answered(&store, at(ms), reply, validators, 0, |_| Ok(()));
        assert!(follower.follow(&store, at(ms)).is_some());
    };
    poll(&mut follower, 0, b"{}");
    follower.set_active(1);
    poll(&mut follower, 10_000, b"[]");

    let mut counts = CanaryCounts::default();
    (0..60).for_each(|_| _ = counts.record(false, false, None));
    for (new_refuses, actor) in [(true, Some(3)), (false, Some(u64::MAX)), (true, None)] {
        _ = counts.record(new_refuses, !new_refuses, actor);
    }
    assert_eq!(follower.judge_canary(&store, at(10_100), &counts), None);
    pinned(&contents(&host), COMPARED);
}

const COMPARED: &str = "
diana/cbbca928bb45c2a59 6469616e612d633309(7)8059ba69019d9717(9)e4358a009d971701(7)69e6dd015359450901(7)d937bb9063bff957(9)e4358a009d9717(8)0b(7)22312200617420333700c4ea0a558910fbd9
diana/dbbca928bb45c2a590 d937bb9063bff9575b5d
diana/dbbca928bb45c2a591 69e6dd01535945097b7d
diana/tbbca928bb45c2a59 d31bf11a645c916f3e(7)01(15)03(7)01(7)ffffffffffffffffffffffffffffffff
";
