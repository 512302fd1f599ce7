//! Which calls of the filter's fail.
//!
//! It does not know: what the calls mean, but for the one that swaps; nor what befalls those that are answered later, which
//! is in `callouts`.

use diana::host::proxy_wasm::simulated::Call;

/// What goes wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    Nothing,
    /// Somebody else is faster: a swap is lost.
    LostSwaps,
    /// Shared data fails, having written or not.
    Store,
    /// The calls fail that let a stream go: resume it, answer it, or make it the effective one.
    LettingGo,
    /// No stream can be made the effective one.
    Context,
    /// The timer cannot be set.
    Timer,
    /// No metric can be defined.
    Metrics,
    /// No attribute can be read.
    Properties,
    /// Any call fails with any status; one that swaps, having written or not.
    Any,
}

/// Faults from a seed.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    pub kind: Kind,
    /// One call in so many fails; 0 is none.
    pub one_in: u64,
    pub seed: u64,
}

/// What a call comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    Works,
    /// It fails with this status, having done nothing.
    Fails(u32),
    /// It says that it has failed with this status, and has done its work.
    WorksAndFails(u32),
}

impl Faults {
    fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.seed ^ (self.seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn next(&mut self, call: &Call) -> Turn {
        let swap = matches!(call, Call::SetSharedData { .. });
        let meant = match self.kind {
            Kind::Nothing => false,
            Kind::LostSwaps => swap,
            Kind::Store => swap || matches!(call, Call::SharedData { .. }),
            Kind::LettingGo => matches!(
                call,
                Call::ContinueStream { .. } | Call::LocalResponse { .. } | Call::EffectiveContext { .. }
            ),
            Kind::Context => matches!(call, Call::EffectiveContext { .. }),
            Kind::Timer => matches!(call, Call::TickPeriod { .. }),
            Kind::Metrics => matches!(call, Call::DefineMetric { .. }),
            Kind::Properties => matches!(call, Call::Property { .. }),
            Kind::Any => true,
        };
        if !meant || self.one_in == 0 || !self.random().is_multiple_of(self.one_in) {
            return Turn::Works;
        }
        // The statuses of the ABI end at 12.
        let status = (self.random() % 14 + 1) as u32;
        match (self.kind, self.random() % 2) {
            (Kind::LostSwaps, _) => Turn::Fails(8),
            // A store that fails says so: no key, or another version, is no failure.
            (Kind::Store, _) if status == 1 || status == 8 => Turn::Fails(10),
            // A host that has let a stream go, or stopped a timer, and says it has not, is past help.
            // No host writes and says that another was faster.
            (_, 1) if swap && !matches!(status, 1 | 8) => Turn::WorksAndFails(status),
            _ => Turn::Fails(status),
        }
    }
}
