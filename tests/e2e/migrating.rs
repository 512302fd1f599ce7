//! The migration guides: the files of a page, those of another rate limiter and those of Diana,
//! decide the same requests.
//!
//! A script depends on no exact time: quotas refill slowly beside a burst, and waits end when a
//! request passes.

use gateway::limitador::{self, Limitador};
use gateway::peers::{Nginx, Traefik};
use gateway::service::is_installed;
use gateway::{Connection, Gateway, Redis, Reply, Upstream, free_port, root, wait_until};
use serde_json::Value;
use servers::RateLimitService;
use std::fs;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const PATIENCE: Duration = Duration::from_secs(20);

/// A request: its path, and its client's key, if it has one.
#[derive(Clone, Copy)]
struct Ask(&'static str, Option<&'static str>);

/// A part of a script.
enum Step {
    /// Waits until the clock's window of this length lasts at least two more seconds.
    Window(Duration),
    /// So many requests one after the other. The first `pass` pass, and no other.
    Burst { ask: Ask, count: usize, pass: usize },
    /// Asks until a request passes: no sooner than `after` the start of the burst before, and after
    /// the limiter has held it for at least `held`. Then sends a burst.
    Refill { ask: Ask, after: Duration, held: Duration, count: usize, pass: usize },
    /// The client sends nothing for this long.
    Idle(Duration),
    /// Requests on connections of their own, all at once; so many pass, the last one no sooner than
    /// `after` the start.
    Together { ask: Ask, count: usize, pass: usize, after: Duration },
    /// So many requests are in flight, and a further one is refused until they end.
    InFlight { ask: Ask, pass: usize },
}
use Step::{Burst, Idle, InFlight, Refill, Together, Window};

/// The application behind a rate limiter. It may hold its responses.
pub struct Application {
    server: Upstream,
    gate: Arc<(Mutex<bool>, Condvar)>,
}

impl Application {
    pub fn start() -> Self {
        let gate = Arc::new((Mutex::new(true), Condvar::new()));
        let held = Arc::clone(&gate);
        let server = Upstream::start(move |_| {
            let (is_open, changed) = &*held;
            let waited = changed.wait_timeout_while(is_open.lock().unwrap(), PATIENCE, |open| !*open);
            drop(waited.unwrap());
            Reply::new(200, "")
        });
        Self { server: server.unwrap(), gate }
    }

    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    fn hold(&self, held: bool) {
        let (is_open, changed) = &*self.gate;
        *is_open.lock().unwrap() = !held;
        changed.notify_all();
    }
}

/// A rate limiter under a script.
struct Player<'a> {
    name: &'static str,
    address: SocketAddr,
    header: &'static str,
    application: Option<&'a Application>,
}

impl Player<'_> {
    fn play(&self, script: &[Step]) {
        let mut begun = Instant::now();
        for (index, step) in script.iter().enumerate() {
            let place = format!("{}, step {index}", self.name);
            match *step {
                Window(unit) => {
                    let left = || unit.as_millis() - now().as_millis() % unit.as_millis();
                    wait_until("a window", PATIENCE, || (left() >= 2000).then_some(())).unwrap();
                }
                Idle(span) => thread::sleep(span),
                Burst { ask, count, pass } => {
                    begun = Instant::now();
                    self.burst(&place, ask, count, pass);
                }
                Refill { ask, after, held, count, pass } => {
                    let passes = || {
                        let start = Instant::now();
                        self.passes(ask).then(|| start.elapsed())
                    };
                    let took = wait_until("a request to pass", PATIENCE, passes).unwrap();
                    assert!(begun.elapsed() >= after, "{place}: {:?}", begun.elapsed());
                    assert!(took >= held, "{place}: {took:?}");
                    self.burst(&place, ask, count, pass);
                }
                Together { ask, count, pass, after } => {
                    let start = Instant::now();
                    let passed: Vec<Duration> = thread::scope(|scope| {
                        let one = || self.passes(ask).then(|| start.elapsed());
                        let clients: Vec<_> = (0..count).map(|_| scope.spawn(one)).collect();
                        clients.into_iter().filter_map(|client| client.join().unwrap()).collect()
                    });
                    assert_eq!(passed.len(), pass, "{place}: {passed:?}");
                    assert!(passed.iter().max() >= Some(&after), "{place}: {passed:?}");
                }
                InFlight { ask, pass } => self.in_flight(&place, ask, pass),
            }
        }
    }

    fn burst(&self, place: &str, ask: Ask, count: usize, pass: usize) {
        let actual: Vec<bool> = (0..count).map(|_| self.passes(ask)).collect();
        let expected: Vec<bool> = (0..count).map(|index| index < pass).collect();
        assert_eq!(actual, expected, "{place}");
    }

    fn in_flight(&self, place: &str, ask: Ask, pass: usize) {
        let application = self.application.unwrap();
        let before = application.server.requests();
        application.hold(true);
        thread::scope(|scope| {
            let held: Vec<_> = (0..pass).map(|_| scope.spawn(|| self.passes(ask))).collect();
            let arrived = || (application.server.requests() == before + pass as u64).then_some(());
            wait_until("requests in flight", PATIENCE, arrived).unwrap();
            assert!(!self.passes(ask), "{place}: one more");
            application.hold(false);
            assert!(held.into_iter().all(|request| request.join().unwrap()), "{place}");
        });
        wait_until("a permit", PATIENCE, || self.passes(ask).then_some(())).unwrap();
    }

    /// Sends a request. Each limiter refuses with 429.
    fn passes(&self, Ask(path, key): Ask) -> bool {
        let key = key.map(|key| (self.header, key));
        let response =
            Connection::open(self.address).unwrap().request("GET", path, key.as_slice(), b"").unwrap();
        assert!([200, 429].contains(&response.status), "{}: {path}: {}", self.name, response.status);
        response.status == 200
    }
}

