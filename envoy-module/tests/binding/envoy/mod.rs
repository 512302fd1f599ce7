//! A simulated Envoy drives the module: any bytes are a sequence of events that Envoy may send. The
//! simulation records calls that Envoy forbids, and what the module leaves behind.

pub mod bridges;
pub mod callbacks;
mod config_callbacks;
#[cfg(test)]
mod costs;
mod documents;
mod exchange;
pub mod flow;
pub mod hooks;
#[allow(dead_code, reason = "other targets read numbers")]
#[allow(clippy::duplicate_mod, reason = "the fuzzer has the file, too")]
#[path = "../../../../fuzz/src/targets/input.rs"]
mod input;
mod lent;
pub mod lifetimes;
mod metrics;
pub mod world;

use diana_envoy_module::abi;
use diana_envoy_module::held;
use documents::{ADDRESSES, DOCUMENTS, LINES, LONG, PATHS, REMOTE, ROUTES, WRONG};
use input::Input;
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};
use world::{Owner, Stream, Thread, WORKERS, wait_for_event, with};

/// Longer inputs take longer, but find no more mistakes.
const MOST_BYTES: usize = 600;

/// The `filter_name`s, which share counts.
const NAMES: [&str; 2] = ["one", "other"];

/// No request waits this long: all timeouts are far shorter.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// Loads the module as Envoy does, but lets panics be printed. Then the module's lines go to the
/// simulation's log.
#[allow(dead_code, reason = "the fuzzer has hooks of its own for panics and lines")]
pub fn load() {
    static LOADED: Once = Once::new();
    LOADED.call_once(|| {
        abi::simulate(callbacks::all());
        let hook = std::panic::take_hook();
        // SAFETY: the callbacks are known.
        assert!(!unsafe { hooks::program_init() }.is_null());
        std::panic::set_hook(hook);
    });
}

/// Runs `work` with a new Envoy, and ends that Envoy. One run at a time: the module has one state.
pub fn run(work: impl FnOnce()) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    abi::simulate(callbacks::all());
    with(|world| {
        let (lender, last_address) = (std::mem::take(&mut world.lender), world.last_address);
        let player = Some(std::thread::current().id());
        *world = world::World { player, lender, last_address, ..world::World::default() };
    });
    work();
    end();
}

/// Plays the events that the bytes describe.
pub fn play(bytes: &[u8]) {
    run(|| {
        let mut input = Input(&bytes[..bytes.len().min(MOST_BYTES)]);
        let drains = input.flag();
        // Most runs begin with a configuration that takes requests.
        lifetimes::add_config(NAMES[0], DOCUMENTS[input.below(DOCUMENTS.len())].as_bytes());
        check("the first configuration");
        while !input.is_empty() {
            let what = step(&mut input);
            check(what);
        }
        if drains {
            drain();
        }
    });
}

/// Fails the run if the module has made a mistake.
pub fn check(what: &str) {
    let mistakes = with(|world| std::mem::take(&mut world.mistakes));
    assert!(mistakes.is_empty(), "{what}: {}", mistakes.join("; "));
}

/// One of the streams.
fn stream(input: &mut Input) -> Option<usize> {
    let which = usize::from(input.byte());
    with(|world| {
        let count = world.streams.len();
        world.streams.keys().nth(which.checked_rem(count)?).copied()
    })
}

