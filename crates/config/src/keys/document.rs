//! The top of a document: actors, lists, plans, responses, the client's address.

use super::shape::{Definition, Key, Object, PART, Shape, key, secs};
use super::store::SECRET_TEXT;
use diana_base::time::Span;

pub(super) const DEFINITIONS: &[Definition] = &[
    Definition { name: "document", shape: Shape::Object(&DOCUMENT) },
    Definition {
        name: "actor",
        // A name in text is compared as it is.
        shape: Shape::Any(&[
            Shape::Object(&ACTOR),
            Shape::Exact("ip"),
            Shape::Exact("method"),
            Shape::Exact("host"),
        ]),
    },
    Definition { name: "actor_ip", shape: Shape::Object(&Object::new("actors.md#ip", &[PREFIXES])) },
    Definition { name: "fingerprint", shape: Shape::Object(&FINGERPRINT) },
    Definition { name: "plan_first", shape: Shape::Object(&PLAN_FIRST) },
    Definition { name: "plan_members", shape: Shape::Object(&PLAN_MEMBERS) },
    Definition { name: "ip", shape: Shape::Object(&Object::new("actors.md#ip", &[HOPS, PREFIXES])) },
    Definition { name: "member", shape: Shape::Any(&[Shape::Text, Shape::Map(ONE_OR_ANY)]) },
    Definition { name: "deny_members", shape: Shape::Object(&DENY_MEMBERS) },
    Definition { name: "response", shape: Shape::Object(&RESPONSE) },
    Definition { name: "json_rpc", shape: Shape::Object(&JSON_RPC) },
    Definition { name: "own_response", shape: Shape::Object(&OWN_RESPONSE) },
    Definition { name: "access_log", shape: Shape::Object(&ACCESS_LOG) },
    Definition { name: "request_body", shape: Shape::Object(&REQUEST_BODY) },
    Definition { name: "local", shape: Shape::Object(&LOCAL) },
    Definition { name: "inspect", shape: Shape::Object(&INSPECT) },
    Definition { name: "inspect_token", shape: Shape::Object(&NAMED_TOKEN) },
    Definition { name: "top", shape: Shape::Object(&TOP) },
    Definition { name: "tickets", shape: Shape::Object(&TICKETS) },
];

pub(super) const DOCUMENT: Object = Object::new("README.md", &[&[
    key("limits", "The limits. All limits that match a request apply.", Shape::List(&Shape::Def("limit"), 0, None))
        .required()
        .on("limits.md#limits"),
    key("case_sensitive", "`false`: urls, and segments of the path as actors, match in any case.", Shape::Flag)
        .or_flag(true)
        .on("limits.md#backends-that-ignore-case"),
    key("actors", "The source of each actor's value, by the actor's name.", Shape::Map(&Shape::Def("actor")))
        .on("actors.md#actors-and-ip"),
    key(
        "plan",
        "The part of a request that shows the client's plan.",
        Shape::Any(&[Shape::Def("plan_members"), Shape::Def("plan_first"), Shape::Def("actor")]),
    )
    .on("limits.md#plan"),
    key(
        "costs",
        "Costs that rules take by name: objects as in `cost`.",
        Shape::Map(&Shape::Any(&[Shape::Def("cost_header"), Shape::Def("cost_response")])),
    )
    .on("cost.md#sums-and-prices"),
    key("ip", "How the filter finds the client address.", Shape::Def("ip")).on("actors.md#ip"),
    key("allow", "Clients that no rule limits: addresses, networks, values of actors.", MEMBERS)
        .on("actors.md#allow-deny"),
    key(
        "deny",
        "Clients that the gateway denies: addresses, networks, values of actors.",
        Shape::Any(&[MEMBERS, Shape::Def("deny_members")]),
    )
    .on("actors.md#allow-deny"),
    key("response", "What a refused client receives.", Shape::Def("response")).on("responses.md#response-headers"),
    key(
        "headers",
        "The headers that show the quota.",
        Shape::Any(&[
            Shape::Choice(&["ietf", "x-ratelimit", "x-ratelimit-plain", "openai", "both", "off"]),
            Shape::Only(false),
            Shape::List(&Shape::Choice(&["ietf", "x-ratelimit", "x-ratelimit-plain", "openai"]), 1, None),
        ]),
    )
    .or("ietf")
    .on("responses.md#response-headers"),
    key(
        "mode",
        "`shadow`: every rule counts and reports, but no rule refuses.",
        Shape::Choice(&["enforce", "shadow"]),
    )
    .or("enforce")
    .on("enforce.md#mode"),
    key(
        "enforce",
        "For every rule without its own `enforce`, and for `deny`: the part of the actors for which it refuses.",
        PART,
    )
    .or("100%")
    .on("enforce.md#enforce"),
    key(
        "access_log",
        "Which requests get attributes for the access log, and which attributes.",
        Shape::Any(&[REQUESTS, Shape::Def("access_log")]),
    )
    .or("refused")
    .on("access-log.md#access_log"),
    key(
        "near_limit",
        "Marks and counts requests that pass and leave less than this part of a quota.",
        Shape::Percent(1, 99),
    )
    .on("access-log.md#near_limit"),
    key(
        "request_body",
        "How long a request waits for its body, and how much of it is read, where a limit has `request_json`.",
        Shape::Def("request_body"),
    )
    .on("actors.md#parts-of-the-body"),
    key("local", "The counts of one gateway.", Shape::Def("local")).on("limits.md#local"),
    key("store", "The store that counts rules with `scope: global` for all gateways.", Shape::Def("store"))
        .on("global.md#store"),
    key("remote", "The server of a document that is laid over this one.", Shape::Def("remote"))
        .on("remote.md#remote"),
    key("inspect", "Where the counts of actors can be read and changed, and by whom.", Shape::Def("inspect"))
        .on("inspect.md#inspect"),
    key("tickets", "Gives each refusal a ticket that only these keys open.", Shape::Def("tickets"))
        .on("responses.md#tickets"),
]]);