pub fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// Both play the script at the same time.
fn compare(
    header: &'static str,
    script: &[Step],
    limiters: [(&'static str, SocketAddr, Option<&Application>); 2],
) {
    thread::scope(|scope| {
        for (name, address, application) in limiters {
            scope.spawn(move || Player { name, address, header, application }.play(script));
        }
    });
}

/// The block of a guide with this title in its first line.
fn block(guide: &str, title: &str) -> String {
    let page = fs::read_to_string(root().join("docs/migrate").join(guide)).unwrap();
    let (_, rest) = page.split_once(&format!("\n# {title}\n")).unwrap_or_else(|| panic!("{guide}: {title}"));
    rest.split("\n```").next().unwrap().to_owned() + "\n"
}

/// An Envoy with a file of a guide. Some ports in it are those of other servers.
fn envoy(guide: &str, title: &str, servers: &[(u16, SocketAddr)]) -> Gateway {
    start(&block(guide, title), servers)
}

fn started(file: &Value, servers: &[(u16, SocketAddr)]) -> Gateway {
    start(&serde_norway::to_string(file).unwrap(), servers)
}

fn start(text: &str, servers: &[(u16, SocketAddr)]) -> Gateway {
    let port = |number| {
        let server = servers.iter().find(|(from, _)| *from == number);
        server.map_or_else(|| free_port().unwrap(), |(_, server)| server.port())
    };
    Gateway::from_text(text, port).unwrap()
}

/// Diana in front of an application, by a guide's file.
fn diana(guide: &str, application: &Application) -> Gateway {
    envoy(guide, "after: envoy.yaml", &[(3000, application.server.address())])
}

const NO_WAIT: Duration = Duration::ZERO;

fn seconds(seconds: f64) -> Duration {
    // Clocks of milliseconds, in nginx and in the test.
    Duration::from_secs_f64(seconds) - Duration::from_millis(20)
}

#[test]
fn local_ratelimit() {
    let guide = "local-ratelimit.md";
    let gateways = ["before: envoy.yaml", "after: envoy.yaml"].map(|title| envoy(guide, title, &[]));
    let login = Ask("/login", None);
    let script = [
        Burst { ask: Ask("/", Some("a")), count: 7, pass: 5 },
        // The default bucket has 12 tokens.
        Burst { ask: Ask("/", None), count: 9, pass: 7 },
        Burst { ask: Ask("/", Some("b")), count: 1, pass: 0 },
        Burst { ask: login, count: 5, pass: 3 },
        // Three tokens in six seconds come one by one.
        Refill { ask: login, after: seconds(2.0), held: NO_WAIT, count: 1, pass: 0 },
    ];
    let [theirs, ours] = gateways.each_ref().map(Gateway::address);
    compare("x-api-key", &script, [("local_ratelimit", theirs, None), ("Diana", ours, None)]);
}

/// What the guide says about several buckets and many clients.
#[test]
#[ignore = "waits for seconds: `cargo xtask migrate`"]
fn local_ratelimit_drains_and_forgets() {
    let small = |title, those: &str, these: &str| {
        let text = block("local-ratelimit.md", title);
        assert_eq!(text.matches(those).count(), 1, "{those}");
        Gateway::from_text(&text.replace(those, these), |_| free_port().unwrap()).unwrap()
    };
    let key = |key, count, pass| Burst { ask: Ask("/", Some(key)), count, pass };
    let play = |name, gateway: &Gateway, script: &[Step]| {
        Player { name, address: gateway.address(), header: "x-api-key", application: None }.play(script);
    };
    // Four requests that the total of two refuses; then the total is full again.
    let drains = |pass| [key("a", 6, 2), Idle(Duration::from_millis(2500)), key("a", 1, pass)];
    let total =
        ("max_tokens: 12, tokens_per_fill: 120, fill_interval: 3600s", "rpu: 120, unit: hour, burst: 12");
    let theirs = small("before: envoy.yaml", total.0, "max_tokens: 2, tokens_per_fill: 1, fill_interval: 1s");
    play("local_ratelimit", &theirs, &drains(0));
    let ours = small("after: envoy.yaml", total.1, "rpu: 1, unit: second, burst: 2");
    play("Diana", &ours, &drains(1));
    // Room for one client.
    let forgets = |pass| [key("a", 6, 5), key("b", 1, 1), key("a", 1, pass)];
    let theirs = small("before: envoy.yaml", "max_dynamic_descriptors: 10000", "max_dynamic_descriptors: 1");
    play("local_ratelimit", &theirs, &forgets(1));
}

/// The block of this title in the guide for `ratelimit`.
fn part(title: &str) -> Value {
    serde_norway::from_str(&block("ratelimit.md", title)).unwrap()
}

/// The filters of a file's gateway.
fn filters(file: &mut Value) -> &mut Vec<Value> {
    let filters = &mut file["static_resources"]["listeners"][0]["filter_chains"][0]["filters"];
    filters[0]["typed_config"]["http_filters"].as_array_mut().unwrap()
}

/// The first file of the guide, with Diana's filter and cluster.
fn after() -> Value {
    let mut file = part("before: envoy.yaml");
    filters(&mut file)[0] = part("after: the filter in place of ratelimit")[0].take();
    let clusters = file["static_resources"]["clusters"].as_array_mut().unwrap();
    let cluster = clusters.iter_mut().find(|one| one["name"] == "limitador").unwrap();
    *cluster = part("after: the cluster in place of limitador")[0].take();
    file
}

/// Envoy with this Limitador, and Diana with Redis.
fn ratelimit(service: SocketAddr) {
    let guide = "ratelimit.md";
    let redis = Redis::start().unwrap();
    let application = Application::start();
    let behind = (3000, application.server.address());
    let theirs = envoy(guide, "before: envoy.yaml", &[(8081, service), behind]);
    let ours = started(&after(), &[(6379, redis.address()), behind]);
    let login = Ask("/login", None);
    let script = [
        Window(Duration::from_secs(86_400)),
        Burst { ask: Ask("/api", Some("ann")), count: 7, pass: 5 },
        // Refusals of the user have not charged everybody's quota of 12.
        Burst { ask: Ask("/api", None), count: 9, pass: 7 },
        Burst { ask: Ask("/api", Some("bob")), count: 1, pass: 0 },
        Window(Duration::from_secs(4)),
        Burst { ask: login, count: 5, pass: 3 },
        // The whole quota returns with the next window.
        Refill { ask: login, after: NO_WAIT, held: NO_WAIT, count: 3, pass: 2 },
    ];
    let limiters = [("ratelimit", theirs.address(), None), ("Diana", ours.address(), None)];
    compare("x-user-id", &script, limiters);
    assert_eq!(ours.counted("store.redis.failed_calls").unwrap(), 0);
}

fn limits() -> String {
    block("ratelimit.md", "before: limits.yaml of Limitador")
}

/// Calls this with the address of a Limitador that has the page's limits: the server where it is
/// installed, else its library.
fn with_limitador(work: impl FnOnce(SocketAddr)) {
    if is_installed(limitador::PROGRAM) {
        work(Limitador::start(&limits()).unwrap().address());
    } else {
        let limits: Value = serde_norway::from_str(&limits()).unwrap();
        work(RateLimitService::start(&limits.to_string()).unwrap().address());
    }
}

#[test]
fn ratelimit_is_replaced() {
    with_limitador(ratelimit);
}

/// Diana in front of Envoy's filter, which the page adds to its first file.
#[test]
fn ratelimit_stays() {
    with_limitador(|service| {
        let application = Application::start();
        let mut filter = part("after: the filter in place of ratelimit")[0].take();
        let document = part("beside: the document of the filter in front of ratelimit");
        filter["typed_config"]["config"]["configuration"]["value"] = document;
        let mut file = part("before: envoy.yaml");
        filters(&mut file).insert(0, filter);
        let gateway = started(&file, &[(8081, service), (3000, application.server.address())]);
        let player = Player {
            name: "both",
            address: gateway.address(),
            header: "x-user-id",
            application: Some(&application),
        };
        let asked = || gateway.admin().counter("cluster.limitador.upstream_rq_total").unwrap();
        player.play(&[
            Window(Duration::from_secs(86_400)),
            // The service refuses the last two, and Diana takes nothing for them.
            Burst { ask: Ask("/api", Some("ann")), count: 7, pass: 5 },
        ]);
        assert_eq!(asked(), 7);
        // Diana's quota of 8 for an address.
        player.play(&[Burst { ask: Ask("/api", Some("bob")), count: 6, pass: 3 }]);
        assert_eq!(asked(), 10, "what Diana refuses does not reach the service");
        let refused = gateway.get("/api", &[("x-user-id", "bob")]).unwrap();
        assert!(refused.text().contains(r#""violated-policies":["per-ip"]"#), "{}", refused.text());
    });
}

#[test]
#[ignore = "needs nginx: `cargo xtask migrate`"]
fn nginx() {
    let guide = "nginx.md";
    let applications = [(); 2].map(|()| Application::start());
    let theirs = Nginx::start(&block(guide, "before: nginx.conf"), applications[0].server.address()).unwrap();
    let ours = diana(guide, &applications[1]);
    let login = Ask("/login", None);
    let script = [
        // `burst` and one more, of each key; then of the address.
        Burst { ask: Ask("/api", Some("a")), count: 8, pass: 6 },
        Burst { ask: Ask("/api", Some("b")), count: 8, pass: 6 },
        Burst { ask: Ask("/api", None), count: 11, pass: 9 },
        Burst { ask: login, count: 5, pass: 3 },
        Refill { ask: login, after: seconds(2.0), held: NO_WAIT, count: 1, pass: 0 },
        Together { ask: Ask("/search", None), count: 6, pass: 4, after: seconds(3.0) },
        Together { ask: Ask("/reports", None), count: 7, pass: 5, after: seconds(2.0) },
        InFlight { ask: Ask("/downloads", None), pass: 2 },
    ];
    let [before, after] = applications.each_ref().map(Some);
    compare("x-api-key", &script, [("nginx", theirs.address(), before), ("Diana", ours.address(), after)]);
}

#[test]
#[ignore = "needs Traefik: `cargo xtask migrate`"]
fn traefik() {
    let guide = "traefik.md";
    let applications = [(); 2].map(|()| Application::start());
    let title = "before: dynamic.yaml of Traefik";
    let theirs = Traefik::start(&block(guide, title), applications[0].server.address()).unwrap();
    let ours = diana(guide, &applications[1]);
    let key = Ask("/api", Some("a"));
    let script = [
        Burst { ask: key, count: 7, pass: 5 },
        // A token comes after 2 s. A request may wait for the last 0.5 s of them.
        Refill { ask: key, after: seconds(2.0), held: seconds(0.1), count: 1, pass: 0 },
        // Without a key all count together.
        Burst { ask: Ask("/api", None), count: 7, pass: 5 },
        InFlight { ask: Ask("/downloads", None), pass: 2 },
    ];
    let [before, after] = applications.each_ref().map(Some);
    let (theirs, ours) = (("Traefik", theirs.address(), before), ("Diana", ours.address(), after));
    compare("x-api-key", &script, [theirs, ours]);
    // Traefik forgets a client that pauses for 4 s.
    let pause = |pass| {
        let key = Ask("/api", Some("b"));
        let first = Burst { ask: key, count: 7, pass: 5 };
        [first, Idle(Duration::from_secs(4)), Burst { ask: key, count: 7, pass }]
    };
    for ((name, address, application), pass) in [(theirs, 5), (ours, 2)] {
        Player { name, address, header: "x-api-key", application }.play(&pause(pass));
    }
}

/// Kong itself is not at hand.
#[test]
fn kong() {
    let application = Application::start();
    let ours = diana("kong.md", &application);
    let script = [
        Window(Duration::from_secs(3600)),
        Burst { ask: Ask("/api", Some("a")), count: 7, pass: 5 },
        Burst { ask: Ask("/api", None), count: 7, pass: 5 },
    ];
    let player = Player {
        name: "Diana",
        address: ours.address(),
        header: "x-api-key",
        application: Some(&application),
    };
    player.play(&script);
}
