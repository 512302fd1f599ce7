//! Global stores, and the servers of remote documents.

use super::shape::{Key, Object, Shape, choice, key, map, object, secs};
use diana_base::time::Span;

/// The name of a cluster: 1 to 120 visible letters of ASCII.
const CLUSTER: &str = "^[!-~]{1,120}$";

/// At least 16 bytes: 16 characters, or fewer of which some are not ASCII.
const SECRET: &str = r"^[\s\S]{16,}$|[^\x00-\x7F]";

/// The objects of stores and of remote documents.
pub fn definitions() -> Vec<(&'static str, Shape)> {
    let source = Shape::Any(vec![Shape::Matching(".+"), Shape::Def("sds")]);
    vec![
        (
            "store",
            Shape::Object(Object {
                keys: vec![
                    key(
                        "redis",
                        "One or several Redis servers, behind an HTTP front end.",
                        Shape::Def("redis"),
                    ),
                    key("rls", "A rate limit service that speaks Envoy's protocol.", Shape::Def("rls")),
                ],
                is_single: true,
                ..Object::default()
            }),
        ),
        (
            "redis",
            Shape::Object(Object {
                keys: [
                    vec![
                        key(
                            "cluster",
                            "The gateway's name of the cluster in front of Redis.",
                            Shape::Matching(CLUSTER),
                        ),
                        key(
                            "clusters",
                            "Several clusters, among which the counts are divided.",
                            Shape::List(Box::new(Shape::Matching(CLUSTER)), 1, Some(64)),
                        ),
                        key(
                            "dialect",
                            "`resp`: Redis' own protocol, carried by the gateway. Otherwise the protocol of an HTTP front.",
                            choice(&["resp", "webdis", "upstash"]),
                        )
                        .or("webdis"),
                        key("user", "The user of Redis, with `dialect: resp`.", Shape::Matching(".+")),
                        key("password", "The password of Redis, with `dialect: resp`.", Shape::Matching(".+")),
                        key(
                            "prefix",
                            "The start of each key in Redis.",
                            Shape::Matching("^[A-Za-z0-9_.:-]{1,64}$"),
                        )
                        .or("diana"),
                        key("headers", "Further headers of each call.", map(Shape::Scalar)),
                    ],
                    common(1, Shape::Any(vec![Shape::Whole(1, 10_000), Shape::Matching("^auto$")])),
                ]
                .concat(),
                one_of: vec![vec!["cluster", "clusters"]],
                ..Object::default()
            }),
        ),
        (
            "rls",
            object(
                [
                    vec![
                        key(
                            "cluster",
                            "The gateway's name of the service's cluster.",
                            Shape::Matching(CLUSTER),
                        )
                        .required(),
                        key("domain", "The domain in which the service counts.", Shape::Matching(".+"))
                            .or("diana"),
                    ],
                    common(64, Shape::Whole(1, 10_000)),
                ]
                .concat(),
            ),
        ),
        (
            "secret",
            object(vec![key("sds", "A secret of Envoy's secret discovery service.", source).required()]),
        ),
        (
            "sds",
            object(vec![
                key("name", "The name of the secret.", Shape::Matching(".+")).required(),
                key("sds_config", "Envoy's `ConfigSource`.", Shape::AnyObject).required(),
            ]),
        ),
        ("remote", remote()),
    ]
}

/// The keys of either kind of store.
fn common(in_flight: u64, replicas: Shape) -> Vec<Key> {
    let secret = Shape::Any(vec![Shape::Matching(SECRET), Shape::Def("secret")]);
    vec![
        key("secret", "The key of the hash that names each count, the same in all gateways.", secret)
            .required(),
        key(
            "timeout",
            "The longest time that a call, or a request, waits for the store.",
            Shape::Span(Span::from_ms(1), secs(10)),
        )
        .or("50ms"),
        key("replicas", "The number of gateways that divide a quota while the store is down.", replicas)
            .or(1),
        key("in_flight", "How many calls a worker makes at once to each cluster.", Shape::Whole(1, 1_024))
            .or(in_flight),
    ]
}

fn remote() -> Shape {
    object(vec![
        key("cluster", "The gateway's name of the server's cluster.", Shape::Matching(CLUSTER)).required(),
        key("path", "The path of the document.", Shape::Matching("^/[!-~]{0,4095}$")).required(),
        key(
            "authority",
            "The host of the request; by default the cluster's name.",
            Shape::Matching("^[!-~]{1,4096}$"),
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
        key("headers", "Further headers of a poll.", map(Shape::Scalar)),
        key(
            "body",
            "The body of a poll, which is then a `POST`.",
            Shape::Any(vec![Shape::Text, Shape::AnyObject, Shape::AnyList]),
        ),
        key("pointer", "The JSON pointer to the document in the reply.", Shape::Text).or(""),
        key("encoding", "How the document is encoded in the reply.", choice(&["plain", "base64"]))
            .or("plain"),
    ])
}