const REQUEST_BODY: Object = Object::new(
    "actors.md#parts-of-the-body",
    &[&[
        key("wait", "The longest wait for a body.", Shape::Span(Span::from_ms(1), secs(60))).or("1s"),
        key("max", "The longest body that is read, in bytes.", Shape::Size(1, 1 << 20)).or("1Mi"),
    ]],
);

const MEMBERS: Shape = Shape::List(&Shape::Def("member"), 0, None);
const ONE_OR_ANY: &Shape = &Shape::OneOrMany(&Shape::Text, 0);

/// An object with the key of one kind.
pub(super) const ACTOR: Object =
    Object { is_single: true, ..Object::new("actors.md#actors-and-ip", &[SOURCES]) };

pub(super) const SOURCES: &[Key] = &[
    key("header", "The value of this header.", Shape::Text).on("actors.md#actors-and-ip"),
    key("cookie", "The value of this cookie.", Shape::Text).on("actors.md#actors-and-ip"),
    key("query", "The decoded query parameter.", Shape::Text).on("actors.md#actors-and-ip"),
    key("path", "The Nth segment of the path, from 1.", Shape::Whole(1, 32)).on("actors.md#actors-and-ip"),
    SEGMENT,
    JWT,
    PROPERTY,
    key("request_json", "The value at this JSON pointer in the request's body.", POINTER)
        .on("actors.md#parts-of-the-body"),
    key(
        "fingerprint",
        "These values of the request's body together. Each may be an object or a list.",
        Shape::List(&Shape::Def("fingerprint"), 1, Some(8)),
    )
    .on("actors.md#fingerprints"),
    key(
        "ip",
        "The client's address, shortened to a prefix.",
        Shape::Any(&[Shape::Def("actor_ip"), Shape::Only(true)]),
    )
    .on("actors.md#ip"),
    key("method", "The method.", NOTHING).on("actors.md#actors-and-ip"),
    key("host", "The host.", NOTHING).on("actors.md#actors-and-ip"),
];

const FINGERPRINT: Object = Object::new(
    "actors.md#fingerprints",
    &[&[key("request_json", "The JSON pointer to a value in the request's body.", POINTER).required()]],
);

const JWT: Key =
    key("jwt", "A claim of the bearer token, dotted. The filter does not verify the token.", Shape::Text)
        .on("actors.md#actors-and-ip");

const PROPERTY: Key = key(
    "property",
    "An attribute of the gateway, by the steps of its path.",
    Shape::Any(&[Shape::Text, Shape::List(&Shape::Text, 1, Some(16))]),
)
.on("actors.md#actors-and-ip");

/// A pointer into the request's body.
pub(super) const POINTER: Shape = Shape::Matching("^/", "a JSON pointer such as `/model`");

pub(super) const SEGMENT: Key = key(
    "segment",
    "The segment of the limit's url with this name.",
    Shape::Matching("^[A-Za-z0-9_-]{1,64}$", "1 to 64 of `A-Z a-z 0-9 _ -`"),
)
.on("actors.md#segments-by-name");

const NOTHING: Shape = Shape::Any(&[Shape::Object(&Object::new("", &[])), Shape::Only(true)]);

const PREFIXES: &[Key] = &[
    key("v4_prefix", "IPv4 addresses count by this prefix.", Shape::Whole(0, 32)).or_whole(32),
    key("v6_prefix", "IPv6 addresses count by this prefix.", Shape::Whole(0, 128)).or_whole(64),
];

const HOPS: &[Key] = &[
    key(
        "trusted_hops",
        "Takes the Nth address from the right of `header`; 0: the address that the gateway reports.",
        Shape::Whole(0, 32),
    )
    .or_whole(0),
    key("header", "The header with the addresses. Requires `trusted_hops`.", Shape::Text),
];

const PLAN_FIRST: Object = Object {
    one_of: &[&["jwt", "property"]],
    ..Object::new(
        "limits.md#plan",
        &[&[
            JWT,
            PROPERTY,
            key(
                "first",
                "The plans. The first one that the value or an element of it names is the client's.",
                Shape::List(&Shape::Text, 1, None),
            ),
        ]],
    )
};

