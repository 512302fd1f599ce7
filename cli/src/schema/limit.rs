//! Limits and their conditions.

use super::shape::{Key, Object, Shape, choice, key, list, map, object, one_or_many};
use diana_limiter::matcher;

/// The objects of limits.
pub fn definitions() -> Vec<(&'static str, Shape)> {
    let condition = Object {
        keys: vec![
            key("prefix", "A value that begins with this text.", Shape::Scalar),
            key("regex", "A value that this expression matches as a whole.", Shape::Scalar),
            key("present", "`true`: any value; `false`: no value.", Shape::Flag),
        ],
        is_single: true,
        ..Object::default()
    };
    let bytes = || Shape::Size(0, 1_000_000_000_000_000);
    vec![
        ("limit", limit()),
        ("condition", Shape::Any(vec![Shape::Scalar, Shape::Object(condition)])),
        (
            "body_size",
            object(vec![key("min", "The smallest size.", bytes()), key("max", "The largest size.", bytes())]),
        ),
    ]
}

fn limit() -> Shape {
    let mut keys = vec![
        key(
            "url",
            "The paths of the limit: `/api` with all paths below, `=/login` alone, `/users/*/orders`, `/tenants/{tenant}`.",
            Shape::Matching("^=?/"),
        ),
        key("Url", "Another spelling of `url`.", Shape::Matching("^=?/")),
    ];
    keys.extend(matcher::KINDS.iter().map(|kind| condition(kind.key)));
    keys.extend([
        key("response", "The response of refusals by this limit's rules.", Shape::Def("own_response")),
        key("exclusive", "`true`: less specific limits that also match do not apply.", Shape::Flag).or(false),
        key("priority", "`high`: requests may take the headroom of rules.", choice(&["normal", "high"]))
            .or("normal"),
        key("rules", "The rules. All rules must admit a request.", list(Shape::Def("rule"))),
    ]);
    Shape::Object(Object { keys, one_of: vec![vec!["url", "Url"]], ..Object::default() })
}

fn condition(kind: &'static str) -> Key {
    let conditions = || map(Shape::Def("condition"));
    let (about, shape) = match kind {
        "methods" => ("The methods of the limit. `GET` includes `HEAD`.", one_or_many(Shape::Text)),
        "hosts" => (
            "The hosts of the limit, without port; `*.example.org` is every subdomain.",
            one_or_many(Shape::Text),
        ),
        "headers" => ("Conditions by header. All conditions must hold.", conditions()),
        "query" => ("Conditions by query parameter, decoded.", conditions()),
        "jwt" => {
            ("Conditions by claim of the bearer token. The filter does not verify the token.", conditions())
        }
        "property" => ("Conditions by attribute of the gateway, such as `xds.route_name`.", conditions()),
        "body_size" => ("The declared size of the body in bytes.", Shape::Def("body_size")),
        _ => ("See the reference.", Shape::Any(vec![Shape::AnyObject, list(Shape::Scalar), Shape::Scalar])),
    };
    key(kind, about, shape)
}
