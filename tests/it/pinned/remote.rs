//! The head and the documents that the workers of a gateway share.

use super::{contents, pinned};
use crate::harness::{at, store};
use diana_limiter::cells::store::CasSemantics;
use diana_remote_config::{Follower, RemoteOptions, ServerReply, Validators};
use diana_testing::shared_data::Simulated;

#[test]
fn the_keys_and_values_of_a_remote_configuration() {
    let host = Simulated::new(CasSemantics::Lenient);
    let store = store(&host);
    let options = RemoteOptions {
        pointer: vec!["data".into()],
        body: Some("{}".into()),
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
    pinned(&contents(&host), FOLLOWED);
}

const FOLLOWED: &str = "
diana/cbbca928bb45c2a59 6469616e612d633509(7)8059ba69019d9717(9)e4358a009d971702(7)d937bb9063bff957(24)22312200617420333700e628a1e2702d28fa
diana/dbbca928bb45c2a590 d937bb9063bff9575b5d
diana/dbbca928bb45c2a591 69e6dd01535945097b7d
";
