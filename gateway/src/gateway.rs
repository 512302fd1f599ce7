//! A running gateway, with the operations that tests need.

use crate::admin::{Admin, Sample, Stats};
use crate::bootstrap::{
    self, ACCESS_LOG, LISTENER, LISTENERS_FILE, OUTBOUND, ROUTES_FILE, bootstrap, listeners, route_file,
};
use crate::process::{Folder, Process, Start};
use crate::{
    Answer, Config, Connection, Load, Plugin, Report, Response, Shell, Shot, filter, http, load, wait_until,
};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Metrics that have not changed for this long are those of all past requests.
const STANDSTILL: Duration = Duration::from_millis(250);

/// How long Envoy may take to notice a changed file.
const UPDATE: Duration = Duration::from_secs(30);

/// The result of a change of configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// The new configuration is active, and the old one has ended: [`Config::drain`] after the
    /// change.
    Accepted,
    /// The old configuration stays active. The text has the lines of Envoy's log that say why.
    Rejected(String),
}

/// An Envoy with the filter, ready for requests; the process ends when this is dropped.
pub struct Gateway {
    process: Process,
    address: SocketAddr,
    /// The settings of a gateway that was not started from a file.
    generated: Option<(Config, PathBuf)>,
}

impl Gateway {
    /// Starts a gateway. A mistake in the filter's configuration is an error here, in Envoy's
    /// words.
    pub fn start(config: Config) -> Result<Self> {
        let filter = match (config.shell, &config.filter) {
            (Shell::Native, None) => filter::module()?.to_owned(),
            (_, Some(path)) => {
                path.canonicalize().with_context(|| format!("no filter at `{}`", path.display()))?
            }
            (Shell::Wasm, None) => filter::filter()?.to_owned(),
        };
        let folder = Folder::create()?;
        folder.write(LISTENERS_FILE, &listeners(&config, &filter, 0).to_string())?;
        if config.rds {
            folder.write(ROUTES_FILE, &route_file(&config).to_string())?;
        }
        let file = folder.write("envoy.json", &bootstrap(&config).to_string())?;
        let directory = folder.path().to_owned();
        let start = Start {
            bootstrap: &file,
            directory: &directory,
            concurrency: config.concurrency,
            drain: config.drain,
            log_level: &config.log_level,
            under: &config.under,
            env: &config.env,
        };
        let process = Process::start(folder, &start)?;
        let Some(address) = process.admin.listener(LISTENER)? else {
            bail!("Envoy refuses the listener:\n{}", process.complaints(0));
        };
        Ok(Self { process, address, generated: Some((config, filter)) })
    }

    /// Starts a gateway from a file such as `envoy.yaml`, whose relative paths begin at the
    /// workspace's root. Each `port_value` in it is replaced by the result of `port`: the same
    /// number, or a [`free_port`]. The file must have an admin interface and a listener `gateway`,
    /// which receives the requests.
    pub fn from_file(file: &Path, port: impl FnMut(u16) -> u16) -> Result<Self> {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read `{}`", file.display()))?;
        Self::from_text(&text, port).with_context(|| format!("of `{}`", file.display()))
    }

    /// The same from a file's text.
    pub fn from_text(text: &str, port: impl FnMut(u16) -> u16) -> Result<Self> {
        Self::from_text_with(text, &[], port)
    }

    /// The same with these variables of the environment.
    pub fn from_text_with(
        text: &str,
        env: &[(String, String)],
        mut port: impl FnMut(u16) -> u16,
    ) -> Result<Self> {
        // What the file loads may not be built yet.
        if text.contains("target/diana") {
            filter::filter()?;
        }
        if text.contains("dynamic_module_config") {
            filter::module()?;
        }
        let mut known = BTreeMap::new();
        let text = replace_ports(text, |number| *known.entry(number).or_insert_with(|| port(number)));
        let folder = Folder::create()?;
        let bootstrap = folder.write("envoy.yaml", &text)?;
        let start = Start {
            bootstrap: &bootstrap,
            directory: crate::root(),
            concurrency: 2,
            drain: Duration::from_secs(2),
            log_level: "info",
            under: &[],
            env,
        };
        let process = Process::start(folder, &start)?;
        let Some(address) = process.admin.listener(LISTENER)? else {
            bail!("there is no listener `{LISTENER}`, or Envoy refuses it");
        };
        Ok(Self { process, address, generated: None })
    }

