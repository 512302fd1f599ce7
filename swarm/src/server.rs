//! A Redis for one script, on a virtual clock: Redis' own Lua 5.1, and only those of Redis'
//! commands that the script calls. A real Redis expires keys by its own clock, so it cannot take
//! part; `tests/redis.rs` compares both.

use diana_global_redis::script::{SCRIPT, SHA1};
use mlua::{Error, Function, Lua, MultiValue, Table, Value};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::fmt::Write;
use std::rc::Rc;

/// How far a replica may lag behind, in µs.
pub const LONGEST_LAG_US: u64 = 2_000_000;

/// The most arguments of a command: the keys and commands of 64 queries with several rules each.
const MAX_PARTS: usize = 4_096;

/// A value, and when it expires, in ms.
type Entry = (Vec<u8>, u64);

/// One command of a call that was carried out, for the checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executed {
    /// The keys, one for each rule.
    pub keys: Vec<String>,
    /// The commands of the script, as they were sent.
    pub commands: Vec<String>,
    /// The numbers of the reply, without the number of the call.
    pub numbers: Vec<u64>,
}

#[derive(Default)]
struct Data {
    now_us: u64,
    entries: HashMap<Vec<u8>, Entry>,
    /// The latest writes: when, which key, and the value before. A failover takes them back.
    writes: VecDeque<(u64, Vec<u8>, Option<Entry>)>,
}

/// A Redis without a network.
pub struct Server {
    lua: Lua,
    script: Function,
    data: Rc<RefCell<Data>>,
    /// Whether the server has the script in its cache.
    has_script: bool,
    /// Counts the calls of the script.
    pub calls: u64,
}

impl Default for Server {
    fn default() -> Server {
        Server::with_script(SCRIPT)
    }
}

impl Server {
    /// An empty server that runs this text in place of the shipped script, for mutants.
    pub fn with_script(script: &str) -> Server {
        let lua = Lua::new();
        let data = Rc::new(RefCell::new(Data::default()));
        install(&lua, &data).expect("the functions can be installed");
        let script = lua.load(script).into_function().expect("the script compiles");
        Server { lua, script, data, has_script: false, calls: 0 }
    }

    /// Carries out the commands of a call at `now_us` of the server's clock. `true_us` is the time
    /// by which writes are replicated, which never steps.
    pub fn serve(&mut self, now_us: u64, true_us: u64, mut body: &[u8]) -> (Vec<u8>, Vec<Executed>) {
        let (mut reply, mut all) = (Vec::new(), Vec::new());
        while !body.is_empty() {
            let Some(parts) = diana_resp::next_command(&mut body, MAX_PARTS) else {
                reply.extend_from_slice(b"-ERR Protocol error\r\n");
                break;
            };
            let parts: Vec<String> =
                parts.iter().map(|part| String::from_utf8_lossy(part).into_owned()).collect();
            match self.command(now_us, true_us, &parts) {
                Ok(executed) => {
                    let number = parts.get(3 + executed.keys.len()).map_or("", |number| number);
                    write!(Text(&mut reply), "*{}\r\n:{number}\r\n", executed.numbers.len() + 1).unwrap();
                    for number in &executed.numbers {
                        write!(Text(&mut reply), ":{number}\r\n").unwrap();
                    }
                    all.push(executed);
                }
                Err(error) => write!(Text(&mut reply), "-{error}\r\n").unwrap(),
            }
        }
        (reply, all)
    }

    fn command(&mut self, now_us: u64, true_us: u64, parts: &[String]) -> Result<Executed, String> {
        let [name, script, count, rest @ ..] = parts else { return Err("ERR wrong number".into()) };
        match name.as_str() {
            "EVAL" if script == SCRIPT => self.has_script = true,
            "EVALSHA" if script == SHA1 && self.has_script => {}
            "EVALSHA" => return Err("NOSCRIPT No matching script. Please use EVAL.".into()),
            _ => return Err("ERR unknown command".into()),
        }
        let count: usize = count.parse().map_err(|_| "ERR value is not an integer")?;
        let (keys, arguments) =
            rest.split_at_checked(count).ok_or("ERR Number of keys can't be greater than number of args")?;
        let numbers = self.run(now_us, true_us, keys, arguments).map_err(|error| format!("ERR {error}"))?;
        let (first, numbers) = numbers.split_first().ok_or("ERR an empty reply")?;
        assert_eq!(Some(*first), arguments[0].parse().ok(), "the script repeats the number of the call");
        let commands = arguments[1..].to_vec();
        Ok(Executed { keys: keys.to_vec(), commands, numbers: numbers.to_vec() })
    }

