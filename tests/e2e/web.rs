//! The web page of a switch in Chromium, with packets that two ports replay: a user signs in, watches, sorts, filters,
//! opens a port, and sees the end and the return of the switch.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use linerate_tests::browser::{Browser, END, ENTER, ESCAPE, RIGHT};
use linerate_tests::switch::Switch;
use linerate_tests::{folder, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const LIMIT: Duration = Duration::from_mins(1);
/// A name that would be an element if the page inserted it as markup.
const MARKUP: &str = "<img src=x onerror=alert(1)>.pcap";
const SECOND: u8 = 2;

/// A switch with its page.
struct Stage {
    folder: TempDir,
    switch: Switch,
    address: String,
}

/// A capture of frames of 100 bytes, a millisecond apart.
fn write_capture(path: &Path, to: u8, from: u8, frames: u32) {
    let mut bytes = Vec::new();
    let words =
        |bytes: &mut Vec<u8>, words: &[u32]| bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    words(&mut bytes, &[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1]);
    for at in 0..frames {
        words(&mut bytes, &[at / 1000, at % 1000 * 1000, 100, 100]);
        bytes.extend_from_slice(&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 8, 0]);
        bytes.resize(bytes.len() + 86, 0);
    }
    fs::write(path, bytes).expect("a capture is written");
}

fn port(name: &str, rest: &str) -> String {
    format!("[[port]]\nname = \"{name}\"\nbridge = \"lan\"\n{rest}\n")
}

/// A port that replays a capture for ever, at this multiple of its speed. Frames for it are dropped as `port-down`.
fn replay(name: &str, path: &Path, pace: f32) -> String {
    let path = path.display();
    port(name, &format!("kind = \"pcap\"\nread = \"{path}\"\npace = {pace:?}\nrepeat = \"forever\""))
}

/// Starts a switch: `source` sends to an address that `void` announces and does not receive, and to no other port.
fn start(token_file: bool, more: &str) -> Stage {
    start_with(token_file, "", more)
}

/// [`start`] with more keys of `[switch]`.
fn start_with(token_file: bool, keys: &str, more: &str) -> Stage {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port");
    write_capture(&path("source.pcap"), SECOND, 1, 100);
    write_capture(&path(MARKUP), 1, SECOND, 10);
    write_token(&path("token"), TOKEN);
    let file = if token_file {
        format!("web_token_file = \"{}\"\n", path("token").display())
    } else {
        String::new()
    };
    let mut text = format!(
        "[switch]\nname = \"lab\"\nweb = \"{free}\"\n{file}{keys}[[worker]]\n[[bridge]]\nname = \"lan\"\n"
    );
    text += &replay("source", &path("source.pcap"), 1.0);
    text += &replay("void", &path(MARKUP), 0.1);
    text += &port("guest", &format!("socket = \"{}\"", path("guest.sock").display()));
    text += &port("sink", "kind = \"null\"");
    text += more;
    let switch = Switch::start_from(folder.path(), &text);
    Stage { folder, switch, address: format!("http://{free}") }
}