/// Plays one event. Returns the name of the event.
fn step(input: &mut Input) -> &'static str {
    match input.below(32) {
        0..9 => {
            request(input);
            "a request"
        }
        9..11 => {
            if let Some(stream) = stream(input) {
                let chunks = (0..input.below(3)).map(|size| vec![b'x'; size * 900]).collect();
                flow::request_more(stream, chunks, input.below(4) == 0);
            }
            "more of a request"
        }
        11..14 => {
            respond(input);
            "a response"
        }
        14..16 => {
            if let Some(stream) = stream(input) {
                end_stream(stream, input.below(8) > 0);
            }
            "the end of a stream"
        }
        16..20 => {
            let (count, which) = (with(|world| world.events.len()), usize::from(input.byte()));
            flow::deliver(which.checked_rem(count).unwrap_or(0));
            lifetimes::end_unused(Thread::Main);
            "a scheduled event"
        }
        20..23 => {
            call_event(input);
            "an event of a call"
        }
        23 => {
            wait_for_event(Duration::from_millis(input.below(8) as u64));
            "time passes"
        }
        24 => {
            let what = input.below(3);
            with(|world| match what {
                0 => world.interrupts = true,
                1 => world.is_down = !world.is_down,
                _ => world.filters_calls = !world.filters_calls,
            });
            "another state of Envoy"
        }
        25..27 => {
            let (name, which) = (NAMES[input.below(NAMES.len())], input.below(DOCUMENTS.len() + 2));
            let document = DOCUMENTS.get(which).unwrap_or(&WRONG[input.below(WRONG.len())]);
            let is_taken = lifetimes::add_config(name, document.as_bytes());
            // The listener of an update takes the place of the one before.
            if is_taken && input.flag() {
                remove_configs(input.byte());
            }
            "a configuration"
        }
        27 => {
            remove_configs(input.byte());
            "a listener goes"
        }
        28 => {
            let which = input.below(ROUTES.len() + 1);
            let document = ROUTES.get(which).unwrap_or(&WRONG[input.below(WRONG.len())]);
            lifetimes::add_route(if which == 0 { "" } else { "name" }, document.as_bytes());
            "a document of a route"
        }
        29 => {
            let which = usize::from(input.byte());
            with(|world| {
                let count = world.routes.len();
                if let Some(index) = which.checked_rem(count) {
                    world.routes[index].1 = true;
                }
            });
            lifetimes::end_unused(Thread::Main);
            "a route goes"
        }
        30 => {
            let secret =
                [&b"sixteen letters."[..], b"other letters 16\n", b"short", b"\xff", b""][input.below(5)];
            with(|world| {
                world.secret = secret.to_vec();
                world
                    .runtime
                    .insert(b"diana.enforce".to_vec(), f64::from(secret.first().copied().unwrap_or(0)));
            });
            "a secret, and another part to refuse"
        }
        _ => {
            // All that is due arrives.
            for _ in 0..with(|world| world.events.len()) {
                flow::deliver(0);
            }
            lifetimes::end_unused(Thread::Main);
            "all scheduled events"
        }
    }
}

/// A request begins, by a listener that takes requests.
fn request(input: &mut Input) {
    let (which, worker, route) =
        (usize::from(input.byte()), input.below(2 * WORKERS + 1), usize::from(input.byte()));
    // A few streams are Envoy's own.
    let thread = if worker == 2 * WORKERS { Thread::Main } else { Thread::Worker(worker % WORKERS) };
    let Some(config) = with(|world| {
        let open = world.configs.iter().filter(|(_, config)| !config.is_removed);
        let open: Vec<usize> = open.map(|(address, _)| *address).collect();
        open.get(which.checked_rem(open.len())?).copied()
    }) else {
        return;
    };
    let route = with(|world| {
        let open: Vec<usize> = world.routes.iter().filter(|route| !route.1).map(|route| route.0).collect();
        // Some routes have no document.
        open.get(route % (open.len() + 1)).copied()
    });
    let own = |(name, value): (&[u8], &[u8])| (name.to_vec(), value.to_vec());
    let mut request = vec![
        own((b":method", b"GET")),
        own((b":path", PATHS[input.below(PATHS.len())])),
        own((b":authority", b"example.com")),
        own((b"x-address", ADDRESSES[input.below(ADDRESSES.len())])),
    ];
    for _ in 0..input.below(4) {
        request.push(own(LINES[input.below(LINES.len())]));
    }
    if input.below(8) == 0 {
        request.push((b"x-user-id".to_vec(), vec![b'u'; LONG]));
    }
    let (ends, form) = (input.flag(), input.below(8));
    let stream = flow::begin(Stream {
        config,
        thread,
        route,
        request,
        ends_at_once: form % 2 == 1,
        ..Stream::default()
    });
    // A filter before the module may answer.
    if form != 6 {
        flow::request_headers(stream, ends);
    }
    lifetimes::end_unused(thread);
}