    /// The address for requests.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of [`Config::outbound`].
    pub fn outbound(&self) -> Result<SocketAddr> {
        self.process.admin.listener(OUTBOUND)?.context("there is no outbound listener")
    }

    /// Its admin interface.
    pub fn admin(&self) -> Admin {
        self.process.admin
    }

    /// Opens a connection, for several requests or a delayed read of the response.
    pub fn connect(&self) -> Result<Connection> {
        Connection::open(self.address)
    }

    /// `GET`s a path on a connection of its own.
    pub fn get(&self, path: &str, headers: &[(&str, &str)]) -> Result<Response> {
        self.request("GET", path, headers, b"")
    }

    /// Sends a request on a connection of its own.
    pub fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Response> {
        self.connect()?.request(method, path, headers, body)
    }

    /// Sends bytes unchanged and reads the response; `None` if the gateway closes without one.
    pub fn raw(&self, bytes: &[u8]) -> Result<Option<Response>> {
        http::raw(self.address, bytes)
    }

    /// Sends many requests; `shot` makes the request of an index.
    pub fn load(&self, load: Load, shot: impl Fn(u64) -> Shot + Sync) -> Result<Report> {
        load::run(self.address, load, shot, |_| {})
    }

    /// The same, with `seen` called for each response.
    pub fn load_watched(
        &self,
        load: Load,
        shot: impl Fn(u64) -> Shot + Sync,
        seen: impl Fn(Answer) + Sync,
    ) -> Result<Report> {
        load::run(self.address, load, shot, seen)
    }

    /// Replaces the filter's configuration and waits until Envoy has rejected it, or accepted it
    /// and ended the old one.
    pub fn update(&mut self, plugin: impl Into<Plugin>) -> Result<Update> {
        self.reconfigure(|config| config.plugin = plugin.into())
    }

    /// The same without the wait for the old configuration's end: the old configuration keeps its
    /// connections until they end, or `Config::drain` is over.
    pub fn update_beside(&mut self, plugin: impl Into<Plugin>) -> Result<Update> {
        self.reconfigure_beside(|config| config.plugin = plugin.into())
    }

    /// Changes any setting of the listener. Settings of the process (workers, clusters, upstream,
    /// environment) stay as they were at the start.
    pub fn reconfigure(&mut self, change: impl FnOnce(&mut Config)) -> Result<Update> {
        self.change(change, true)
    }

    /// The same without the wait for the old configuration's end.
    pub fn reconfigure_beside(&mut self, change: impl FnOnce(&mut Config)) -> Result<Update> {
        self.change(change, false)
    }

    /// Replaces the routes of a gateway with [`Config::rds`], and waits until Envoy has accepted or
    /// rejected them.
    pub fn reroute(&mut self, routes: Vec<Value>) -> Result<Update> {
        let Some((config, _)) = &mut self.generated else {
            bail!("a gateway that was started from a file cannot be changed");
        };
        let changed = Config { routes, ..config.clone() };
        let count =
            |name: &str| self.process.admin.counter(&format!("http.{LISTENER}.rds.{LISTENER}.{name}"));
        let before = (count("config_reload")?, count("update_rejected")?);
        let logged = self.process.log().len();
        self.process.folder.write(ROUTES_FILE, &route_file(&changed).to_string())?;
        let accepted = wait_until("Envoy to judge the routes", UPDATE, || {
            if count("update_rejected").ok()? > before.1 {
                return Some(false);
            }
            (count("config_reload").ok()? > before.0).then_some(true)
        })?;
        if !accepted {
            return Ok(Update::Rejected(self.process.complaints(logged)));
        }
        *config = changed;
        Ok(Update::Accepted)
    }

    fn change(&mut self, change: impl FnOnce(&mut Config), drained: bool) -> Result<Update> {
        let Some((config, filter)) = &mut self.generated else {
            bail!("a gateway that was started from a file cannot be changed");
        };
        let mut changed = config.clone();
        change(&mut changed);
        let file = changed.filter.as_ref().unwrap_or(filter).clone();
        // With the same port Envoy treats the listener as the same one and keeps the socket.
        let text = listeners(&changed, &file, self.address.port()).to_string();
        let count = |name: &str| self.process.admin.counter(&format!("listener_manager.{name}"));
        let before = (count("lds.update_success")?, count("lds.update_rejected")?);
        let logged = self.process.log().len();
        self.process.folder.write(LISTENERS_FILE, &text)?;
        let accepted = wait_until("Envoy to judge the update", UPDATE, || {
            if count("lds.update_rejected").ok()? > before.1 {
                return Some(false);
            }
            let taken = count("lds.update_success").ok()? > before.0;
            // A listener that ends resets connections that a worker has yet to accept, so it must
            // be gone.
            let warming = count("total_listeners_warming").ok()?;
            // Envoy replaces what differs: the filter chains, or else the listener.
            let draining = if drained {
                count("total_listeners_draining").ok()? + count("total_filter_chains_draining").ok()?
            } else {
                0
            };
            (taken && warming + draining == 0).then_some(true)
        })?;
        if !accepted {
            return Ok(Update::Rejected(self.process.complaints(logged)));
        }
        *config = changed;
        *filter = file;
        Ok(Update::Accepted)
    }