fn write_token(path: &Path, token: &str) {
    fs::write(path, token).expect("a token is written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("its mode is set");
}

/// A browser that is signed in by the URL. Both ports that drop packets are listed, so that the page no longer moves.
fn signed_in(stage: &Stage) -> Browser {
    let mut browser = Browser::start(stage.folder.path());
    browser.open(&format!("{}/#token={TOKEN}", stage.address));
    for port in ["port source", "port void"] {
        browser.wait(&format!("document.getElementById('findings').innerText.includes('{port}')"));
    }
    browser
}

/// The URL with the token that the log has.
fn printed_url(switch: &Switch) -> String {
    let url = wait::until(LIMIT, || {
        let log = switch.log();
        let mut events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.find_map(|event| event["web"].as_str().map(str::to_owned))
    });
    url.unwrap_or_else(|| panic!("no URL in {}", switch.log()))
}

/// No error of the page, and no request to another origin.
fn assert_clean(browser: &mut Browser, stage: &Stage) {
    assert_eq!(browser.errors(), Vec::<String>::new());
    assert_eq!(browser.origins().into_iter().collect::<Vec<_>>(), [stage.address.as_str()]);
}

/// Names of the ports in the order of the table.
fn listed(browser: &mut Browser) -> Vec<String> {
    let names = "[...document.querySelectorAll('#port-table tbody th')].map(cell => cell.innerText)";
    serde_json::from_value(browser.evaluate(names)).expect("a list of names")
}

#[test]
#[ignore = "needs Chromium: run by `cargo xtask test`"]
fn the_token_opens_the_page_and_a_wrong_one_does_not() {
    let stage = start(false, "");
    let mut browser = Browser::start(stage.folder.path());
    browser.open(&stage.address);
    browser.wait("!document.getElementById('login').hidden");
    assert_clean(&mut browser, &stage);
    assert!(!browser.text("body").contains("source"));
    let status =
        |browser: &mut Browser| browser.evaluate("fetch('/v1/status').then(answer => answer.status)");
    assert_eq!(status(&mut browser), 401);

    // The field has the focus.
    browser.type_text("wrong");
    browser.press(&ENTER);
    browser.wait("document.getElementById('login-error').innerText.includes('token is wrong')");
    assert_eq!(status(&mut browser), 401);

    let url = printed_url(&stage.switch);
    assert!(url.starts_with(&format!("{}/#token=", stage.address)), "{url}");
    browser.open(&url);
    browser.wait("document.body.dataset.ready === 'yes'");
    assert_eq!(browser.evaluate("location.href"), format!("{}/", stage.address));
    // Scripts cannot read the cookie, and it lasts over a reload.
    assert_eq!(browser.evaluate("document.cookie"), "");
    assert_eq!(status(&mut browser), 200);
    browser.reload();
    browser.wait("document.body.dataset.ready === 'yes'");

    // The policy forbids other origins and markup from strings, and the browser reports what it has blocked.
    let foreign = "fetch('http://127.0.0.2:9').then(() => 'sent', () => 'refused')";
    assert_eq!(browser.evaluate(foreign), "refused");
    let markup =
        "(() => { try { document.body.innerHTML = '<p>'; return 'set' } catch { return 'refused' } })()";
    assert_eq!(browser.evaluate(markup), "refused");
    let errors = browser.errors().join("\n");
    assert!(errors.contains("connect-src") && errors.contains("TrustedHTML"), "{errors}");

    browser.click("#leave");
    browser.wait("!document.getElementById('login').hidden && document.getElementById('page').hidden");
    assert_eq!(status(&mut browser), 401);
    stage.switch.stop();
}

#[test]
#[ignore = "needs Chromium: run by `cargo xtask test`"]
fn rates_appear_and_a_port_shows_its_drops_by_reason() {
    let stage = start(true, "");
    let mut browser = signed_in(&stage);
    let cell = |name: &str, column: usize| {
        format!(
            "[...document.querySelectorAll('#port-table tbody tr')].find(row => row.cells[0].innerText === '{name}')\
             .cells[{column}].innerText"
        )
    };
    browser.wait(&format!("{}.endsWith('k') || parseFloat({0}) > 10", cell("source", 4)));
    assert_eq!(browser.evaluate(&cell("guest", 3)), "waiting");
    let remedy = "start the guest with this socket: `linerate snippet guest --for qemu`";
    browser.wait(&format!("document.getElementById('findings').innerText.includes('{remedy}')"));
    browser.wait("document.getElementById('totals').innerText.includes('of received')");

    browser.click("#topology li:nth-child(2) button");
    browser.wait("document.querySelector('#drops tbody th').innerText === 'port-down'");
    browser.wait("parseFloat(document.querySelector('#drops tbody td').innerText) > 0");
    let dropped =
        "Number(document.querySelectorAll('#drops tbody td')[1].innerText.replaceAll(',', '')) > 10";
    browser.wait(dropped);
    // Text of the configuration is text.
    browser.wait(&format!("document.getElementById('detail').innerText.includes('{MARKUP}')"));
    assert_eq!(browser.evaluate("document.querySelectorAll('img').length"), 1);
    // It has its configuration again when it is opened again.
    browser.press(&ESCAPE);
    browser.wait("document.getElementById('detail').hidden");
    browser.click("#topology li:nth-child(2) button");
    browser.wait("document.querySelector('#detail details:last-child dl').textContent.includes('forever')");

    browser.click("#pause");
    let title = "document.getElementById('connection').innerText";
    browser.wait(&format!("{title} === 'Paused'"));
    browser.click("#pause");
    browser.wait(&format!("{title} === 'Live'"));
    let learned = "document.getElementById('address-table').innerText.includes('02:00:00:00:00:01')";
    browser.evaluate("document.getElementById('addresses').scrollIntoView({ behavior: 'instant' })");
    browser.wait(learned);
    browser.wait("document.querySelector('#worker-table canvas').ariaLabel.includes('Load of worker 0')");
    assert_clean(&mut browser, &stage);
    stage.switch.stop();
}

#[test]
#[ignore = "needs Chromium: run by `cargo xtask test`"]
fn tables_are_sorted_and_filtered_by_keyboard_in_both_themes() {
    let stage = start(true, "");
    let mut browser = signed_in(&stage);
    browser.wait("document.querySelectorAll('#port-table tbody tr').length === 4");
    assert_eq!(listed(&mut browser), ["guest", "sink", "source", "void"]);
    browser.press(&linerate_tests::browser::TAB);
    assert_eq!(browser.evaluate("document.activeElement.className"), "skip");
    browser.tab_to("focused.closest('#topology') && focused.ariaLabel.startsWith('source')");
    browser.press(&RIGHT);
    assert_eq!(browser.evaluate("document.activeElement.ariaLabel.split(',')[0]"), "void");
    browser.press(&END);
    browser.press(&ENTER);
    browser.wait(
        "document.activeElement.id === 'detail-title' && document.activeElement.innerText === 'Port sink'",
    );
    browser.press(&ESCAPE);
    browser.wait(
        "document.getElementById('detail').hidden && document.activeElement.innerText.includes('sink')",
    );

    browser.tab_to("focused.id === 'port-filter'");
    browser.type_text("pcap connected");
    browser.wait("document.querySelectorAll('#port-table tbody tr').length === 2");
    browser.tab_to("focused.closest('th')?.innerText.startsWith('In pps')");
    browser.press(&ENTER);
    browser.wait("document.activeElement.closest('th').ariaSort === 'descending'");
    browser.wait("document.querySelector('#port-table tbody th').innerText === 'source'");
    browser.press(&ENTER);
    browser.wait("document.activeElement.closest('th').ariaSort === 'ascending'");
    browser.wait("document.querySelector('#port-table tbody th').innerText === 'void'");

    let ground = "getComputedStyle(document.body).backgroundColor";
    browser.prefer("prefers-color-scheme", "light");
    let light = browser.evaluate(ground);
    browser.prefer("prefers-color-scheme", "dark");
    let dark = browser.evaluate(ground);
    assert_ne!(light, dark);
    browser.click("#theme");
    assert_eq!((browser.text("#theme").as_str(), browser.evaluate(ground)), ("Theme: light", light));
    browser.reload();
    browser.wait("document.getElementById('theme').innerText === 'Theme: light'");
    browser.resize(360, 700);
    browser.wait("document.body.dataset.ready === 'yes'");
    assert_eq!(browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), true);
    assert_clean(&mut browser, &stage);
    stage.switch.stop();
}

