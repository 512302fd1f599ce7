//! Limits and their conditions.

use super::shape::{Definition, Key, Object, Shape, key};

pub(super) const DEFINITIONS: &[Definition] = &[
    Definition { name: "limit", shape: Shape::Object(&LIMIT) },
    Definition { name: "not", shape: Shape::Object(&NOT) },
    Definition { name: "condition", shape: Shape::Any(&[Shape::Scalar, Shape::Object(&CONDITION)]) },
    Definition { name: "value", shape: Shape::Any(&[Shape::Scalar, Shape::Object(&VALUE)]) },
    Definition { name: "body_size", shape: Shape::Object(&BODY_SIZE) },
];

pub(super) const LIMIT: Object =
    Object { one_of: &[&["url", "Url"]], ..Object::new("limits.md#limits", &[URL, CONDITIONS, REST]) };

const PATHS: Shape = Shape::Matching("^=?/", "a pattern such as `/api` or `=/login`");

const URLS: Shape = Shape::OneOrMany(&PATHS, 1);

const URL: &[Key] = &[
    key(
        "url",
        "The paths of the limit: `/api` with all paths below, `=/login` alone, `/users/*/orders`, `/tenants/{tenant}`, `/product/{id:int}`; several urls have one count.",
        URLS,
    )
    .on("limits.md#url"),
    key("Url", "Another spelling of `url`.", URLS).unoffered(),
    key("case_sensitive", "`false`: the urls match in any case. The default is the document's.", Shape::Flag)
        .on("limits.md#backends-that-ignore-case"),
];

const REST: &[Key] = &[
    key("response", "The response of refusals by this limit's rules.", Shape::Def("own_response"))
        .on("responses.md#responses-of-a-limit-a-list-or-a-rule"),
    key("exclusive", "`true`: less specific limits that also match do not apply.", Shape::Flag)
        .or_flag(false),
    key("priority", "`high`: requests may take the headroom of rules.", Shape::Choice(&["normal", "high"]))
        .or("normal")
        .on("limits.md#priorities"),
    key("rules", "The rules. All rules must admit a request.", Shape::List(&Shape::Def("rule"), 0, None))
        .on("limits.md#rules"),
];

/// The keys of the kinds of condition.
pub(super) const CONDITIONS: &[Key] = &[
    key("methods", "The methods of the limit. `GET` includes `HEAD`.", LISTED),
    key("hosts", "The hosts of the limit, without port; `*.example.org` is every subdomain.", LISTED),
    key("ip", "The networks of the limit's clients, such as `10.0.0.0/8`.", LISTED).on("limits.md#ip"),
    key("headers", "Conditions by header. All conditions must hold.", BY_NAME)
        .on("limits.md#conditions-by-name"),
    key("query", "Conditions by query parameter, decoded.", BY_NAME).on("limits.md#conditions-by-name"),
    key("jwt", "Conditions by claim of the bearer token. The filter does not verify the token.", BY_NAME)
        .on("limits.md#conditions-by-name"),
    key("property", "Conditions by attribute of the gateway, such as `xds.route_name`.", BY_NAME)
        .on("limits.md#conditions-by-name"),
    key("request_json", "Conditions by value in the request's body, by JSON pointer.", BY_NAME)
        .on("limits.md#conditions-by-name"),
    key("body_size", "The declared size of the body in bytes.", Shape::Def("body_size"))
        .on("limits.md#body_size"),
];

const LISTED: Shape = Shape::Any(&[TEXTS, Shape::Def("not")]);
const TEXTS: Shape = Shape::OneOrMany(&Shape::Text, 1);

const NOT: Object = Object::new("limits.md#limits", &[&[key("not", "All but these.", TEXTS).required()]]);

const BY_NAME: Shape = Shape::Map(&Shape::Def("condition"));

const CONDITION: Object = Object {
    is_single: true,
    ..Object::new(
        "limits.md#conditions-by-name",
        &[
            COMPARED,
            &[
                key("present", "`true`: any value; `false`: no value.", Shape::Flag),
                key("not", "All but these, or no value.", Shape::OneOrMany(&Shape::Def("value"), 1)),
            ],
        ],
    )
};

/// What `not` excludes.
const VALUE: Object = Object { is_single: true, ..Object::new("limits.md#conditions-by-name", &[COMPARED]) };

const COMPARED: &[Key] = &[
    key("prefix", "A value that begins with this text.", Shape::Scalar),
    key("regex", "A value that this expression matches as a whole.", Shape::Scalar)
        .on("limits.md#regular-expressions"),
];

const BYTES: Shape = Shape::Size(0, 1_000_000_000_000_000);

const BODY_SIZE: Object = Object::new(
    "limits.md#limits",
    &[&[key("min", "The smallest size.", BYTES), key("max", "The largest size.", BYTES)]],
);
