//! The top of a document: actors, lists, plans, responses, the client's address.

use super::json::PART;
use super::shape::{Key, Object, Shape, choice, key, list, map, object, one_or_any};
use diana_limiter::actor::{self, ActorKind};

/// The objects at the top of a document.
pub fn definitions() -> Vec<(&'static str, Shape)> {
    vec![
        ("document", document()),
        ("actor", actor()),
        ("actor_ip", object(prefixes())),
        ("plan_members", object(vec![
            key("actor", "The actor whose values are listed.", Shape::Scalar).required(),
            key("members", "The values of each plan.", map(one_or_any(Shape::Text))).required(),
        ])),
        ("ip", object([vec![
            key("trusted_hops", "Takes the Nth address from the right of `header`; 0: the address that the gateway reports.", Shape::Whole(0, 32)).or(0),
            key("header", "The header with the addresses. Requires `trusted_hops`.", Shape::Text),
        ], prefixes()].concat())),
        ("member", Shape::Any(vec![Shape::Text, map(one_or_any(Shape::Text))])),
        ("deny_members", object(vec![
            key("members", "Denied clients.", list(Shape::Def("member"))).required(),
            key("response", "The response to denied clients.", Shape::Def("own_response")),
        ])),
        ("response", object(vec![
            key("status", "The status of a refusal.", Shape::Whole(400, 599)).or(429),
            key("body", "The body of a refusal; without it, problem details (RFC 9457).", Shape::Text),
            key("content_type", "The type of `body`.", Shape::Scalar).or("text/plain; charset=utf-8"),
            key("headers", "Further headers of a refusal.", map(Shape::Scalar)),
            key("jitter", "How far `retry-after` is spread at random.", Shape::Any(vec![Shape::Percent(0, 100), Shape::Whole(0, 0)])).or("20%"),
        ])),
        ("own_response", object(vec![
            key("status", "The status of a refusal.", Shape::Whole(400, 599)),
            key("headers", "Further headers of a refusal.", map(Shape::Scalar)),
        ])),
        ("local", object(vec![
            key("max_actors", "The number of actors that each table has room for. This fixes the memory.", Shape::Whole(1, 10_000_000)).or(100_000),
        ])),
    ]
}

fn document() -> Shape {
    let headers = Shape::Any(vec![choice(&["ietf", "x-ratelimit", "both", "off"]), Shape::Only(false)]);
    object(vec![
        key("limits", "The limits. All limits that match a request apply.", list(Shape::Def("limit")))
            .required(),
        key("actors", "The source of each actor's value, by the actor's name.", map(Shape::Def("actor"))),
        key(
            "plan",
            "The part of a request that shows the client's plan.",
            Shape::Any(vec![Shape::Def("plan_members"), Shape::Def("actor")]),
        ),
        key("ip", "How the filter finds the client address.", Shape::Def("ip")),
        key(
            "allow",
            "Clients that no rule limits: addresses, networks, values of actors.",
            list(Shape::Def("member")),
        ),
        key(
            "deny",
            "Clients that the gateway denies: addresses, networks, values of actors.",
            Shape::Any(vec![list(Shape::Def("member")), Shape::Def("deny_members")]),
        ),
        key("response", "What a refused client receives.", Shape::Def("response")),
        key("headers", "The headers that show the quota.", headers).or("ietf"),
        key(
            "mode",
            "`shadow`: every rule counts and reports, but no rule refuses.",
            choice(&["enforce", "shadow"]),
        )
        .or("enforce"),
        key(
            "enforce",
            "For every rule without its own `enforce`, and for `deny`: the part of the actors for which it refuses.",
            Shape::Matching(PART),
        )
        .or("100%"),
        key("access_log", "Which requests get attributes for the access log.", choice(&["refused", "all"]))
            .or("refused"),
        key("local", "The counts of one gateway.", Shape::Def("local")),
        key(
            "store",
            "The store that counts rules with `scope: global` for all gateways.",
            Shape::Def("store"),
        ),
        key("remote", "The server of a document that is laid over this one.", Shape::Def("remote")),
    ])
}

fn prefixes() -> Vec<Key> {
    vec![
        key("v4_prefix", "IPv4 addresses count by this prefix.", Shape::Whole(0, 32)).or(32),
        key("v6_prefix", "IPv6 addresses count by this prefix.", Shape::Whole(0, 128)).or(64),
    ]
}

/// The source of an actor's value: an object with the key of one kind, or the name of a kind
/// without options.
fn actor() -> Shape {
    let bare: Vec<&'static str> =
        actor::KINDS.iter().filter(|kind| kind.bare.is_some()).map(|kind| kind.key).collect();
    let keys = actor::KINDS.iter().map(|kind| source(kind)).collect();
    let object = Object { keys, is_single: true, ..Object::default() };
    // A name in text is compared as it is.
    let words: Vec<Shape> = bare.into_iter().map(|word| Shape::Matching(exact(word))).collect();
    Shape::Any([vec![Shape::Object(object)], words].concat())
}

/// An expression for the name of a kind without options. A new kind matches any text.
fn exact(word: &str) -> &'static str {
    match word {
        "ip" => "^ip$",
        "method" => "^method$",
        "host" => "^host$",
        _ => "",
    }
}

fn source(kind: &ActorKind) -> Key {
    let nothing = || Shape::Any(vec![object(Vec::new()), Shape::Only(true)]);
    let (about, shape) = match kind.key {
        "header" => ("The value of this header.", Shape::Text),
        "cookie" => ("The value of this cookie.", Shape::Text),
        "query" => ("The decoded query parameter.", Shape::Text),
        "path" => ("The Nth segment of the path, from 1.", Shape::Whole(1, 32)),
        "segment" => {
            ("The segment of the limit's url with this name.", Shape::Matching("^[A-Za-z0-9_-]{1,64}$"))
        }
        "jwt" => ("A claim of the bearer token, dotted. The filter does not verify the token.", Shape::Text),
        "property" => (
            "An attribute of the gateway, by the steps of its path.",
            Shape::Any(vec![Shape::Text, Shape::List(Box::new(Shape::Text), 1, Some(16))]),
        ),
        "ip" => (
            "The client's address, shortened to a prefix.",
            Shape::Any(vec![Shape::Def("actor_ip"), Shape::Only(true)]),
        ),
        "method" => ("The method.", nothing()),
        "host" => ("The host.", nothing()),
        _ => ("See the reference.", Shape::Any(vec![Shape::AnyObject, Shape::Scalar])),
    };
    key(kind.key, about, shape)
}