#[test]
#[ignore = "needs Chromium: run by `cargo xtask test`"]
fn the_page_returns_with_the_switch() {
    let stage = start(true, "");
    let mut browser = signed_in(&stage);
    let folder = stage.switch.kill();
    browser
        .wait("document.getElementById('connection').innerText.startsWith('Connection lost; next attempt')");
    browser.wait("document.getElementById('announcements').innerText.includes('is lost')");
    let switch = Switch::restart(&folder);
    browser.click("#retry");
    browser.wait("document.getElementById('connection').innerText === 'Live'");
    browser.wait("document.getElementById('retry').hidden && !document.body.classList.contains('stale')");
    let folder = switch.kill();
    browser.wait("document.getElementById('connection').innerText.startsWith('Connection lost')");
    // Another token ends the session.
    write_token(&folder.join("token"), &TOKEN.replace('0', "1"));
    let switch = Switch::restart(&folder);
    browser.wait("!document.getElementById('login').hidden && document.getElementById('page').hidden");
    let is_network = |error: &String| error.contains("\"source\":\"network\"");
    assert!(browser.errors().iter().all(is_network), "{:?}", browser.errors());
    switch.stop();
}

/// The size of a switch for many tenants.
mod every {
    use super::*;

    #[test]
    #[ignore = "needs Chromium: run by `cargo xtask test --all`"]
    fn a_thousand_ports_are_shown_filtered_and_reached() {
        let many: String = (0..1000).map(|at| port(&format!("tenant-{at}"), "kind = \"null\"")).collect();
        let stage = start(true, &many);
        let mut browser = signed_in(&stage);
        browser.wait("document.querySelectorAll('#topology button').length === 1004");
        assert_eq!(browser.evaluate("document.querySelectorAll('#port-table tbody tr').length"), 100);
        browser.click("#port-table .foot button");
        browser.wait("document.querySelectorAll('#port-table tbody tr').length === 200");
        find(&mut browser, "tenant-999");
        browser.wait("document.getElementById('connection').innerText === 'Live'");
        assert_clean(&mut browser, &stage);
        stage.switch.stop();
    }
}