/// The upstream responds to a request that has passed, or Envoy gives up a waiting request.
fn respond(input: &mut Input) {
    const STATUSES: [&[u8]; 4] = [b"200", b"503", b"429", b"99x"];
    const BODIES: [&[&[u8]]; 4] = [&[], &[b"{\"n\": 2}"], &[b"{\"n\"", b": 3, \"x\": [1,2", b"]}"], &[b""]];
    let Some(stream) = stream(input) else { return };
    let status = STATUSES[input.below(STATUSES.len())];
    let headers = vec![
        (b":status".to_vec(), status.to_vec()),
        (b"content-type".to_vec(), b"application/json".to_vec()),
    ];
    let waits = with(|world| world.streams.get(&stream).is_some_and(|stream| stream.is_held));
    flow::respond(stream, headers, BODIES[input.below(BODIES.len())], 5);
    if waits || input.flag() {
        end_stream(stream, true);
    }
}

fn end_stream(stream: usize, is_logged: bool) {
    let thread = with(|world| world.streams.get(&stream).map(|stream| stream.thread));
    flow::end(stream, is_logged);
    lifetimes::end_unused(thread.unwrap_or_default());
}

/// A listener goes: its configuration goes with its last stream.
fn remove_configs(which: u8) {
    with(|world| {
        let count = world.configs.len();
        let which = usize::from(which).checked_rem(count);
        if let Some(config) = which.and_then(|which| world.configs.values_mut().nth(which)) {
            config.is_removed = true;
        }
    });
    lifetimes::end_unused(Thread::Main);
}

/// A call has a reply, or fails.
fn call_event(input: &mut Input) {
    let which = usize::from(input.byte());
    let Some(id) = with(|world| {
        let count = world.calls.len();
        world.calls.keys().nth(which.checked_rem(count)?).copied()
    }) else {
        return;
    };
    match input.below(4) {
        0 => flow::fail_call(id),
        _ => {
            let status: &[u8] = [&b"200"[..], b"304", b"500", b""][input.below(4)];
            let form = input.below(REMOTE.len() + 2);
            let garbage = vec![b'['; 70_000 % (form + 1) * 9000];
            let body = REMOTE.get(form).map_or(&*garbage, |document| document.as_bytes());
            flow::reply(id, &[(b":status", status), (b"etag", b"\"1\"")], body);
        }
    }
}

/// Envoy runs on, and its clusters fail: no request waits for ever.
fn drain() {
    let deadline = Instant::now() + LONGEST_WAIT;
    let waits = || with(|world| world.streams.values().any(|stream| stream.is_held));
    while waits() {
        let calls: Vec<u64> = with(|world| world.calls.keys().copied().collect());
        calls.into_iter().for_each(flow::fail_call);
        wait_for_event(Duration::from_millis(100));
        for _ in 0..with(|world| world.events.len()) {
            flow::deliver(0);
        }
        check("no more happens");
        if Instant::now() > deadline {
            let held = with(|world| world.streams.values().filter(|stream| stream.is_held).count());
            panic!("{held} requests still wait");
        }
    }
}

/// Everything ends, in Envoy's order; nothing remains.
fn end() {
    let streams: Vec<usize> = with(|world| world.streams.keys().copied().collect());
    for stream in streams {
        end_stream(stream, true);
        check("the end of a stream");
    }
    with(|world| {
        world.configs.values_mut().for_each(|config| config.is_removed = true);
        world.routes.iter_mut().for_each(|route| route.1 = true);
    });
    lifetimes::end_unused(Thread::Main);
    check("the end of all configurations");
    let schedulers: Vec<Owner> = with(|world| world.schedulers.values().copied().collect());
    assert!(schedulers.is_empty(), "schedulers remain: {schedulers:?}");
    assert_eq!(held::held(), held::Held::default(), "the module still holds something");
}
