//! A Redis with the script, and the calls and replies of the tests.

use crate::algorithm::schedule::{Arrival, Gap, Run};
use crate::algorithm::subject::{Rule, cases, penalized, rules_of};
use diana_global_redis::script::SCRIPT;
use diana_limiter::algorithm::{Admission, Allowance, Parameters, Penalty, PenaltyParameters, Verdict};
use diana_limiter::policy::PlacedQuota;
use gateway::Redis;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use redis::{Cmd, Connection, cmd};
use std::cell::{Cell, RefCell};
use std::fmt::Write;

/// In front of the script: a command on a key that the call does not declare fails the call.
const GUARD: &str = "
local real, declared = redis, {}
for _, key in ipairs(KEYS) do declared[key] = true end
local function guarded(call)
  return function(command, key, ...)
    assert(declared[key], command)
    return call(command, key, ...)
  end
end
local redis = {call = guarded(real.call), pcall = guarded(real.pcall)}
";

pub struct TestRedis {
    connection: RefCell<Connection>,
    sha: String,
    keys: Cell<u64>,
    _redis: Redis,
}

/// The reply about one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    pub outcome: u64,
    pub wait: u64,
    pub remaining: u64,
    pub more_in: u64,
    pub full_in: u64,
    pub charge: [u64; 5],
    pub leased: u64,
    pub generation: u64,
    pub lasts: u64,
}

/// The query about one rule.
#[derive(Clone, Debug)]
pub struct Query {
    pub key: String,
    pub parameters: Parameters,
    pub enforced: bool,
    pub cost: u64,
    /// Whether a cost of 0 is refused without one unit left.
    pub peeks: bool,
    /// What is left is charged if it is less than the cost, but at least so much; 0: not.
    pub least_rest: u64,
    pub lease: u64,
    pub penalty: Option<PenaltyParameters>,
    /// The units that the request has to leave.
    pub headroom: u64,
    /// Whether a grant may pay.
    pub takes_grants: bool,
}

impl Query {
    pub fn of(key: &str, parameters: Parameters, cost: u64) -> Query {
        let (key, penalty) = (key.to_owned(), None);
        Query {
            key,
            parameters,
            enforced: true,
            cost,
            peeks: false,
            least_rest: 0,
            lease: 0,
            penalty,
            headroom: 0,
            takes_grants: false,
        }
    }

    /// The query of a rule that counts by this quota.
    pub fn by(key: &str, judge: &PlacedQuota, cost: u64) -> Query {
        let penalty = judge.quota.penalty().map(Penalty::parameters);
        Query { penalty, ..Query::of(key, judge.quota.algorithm().parameters(), cost) }
    }
}

/// The instant at which a charge to a grant is booked.
const GRANTED: u64 = (1 << 53) - 1;

/// The commands of one call.
#[derive(Default)]
pub struct Call {
    pub keys: Vec<String>,
    pub commands: Vec<String>,
}

fn numbers(to: &mut String, numbers: &[u64]) {
    numbers.iter().for_each(|number| write!(to, " {number}").unwrap());
}

impl Call {
    pub fn decide(mut self, groups: &[Vec<Query>]) -> Call {
        let mut command = format!("1 {}", groups.len());
        for group in groups {
            numbers(&mut command, &[group.len() as u64]);
            for query in group {
                let Parameters { kind, numbers: parameters } = query.parameters;
                numbers(
                    &mut command,
                    &[
                        kind.into(),
                        u64::from(query.enforced)
                            + 2 * u64::from(query.peeks)
                            + 4 * u64::from(query.penalty.is_some())
                            + 8 * u64::from(query.headroom > 0)
                            + 16 * u64::from(query.takes_grants)
                            + 32 * u64::from(query.least_rest > 0),
                        query.cost,
                        query.lease,
                    ],
                );
                numbers(&mut command, &parameters);
                if let Some(PenaltyParameters { after, unit_us, lasts_us }) = query.penalty {
                    numbers(&mut command, &[after, unit_us, lasts_us]);
                }
                if query.headroom > 0 {
                    numbers(&mut command, &[query.headroom]);
                }
                if query.least_rest > 0 {
                    numbers(&mut command, &[query.least_rest]);
                }
                self.push_key(&query.key, query.takes_grants);
            }
        }
        self.commands.push(command);
        self
    }

    pub fn refund(self, key: &str, parameters: Parameters, charge: [u64; 5]) -> Call {
        self.settle(2, key, parameters, &charge)
    }

    pub fn return_lease(
        self,
        key: &str,
        parameters: Parameters,
        generation: u64,
        used: u64,
        left: u64,
    ) -> Call {
        self.settle(3, key, parameters, &[generation, used, left])
    }