    /// The value of one of Diana's counters or gauges, 0 if it does not exist (yet). `name` is the
    /// proxy-wasm filter's, such as `rule.login.result.ok.requests`.
    pub fn counted(&self, name: &str) -> Result<u64> {
        let (name, labels) = bootstrap::prometheus(name);
        Ok(self.stats()?.sum(&name, &labels))
    }

    /// All statistics, as Prometheus would see them. The filter tells Envoy of some counts up to 100 ms
    /// later, so this waits until it has nothing more to tell.
    pub fn stats(&self) -> Result<Stats> {
        let mut stats = self.process.admin.stats()?;
        let own = |stats: &Stats| {
            let is_own = |sample: &&Sample| sample.name.starts_with("diana_");
            stats.samples.iter().filter(is_own).cloned().collect::<Vec<_>>()
        };
        let (begun, mut since) = (Instant::now(), Instant::now());
        // A gateway under load never stands still.
        while since.elapsed() < STANDSTILL && begun.elapsed() < 4 * STANDSTILL {
            let slept = Instant::now();
            thread::sleep(STANDSTILL / 16);
            // A machine that stalls this process may stall the module as well.
            let stalled = slept.elapsed() > STANDSTILL / 4;
            let next = self.process.admin.stats()?;
            if stalled || own(&next) != own(&stats) {
                since = Instant::now();
            }
            stats = next;
        }
        Ok(stats)
    }

    /// Envoy's log so far.
    pub fn logs(&self) -> String {
        self.process.log()
    }

    /// Whether Envoy's log has this text.
    pub fn log_contains(&self, text: &str) -> bool {
        self.logs().contains(text)
    }

    /// The access log so far, for a gateway with [`Config::access_log`]. Lines appear a moment
    /// after their requests.
    pub fn access_log(&self) -> Vec<String> {
        let bytes = fs::read(self.process.folder.path().join(ACCESS_LOG)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()
    }

    /// Waits until the access log has `lines` lines, at most 10 s, and returns the log.
    pub fn access_log_of(&self, lines: usize) -> Result<Vec<String>> {
        wait_until("the access log", Duration::from_secs(10), || {
            Some(self.access_log()).filter(|log| log.len() >= lines)
        })
    }

    /// The file with Envoy's log and other output. It is deleted with the gateway.
    pub fn log_file(&self) -> PathBuf {
        self.process.log_file()
    }

    /// The process' number.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// Whether the process still runs.
    pub fn alive(&mut self) -> bool {
        self.process.alive()
    }

    /// The memory the process has in use, in bytes.
    pub fn rss_bytes(&self) -> Result<u64> {
        let file = format!("/proc/{}/status", self.process.id());
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read `{file}`"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no line `VmRSS`")?;
        let kib: u64 =
            line.trim().trim_end_matches(" kB").parse().context("`VmRSS` is not a number of kB")?;
        Ok(kib * 1024)
    }
}

/// A port of 127.0.0.1 that was free a moment ago.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Replaces the number in each `port_value: NUMBER`.
fn replace_ports(text: &str, mut port: impl FnMut(u16) -> u16) -> String {
    const KEY: &str = "port_value:";
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(KEY) {
        out.push_str(before);
        out.push_str(KEY);
        let digits = after.trim_start_matches(' ');
        let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
        rest = match digits[..end].parse() {
            Ok(number) => {
                out.push_str(&format!(" {}", port(number)));
                &digits[end..]
            }
            Err(_) => after,
        };
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_port_is_replaced() {
        let text = "a: {port_value: 10000}\nb:\n  port_value: 6379 # redis\nport_value: none\n";
        let moved = replace_ports(text, |port| port + 1);
        assert_eq!(moved, "a: {port_value: 10001}\nb:\n  port_value: 6380 # redis\nport_value: none\n");
    }
}
