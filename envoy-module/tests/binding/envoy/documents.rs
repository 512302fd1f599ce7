//! The documents and requests of the runs.

/// Documents of listeners.
pub const DOCUMENTS: [&str; 12] = [
    // Local rules: enough to pass, few enough to be refused.
    r#"{"limits": [{"url": "/", "rules": [{"name": "a", "actor": "ip", "rpu": 3, "unit": "day"}]}], "headers": "both"}"#,
    r#"{"limits": [{"url": "/a", "rules": [
        {"name": "b", "actor": "user", "rpu": 2, "unit": "day", "overrides": {"vip": {"rpu": 9}}},
        {"name": "c", "rpu": 1000, "unit": "second", "algo": "sliding window"}]}],
        "deny": [{"user": "mallory"}], "access_log": "all"}"#,
    // Requests that wait for their turn, and refusals that wait.
    r#"{"limits": [{"url": "/", "rules": [
        {"name": "d", "algo": "LB", "rpu": 300, "unit": "second", "queue": 6}]}], "headers": "ietf"}"#,
    r#"{"limits": [{"url": "/", "rules": [{"name": "e", "rpu": 1, "unit": "day", "reject_delay": "5ms"}]}]}"#,
    // Permits, and charges that follow the response.
    r#"{"limits": [{"url": "/", "rules": [
        {"name": "f", "algo": "C", "rpu": 2, "max_hold": "1d"},
        {"name": "g", "actor": "ip", "rpu": 90, "unit": "day", "cost": {"response_json": "/n", "default": 1}},
        {"name": "h", "actor": "ip", "rpu": 3, "unit": "day", "charge": {"status": "5xx"}}]}]}"#,
    // Metadata, properties and other parts of a request.
    r#"{"limits": [{"url": "/", "rules": [{"name": "i", "actor": ["m", "q"], "rpu": 5, "unit": "day", "missing": "share",
        "cost": {"header": "content-length", "default": 1, "max": 3}}], "headers": {"x-plan": {"regex": "free|trial"}}}],
        "actors": {"m": {"property": ["metadata", "filter_metadata", "a", "text"]}, "q": {"query": "k"}}}"#,
    // Global rules.
    r#"{"limits": [{"url": "/", "rules": [
        {"name": "j", "actor": "user", "rpu": 4, "unit": "day", "scope": "global", "on_error": "local"}]}],
        "store": {"redis": {"cluster": "redis", "secret": "sixteen letters.", "timeout": "20ms"}}}"#,
    r#"{"limits": [{"url": "/", "rules": [
        {"name": "k", "actor": "ip", "rpu": 4, "unit": "day", "algo": "W", "scope": "global", "on_error": "deny"}]}],
        "store": {"redis": {"cluster": "redis", "secret": "sixteen letters.", "timeout": "20ms", "in_flight": 2}}}"#,
    r#"{"limits": [{"url": "/", "rules": [{"name": "l", "rpu": 4, "unit": "day", "scope": "global", "lease": "50%"}]}],
        "store": {"redis": {"clusters": ["absent", "redis"], "secret": {"sds": "diana"}, "timeout": "20ms"}}}"#,
    // A remote document.
    r#"{"limits": [{"url": "/", "rules": [{"name": "m", "rpu": 4, "unit": "day"}]}],
        "remote": {"cluster": "config", "path": "/d", "interval": "100ms", "timeout": "20ms"}}"#,
    // Adapts to the responses.
    r#"{"limits": [{"url": "/", "rules": [{"name": "n", "rpu": 200, "algo": "concurrency",
        "adapt": {"signal": "latency_p90", "target": "200ms", "min": 20, "max": 400, "every": "10s"}}]}]}"#,
    r#"[{"url": "/", "rules": [{"rpu": 5, "unit": "minute", "max_wait": "10ms"}]}]"#,
];

/// Documents that the module refuses, for a listener and for a route.
pub const WRONG: [&str; 7] = [
    "",
    "{",
    r#"{"limits": 1}"#,
    r#"{"limits": [{"url": "/", "rules": [{"rpu": 0, "unit": "secnd"}]}]}"#,
    r#"{"limits": [{"url": "/", "rules": [{"actor": "p", "rpu": 1, "unit": "day"}]}], "actors": {"p": {"property": ["a"]}}}"#,
    r#"{"limits": [], "store": {"redis": {"cluster": "redis", "secret": {"sds": "unknown"}}}}"#,
    "\u{1}\u{0}",
];

/// Documents of routes.
pub const ROUTES: [&str; 5] = [
    r#"{"limits": [{"url": "/", "rules": [{"name": "r", "actor": "ip", "rpu": 1, "unit": "day"}]}]}"#,
    r#"{"limits": [{"url": "/", "rules": [{"name": "s", "algo": "C", "rpu": 1, "max_hold": "1d"}]}], "headers": "both"}"#,
    r#"{"limits": [{"url": "/", "rules": [{"name": "t", "algo": "LB", "rpu": 300, "unit": "second", "queue": 3}]}]}"#,
    r#"{"mode": "shadow"}"#,
    // Fits no listener without this actor.
    r#"{"limits": [{"url": "/", "rules": [{"name": "u", "actor": "q", "rpu": 1, "unit": "day"}]}]}"#,
];

/// Documents of a server.
pub const REMOTE: [&str; 3] = [
    r#"{"limits": [{"url": "/", "rules": [{"name": "m", "rpu": 5, "unit": "day"}]}]}"#,
    r#"{"limits": [{"url": "/", "rules": [{"name": "v", "actor": "ip", "algo": "C", "rpu": 1, "max_hold": "1d"}]}]}"#,
    "not a document",
];

pub const PATHS: [&[u8]; 6] = [b"/", b"/a?k=1", b"/a/%2e%2e/b?k=2&k=3", b"", b"/a/\xff\x80", b"*"];

pub const ADDRESSES: [&[u8]; 4] = [b"192.0.2.1:1234", b"[2001:db8::1]:80", b"not an address", b""];

/// Further lines of a request's headers.
pub const LINES: [(&[u8], &[u8]); 10] = [
    (b"x-user-id", b"ann"),
    (b"x-user-id", b"vip"),
    (b"x-user-id", b"mallory"),
    (b"x-user-id", b"\xff\xfe"),
    (b"x-user-id", b""),
    (b"x-forwarded-for", b"198.51.100.7, 203.0.113.9"),
    (b"x-plan", b"free"),
    (b"content-length", b"12"),
    (b"content-length", b"-1e9"),
    (b"content-type", b"application/grpc"),
];

/// The longest value of a header line.
pub const LONG: usize = 8000;