    /// Runs the script with these keys and arguments, and returns the numbers of its reply.
    pub fn run(
        &mut self,
        now_us: u64,
        true_us: u64,
        keys: &[String],
        arguments: &[String],
    ) -> Result<Vec<u64>, Error> {
        self.calls += 1;
        {
            let mut data = self.data.borrow_mut();
            data.now_us = now_us;
            while data.writes.front().is_some_and(|(at, ..)| at + LONGEST_LAG_US < true_us) {
                data.writes.pop_front();
            }
        }
        let before = self.data.borrow().writes.len();
        let globals = self.lua.globals();
        globals.raw_set("KEYS", self.lua.create_sequence_from(keys.iter().map(String::as_str))?)?;
        globals.raw_set("ARGV", self.lua.create_sequence_from(arguments.iter().map(String::as_str))?)?;
        let reply: Table = self.script.call(())?;
        self.data.borrow_mut().writes.iter_mut().skip(before).for_each(|(at, ..)| *at = true_us);
        let numbers: Result<Vec<f64>, Error> = reply.sequence_values().collect();
        // Redis cuts the numbers of a reply.
        numbers?
            .into_iter()
            .map(|number| match number {
                0.0..9_007_199_254_740_992.0 => Ok(number as u64),
                _ => Err(Error::runtime(format!("the reply has the number {number}"))),
            })
            .collect()
    }

    /// Dies and starts again with no data.
    pub fn restart_empty(&mut self) {
        let mut data = self.data.borrow_mut();
        data.entries.clear();
        data.writes.clear();
        self.has_script = false;
    }

    /// Fails over to a replica that lacks the writes since `true_us`. A replica has no script in
    /// its cache.
    pub fn fail_over(&mut self, true_us: u64) {
        let mut data = self.data.borrow_mut();
        while data.writes.back().is_some_and(|(at, ..)| *at >= true_us)
            && let Some((_, key, before)) = data.writes.pop_back()
        {
            match before {
                Some(entry) => data.entries.insert(key, entry),
                None => data.entries.remove(&key),
            };
        }
        self.has_script = false;
    }

    /// The value of a key, and how long it lives, in ms.
    pub fn entry(&self, key: &str) -> Option<(String, u64)> {
        let data = self.data.borrow();
        let (value, expires) = data.entries.get(key.as_bytes())?;
        let text = String::from_utf8_lossy(value).into_owned();
        Some((text, expires.saturating_sub(data.now_us / 1_000)))
    }

    /// Whether a script would read the key at `now_us`.
    pub fn reads(&self, now_us: u64, key: &str) -> bool {
        self.data.borrow().entries.get(key.as_bytes()).is_some_and(|(_, expires)| now_us / 1_000 <= *expires)
    }
}

/// Formats into bytes.
struct Text<'b>(&'b mut Vec<u8>);

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Installs `redis.call` and `redis.pcall`. They differ in how they return errors only, and
/// `pcall('GET')` has no errors here.
fn install(lua: &Lua, data: &Rc<RefCell<Data>>) -> Result<(), Error> {
    let redis = lua.create_table()?;
    for name in ["call", "pcall"] {
        let data = Rc::clone(data);
        let call = lua.create_function(move |lua, arguments: MultiValue| {
            let arguments: Vec<Vec<u8>> = arguments.iter().map(argument).collect::<Result<_, _>>()?;
            let parts: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
            call(lua, &mut data.borrow_mut(), &parts)
        })?;
        redis.raw_set(name, call)?;
    }
    lua.globals().raw_set("redis", redis)
}

/// An argument as Redis takes it: text, or a number by `%.17g`. The script has only whole numbers,
/// which this format prints as they are.
fn argument(value: &Value) -> Result<Vec<u8>, Error> {
    match value {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        Value::Integer(number) => Ok(number.to_string().into_bytes()),
        Value::Number(number) if number.fract() == 0.0 && number.abs() < 1e17 => {
            Ok(format!("{number:.0}").into_bytes())
        }
        other => Err(Error::runtime(format!("an argument like {other:?}"))),
    }
}

fn call(lua: &Lua, data: &mut Data, parts: &[&[u8]]) -> Result<Value, Error> {
    let now_ms = data.now_us / 1_000;
    match parts {
        [b"TIME"] => {
            let parts = [(data.now_us / 1_000_000).to_string(), (data.now_us % 1_000_000).to_string()];
            lua.create_sequence_from(parts).map(Value::Table)
        }
        [b"GET", key] => match data.entries.get(*key) {
            Some((value, expires)) if now_ms <= *expires => lua.create_string(value).map(Value::String),
            // An expired key is gone, even if the clock steps back. Redis turns `nil` into `false`.
            _ => {
                data.entries.remove(*key);
                Ok(Value::Boolean(false))
            }
        },
        [b"SET", key, value, b"PX", life] => {
            let life = std::str::from_utf8(life).ok().and_then(|life| life.parse::<u64>().ok());
            let life = life.filter(|life| *life > 0);
            let life = life.ok_or_else(|| Error::runtime("invalid expire time in 'set' command"))?;
            let before = data.entries.insert(key.to_vec(), (value.to_vec(), now_ms + life));
            data.writes.push_back((0, key.to_vec(), before));
            lua.create_string("OK").map(Value::String)
        }
        _ => Err(Error::runtime(format!("unknown command {:?}", parts.first()))),
    }
}
