//! Rules: quota, algorithm, cost and everything else that a rule has.

use super::json::{PART, SPAN, UNIT};
use super::shape::{Key, Object, Shape, Unless, choice, key, map, object, one_or_many, secs};
use diana_base::time::Span;
use diana_limiter::algorithm::{self, MAX_WAIT, Penalty, Quota};

const MOST: u64 = Quota::MAX_RPU;

/// The objects of rules.
pub fn definitions() -> Vec<(&'static str, Shape)> {
    vec![
        ("rule", rule()),
        ("quota", object(quota(Required::No))),
        ("actor_segment", Shape::Object(Object {
            keys: vec![key("segment", "The segment of the limit's url with this name.", Shape::Matching("^[A-Za-z0-9_-]{1,64}$"))],
            is_single: true,
            ..Object::default()
        })),
        ("missing", object(vec![
            key("action", "What happens to requests without the actor.", missing()).required(),
            key("response", "The response to refused requests.", Shape::Def("own_response")),
        ])),
        ("statuses", object(vec![
            key("status", "A status, a class such as `5xx`, a range such as `500-599`, or a list of these.", one_or_many(Shape::Any(vec![
                Shape::Whole(100, 599),
                Shape::Matching(r"^\s*(\+?0*[1-5]xx|\+?[0-9]+(\s*-\s*\+?[0-9]+)?)\s*$"),
            ]))).required(),
        ])),
        ("cost_header", object(vec![
            key("header", "The request header with the cost.", Shape::Text).required(),
            key("max", "A larger number counts as `max`.", Shape::Size(1, MOST)).required(),
            key("min", "A smaller number counts as `min`.", Shape::Size(0, MOST)).or(1),
            key("default", "The cost without a number.", Shape::Size(0, MOST)),
        ])),
        ("cost_response", Shape::Object(Object {
            keys: vec![
                key("response_header", "The response header with the cost.", Shape::Text),
                key("response_json", "The JSON pointer to the cost in the response's body.", Shape::Matching("^/")),
                key("response_bytes", "The length of the response's body.", Shape::Only(true)),
                key("max", "A larger cost counts as `max`.", Shape::Size(1, MOST)).or(MOST),
                key("estimate", "The charge of a request on arrival.", Shape::Size(0, MOST)).or(0),
                key("default", "The cost of a response without the number.", Shape::Size(0, MOST)),
            ],
            one_of: vec![vec!["response_header", "response_json", "response_bytes"]],
            not_all_zero: vec!["response_bytes", "estimate", "default"],
            ..Object::default()
        })),
        ("penalty", object(vec![
            key("after", "The number of refusals within the rule's unit that starts the penalty.", Shape::Whole(1, Penalty::MAX_AFTER)).required(),
            key("for", "How long the penalty refuses the actor.", Shape::Span(Penalty::MIN_SPAN, Penalty::MAX_SPAN)).required(),
        ])),
        ("adapt", object(vec![
            key("signal", "What the limit follows: `latency_p10` to `latency_p99`, `latency_p999`, `errors` or `traffic`.", Shape::Matching(r"^\s*(latency_p([1-9][0-9]|99[0-9])|errors|traffic)\s*$")).required(),
            key("target", "The target latency, or a percentage of errors or traffic.", Shape::Any(vec![
                Shape::Span(Span::from_ms(1), secs(60)),
                Shape::Percent(1, 1_000),
            ])).required(),
            key("min", "The lowest limit.", Shape::Size(1, 1_000_000)),
            key("max", "The highest limit.", Shape::Size(1, 1_000_000)),
            key("every", "The length of an interval.", Shape::Span(secs(1), secs(600))).or("10s"),
        ])),
    ]
}