/// Shows the only port that the filter finds by its name.
fn find(browser: &mut Browser, name: &str) {
    browser.click("#port-filter");
    browser.type_text(name);
    browser.wait("document.querySelectorAll('#port-table tbody tr').length === 1");
    browser.click("#port-table tbody button");
    browser.wait(&format!("document.getElementById('detail-title').innerText === 'Port {name}'"));
}

/// Shows the port `source`, whose packets are captured.
fn open_source(browser: &mut Browser) {
    browser.tab_to("focused.closest('#topology') && focused.ariaLabel.startsWith('source')");
    browser.press(&ENTER);
    browser.wait("document.getElementById('detail-title').innerText === 'Port source'");
}

#[test]
#[ignore = "needs Chromium: run by `cargo xtask test`"]
fn latencies_steps_and_events_are_shown_and_captures_need_a_permission() {
    let stage = start(true, "");
    let mut browser = signed_in(&stage);
    let listed = |text: &str| format!("document.getElementById('event-list').innerText.includes('{text}')");
    browser.wait(&listed("port sink: running"));
    // To an unknown address, so that the sink receives them, too.
    let path = stage.folder.path().join("loud.pcap");
    write_capture(&path, 9, 3, 100);
    let read = format!("read={}", path.display());
    let place = ["--bridge", "lan", "--kind", "pcap", "--set", &read, "--set", "repeat=forever"];
    stage.switch.tell(&[&["ports", "add", "loud"][..], &place].concat()).expect("a port");
    browser.wait(&listed("port loud: running"));
    find(&mut browser, "sink");
    browser.wait("document.getElementById('latency').innerText.startsWith('p50 ')");
    browser.wait("document.querySelectorAll('#latency + svg rect').length > 0");
    stage.switch.tell(&["ports", "remove", "sink"]).expect("the port");
    browser.wait(&listed("DELETE"));
    browser.wait(&listed("port sink: removed"));
    browser.wait("document.querySelector('#worker-table thead').innerText.includes('Pipeline')");
    open_source(&mut browser);
    assert_eq!(browser.evaluate("document.getElementById('capture').hidden"), true);
    let refused = "fetch('/v1/capture?ports=source&limit=5').then(answer => answer.status)";
    assert_eq!(browser.evaluate(refused), 403);
    stage.switch.stop();
}

#[test]
#[ignore = "needs Chromium: run by `cargo xtask test`"]
fn a_click_saves_a_capture_of_a_port() {
    let stage = start_with(true, "web_capture = true\n", "");
    let mut browser = signed_in(&stage);
    let folder = stage.folder.path().join("downloads");
    fs::create_dir(&folder).expect("a folder");
    browser.call("Browser.setDownloadBehavior", &json!({ "behavior": "allow", "downloadPath": folder }));
    open_source(&mut browser);
    browser.wait("!document.getElementById('capture').hidden");
    browser.click("#capture");
    browser.wait("document.getElementById('capture-note').innerText.startsWith('Saved ')");
    let path = folder.join("source.pcapng");
    let file = wait::until(LIMIT, || fs::read(&path).ok().filter(|bytes| bytes.len() > 1000));
    let file = file.unwrap_or_else(|| panic!("no capture in {}", folder.display()));
    assert_eq!(file[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    let frame = [2, 0, 0, 0, 0, SECOND, 2, 0, 0, 0, 0, 1, 8, 0];
    assert!(file.windows(frame.len()).any(|bytes| bytes == frame), "{} bytes", file.len());
    stage.switch.wait_logged(&["a capture begins", "source"], LIMIT);
    for query in ["limit=5", "ports=source", "ports=source,void&limit=5", "ports=source&limit=10001"] {
        let asked = format!("fetch('/v1/capture?{query}').then(answer => answer.status)");
        assert_eq!(browser.evaluate(&asked), 400, "{query}");
    }
    stage.switch.stop();
}