const PLAN_MEMBERS: Object = Object::new(
    "limits.md#plan",
    &[&[
        key("actor", "The actor whose values are listed.", Shape::Scalar).required(),
        key("members", "The values of each plan.", Shape::Map(ONE_OR_ANY)).required(),
    ]],
);

pub(super) const DENY_MEMBERS: Object = Object::new(
    "actors.md#allow-deny",
    &[&[
        key("members", "Denied clients.", MEMBERS).required(),
        key("response", "The response to denied clients.", Shape::Def("own_response"))
            .on("responses.md#responses-of-a-limit-a-list-or-a-rule"),
    ]],
);

const RESPONSE: Object = Object::new(
    "responses.md#response-headers",
    &[&[
        key("status", "The status of a refusal.", Shape::Whole(400, 599)).or_whole(429),
        key("body", "The body of a refusal; without it, problem details (RFC 9457).", Shape::Text),
        key("content_type", "The type of `body`.", Shape::Scalar).or("text/plain; charset=utf-8"),
        key(
            "json_rpc",
            "`true`, or the status of errors: a JSON-RPC request is refused by an error of JSON-RPC.",
            Shape::Any(&[Shape::Flag, Shape::Def("json_rpc")]),
        )
        .or_flag(false)
        .on("responses.md#json-rpc"),
        key("headers", "Further headers of a refusal.", Shape::Map(&Shape::Scalar)),
        key(
            "jitter",
            "How far `retry-after` is spread at random.",
            Shape::Any(&[Shape::Percent(0, 100), Shape::Whole(0, 0)]),
        )
        .or("20%"),
    ]],
);

const JSON_RPC: Object = Object::new(
    "responses.md#json-rpc",
    &[&[key("status", "The status of errors. Without it: that of the refusal.", Shape::Whole(200, 200))]],
);

const OWN_RESPONSE: Object = Object::new(
    "responses.md#responses-of-a-limit-a-list-or-a-rule",
    &[&[
        key("status", "The status of a refusal.", Shape::Whole(400, 599)),
        key("headers", "Further headers of a refusal.", Shape::Map(&Shape::Scalar)),
    ]],
);

const REQUESTS: Shape = Shape::Choice(&["refused", "all"]);

const ACCESS_LOG: Object = Object::new(
    "access-log.md#access_log",
    &[&[
        key("requests", "Which requests get attributes.", REQUESTS).or("refused"),
        key(
            "actor",
            "Adds an attribute with the actor's value, or with a keyed hash of it.",
            Shape::Choice(&["value", "hash"]),
        ),
        key(
            "secret",
            "The key of `actor: hash`. Without it: the secret of `store`.",
            Shape::Any(&[SECRET_TEXT, Shape::Variable]),
        ),
    ]],
);

const LOCAL: Object = Object::new(
    "limits.md#local",
    &[&[key(
        "max_actors",
        "The number of actors that each table has room for. This fixes the memory.",
        Shape::Whole(1, 10_000_000),
    )
    .or_whole(100_000)]],
);

const TOKEN_TEXT: Shape = Shape::Matching("^[!-~]{32,4096}$", "at least 32 visible ASCII characters");
const TOKEN: Shape = Shape::Any(&[TOKEN_TEXT, Shape::Variable]);

const NAMED_TOKEN: Object = Object::new(
    "inspect.md#tokens",
    &[&[
        key("token", "The bearer token.", TOKEN).required(),
        key("read", "`true`: the token may change nothing.", Shape::Flag).or_flag(false),
    ]],
);

const INSPECT: Object = Object {
    one_of: &[&["token", "tokens"]],
    ..Object::new(
        "inspect.md#inspect",
        &[&[
            key(
                "path",
                "The path below which the filter itself responds.",
                Shape::Matching(
                    "^/[A-Za-z0-9/._~-]*[A-Za-z0-9._~-]$",
                    "a path of letters, digits and `/-._~`",
                ),
            )
            .required(),
            key("token", "The bearer token of those who may ask.", TOKEN),
            key(
                "tokens",
                "Several tokens, by the names that the log has for them.",
                Shape::Map(&Shape::Any(&[TOKEN_TEXT, Shape::Variable, Shape::Def("inspect_token")])),
            )
            .on("inspect.md#tokens"),
            key(
                "allow",
                "The addresses and networks that may ask. Without it: the gateway's own machine.",
                Shape::List(&Shape::Text, 1, None),
            ),
            key(
                "top",
                "`true`: also counts which actors are refused and charged most.",
                Shape::Any(&[Shape::Flag, Shape::Def("top")]),
            )
            .or_flag(false),
        ]],
    )
};

const TOP: Object = Object::new(
    "inspect.md#the-most-refused-actors",
    &[&[key(
        "claim",
        "The claim of the bearer token that names a customer whose actor is hidden.",
        Shape::Text,
    )
    .required()]],
);

const KEY: Shape = Shape::Any(&[SECRET_TEXT, Shape::Variable]);

const TICKETS: Object = Object::new(
    "responses.md#tickets",
    &[&[
        key("secret", "The key of new tickets.", KEY).required(),
        key("previous_secret", "The key before it, which only `diana explain` uses.", KEY),
    ]],
);
