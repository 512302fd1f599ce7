//! Anything that may happen to a source and to its followers, in any order.

use super::*;
use crate::host::callouts;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Always the same cases; `$PROPTEST_RNG_SEED` selects others.
fn cases() -> ProptestConfig {
    let config = ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() };
    match config.rng_seed {
        RngSeed::Random => ProptestConfig { rng_seed: RngSeed::Fixed(5), ..config },
        RngSeed::Fixed(_) => config,
    }
}

/// Content of a server that is no document.
const BAD: [&str; 4] =
    ["", "<html>no</html>", r#"{"response": {"status": 200}}"#, r#"{"response": {"status": 4"#];

/// A new document each time. Every worker has one of the documents so far.
struct Run {
    gateway: Gateway,
    /// The status of the newest good document. All lower statuses are those of earlier documents.
    newest: u32,
}

const FIRST: u32 = 430;
const LAST: u32 = 590;

impl Run {
    fn holds(&self) -> Result<(), TestCaseError> {
        for vm in &self.gateway.vms {
            let status = active_status(&self.gateway, vm);
            prop_assert!(status == LOCAL || (FIRST..=self.newest).contains(&status), "{status}");
        }
        prop_assert_eq!(&*self.gateway.world.crashes.borrow(), &Vec::<String>::new());
        Ok(())
    }

    fn step(&mut self, kind: u8, what: u8) {
        let gateway = &self.gateway;
        let vm = &gateway.vms[usize::from(kind >> 5) % gateway.vms.len()];
        match kind % 32 {
            0..5 if self.newest < LAST => {
                self.newest += 1;
                put_document(gateway, &document(self.newest));
            }
            5 => put_document(gateway, BAD[usize::from(what) % BAD.len()]),
            6 => change(gateway, |server| server.status = [200, 500, 304, 404][usize::from(what) % 4]),
            7 => clusters(gateway).down.set(what.is_multiple_of(2)),
            8 => change(gateway, |server| server.sends_etags = what.is_multiple_of(2)),
            9..24 => gateway.pass(u64::from(what) * 8),
            24 => {
                let clock = &gateway.world.clock;
                clock.set(clock.get() + u64::from(what) * 100_000_000);
            }
            25 => vm.tick(vm.newest_root().unwrap()),
            26 => _ = vm.configure(),
            27 => _ = vm.configure_again(),
            28 => {
                let old = vm.oldest_root().filter(|root| Some(*root) != vm.newest_root());
                old.into_iter().for_each(|root| vm.delete_root(root));
            }
            29 => gateway.world.overwrite(|bytes| {
                if bytes.starts_with(b"diana-c3") && what.is_multiple_of(2) {
                    let at = usize::from(what) % bytes.len();
                    bytes[at] ^= 1;
                }
            }),
            30 => vm.report(vm.newest_root().unwrap(), what.into(), (Some(200), document(599).into())),
            _ => set_call_faults(gateway, CallFaults::default()),
        }
    }
}

fn kinds() -> impl Strategy<Value = FaultKind> {
    prop::sample::select(vec![
        FaultKind::Nothing,
        FaultKind::LostSwaps,
        FaultKind::Store,
        FaultKind::Timer,
        FaultKind::Any,
    ])
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_worker_always_has_a_good_document_active_and_in_the_end_the_newest(
        workers in 1..4_usize,
        kind in kinds(),
        one_in in 1..9_u64,
        call_faults in (0..5_u64, 0..400_000_u64, any::<bool>(), any::<bool>(), any::<u64>()),
        bytes in prop::collection::vec(any::<u8>(), 0..160),
    ) {
        let gateway = start(workers, &document(FIRST));
        let (fault, longest_us, cancels, outlives, seed) = call_faults;
        set_call_faults(&gateway, CallFaults { faults: callouts::ALL, one_in: fault, longest_us, cancels, outlives, seed });
        gateway.world.faults.replace(Faults { kind, one_in, seed });
        let mut run = Run { gateway, newest: FIRST };
        let (operations, _) = bytes.as_chunks::<2>();
        for [kind, what] in operations {
            run.step(*kind, *what);
            run.holds()?;
        }
        let Run { gateway, newest } = run;
        gateway.world.faults.replace(Faults::default());
        set_call_faults(&gateway, CallFaults::default());
        clusters(&gateway).down.set(false);
        change(&gateway, |server| {
            (server.status, server.sends_etags, server.document) = (200, true, document(newest + 1).into());
        });
        // If no timer could be set, a request sets one.
        active_statuses(&gateway);
        // After many failures the pause is four intervals.
        gateway.pass(5_000);
        prop_assert_eq!(active_statuses(&gateway), vec![newest + 1; workers]);
        gateway.pass(20_000);
        prop_assert_eq!(active_statuses(&gateway), vec![newest + 1; workers]);
        for vm in &gateway.vms {
            while let Some(root) = vm.oldest_root() {
                if Some(root) == vm.newest_root() {
                    break;
                }
                vm.delete_root(root);
            }
        }
        is_clean(&gateway);
    }
}