    pub fn correct(self, key: &str, parameters: Parameters, charge: [u64; 5], cost: u64) -> Call {
        let [charged, at, booked_at, first, second] = charge;
        self.settle(5, key, parameters, &[charged, at, booked_at, first, second, cost])
    }

    pub fn report(self, key: &str, parameters: Parameters) -> Call {
        self.settle(4, key, parameters, &[])
    }

    fn settle(mut self, verb: u64, key: &str, parameters: Parameters, rest: &[u64]) -> Call {
        let mut command = format!("{verb} 1 {}", parameters.kind);
        numbers(&mut command, &parameters.numbers);
        numbers(&mut command, rest);
        // A grant has paid a charge that is booked at the largest number.
        self.push_key(key, matches!(rest, [_, _, GRANTED, ..]));
        self.commands.push(command);
        self
    }

    /// Adds a rule's key, and its grant's key if a grant may pay or has paid.
    fn push_key(&mut self, key: &str, has_grant: bool) {
        self.keys.push(key.to_owned());
        self.keys.extend(has_grant.then(|| format!("{key}:g")));
    }
}

impl TestRedis {
    pub fn start() -> TestRedis {
        TestRedis::start_with(&[])
    }

    /// The same with more arguments of Redis.
    pub fn start_with(arguments: &[&str]) -> TestRedis {
        let redis = Redis::start_with(arguments).unwrap();
        let client = redis::Client::open(format!("redis://{}/", redis.address())).unwrap();
        let mut connection = client.get_connection().unwrap();
        // The instant is the last argument.
        let script = SCRIPT.replace("redis.call('TIME')", "{0,table.remove(ARGV)}");
        assert_ne!(script, SCRIPT);
        let sha = cmd("SCRIPT").arg("LOAD").arg([GUARD, &script].concat()).query(&mut connection).unwrap();
        TestRedis { connection: connection.into(), sha, keys: Cell::new(0), _redis: redis }
    }

    /// A name that no key has yet.
    pub fn key(&self) -> String {
        self.keys.set(self.keys.get() + 1);
        format!("diana:{{0}}:{:032x}", self.keys.get())
    }

    pub fn query<T: redis::FromRedisValue>(&self, cmd: &Cmd) -> T {
        cmd.query(&mut *self.connection.borrow_mut()).unwrap()
    }

    /// The numbers of the reply to a call, at an instant in µs.
    pub fn numbers(&self, now: u64, call: &Call) -> Vec<u64> {
        let mut evalsha = cmd("EVALSHA");
        let number = (1 << 53) - 1 - now % 1_000;
        evalsha.arg(&self.sha).arg(call.keys.len()).arg(&call.keys).arg(number).arg(&call.commands).arg(now);
        let numbers: Vec<u64> = self.query(&evalsha);
        assert_eq!(numbers[0], number, "the number of the call");
        numbers
    }

    /// The replies to all commands of a call, at an instant in µs.
    pub fn call(&self, now: u64, call: Call) -> Vec<Vec<Reply>> {
        let numbers = self.numbers(now, &call);
        let mut rest = &numbers[1..];
        let replies = call.commands.iter().map(|command| reply(command, &mut rest)).collect();
        assert_eq!(rest, [0; 0]);
        replies
    }

    /// The reply about one rule. Its spans must be possible for the rule.
    pub fn ask(&self, now: u64, query: Query) -> Reply {
        let (longest_wait, longest) = query.parameters.longest_us();
        let longest = query.penalty.map_or(longest, |_| PenaltyParameters::longest_us().max(longest));
        let reply = self.call(now, Call::default().decide(&[vec![query]]))[0][0];
        assert!(reply.wait <= if reply.outcome == 0 { longest_wait } else { longest }, "{reply:?}");
        assert!(reply.more_in.max(reply.full_in) <= longest, "{reply:?}");
        reply
    }

    pub fn refund(&self, now: u64, key: &str, parameters: Parameters, charge: [u64; 5]) {
        assert_eq!(self.call(now, Call::default().refund(key, parameters, charge)), [[]]);
    }

    /// Corrects a charge to a final cost.
    pub fn correct(&self, now: u64, key: &str, parameters: Parameters, charge: [u64; 5], cost: u64) {
        assert_eq!(self.call(now, Call::default().correct(key, parameters, charge, cost)), [[]]);
    }

    pub fn return_lease(
        &self,
        now: u64,
        key: &str,
        parameters: Parameters,
        of: &Reply,
        (used, left): (u64, u64),
    ) {
        let call = Call::default().return_lease(key, parameters, of.generation, used, left);
        assert_eq!(self.call(now, call), [[]]);
    }
}