fn rule() -> Shape {
    let actor = Shape::Any(vec![Shape::Scalar, Shape::Def("actor_segment")]);
    let actors = Shape::Any(vec![actor.clone(), Shape::List(Box::new(actor), 1, Some(8))]);
    let cost = Shape::Any(vec![
        Shape::Size(1, MOST),
        choice(&["request_bytes", "response_bytes"]),
        Shape::Def("cost_header"),
        Shape::Def("cost_response"),
    ]);
    let plan = Shape::Any(vec![Shape::Matching("^unlimited$"), Shape::Def("quota")]);
    let algorithms = algorithm::KINDS.iter().flat_map(|kind| [kind.short, kind.name]).collect();
    let mut keys = vec![
        key("name", "The name in headers, metrics and logs; unique.", Shape::Matching("^[a-z0-9_-]{1,64}$")),
        key("actor", "The actor that the rule counts: `all`, `ip`, `user`, `device`, a name of `actors`, or a list that counts tuples.", actors).or("all"),
        key("algo", "How the rule counts.", Shape::Choice(algorithms)).or("TB"),
        key("scope", "What counts together: the workers of one gateway, or all gateways.", choice(&["local", "global"])).or("local"),
        key("on_error", "With `scope: global`: what happens if the store does not respond.", choice(&["local", "allow", "deny"])).or("local"),
        key("lease", "With `scope: global`: the quota that a gateway fetches ahead, in requests or as a part of `rpu`.", Shape::Any(vec![
            Shape::Whole(0, MOST),
            Shape::Percent(1, 100),
        ])).or(0),
        key("missing", "What happens to requests without the actor.", Shape::Any(vec![missing(), Shape::Def("missing")])).or("ip"),
        key("mode", "`shadow`: the rule counts and reports, and never refuses.", choice(&["enforce", "shadow"])).or("enforce"),
        key("enforce", "The part of its actors for which the rule refuses. For the others it is in shadow.", Shape::Matching(PART)).or("100%"),
        key("reject_delay", "How long the gateway holds back a refusal.", Shape::Span(Span::ZERO, secs(60))).or("0s"),
        key("cost", "How many units of the quota a request takes.", cost).or(1),
        key("charge", "Charges a request only if its response has such a status.", Shape::Def("statuses")),
        key("refund", "Refunds a request if its response has such a status.", Shape::Def("statuses")),
        key("adapt", "Moves the limit with latency, errors or traffic.", Shape::Def("adapt")),
        key("headroom", "The part of the quota that only requests with `priority: high` may take: units, or a part such as `30%`.", Shape::Any(vec![
            Shape::Size(1, MOST),
            Shape::Percent(1, 99),
        ])),
        key("overrides", "Other quotas, by the actor's value.", map(Shape::Def("quota"))),
        key("plans", "Other quotas, by the client's plan.", map(plan)),
    ];
    keys.extend(quota(Required::Yes));
    let without_unit = algorithm::KINDS.iter().filter(|kind| !kind.per_unit);
    let words = without_unit.flat_map(|kind| [kind.short, kind.name]).collect();
    let required_unless = Some(Unless { required: "unit", key: "algo", words });
    Shape::Object(Object { keys, required_unless, ..Object::default() })
}

fn missing() -> Shape {
    choice(&["ip", "skip", "share", "deny"])
}

/// Whether a quota stands alone, or changes that of a rule.
#[derive(Clone, Copy, PartialEq)]
enum Required {
    Yes,
    No,
}

/// The keys of a quota: of a rule, an override or a plan.
fn quota(required: Required) -> Vec<Key> {
    let rpu = key(
        "rpu",
        "Requests per unit; with `algo: C`, requests in flight. 0 refuses all requests.",
        Shape::Size(0, MOST),
    );
    let is_whole = required == Required::Yes;
    let unit = Shape::Any(vec![
        choice(&["second", "minute", "hour", "day"]),
        Shape::Matching(UNIT),
        Shape::Matching(SPAN),
    ]);
    let mut keys = vec![
        if is_whole { rpu.required() } else { rpu },
        key("unit", "The unit of `rpu`: a word, or a span from `1ms` to `7d`. `algo: C` has none.", unit),
        key("borrow", "How many units below zero settling may push the quota.", Shape::Size(0, MOST)),
        key("penalty", "Refuses an actor that the rule refuses too often.", Shape::Def("penalty")),
    ];
    let mut known = Vec::new();
    for name in algorithm::KINDS.iter().flat_map(|kind| kind.keys) {
        if !known.contains(name) {
            known.push(*name);
            keys.push(of_algorithm(name, is_whole));
        }
    }
    keys
}

/// A key of an algorithm. An override without the key has the rule's value, and so no default.
fn of_algorithm(name: &'static str, is_whole: bool) -> Key {
    let or = |key: Key, default: serde_json::Value| if is_whole { key.or(default) } else { key };
    match name {
        "burst" => key(name, "`TB`: the capacity of the bucket.", Shape::Size(1, MOST)),
        "start" => {
            or(key(name, "`TB`: the first state of a bucket.", choice(&["full", "empty"])), "full".into())
        }
        "max_wait" => key(
            name,
            "`TB`, `LB`: the longest wait of a request for its turn.",
            Shape::Span(Span::ZERO, MAX_WAIT),
        ),
        "warm_up" => key(
            name,
            "`TB`: the time in which an idle rule returns to its full rate.",
            Shape::Span(secs(1), secs(86_400)),
        ),
        "slices" => or(key(name, "`SW`: the number of slices of the unit.", Shape::Whole(2, 60)), 10.into()),
        "queue" => key(name, "`LB`: how many requests may wait.", Shape::Whole(0, MOST)),
        "max_hold" => or(
            key(
                name,
                "`C`: a permit that is held longer counts as returned.",
                Shape::Span(secs(1), secs(86_400)),
            ),
            "60s".into(),
        ),
        _ => key(name, "See the reference.", Shape::Scalar),
    }
}
