//! Global stores, and the servers of remote documents.

use super::shape::{Definition, Object, Shape, key, secs};
use diana_base::time::Span;

pub(super) const DEFINITIONS: &[Definition] = &[
    Definition { name: "store", shape: Shape::Object(&STORE) },
    Definition { name: "redis", shape: Shape::Object(&REDIS) },
    Definition { name: "secret", shape: Shape::Object(&SECRET) },
    Definition { name: "sds", shape: Shape::Object(&SDS) },
    Definition { name: "remote", shape: Shape::Object(&REMOTE) },
];

pub(super) const STORE: Object =
    Object {
        is_single: true,
        ..Object::new(
            "global.md#store",
            &[&[key("redis", "One or several Redis servers.", Shape::Def("redis"))
                .on("global.md#ways-to-redis")]],
        )
    };

const CLUSTER: Shape = Shape::Matching("^[!-~]{1,120}$", "1 to 120 visible ASCII characters");
/// 16 characters, or fewer of which some are not ASCII.
pub(super) const SECRET_TEXT: Shape =
    Shape::Matching(r"^[\s\S]{16,}$|[^\x00-\x7F]", "text of at least 16 bytes");
const NOT_EMPTY: Shape = Shape::Matching(".+", "text");
const HEADERS: Shape = Shape::Map(&Shape::Scalar);

pub(super) const REDIS: Object = Object {
    one_of: &[&["cluster", "clusters"]],
    ..Object::new("global.md#store", &[
        &[
            key("cluster", "The gateway's name of the cluster of Redis.", CLUSTER),
            key(
                "clusters",
                "Several clusters, among which the counts are divided.",
                Shape::List(&CLUSTER, 1, Some(64)),
            )
            .on("global.md#several-redis"),
            key(
                "dialect",
                "Redis' own protocol. The key has no effect, and serves documents that 0.2.0 reads as well.",
                Shape::Choice(&["resp"]),
            )
            .or("resp")
            .on("global.md#ways-to-redis"),
            key("user", "The user of Redis.", NOT_EMPTY),
            key("password", "The password of Redis.", Shape::Any(&[NOT_EMPTY, Shape::Variable])),
            key(
                "prefix",
                "The start of each key in Redis.",
                Shape::Matching("^[A-Za-z0-9_.:-]{1,64}$", "1 to 64 of `A-Z a-z 0-9 _ . : -`"),
            )
            .or("diana"),
            key("headers", "Further headers of each call.", HEADERS),
        ],
        &[
            key(
                "secret",
                "The key of the hash that names each count, the same in all gateways.",
                Shape::Any(&[
                    SECRET_TEXT,
                    Shape::Def("secret"),
                    Shape::Variable,
                ]),
            )
            .required(),
            key(
                "timeout",
                "The longest time that a call, or a request, waits for the store.",
                Shape::Span(Span::from_ms(1), secs(10)),
            )
            .or("50ms"),
            key(
                "replicas",
                "The number of gateways that divide a quota while the store is down.",
                Shape::Any(&[Shape::Whole(1, 10_000), Shape::Exact("auto")]),
            )
            .or_whole(1)
            .on("global.md#counting-the-gateways"),
            key(
                "in_flight",
                "How many calls a worker makes at once to each cluster.",
                Shape::Whole(1, 1_024),
            )
            .or_whole(1),
        ],
    ])
};

const SECRET: Object = Object::new(
    "global.md#a-secret-from-envoys-sds",
    &[&[key(
        "sds",
        "A secret of Envoy's secret discovery service.",
        Shape::Any(&[NOT_EMPTY, Shape::Def("sds")]),
    )
    .required()]],
);

const SDS: Object = Object::new(
    "global.md#a-secret-from-envoys-sds",
    &[&[
        key("name", "The name of the secret.", NOT_EMPTY).required(),
        key("sds_config", "Envoy's `ConfigSource`.", Shape::AnyObject).required(),
    ]],
);

pub(super) const REMOTE: Object = Object::new(
    "remote.md#remote",
    &[&[
        key("cluster", "The gateway's name of the server's cluster.", CLUSTER).required(),
        key("path", "The path of the document.", Shape::Matching("^/[!-~]{0,4095}$", "a path")).required(),
        key(
            "authority",
            "The host of the request; by default the cluster's name.",
            Shape::Matching("^[!-~]{1,4096}$", "a host, with or without a port"),
        ),
        key("interval", "The time between two polls.", Shape::Span(Span::from_ms(100), secs(86_400)))
            .or("5s"),
        key("timeout", "The longest time of a poll.", Shape::Span(Span::from_ms(1), secs(60))).or("1s"),
        key(
            "max_stale",
            "How long a document stays in force without a successful poll.",
            Shape::Span(Span::from_ms(100), secs(365 * 86_400)),
        )
        .or("10m"),
        key("headers", "Further headers of a poll.", HEADERS),
        key(
            "body",
            "The body of a poll, which is then a `POST`.",
            Shape::Any(&[Shape::Text, Shape::AnyObject, Shape::AnyList]),
        ),
        key("pointer", "The JSON pointer to the document in the reply.", Shape::Text).or(""),
        key("encoding", "How the document is encoded in the reply.", Shape::Choice(&["plain", "base64"]))
            .or("plain"),
    ]],
);
