//! Which host calls of the filter fail. Faults of replies that arrive later are in `callouts`.

use diana_testing::host::Call;

/// A kind of fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FaultKind {
    #[default]
    Nothing,
    /// Another worker is faster: a swap is lost.
    LostSwaps,
    /// Shared data fails, with or without having written.
    Store,
    /// The calls that release a stream fail: resume, reply, or set the effective context.
    Release,
    /// No stream can become the effective context.
    Context,
    /// The timer cannot be set.
    Timer,
    /// No metric can be defined.
    Metrics,
    /// No attribute can be read.
    Properties,
    /// The host has no functions beyond the ABI.
    Foreign,
    /// Any call fails with any status; a swap fails with or without having written.
    Any,
}

/// Faults from a seed.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    pub kind: FaultKind,
    /// One call in `one_in` fails; 0: none.
    pub one_in: u64,
    pub seed: u64,
}

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    Works,
    /// The call fails with this status and has no effect.
    Fails(u32),
    /// The call fails with this status but has its effect.
    WorksAndFails(u32),
}

impl Faults {
    fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.seed ^ (self.seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn next(&mut self, call: &Call) -> CallOutcome {
        let swap = matches!(call, Call::SetSharedData { .. });
        let concerns = match self.kind {
            FaultKind::Nothing => false,
            FaultKind::LostSwaps => swap,
            FaultKind::Store => swap || matches!(call, Call::SharedData { .. }),
            FaultKind::Release => matches!(
                call,
                Call::ContinueStream { .. } | Call::LocalResponse { .. } | Call::EffectiveContext { .. }
            ),
            FaultKind::Context => matches!(call, Call::EffectiveContext { .. }),
            FaultKind::Timer => matches!(call, Call::TickPeriod { .. }),
            FaultKind::Metrics => matches!(call, Call::DefineMetric { .. }),
            FaultKind::Properties => matches!(call, Call::Property { .. }),
            FaultKind::Foreign => matches!(call, Call::ForeignFunction { .. }),
            FaultKind::Any => true,
        };
        if !concerns || self.one_in == 0 || !self.random().is_multiple_of(self.one_in) {
            return CallOutcome::Works;
        }
        // The statuses of the ABI end at 12.
        let status = (self.random() % 14 + 1) as u32;
        match (self.kind, self.random() % 2) {
            (FaultKind::LostSwaps, _) => CallOutcome::Fails(8),
            // A failing store reports a failure: a missing key or another version is no failure.
            (FaultKind::Store, _) if status == 1 || status == 8 => CallOutcome::Fails(10),
            // Only a swap may have its effect and fail. No filter can cope with a host that resumes
            // a stream or stops a timer but reports a failure. No host writes a value and then
            // reports a lost swap.
            (_, 1) if swap && !matches!(status, 1 | 8) => CallOutcome::WorksAndFails(status),
            _ => CallOutcome::Fails(status),
        }
    }
}
