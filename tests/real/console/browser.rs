//! A headless Chromium, driven by its DevTools protocol over two pipes.
//!
//! Always true: exceptions and errors that the page reports are kept; the browser and all its children have ended when the guard
//! is dropped.
//! Not here: what a page should look like.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use base64::Engine as _;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tests::place::Place;
use tests::wait::{try_wait_for, wait_for};

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    /// Requests to the browser; taken when it is to end.
    orders: Option<ChildStdin>,
    heard: Receiver<Value>,
    /// The browser's files; the path is also in the command lines of all its processes.
    directory: PathBuf,
    session: Option<String>,
    numbers: u64,
    /// Errors and exceptions of the page, in their order.
    problems: Vec<String>,
}

impl Browser {
    /// Starts the browser with an empty page; `None` where there is no Chromium.
    pub(crate) fn start(place: &Place) -> Option<Self> {
        let program = PROGRAMS.iter().map(Path::new).find(|program| program.is_file())?;
        let directory = place.directory();
        let home = directory.display();
        let mut command = place.command(Path::new("sh"), "KILL");
        // The browser reads the protocol at descriptor 3 and writes at descriptor 4.
        command.args(["-c", r#"exec "$0" "$@" 3<&0 4>&1 0</dev/null 1>/dev/null 2>"$HOME/said""#]).arg(program);
        command.args(ARGUMENTS).arg(format!("--user-data-dir={home}/profile"));
        for name in ["HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "TMPDIR"] {
            command.env(name, &directory);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sh can be started");
        let orders = child.stdin.take();
        let mut words = BufReader::new(child.stdout.take().expect("it was asked for"));
        let (sender, heard) = channel();
        std::thread::spawn(move || {
            let mut word = Vec::new();
            while words.read_until(0, &mut word).is_ok_and(|read| read > 0) {
                let message = serde_json::from_slice(word.strip_suffix(&[0]).unwrap_or(&word));
                if message.is_ok_and(|message| sender.send(message).is_err()) {
                    return;
                }
                word.clear();
            }
        });
        let problems = Vec::new();
        let mut browser = Self { child, orders, heard, directory, session: None, numbers: 0, problems };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Accessibility"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Sends a request, and returns its answer.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.numbers += 1;
        let number = self.numbers;
        let mut order = json!({ "id": number, "method": method, "params": params });
        if let Some(session) = &self.session {
            order["sessionId"] = json!(session);
        }
        let orders = self.orders.as_mut().expect("it is open until it is dropped");
        write!(orders, "{order}\0").and_then(|()| orders.flush()).unwrap_or_else(|error| panic!("{method}: {error}"));
        let end = Instant::now() + ANSWER_MAX;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let said = || fs::read_to_string(self.directory.join("said")).unwrap_or_default();
            let message = self.heard.recv_timeout(left).unwrap_or_else(|_| panic!("no answer to {method}: {}", said()));
            if message["id"] == number {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.note(&message);
        }
    }

    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        let is_problem = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => matches!(params["type"].as_str(), Some("error" | "warning" | "assert")),
            Some("Log.entryAdded") => matches!(params["entry"]["level"].as_str(), Some("error" | "warning")),
            _ => false,
        };
        if is_problem {
            self.problems.push(params.to_string());
        }
    }

    /// Errors that the page has reported so far.
    pub(crate) fn problems(&mut self) -> Vec<String> {
        self.evaluate("0");
        std::mem::take(&mut self.problems)
    }

    /// Opens an address, and waits until the page is loaded.
    pub(crate) fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({ "url": url }));
        self.await_true("document.readyState === 'complete' && location.href !== 'about:blank'");
    }

    /// The value of an expression, which may be a promise.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", params);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub(crate) fn await_true(&mut self, expression: &str) {
        let seen = try_wait_for(ANSWER_MAX, || (self.evaluate(expression) == true).then_some(()));
        if seen.is_none() {
            let text = self.evaluate("document.body.innerText");
            panic!("never true: {expression}\n{:?}\n{}", self.problems(), text.as_str().unwrap_or_default());
        }
    }

    /// Presses and releases a key.
    pub(crate) fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "End" => 35,
            "Home" => 36,
            "ArrowLeft" => 37,
            "ArrowRight" => 39,
            _ => 0,
        };
        for kind in ["rawKeyDown", "keyUp"] {
            let key = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            self.call("Input.dispatchKeyEvent", key);
        }
    }

    /// Sets the size of the window, and whether the page is light or dark.
    pub(crate) fn look(&mut self, width: u32, height: u32, scheme: &str) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", features);
        // After two frames everything that depends on the size has been drawn.
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))");
    }

    /// Saves the page as a PNG file, up to a height that is still readable.
    pub(crate) fn keep_picture(&mut self, path: &Path) {
        let size =
            self.evaluate("({ width: innerWidth, height: Math.min(document.documentElement.scrollHeight, 2400) })");
        let clip = json!({ "x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1 });
        let order = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let answer = self.call("Page.captureScreenshot", order);
        let picture = answer["data"].as_str().expect("a picture");
        let picture = base64::engine::general_purpose::STANDARD.decode(picture).expect("base64");
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder can be made");
        fs::write(path, picture).expect("a picture can be written");
    }

    /// Processes of this browser that still run, including the first one.
    fn processes(&self) -> Vec<Pid> {
        let ours = self.directory.display().to_string();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let is_ours = |number: &i32| {
            let line = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&ours)
        };
        numbers.filter(is_ours).map(Pid::from_raw).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if let Some(mut orders) = self.orders.take() {
            let _ = orders.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        }
        let ended = try_wait_for(END_MAX, || self.child.try_wait().ok().flatten());
        if ended.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if try_wait_for(END_MAX, || self.processes().is_empty().then_some(())).is_none() {
            for process in self.processes() {
                let _ = kill(process, Signal::SIGKILL);
            }
            let gone = || self.processes().is_empty().then_some(());
            if !std::thread::panicking() {
                wait_for("the browser's processes to end", END_MAX, gone);
            }
        }
    }
}

const PROGRAMS: [&str; 2] = ["/usr/bin/chromium", "/usr/bin/chromium-browser"];
/// Without the sandbox, which needs rights that containers lack: the browser opens only our own page. It fetches nothing
/// from elsewhere.
const ARGUMENTS: [&str; 15] = [
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-proxy-server",
    "--disable-gpu",
    "--hide-scrollbars",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--disable-breakpad",
    "--disable-crash-reporter",
];
/// Generous: a browser starts slowly on a busy machine.
const ANSWER_MAX: Duration = Duration::from_secs(30);
const END_MAX: Duration = Duration::from_secs(10);
