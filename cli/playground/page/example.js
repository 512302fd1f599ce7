
const MODES = ["script", "sliders", "log"];

// What a new user finds.
const EXAMPLE = {
  document: `limits:
  - url: /login
    methods: POST
    rules:
      - {name: log-ins, actor: ip, algo: W, rpu: 5, unit: minute}
  - url: /search
    rules:
      - {name: searches, actor: all, algo: LB, rpu: 10, unit: second, queue: 8}
  - url: /
    rules:
      - {name: per-user, actor: user, rpu: 2, unit: second, burst: 10}   # by x-user-id
`,
  mode: "script",
  cases: `clients:
  ann: {headers: {x-user-id: ann}}
cases:
  - name: ten at once, then two a second
    requests:
      - {from: ann, repeat: 12, expect: {pass: 10, refused: 2}}
      - {from: ann, after: 1s, repeat: 3, expect: {pass: 2, refused: 1}}
  - name: five guesses of a password in a minute
    start: 2026-01-31T12:00:00Z
    request: {method: POST, url: /login}
    requests:
      - {from: 203.0.113.7, repeat: 5, every: 1s, expect: pass}
      - {from: 203.0.113.7, expect: refused by log-ins}
      - {from: 203.0.113.7, at: "12:01", expect: pass}
  - name: a queue of searches
    request: {url: /search}
    requests:
      - {from: 198.51.100.0/28, expect: {pass: 1, delayed: 8, refused: 7}}
`,
  sliders: { method: "GET", url: "/search", header: "x-user-id", clients: 2, rate: 3, seconds: 20, burst: 8 },
};
