//! Chromium without a window, driven by its remote debugging protocol over a pair of pipes, which needs neither a port
//! nor a WebSocket. Input is that of a user: mouse and keys arrive at the page as trusted events.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::{need, wait};

/// Maximum time of one request, and of a condition of the page, on a loaded machine.
const LIMIT: Duration = Duration::from_mins(1);
/// The browser reads requests from descriptor 3 and writes to descriptor 4. The sandbox is not supported for root; the
/// page is our own.
const START: &str = "exec chromium --headless --disable-gpu --no-sandbox --disable-dev-shm-usage --no-first-run \
    --remote-debugging-pipe --user-data-dir=\"$1\" about:blank 3<&0 4>&1 </dev/null >&2";
/// Domains whose events are recorded.
const DOMAINS: [&str; 4] = ["Page", "Runtime", "Log", "Network"];

/// A browser with one page.
pub struct Browser {
    process: Child,
    requests: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    next: u64,
    events: Vec<Value>,
}

/// A key: its name, its code of Windows, and the text that it types.
pub struct Key(&'static str, u32, &'static str);

/// Keys that move the focus and press buttons.
pub const TAB: Key = Key("Tab", 9, "");
/// See [`TAB`].
pub const ENTER: Key = Key("Enter", 13, "\r");
/// See [`TAB`].
pub const ESCAPE: Key = Key("Escape", 27, "");
/// See [`TAB`].
pub const RIGHT: Key = Key("ArrowRight", 39, "");
/// See [`TAB`].
pub const END: Key = Key("End", 35, "");

impl Browser {
    /// Starts a browser with a profile in `folder` and an empty page.
    pub fn start(folder: &Path) -> Browser {
        need::program("chromium");
        let home = folder.join("browser");
        let log = File::create(folder.join("browser.log")).expect("a log of the browser");
        // `setpriv` executes the browser in the same process, so that it ends with the test.
        let mut process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "sh", "-c", START, "sh"])
            .arg(&home)
            .env("HOME", &home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start chromium: {error}"));
        let requests = process.stdin.take().expect("a pipe to the browser");
        let output = process.stdout.take().expect("a pipe from the browser");
        let (sender, messages) = channel();
        thread::spawn(move || read(BufReader::new(output), &sender));
        let mut browser = Browser { process, requests, messages, session: None, next: 0, events: Vec::new() };
        browser.attach();
        browser
    }

    fn attach(&mut self) {
        let target = self.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.call("Target.attachToTarget", &attach)["sessionId"].as_str().map(str::to_owned);
        self.session = session;
        for domain in DOMAINS {
            self.call(&format!("{domain}.enable"), &json!({}));
        }
        self.resize(1440, 900);
    }

    /// Executes a command of the protocol.
    pub fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.next += 1;
        let mut request = json!({ "id": self.next, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            request["sessionId"] = json!(session);
        }
        let sent = self.requests.write_all(format!("{request}\0").as_bytes());
        sent.unwrap_or_else(|error| panic!("the browser does not read {method}: {error}"));
        loop {
            let message = self.messages.recv_timeout(LIMIT);
            let message = message.unwrap_or_else(|error| panic!("no answer to {method}: {error}"));
            if message["id"] == self.next {
                assert!(message.get("error").is_none(), "{method} {parameters}: {message}");
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    /// Opens an address.
    pub fn open(&mut self, url: &str) {
        let opened = self.call("Page.navigate", &json!({ "url": url }));
        assert!(opened.get("errorText").is_none(), "{url}: {opened}");
    }

    /// Loads the page again, and waits until the new document replaces the old one.
    pub fn reload(&mut self) {
        self.evaluate("document.documentElement.dataset.old = 'yes'");
        self.call("Page.reload", &json!({}));
        self.wait("document.documentElement.dataset.old === undefined");
    }

    /// Value of an expression of JavaScript.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", &parameters);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true. Panics with the text of the page otherwise.
    #[track_caller]
    pub fn wait(&mut self, expression: &str) {
        // While a page is loaded, its elements do not exist.
        let guarded =
            format!("(() => {{ try {{ return Boolean({expression}) }} catch {{ return false }} }})()");
        let is_true = wait::until(LIMIT, || (self.evaluate(&guarded) == true).then_some(())).is_some();
        assert!(is_true, "never true: {expression}\n{}", self.text("body"));
    }

    /// Visible text of the first element that `selector` selects.
    pub fn text(&mut self, selector: &str) -> String {
        let text = self.evaluate(&format!("document.querySelector({})?.innerText", json!(selector)));
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Clicks on the middle of the first element that `selector` selects.
    pub fn click(&mut self, selector: &str) {
        self.wait(&format!("document.querySelector({})", json!(selector)));
        let point = self.evaluate(&format!(
            "(() => {{ const element = document.querySelector({});
                element.scrollIntoView({{ block: 'center', behavior: 'instant' }});
                const box = element.getBoundingClientRect();
                return [box.x + box.width / 2, box.y + box.height / 2] }})()",
            json!(selector)
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let event =
                json!({ "type": kind, "x": point[0], "y": point[1], "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", &event);
        }
    }

    /// Presses a key.
    pub fn press(&mut self, Key(name, code, text): &Key) {
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({ "type": kind, "key": name, "code": name, "windowsVirtualKeyCode": code });
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = json!(text);
            }
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    /// Presses the Tab key until `expression` is true of the focused element, which is called `focused`.
    #[track_caller]
    pub fn tab_to(&mut self, expression: &str) {
        let condition = format!("(focused => {expression})(document.activeElement)");
        for _ in 0..200 {
            if self.evaluate(&condition) == true {
                return;
            }
            self.press(&TAB);
        }
        panic!("the Tab key does not lead to {expression}");
    }

    /// Types into the focused element.
    pub fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", &json!({ "text": text }));
    }

    /// Sets a media feature, such as `prefers-color-scheme`.
    pub fn prefer(&mut self, feature: &str, value: &str) {
        let features = json!([{ "name": feature, "value": value }]);
        self.call("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// Sets the size of the window.
    pub fn resize(&mut self, width: u32, height: u32) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &metrics);
    }

    /// Errors and warnings of the page so far: exceptions, the console, and violations of policies. Failed requests are
    /// entries of the source `network`.
    pub fn errors(&mut self) -> Vec<String> {
        // The answer to a command is sent after the events before it.
        self.evaluate("0");
        self.events.iter().filter(|event| is_error(event)).map(ToString::to_string).collect()
    }

    /// Origins of all requests so far.
    pub fn origins(&mut self) -> BTreeSet<String> {
        self.evaluate("0");
        let requests = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        let urls = requests.filter_map(|event| event["params"]["request"]["url"].as_str());
        urls.map(|url| url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/")).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Fails only if it has ended; its own processes end with it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Passes on messages, which end with a zero byte, until the browser ends.
fn read(mut output: impl BufRead, sender: &Sender<Value>) {
    let mut bytes = Vec::new();
    while output.read_until(0, &mut bytes).is_ok_and(|length| length > 0) {
        let message = serde_json::from_slice(bytes.strip_suffix(&[0]).unwrap_or(&bytes));
        let is_read = message.is_ok_and(|message| sender.send(message).is_ok());
        if !is_read {
            return;
        }
        bytes.clear();
    }
}

fn is_error(event: &Value) -> bool {
    let parameters = &event["params"];
    match event["method"].as_str() {
        Some("Runtime.exceptionThrown" | "Runtime.consoleAPICalled") => true,
        Some("Log.entryAdded") => {
            parameters["entry"]["level"] == "error" || parameters["entry"]["level"] == "warning"
        }
        _ => false,
    }
}
