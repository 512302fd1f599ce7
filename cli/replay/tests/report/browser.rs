//! Chromium without a window, driven by chromedriver, with a profile of its own.

use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};
use thirtyfour::common::capabilities::chromium::ChromiumLikeCapabilities;
use thirtyfour::prelude::*;
use tokio::runtime::{Builder, Runtime};

/// Nothing but the page: no window, no network of the browser's own, pixels as in CSS, and text
/// whose pixels do not depend on a screen.
const FLAGS: [&str; 13] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
    "--font-render-hinting=none",
    "--disable-lcd-text",
    "--window-size=1200,900",
];

/// A running browser. Dropping it ends the browser and its driver.
pub struct Browser {
    runtime: Runtime,
    driver: Option<WebDriver>,
    process: Child,
    folder: PathBuf,
    pages: AtomicU32,
}

impl Browser {
    /// Starts a browser.
    pub fn start() -> Self {
        let folder = folder();
        let mut process = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("cannot run `chromedriver`: {error}; `cargo xtask report` installs it")
            });
        let port = port(&mut process);
        let mut capabilities = DesiredCapabilities::chrome();
        capabilities.set_binary(&chromium()).unwrap();
        for flag in FLAGS {
            capabilities.add_arg(flag).unwrap();
        }
        capabilities.add_arg(&format!("--user-data-dir={}", folder.join("profile").display())).unwrap();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let address = format!("http://127.0.0.1:{port}");
        let driver = runtime.block_on(WebDriver::new(address, capabilities)).unwrap();
        let browser = Self { runtime, driver: Some(driver), process, folder, pages: AtomicU32::new(0) };
        browser.look(1200, 900, "light");
        browser
    }

    fn driver(&self) -> &WebDriver {
        self.driver.as_ref().unwrap()
    }

    /// Sends a command of the Chrome DevTools Protocol.
    pub fn send(&self, method: &str, parameters: Value) -> Value {
        self.runtime.block_on(self.driver().cdp().send_raw(method, parameters)).unwrap()
    }

    /// Opens a page of this text, under an address that no earlier page had, and waits until all of
    /// the page is there: the driver may return before.
    pub fn open(&self, html: &str) {
        let file = self.folder.join(format!("report-{}.html", self.pages.fetch_add(1, Relaxed)));
        fs::write(&file, html).unwrap();
        self.visit(&format!("file://{}", file.display()));
    }

    /// Opens the page at an address, and waits until all of the page is there.
    pub fn visit(&self, address: &str) {
        self.runtime.block_on(self.driver().goto(address)).unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        // A page may take the part after `#` away.
        let expected = json!([address.split('#').next().unwrap(), "complete"]);
        while self.resolved("[location.href.split('#')[0], document.readyState]") != expected {
            assert!(Instant::now() < deadline, "`{address}` is not loaded");
            sleep(Duration::from_millis(10));
        }
    }

    /// The value of the body of a function in JavaScript.
    pub fn run(&self, script: &str) -> Value {
        self.runtime.block_on(self.driver().execute(script, Vec::new())).unwrap().json().clone()
    }

    /// The value to which the promise of an expression resolves.
    pub fn resolved(&self, expression: &str) -> Value {
        let parameters = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let reply = self.send("Runtime.evaluate", parameters);
        assert!(reply["exceptionDetails"].is_null(), "{reply:#}");
        reply["result"]["value"].clone()
    }

    /// Presses keys while the first element of this selector has the focus.
    pub fn press(&self, selector: &str, keys: &[Key]) {
        self.runtime.block_on(async {
            let element = self.driver().find(By::Css(selector)).await.unwrap();
            for key in keys {
                element.send_keys(key.clone()).await.unwrap();
            }
        });
    }

    /// Types a text into the first element of this selector.
    #[allow(dead_code, reason = "the report has no field for text")]
    pub fn write(&self, selector: &str, text: &str) {
        self.runtime.block_on(async {
            self.driver().find(By::Css(selector)).await.unwrap().send_keys(text).await.unwrap();
        });
    }

    /// Clicks on the first element of this selector.
    pub fn click(&self, selector: &str) {
        self.runtime.block_on(async {
            self.driver().find(By::Css(selector)).await.unwrap().click().await.unwrap();
        });
    }

    /// Sets the size of the page and the colours of the system. Nothing moves by itself, so that a
    /// click finds its element.
    pub fn look(&self, width: u32, height: u32, scheme: &str) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.send("Emulation.setDeviceMetricsOverride", size);
        self.media("screen", &[("prefers-color-scheme", scheme), ("prefers-reduced-motion", "reduce")]);
    }

    /// Sets the medium and its features.
    pub fn media(&self, medium: &str, features: &[(&str, &str)]) {
        let features: Vec<_> =
            features.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        self.send("Emulation.setEmulatedMedia", json!({"media": medium, "features": features}));
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if let Some(driver) = self.driver.take() {
            // The driver ends the browser. What fails here fails no test.
            let _ = self.runtime.block_on(driver.quit());
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The file of the browser: `chromium` as Debian names it, or another in `$CHROMIUM`.
fn chromium() -> String {
    if let Ok(named) = std::env::var("CHROMIUM") {
        return named;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).map(|folder| folder.join("chromium")).find(|file| file.is_file());
    let file = found.unwrap_or_else(|| panic!("`chromium` is missing: `cargo xtask report` installs it"));
    file.display().to_string()
}

/// The port on which the driver listens, which it prints.
fn port(process: &mut Child) -> u16 {
    let output = BufReader::new(process.stdout.take().unwrap());
    let mut lines = output.lines().map_while(Result::ok);
    let line = lines.find(|line| line.contains("started successfully on port"));
    let line = line.expect("chromedriver has to print its port");
    line.trim_end_matches('.').rsplit(' ').next().unwrap().parse().unwrap()
}

/// A new folder for a profile and a page.
fn folder() -> PathBuf {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let name = format!("diana-report-{}-{}", std::process::id(), LAST.fetch_add(1, Relaxed));
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The root of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}