/// Takes the reply to one command off the list: 13 numbers per rule for a decision, else 0.
fn reply(command: &str, rest: &mut &[u64]) -> Vec<Reply> {
    let mut words = command.split(' ').map(|word| word.parse::<usize>().unwrap());
    let rules: usize = match (words.next().unwrap(), words.next().unwrap()) {
        (1, groups) => {
            let mut of_group = || {
                let rules = words.next().unwrap();
                for _ in 0..rules {
                    let flags = words.nth(1).unwrap();
                    words.nth(7 + if flags & 4 > 0 { 3 } else { 0 } + if flags & 8 > 0 { 1 } else { 0 });
                }
                rules
            };
            (0..groups).map(|_| of_group()).sum()
        }
        _ => {
            assert_eq!(rest.split_off_first(), Some(&0));
            return Vec::new();
        }
    };
    let (rules, left) = rest.split_at(13 * rules);
    *rest = left;
    let (rules, _) = rules.as_chunks::<13>();
    let reply = |&[
        outcome,
        wait,
        remaining,
        more_in,
        full_in,
        r0,
        r1,
        r2,
        r3,
        r4,
        leased,
        generation,
        lasts,
    ]: &[u64; 13]| Reply {
        outcome,
        wait,
        remaining,
        more_in,
        full_in,
        charge: [r0, r1, r2, r3, r4],
        leased,
        generation,
        lasts,
    };
    rules.iter().map(reply).collect()
}

/// The part of a reply that a client can see: outcome, wait, remaining, `more_in` and `full_in`, in
/// µs.
pub type Visible = (u64, u64, u64, u64, u64);

impl Reply {
    pub fn visible(&self) -> Visible {
        (self.outcome, self.wait, self.remaining, self.more_in, self.full_in)
    }
}

/// The same part of a verdict at a whole µs.
pub fn visible(verdict: &Verdict) -> Visible {
    let us = |span: diana_base::time::Span| span.as_ns().div_ceil(1_000);
    let (outcome, wait) = match verdict.admission {
        Admission::Admit { delay } => (0, us(delay)),
        Admission::Refuse { retry_after: Some(wait) } => (1, us(wait)),
        Admission::Refuse { retry_after: None } => (2, 0),
    };
    let outcome = if verdict.is_penalty() { outcome + 2 } else { outcome };
    (outcome, wait, verdict.remaining, us(verdict.more_in), us(verdict.full_in))
}

/// Runs `test` with one Redis for all of its cases, `each` for each kind.
#[track_caller]
pub fn check<S: Strategy>(
    each: u32,
    cases_of: S,
    test: impl Fn(&TestRedis, S::Value) -> Result<(), TestCaseError>,
) {
    let redis = TestRedis::start();
    let config = ProptestConfig { failure_persistence: None, ..cases(each) };
    TestRunner::new(config).run(&cases_of, |case| test(&redis, case)).unwrap_or_else(|why| panic!("{why}"));
}

/// Rules with whole milliseconds, as in configurations. There are none of kind `C`, because no
/// algorithm counts permits as Redis does: see `permits.rs`.
pub fn whole_rules() -> impl Strategy<Value = Rule> {
    rules_of(|kind| kind != "C").prop_filter("whole milliseconds", is_whole)
}

/// The same rules with a penalty.
pub fn whole_penalized() -> impl Strategy<Value = Rule> {
    penalized().prop_filter("whole milliseconds", is_whole)
}

fn is_whole(rule: &Rule) -> bool {
    rule.quota.unit.as_ns().is_multiple_of(Allowance::MIN_UNIT.as_ns())
}

/// Until this instant everything stays below 2⁵³ µs, with a hundred years to fill.
const LATEST_NS: u64 = 4_500_000_000_000_000_000;

/// Instants of whole µs to begin at.
pub fn begins() -> impl Strategy<Value = u64> {
    let us = prop_oneof![4 => Just(1_753_000_000_123_456), 1 => 1..1_000_000_u64, 1 => 1..LATEST_NS / 1_000];
    us.prop_map(|us| us * 1_000)
}

/// Moves the clock of a run by the arrival's gap, in whole µs.
pub fn advance(run: &mut Run, arrival: &Arrival) {
    let gap = match arrival.gap.clone() {
        Gap::Retry(more) => Gap::Retry(1_000 * more),
        Gap::MoreIn(more) => Gap::MoreIn(1_000 * more),
        Gap::FullIn(more) => Gap::FullIn(1_000 * more),
        gap => gap,
    };
    run.advance(&gap);
    run.move_to(run.now.div_ceil(1_000).saturating_mul(1_000).min(LATEST_NS));
}

/// The instant of a run in µs.
pub fn us(run: &Run) -> u64 {
    assert_eq!(run.now % 1_000, 0);
    run.now / 1_000
}
