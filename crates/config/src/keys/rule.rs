//! Rules: quota, algorithm, cost and everything else that a rule has.

use super::document::{POINTER, SEGMENT, SOURCES};
use super::kinds::{ACTOR_KINDS, ALGORITHMS, WITHOUT_UNIT};
use super::shape::{Definition, Key, Object, PART, SPAN, Shape, UNIT, Unless, key, secs};
use diana_base::time::Span;
use diana_limiter::algorithm::{Allowance, MAX_WAIT, Penalty};

const MOST: u64 = Allowance::MAX_RPU;
/// With `W` and `SW`.
const MOST_IN_WINDOW: u64 = Allowance::MAX_IN_WINDOW;

pub(super) const DEFINITIONS: &[Definition] = &[
    Definition { name: "rule", shape: Shape::Object(&RULE) },
    Definition { name: "rpu", shape: Shape::Object(&RPU) },
    Definition { name: "anchor", shape: Shape::Object(&ANCHOR) },
    Definition { name: "anchor_day", shape: Shape::Object(&ANCHOR_DAY) },
    Definition { name: "quota", shape: Shape::Object(&QUOTA) },
    Definition { name: "actor_segment", shape: Shape::Object(&ACTOR_SEGMENT) },
    Definition { name: "missing", shape: Shape::Object(&MISSING) },
    Definition { name: "statuses", shape: Shape::Object(&STATUSES) },
    Definition { name: "cost_header", shape: Shape::Object(&COST_HEADER) },
    Definition { name: "cost_response", shape: Shape::Object(&COST_RESPONSE) },
    Definition { name: "cost_term", shape: Shape::Object(&COST_TERM) },
    Definition { name: "cost_by", shape: Shape::Object(&COST_BY) },
    Definition { name: "cost_estimate", shape: Shape::Object(&COST_ESTIMATE) },
    Definition { name: "estimate_input", shape: Shape::Object(&ESTIMATE_INPUT) },
    Definition { name: "estimate_output", shape: Shape::Object(&ESTIMATE_OUTPUT) },
    Definition { name: "estimate_learned", shape: Shape::Object(&ESTIMATE_LEARNED) },
    Definition { name: "penalty", shape: Shape::Object(&PENALTY) },
    Definition { name: "adapt", shape: Shape::Object(&ADAPT) },
    Definition { name: "over", shape: Shape::Object(&OVER) },
];

pub(super) const RULE: Object = Object {
    required_unless: Some(Unless { required: "unit", key: "algo", words: WITHOUT_UNIT }),
    ..Object::new(
        "limits.md#rules",
        &[WHO, RATE, UNIT_OF_RATE, ALGORITHM, GLOBAL, REFUSAL, COST, SETTLING, CHANGES],
    )
};

/// What an override or a plan changes.
const QUOTA: Object = Object {
    is_change: true,
    ..Object::new("limits.md#overrides", &[CHANGED_RATE, UNIT_OF_RATE, ALGORITHM, SETTLING])
};

const WHO: &[Key] = &[
    key(
        "name",
        "The name in headers, metrics and logs; unique.",
        Shape::Matching("^[a-z0-9_-]{1,64}$", "1 to 64 of `a-z 0-9 _ -`"),
    ),
    key(
        "actor",
        "The actor that the rule counts: `all`, `ip`, `user`, `device`, a name of `actors`, or a list that counts tuples.",
        Shape::Any(&[ONE_ACTOR, Shape::List(&ONE_ACTOR, 1, Some(8))]),
    )
    .or("all"),
    key("algo", "How the rule counts.", Shape::Choice(ALGORITHMS)).or("TB").on("algorithms.md"),
];

/// A number that comes with the request.
const RPU: Object = Object {
    one_of: &[&["jwt", "property", "header"]],
    ..Object::new(
        "limits.md#limits-that-come-with-the-request",
        &[&[
            key("jwt", "The claim of the bearer token with the number, dotted.", Shape::Text),
            key(
                "property",
                "The attribute of the gateway with the number, by the steps of its path.",
                Shape::Any(&[Shape::Text, Shape::List(&Shape::Text, 1, Some(16))]),
            ),
            key("header", "The request header with the number, which the gateway has to set.", Shape::Text),
            key("default", "The number of requests without one.", Shape::Size(1, MOST_IN_WINDOW)).required(),
            key("max", "A larger number counts as `max`.", Shape::Size(1, MOST_IN_WINDOW)).required(),
        ]],
    )
};

