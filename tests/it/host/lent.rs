//! What workers hold ahead, in the whole filter, while swaps are lost, configurations change and calls call back: no
//! more pass than may, and nothing is lost for good.
//!
//! It does not know: the algorithms' own promises about a piece.

use super::faults::{Faults, Kind};
use super::gateway::{Fate, Gateway};
use diana::host::proxy_wasm::Callbacks;
use diana::store::Rules;
use proptest::prelude::*;

const QUOTA: usize = 400;
const RULES: &str = r#"{"limits": [{"url": "/", "rules": [{"name": "all", "algo": "ALGO", "rpu": 400, "unit": "day"},
    {"actor": "user", "rpu": 300, "unit": "day", "overrides": {"vip": {"rpu": 200}}}]}]}"#;

fn passed(gateway: &Gateway) -> usize {
    let went_on = |fate: &Fate| matches!(fate, Fate::Upstream | Fate::Served | Fate::Reset);
    gateway.world.noted.borrow().iter().filter(|noted| went_on(&noted.fate)).count()
}

/// Requests in spurts, time, ticks, reloads, and the end of old configurations, all at one of the workers.
fn play(gateway: &Gateway, steps: &[(u8, u8)]) {
    for (step, what) in steps {
        let what = usize::from(*what);
        let vm = &gateway.vms[what % gateway.vms.len()];
        match step % 16 {
            0..8 => {
                let user = ["ann", "bob", "vip"][usize::from(step % 3)];
                (0..what / 4).for_each(|_| _ = gateway.request(what, "/", user));
            }
            8..11 => gateway.pass(what as u64),
            11 => _ = vm.configure_again(),
            12 => _ = vm.configure(),
            13 => {
                let old = vm.oldest_root().filter(|root| Some(*root) != vm.newest_root());
                old.into_iter().for_each(|root| vm.delete_root(root));
            }
            14 => vm.newest_root().into_iter().for_each(|root| vm.tick(root)),
            _ => gateway.end_all(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn all_of_the_quota_passes_and_no_more(
        algo in prop::sample::select(vec!["TB", "W", "SW"]),
        workers in 1..4usize, reenters: bool, loses: bool, one_in in 2..10u64, seed: u64,
        steps in prop::collection::vec(any::<(u8, u8)>(), 1..80),
    ) {
        let gateway = Gateway::new(Rules::Lenient, workers, Callbacks::All, reenters);
        assert!(gateway.configure(&RULES.replace("ALGO", algo)));
        let kind = if loses { Kind::LostSwaps } else { Kind::Nothing };
        *gateway.world.faults.borrow_mut() = Faults { kind, one_in, seed };
        play(&gateway, &steps);
        // A day's 400 are one more in three and a half minutes, which is longer than all of it takes.
        prop_assert!(passed(&gateway) <= QUOTA);
        gateway.fail(Kind::Nothing);
        gateway.end_all();
        for round in 0..2 {
            gateway.pass(1_000);
            (0..2 * QUOTA).for_each(|n| _ = gateway.request(n, "/", &format!("user-{round}-{n}")));
        }
        prop_assert_eq!(passed(&gateway), QUOTA);
        gateway.no_crash();
    }
}

/// The timer that the configuration before had set fires first, and is set again for what came after it.
#[test]
fn what_is_lent_just_after_a_new_configuration_comes_back() {
    let gateway = Gateway::start(Rules::Lenient, 3, &RULES.replace("ALGO", "TB"));
    play(&gateway, &[(80, 80), (104, 1), (43, 233), (32, 197), (0, 0), (220, 8)]);
    gateway.end_all();
    for round in 0..2 {
        gateway.pass(1_000);
        (0..2 * QUOTA).for_each(|n| _ = gateway.request(n, "/", &format!("user-{round}-{n}")));
    }
    assert_eq!(passed(&gateway), QUOTA);
}