/// Where a period of the calendar begins.
const ANCHOR: Object = Object::new(
    "algorithms.md#periods-of-the-calendar",
    &[&[
        key("hour", "The hour at which the first day begins.", Shape::Whole(0, 23)).or_whole(0),
        key(
            "weekday",
            "`unit: week`: the first day.",
            Shape::Choice(&["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]),
        )
        .or("monday"),
        key(
            "day",
            "`unit: month` and `unit: year`: the first day, or the last day of a shorter month.",
            Shape::Any(&[Shape::Whole(1, 31), Shape::Def("anchor_day")]),
        )
        .or_whole(1),
        key("month", "`unit: year`: the first month.", Shape::Whole(1, 12)).or_whole(1),
    ]],
);

/// A day that comes with the request.
const ANCHOR_DAY: Object = Object {
    one_of: &[&["jwt", "property", "header"]],
    ..Object::new(
        "algorithms.md#periods-of-the-calendar",
        &[&[
            key("jwt", "The claim of the bearer token with the day, dotted.", Shape::Text),
            key(
                "property",
                "The attribute of the gateway with the day, by the steps of its path.",
                Shape::Any(&[Shape::Text, Shape::List(&Shape::Text, 1, Some(16))]),
            ),
            key("header", "The request header with the day, which the gateway has to set.", Shape::Text),
            key("default", "The day of requests without one.", Shape::Whole(1, 31)).required(),
        ]],
    )
};

const ONE_ACTOR: Shape = Shape::Any(&[Shape::Scalar, Shape::Def("actor_segment")]);

const RATE: &[Key] = &[rpu(Shape::Any(&[Shape::Size(0, MOST_IN_WINDOW), Shape::Def("rpu")]))];
const CHANGED_RATE: &[Key] = &[rpu(Shape::Size(0, MOST_IN_WINDOW))];

const fn rpu(shape: Shape) -> Key {
    key("rpu", "Requests per unit; with `algo: C`, requests in flight. 0 refuses all requests.", shape)
        .required()
        .on("limits.md#rules")
}

const UNIT_OF_RATE: &[Key] = &[key(
    "unit",
    "The unit of `rpu`: a word, or a span from `1ms` to `7d`. `algo: C` has none. `week`, `month` and `year` need `algo: W`.",
    Shape::Any(&[
        Shape::Choice(&["second", "minute", "hour", "day", "week", "month", "year"]),
        Shape::Matching(UNIT, "another spelling of a word, such as `min`"),
        Shape::Matching(SPAN, "a span from `1ms` to `7d`"),
    ]),
)
.on("limits.md#rules")];

/// The keys of the algorithms.
pub(super) const ALGORITHM: &[Key] = &[
    key(
        "burst",
        "`TB`: the capacity of the bucket, in requests or as a multiple of `rpu`.",
        Shape::Any(&[
            Shape::Size(1, MOST),
            Shape::Matching("^[1-9][0-9]{0,2}x$", "a multiple of `rpu` such as `2x`"),
        ]),
    )
    .on("algorithms.md#keys"),
    key("start", "`TB`: the first state of a bucket.", Shape::Choice(&["full", "empty"]))
        .or("full")
        .on("algorithms.md#keys"),
    key(
        "max_wait",
        "`TB`, `LB`: the longest wait of a request for its turn.",
        Shape::Span(Span::ZERO, MAX_WAIT),
    )
    .on("algorithms.md#waiting"),
    key(
        "warm_up",
        "`TB`: the time in which an idle rule returns to its full rate.",
        Shape::Span(secs(1), secs(86_400)),
    )
    .on("algorithms.md#warm-up"),
    key("anchor", "`W`: where a day, week, month or year begins.", Shape::Def("anchor"))
        .on("algorithms.md#periods-of-the-calendar"),
    key(
        "timezone",
        "`W`: the time zone of days, weeks, months or years, a name of the IANA database.",
        Shape::Text,
    )
    .or("UTC")
    .on("algorithms.md#periods-of-the-calendar"),
    key("slices", "`SW`: the number of slices of the unit.", Shape::Whole(2, 60))
        .or_whole(10)
        .on("algorithms.md#keys"),
    key("queue", "`LB`: how many requests may wait.", Shape::Whole(0, MOST)).on("algorithms.md#keys"),
    key(
        "max_hold",
        "`C`: a permit that is held longer counts as returned.",
        Shape::Span(secs(1), secs(86_400)),
    )
    .or("60s")
    .on("algorithms.md#keys"),
];

const GLOBAL: &[Key] = &[
    key(
        "scope",
        "What counts together: the workers of one gateway, or all gateways.",
        Shape::Choice(&["local", "global"]),
    )
    .or("local")
    .on("global.md"),
    key(
        "on_error",
        "With `scope: global`: what happens if the store does not respond.",
        Shape::Choice(&["local", "allow", "deny"]),
    )
    .or("local"),
    key(
        "lease",
        "With `scope: global`: the quota that a gateway fetches ahead, in requests or as a part of `rpu`.",
        Shape::Any(&[Shape::Whole(0, MOST), Shape::Percent(1, 100)]),
    )
    .or_whole(0)
    .on("global.md#leases"),
];

const REFUSAL: &[Key] = &[
    key(
        "missing",
        "What happens to requests without the actor.",
        Shape::Any(&[WITHOUT_ACTOR, Shape::Def("missing")]),
    )
    .or("ip")
    .on("limits.md#requests-without-the-actor"),
    key(
        "mode",
        "`shadow`: the rule counts and reports, and never refuses.",
        Shape::Choice(&["enforce", "shadow"]),
    )
    .or("enforce")
    .on("enforce.md#mode"),
    key(
        "enforce",
        "The part of its actors for which the rule refuses. For the others it is in shadow.",
        PART,
    )
    .or("100%")
    .on("enforce.md#enforce"),
    key("shown", "`false`: clients see nothing of the rule but its refusals.", Shape::Flag)
        .or_flag(true)
        .on("responses.md#hidden-rules"),
    key("reject_delay", "How long the gateway holds back a refusal.", Shape::Span(Span::ZERO, secs(60)))
        .or("0s"),
];

const WITHOUT_ACTOR: Shape = Shape::Choice(&["ip", "skip", "share", "deny"]);

const COST: &[Key] = &[
    key(
        "cost",
        "How many units of the quota a request takes.",
        Shape::Any(&[
            Shape::Size(1, MOST_IN_WINDOW),
            Shape::Choice(&["request_bytes", "response_bytes"]),
            Shape::Matching("^[a-z][a-z0-9_-]{0,63}$", "a name of `costs`"),
            Shape::Def("cost_header"),
            Shape::Def("cost_response"),
        ]),
    )
    .or_whole(1)
    .on("cost.md#cost"),
    key("charge", "Charges a request only if its response has such a status.", Shape::Def("statuses"))
        .on("cost.md#charge-and-refund"),
    key("refund", "Refunds a request if its response has such a status.", Shape::Def("statuses"))
        .on("cost.md#charge-and-refund"),
];

/// Keys of a rule and of what changes it.
const SETTLING: &[Key] = &[
    key("borrow", "How many units below zero settling may push the quota.", Shape::Size(0, MOST_IN_WINDOW))
        .on("cost.md#settling"),
    key("penalty", "Refuses an actor that the rule refuses too often.", Shape::Def("penalty"))
        .on("limits.md#penalties"),
];

const CHANGES: &[Key] = &[
    key(
        "over",
        "Marks requests beyond a part of the quota, for the upstream and for routes.",
        Shape::Any(&[Shape::Def("over"), Shape::List(&Shape::Def("over"), 1, Some(2))]),
    )
    .on("limits.md#soft-limits"),
    key("adapt", "Moves the limit with latency, errors or traffic.", Shape::Def("adapt")).on("adapt.md"),
    key(
        "headroom",
        "The part of the quota that only requests with `priority: high` may take: units, or a part such as `30%`.",
        Shape::Any(&[Shape::Size(1, MOST_IN_WINDOW), Shape::Percent(1, 99)]),
    )
    .on("limits.md#priorities"),
    key("overrides", "Other quotas, by the actor's value.", Shape::Map(&Shape::Def("quota")))
        .on("limits.md#overrides"),
    key(
        "plans",
        "Other quotas, by the client's plan.",
        Shape::Map(&Shape::Any(&[Shape::Exact("unlimited"), Shape::Def("quota")])),
    )
    .on("limits.md#plans"),
];

const ACTOR_SEGMENT: Object =
    Object { is_single: true, ..Object::new("actors.md#segments-by-name", &[&[SEGMENT]]) };

const MISSING: Object = Object::new(
    "limits.md#requests-without-the-actor",
    &[&[
        key("action", "What happens to requests without the actor.", WITHOUT_ACTOR).required(),
        key("response", "The response to refused requests.", Shape::Def("own_response"))
            .on("responses.md#responses-of-a-limit-a-list-or-a-rule"),
    ]],
);

const STATUSES: Object = Object::new(
    "cost.md#charge-and-refund",
    &[&[key(
        "status",
        "A status, a class such as `5xx`, a range such as `500-599`, or a list of these.",
        Shape::OneOrMany(
            &Shape::Any(&[
                Shape::Whole(100, 599),
                Shape::Matching(
                    r"^\s*(\+?0*[1-5]xx|\+?[0-9]+(\s*-\s*\+?[0-9]+)?)\s*$",
                    "a class such as `5xx`, or a range such as `500-599`",
                ),
            ]),
            1,
        ),
    )
    .required()]],
);

const COST_HEADER: Object = Object {
    one_of: &[&["header", "request_json"]],
    ..Object::new(
        "cost.md#a-cost-in-a-header",
        &[&[
            key("header", "The request header with the cost.", Shape::Text),
            key("request_json", "The JSON pointer to the cost in the request's body.", POINTER),
            key("max", "A larger number counts as `max`.", Shape::Size(1, MOST_IN_WINDOW)).required(),
            key("min", "A smaller number counts as `min`.", Shape::Size(0, MOST_IN_WINDOW)).or_whole(1),
            key("default", "The cost without a number.", Shape::Size(0, MOST_IN_WINDOW)),
        ]],
    )
};

const COST_RESPONSE: Object = Object {
    one_of: &[&["response_header", "response_json", "response_bytes", "sum"]],
    not_all_zero: &["response_bytes", "estimate", "default"],
    ..Object::new(
        "cost.md#settling",
        &[&[
            key("response_header", "The response header with the cost.", Shape::Text),
            key(
                "response_json",
                "The JSON pointer to the cost in the response's body. Of several, the largest number counts.",
                POINTERS,
            ),
            key(
                "sum",
                "Numbers of the response, each with its weight.",
                Shape::List(&Shape::Def("cost_term"), 1, Some(16)),
            )
            .on("cost.md#sums-and-prices"),
            key("by", "Multiplies the cost by the factor of the request.", Shape::Def("cost_by"))
                .on("cost.md#sums-and-prices"),
            key("response_bytes", "The length of the response's body.", Shape::Only(true)),
            key(
                "max",
                "A larger cost counts as `max`; without the key, as the most that the algorithm counts.",
                Shape::Size(1, MOST_IN_WINDOW),
            ),
            key(
                "estimate",
                "The charge of a request on arrival: a number, or what the request tells.",
                Shape::Any(&[Shape::Size(0, MOST_IN_WINDOW), Shape::Def("cost_estimate")]),
            )
            .or_whole(0),
            key(
                "short",
                "What happens if less than the estimate is left.",
                Shape::Choice(&["refuse", "take_rest"]),
            )
            .or("refuse")
            .on("cost.md#estimates"),
            key("default", "The cost of a response without the number.", Shape::Size(0, MOST_IN_WINDOW)),
        ]],
    )
};

const COST_ESTIMATE: Object = Object::new(
    "cost.md#estimates",
    &[&[
        key("input", "What the length of the request's body tells.", Shape::Def("estimate_input")),
        key("output", "What the rest costs at most.", Shape::Def("estimate_output")),
    ]],
);

const ESTIMATE_WEIGHT: Key =
    key("weight", "The factor of the number, with at most three decimals.", Shape::Decimal(0, 100_000))
        .or_whole(1);

const ESTIMATE_INPUT: Object = Object::new(
    "cost.md#estimates",
    &[&[
        key("request_bytes", "The length of the body.", Shape::Only(true)).required(),
        key("per", "So many bytes count as 1.", Shape::Size(1, 1 << 20)).or_whole(1),
        ESTIMATE_WEIGHT,
        key(
            "max",
            "A longer body, and one of unknown length, counts as `max`; without the key, as 1 MiB.",
            Shape::Size(1, MOST_IN_WINDOW),
        ),
    ]],
);

const LEARNED: Shape = Shape::Exact("p95");

const ESTIMATE_LEARNED: Object = Object::new(
    "cost.md#estimates",
    &[&[key("learned", "What 95 % of the actor's requests have cost.", LEARNED).required()]],
);

const ESTIMATE_OUTPUT: Object = Object::new(
    "cost.md#estimates",
    &[&[
        key(
            "request_json",
            "The JSON pointer to the request's own maximum. Of several, the largest number counts.",
            POINTERS,
        ),
        key("learned", "At most what 95 % of the actor's requests have cost.", LEARNED),
        key(
            "else",
            "Without a maximum of its own, a number, or what is learned; without the key, `max`.",
            Shape::Any(&[Shape::Size(0, MOST_IN_WINDOW), Shape::Def("estimate_learned")]),
        ),
        ESTIMATE_WEIGHT,
        key("max", "A larger number counts as `max`.", Shape::Size(1, MOST_IN_WINDOW)),
    ]],
);

const POINTERS: Shape =
    Shape::OneOrMany(&Shape::Matching("^/", "a JSON pointer such as `/usage/total_tokens`"), 1);

const COST_TERM: Object = Object {
    one_of: &[&["response_json", "response_header", "property"]],
    ..Object::new(
        "cost.md#sums-and-prices",
        &[&[
            key(
                "response_json",
                "The JSON pointer to a number in the response's body. Of several, the largest number counts.",
                POINTERS,
            ),
            key("response_header", "The response header with a number.", Shape::Text),
            key(
                "property",
                "The attribute of the gateway with a number when the request ends, by the steps of its path.",
                Shape::Any(&[Shape::Text, Shape::List(&Shape::Text, 1, Some(16))]),
            ),
            key(
                "weight",
                "The factor of the number, with at most three decimals.",
                Shape::Decimal(-100_000, 100_000),
            )
            .or_whole(1),
        ]],
    )
};

const COST_BY: Object = Object {
    one_of: &[&ACTOR_KINDS],
    ..Object::new(
        "cost.md#sums-and-prices",
        &[
            SOURCES,
            &[
                key(
                    "values",
                    "The factor of each value, with at most three decimals.",
                    Shape::Map(&Shape::Decimal(0, 100_000)),
                )
                .required(),
                key(
                    "default",
                    "The factor of requests with another value, or without one.",
                    Shape::Decimal(0, 100_000),
                )
                .required(),
            ],
        ],
    )
};

const PENALTY: Object = Object::new(
    "limits.md#penalties",
    &[&[
        key(
            "after",
            "The number of refusals within the rule's unit that starts the penalty.",
            Shape::Whole(1, Penalty::MAX_AFTER),
        )
        .required(),
        key(
            "for",
            "How long the penalty refuses the actor.",
            Shape::Span(Penalty::MIN_SPAN, Penalty::MAX_SPAN),
        )
        .required(),
    ]],
);

const OVER: Object = Object::new(
    "limits.md#soft-limits",
    &[&[
        key("at", "The part beyond which requests are marked.", Shape::Percent(1, 100)).required(),
        key(
            "admit",
            "Requests that are marked pass. Required with `100%`, where the rule would refuse them.",
            Shape::Only(true),
        ),
        key(
            "request_header",
            "Headers for the upstream, which clients cannot send.",
            Shape::Map(&Shape::Scalar),
        ),
        key(
            "metadata",
            "Natively: dynamic metadata, by namespace and key.",
            Shape::Map(&Shape::Map(&Shape::Scalar)),
        ),
        key(
            "reroute",
            "Whether Envoy chooses the route again. In Wasm it does so with `request_header`.",
            Shape::Flag,
        ),
    ]],
);

const ADAPT: Object = Object::new(
    "adapt.md",
    &[&[
        key(
            "signal",
            "What the limit follows: `latency_p10` to `latency_p99`, `latency_p999`, `errors` or `traffic`.",
            Shape::Matching(
                r"^\s*(latency_p([1-9][0-9]|99[0-9])|errors|traffic)\s*$",
                "`latency_p10` to `latency_p99`, `latency_p999`, `errors` or `traffic`",
            ),
        )
        .required(),
        key(
            "target",
            "The target latency, or a percentage of errors or traffic.",
            Shape::Any(&[Shape::Span(Span::from_ms(1), secs(60)), Shape::Percent(1, 1_000)]),
        )
        .required(),
        key("min", "The lowest limit.", Shape::Size(1, 1_000_000)),
        key("max", "The highest limit.", Shape::Size(1, 1_000_000)),
        key("every", "The length of an interval.", Shape::Span(secs(1), secs(600))).or("10s"),
    ]],
);
