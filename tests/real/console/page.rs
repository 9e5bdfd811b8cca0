//! The page at `/`, in a real browser: what each view shows under a real load, by keyboard, in two sizes and two colour
//! schemes.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;
use tests::client::Client;
use tests::place::free_port;
use tests::pooler::Pooler;
use tests::runner::skip;
use tests::wait::LIMIT;

use super::browser::Browser;
use crate::house::House;

fn pooler(house: &House, database: &str, settings: &[&str]) -> (Pooler, String) {
    let port = free_port();
    let http = format!("http_port = {port}");
    let settings: Vec<&str> = settings.iter().copied().chain([http.as_str()]).collect();
    (house.pooler(database, &settings), format!("http://127.0.0.1:{port}/"))
}

fn browser(house: &House) -> Option<Browser> {
    let browser = Browser::start(&house.place);
    if browser.is_none() {
        skip("Chromium is not installed (package chromium)");
    }
    browser
}

fn client(pooler: &Pooler, user: &str, database: &str, application: &str) -> Client {
    let parameters = [("user", user), ("database", database), ("application_name", application)];
    Client::try_login(pooler.address(), &parameters).expect("a login")
}

/// A client that runs short transactions until it is dropped.
struct Load(Arc<AtomicBool>, Option<thread::JoinHandle<()>>);

impl Load {
    fn begin(address: SocketAddr, user: &'static str, database: &'static str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let is_stopped = Arc::clone(&stop);
        let run = move || {
            let mut client = Client::login(address, user, database);
            while !is_stopped.load(Ordering::Relaxed) {
                client.run("select pg_sleep(0.01)");
                thread::park_timeout(Duration::from_millis(10));
            }
        };
        Self(stop, Some(thread::spawn(run)))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        let _ = self.1.take().map(thread::JoinHandle::join);
    }
}

/// Where screenshots are kept for inspection.
fn picture(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    target.join("page").join(format!("{name}.png"))
}

/// Checks the open view in both sizes and colour schemes: it fits, its text is readable, and every control has a name.
fn inspect(browser: &mut Browser, name: &str) {
    for (width, height) in [(1280, 900), (400, 860)] {
        for scheme in ["light", "dark"] {
            browser.look(width, height, scheme);
            let wide = browser.evaluate("document.documentElement.scrollWidth - innerWidth");
            assert!(wide.as_i64() <= Some(0), "{name} is {wide} pixels wider than {width}");
            let dim = browser.evaluate(CONTRAST);
            assert_eq!(dim, json!([]), "{name}, {scheme}: texts that cannot be read");
            browser.keep_picture(&picture(&format!("{name}-{width}-{scheme}")));
        }
    }
    let unnamed = browser.evaluate(
        "[...document.querySelectorAll('table')].filter((table) => table.checkVisibility() && (!table.tHead || [...table.tHead.querySelectorAll('th')].some((head) => head.scope !== 'col' || !head.textContent))).map((table) => table.id)",
    );
    assert_eq!(unnamed, json!([]), "{name}: tables without heads");
    let tree = browser.call("Accessibility.getFullAXTree", json!({}));
    for node in tree["nodes"].as_array().expect("nodes").iter().filter(|node| node["ignored"] == false) {
        let role = node["role"]["value"].as_str().unwrap_or_default();
        let is_named = node["name"]["value"].as_str().is_some_and(|name| !name.trim().is_empty());
        assert!(is_named || !NAMED.contains(&role), "{name}: a {role} has no name: {node}");
    }
    browser.look(1280, 900, "light");
    assert_eq!(browser.problems(), Vec::<String>::new(), "{name}: the page complains");
}

pub(crate) fn each_view_of_the_page_shows_what_happens(house: &House) {
    let Some(mut browser) = browser(house) else { return };
    let (pooler, url) =
        pooler(house, "page_views", &["default_pool_size = 2", "query_wait_timeout = 0", "track_statements = 1000000"]);
    let _load = Load::begin(pooler.address(), "v", "page_views");
    let mut pinned = client(&pooler, "u", "page_views", "pinned");
    pinned.run("select pg_advisory_lock(42)");
    let mut holder = client(&pooler, "u", "page_views", HOSTILE);
    holder.run("begin");
    holder.run("select 'a secret'");
    let mut waiter = client(&pooler, "u", "page_views", "waiter");
    waiter.ask("select 2");

    browser.look(1280, 900, "light");
    browser.open(&url);
    let first_paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0";
    browser.await_true(&format!("({first_paint}) > 0"));
    let paint = browser.evaluate(first_paint).as_f64().unwrap_or(f64::MAX);
    println!("the page: first paint after {paint:.0} ms");
    assert!(paint < 3000.0, "the first paint came after {paint} ms");
    assert_eq!(browser.evaluate("document.documentElement.lang"), "en");
    assert_eq!(browser.evaluate("document.querySelectorAll('header, main, footer').length"), 3);
    // The sentence, the figures, the chart.
    browser.await_true("at('sentence').textContent.includes('1 client of page_views/u has waited')");
    browser.await_true("at('word').textContent === 'Trouble' && at('icon').textContent === '!'");
    browser.await_true("at('spoken').textContent.startsWith('Trouble: 1 client of page_views/u')");
    browser.await_true("document.title === 'Trouble – Trunkline'");
    browser.await_true("Number(at('tiles').querySelector('dd').textContent) > 5");
    browser.await_true("[...at('legend').tBodies[0].rows].some((row) => row.cells[0].textContent.startsWith('Server works') && parseInt(row.cells[1].textContent) > 50)");
    browser.await_true("at('chart').getAttribute('aria-label').includes('Server works')");
    browser.evaluate("at('database').selectedIndex = 1; at('database').dispatchEvent(new Event('change'))");
    browser.await_true("chosen === 'page_views'");
    inspect(&mut browser, "overview");

    // From here on by keyboard: the first stop is the link to the view, the second the tabs.
    browser.press("Tab");
    browser.press("Tab");
    assert_eq!(browser.evaluate("document.activeElement.id"), "tab-overview");
    for (view, shown) in VIEWS {
        browser.press("ArrowRight");
        assert_eq!(browser.evaluate("document.activeElement.getAttribute('aria-selected')"), "true");
        assert_eq!(browser.evaluate("document.activeElement.id"), format!("tab-{view}"));
        assert_eq!(browser.evaluate("document.querySelectorAll('[role=tabpanel]:not([hidden])').length"), 1);
        for words in shown {
            let words = json!(words);
            browser.await_true(&format!("at('view-{view}').innerText.includes({words})"));
        }
        inspect(&mut browser, view);
    }
    browser.press("ArrowRight");
    assert_eq!(browser.evaluate("document.activeElement.id"), "tab-overview", "after the last comes the first");
    assert_eq!(browser.evaluate("document.images.length"), 0, "a name has become markup");
    assert_eq!(browser.evaluate("document.body.innerText.includes('a secret')"), false);

    holder.run("commit");
    waiter.answer();
    browser.await_true("at('word').textContent === 'Well' && at('sentence').textContent.startsWith('All is well')");
    inspect(&mut browser, "well");
}

pub(crate) fn the_page_survives_a_restart_of_the_pooler(house: &House) {
    let Some(mut browser) = browser(house) else { return };
    let (mut pooler, url) = pooler(house, "page_restart", &[]);
    let mut client = pooler.client("u", "page_restart");
    (0..50).for_each(|_| client.run("select 1"));
    browser.look(1280, 900, "light");
    browser.open(&url);
    browser.await_true("samples >= 2 && at('word').textContent === 'Well'");
    drop(client);
    pooler.signal(Signal::SIGKILL);
    pooler.await_end(LIMIT);
    browser.await_true("at('sentence').textContent === 'Connection lost, trying again.'");
    browser.keep_picture(&picture("lost"));
    pooler.start_again();
    browser.await_true("at('word').textContent === 'Well'");
    let mut client = pooler.client("u", "page_restart");
    let samples = browser.evaluate("samples").as_u64().unwrap_or_default();
    (0..5).for_each(|_| client.run("select 1"));
    browser.await_true(&format!("samples > {} && last.databases[0]?.transactions === 5", samples + 1));
    let least = "Math.min(...[...databases.values()].flatMap((entry) => entry.rings.map((ring) => Math.min(...ring))))";
    assert_eq!(browser.evaluate(least), 0, "a rate is below zero");
    // Requests that failed while the pooler was down are not errors of the page.
    let problems = browser.problems();
    assert!(problems.iter().all(|problem| problem.contains("\"source\":\"network\"")), "{problems:?}");
}

pub(crate) fn the_page_bears_a_thousand_pools_and_five_thousand_clients(house: &House) {
    let Some(mut browser) = browser(house) else { return };
    let (_pooler, url) = pooler(house, "page_many", &[]);
    browser.look(1280, 900, "light");
    browser.open(&url);
    // Ten minutes of synthetic events, in place of the pooler's.
    browser.evaluate(MANY);
    for (view, most) in [("overview", 0), ("pools", 200), ("waits", 0), ("churn", 0), ("clients", 200)] {
        browser.evaluate(&format!("location.hash = '{view}'"));
        browser.await_true(&format!("open.id === '{view}'"));
        if most > 0 {
            browser.await_true(&format!("document.querySelectorAll('#{view}-table tbody tr').length === {most}"));
        }
        let took = browser.evaluate(
            "(() => { const took = []; for (let i = 0; i < 9; i += 1) { const begun = performance.now(); step(); open.draw?.(); document.body.offsetHeight; took.push(performance.now() - begun); } return took.sort((a, b) => a - b)[4]; })()",
        );
        let took = took.as_f64().unwrap_or(f64::MAX);
        println!("the page: an event with 1,000 pools and its drawing in the view {view} take {took:.1} ms");
        assert!(took < 1000.0, "{view} takes {took} ms each second");
        inspect(&mut browser, &format!("many-{view}"));
    }
    let filtered = "(() => { const box = at('clients-filter'); box.value = 'c4999'; const begun = performance.now(); box.dispatchEvent(new Event('input')); return performance.now() - begun; })()";
    let took = browser.evaluate(filtered).as_f64().unwrap_or(f64::MAX);
    println!("the page: filtering 5,000 clients takes {took:.1} ms");
    assert_eq!(browser.evaluate("at('clients-count').textContent"), "1 of 5,000 clients fit");
}

/// A name that would be markup if it were not put in as text.
const HOSTILE: &str = "<img src=x onerror=alert(1)>";
/// The views after the first, and what each of them shows.
const VIEWS: [(&str, &[&str]); 9] = [
    ("pools", &["2 pools", "page_views / u", "2 in use", "every server is taken"]),
    ("waits", &["page_views / u: 1 waits", HOSTILE, "idle in transaction", "select ?", "waiter"]),
    ("churn", &["a client needed one", "Servers closed", "page_views / u"]),
    ("pins", &["1 pin", "page_views / u", "pinned"]),
    ("applications", &["pinned", "no application_name"]),
    ("statements", &["select"]),
    ("clients", &["4 clients", HOSTILE, "waiter"]),
    ("hosts", &["1 host and database", "127.0.0.1:", "in use"]),
    ("rates", &["0 limits"]),
];
/// Elements for which a screen reader needs a name.
const NAMED: [&str; 12] = [
    "button",
    "tab",
    "link",
    "checkbox",
    "combobox",
    "searchbox",
    "textbox",
    "image",
    "img",
    "columnheader",
    "tabpanel",
    "table",
];
/// Texts with a contrast below 4.5 against their background (WCAG 2, 1.4.3).
const CONTRAST: &str = r#"(() => {
    const rgb = (text) => text.match(/[\d.]+/g).map(Number);
    const part = (value) => { const s = value / 255; return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4; };
    const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
    const behind = (node) => { for (; node; node = node.parentElement) { const c = rgb(getComputedStyle(node).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
    const dim = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const node = walker.currentNode.parentElement;
        if (!walker.currentNode.data.trim() || !node.checkVisibility() || ["SCRIPT", "OPTION"].includes(node.tagName)) continue;
        const style = getComputedStyle(node), [a, b] = [light(rgb(node instanceof SVGElement ? style.fill : style.color)), light(behind(node))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < 4.5) dim.push(`${ratio.toFixed(2)} ${walker.currentNode.data.slice(0, 40)}`);
    }
    return dim;
})()"#;
/// Ends the stream, and feeds the page with events and clients of a large pooler; `step` adds one second.
const MANY: &str = r#"(async () => {
    stream.close(); stream.onmessage = null; connect = () => {};
    let second = 0, seed = 7;
    const random = () => (seed = seed * 16807 % 2147483647) / 2147483647;
    const names = ["shop", "billing", "search", "mail"];
    const totals = names.map(() => ({ xacts: 0, time: PHASES.map(() => 0) }));
    const mass = Array.from({ length: 1000 }, (_, i) => ({ database: names[i % 4], user: `user_${i}`, done: 0, opened: 2, closed: 1 }));
    const row = (waits, i, pool) => ({ waits, database: pool.database, user: pool.user, client: `C-0x${(i + 4096).toString(16)}`, server: waits ? null : `S-0x${i.toString(16)}`, remote_pid: waits ? null : 20000 + i,
        application: ["web", "worker", "report"][i % 3], addr: `10.0.${i % 8}.${i}:5${i + 100}`, doing: waits ? "waits: every server of the pool is taken" : ["idle in transaction", "its server works on the request", "does not read its answer"][i % 3],
        for: 4e6 / (i + 1), transaction: 9e6 / (i + 1), statement: "update stock set left = left - ? where article = ? and warehouse in (select id from warehouses where country = ?)", keeps: "" });
    window.step = () => {
        second += 1;
        const wave = 1.4 + Math.sin(second / 60), stall = second % 300 > 240 ? 6 : 1;
        totals.forEach((total, i) => {
            const busy = (4 - i) * (2 + wave + random());
            total.xacts += Math.round(busy * 120);
            [0.05 * stall ** 2, 0.05, 1.2, 0.3, 0.1, 0.4 * stall].forEach((part, phase) => { total.time[phase] += Math.round(busy * part * 1e6 * (0.8 + 0.4 * random())); });
        });
        mass.forEach((pool, i) => { pool.done += i % 50; if (random() < 0.01) { pool.opened += 1; pool.closed += 1; } });
        hear({ data: JSON.stringify({ version: "0.1.0", now: 1.79e9 + second, state: "active", is_well: false, cause: "client_thinking", sentence: "41 clients of shop/user_0 wait for a server, the first for 4.1 s: 12 of its 20 servers stand idle in transactions that their clients do not continue (longest: C-0x1f (web, 10.0.0.4:5120), for 9.0 s).",
            workers: [{ busy: second * 4e5, alive: second * 1e6 }, { busy: second * 3e5, alive: second * 1e6 }],
            databases: names.map((name, i) => ({ name, clients: 1250, waiting: i ? 0 : Math.round(20 * wave * stall / 3), servers: 400 - i * 50, transactions: totals[i].xacts, queries: 0, received: 0, sent: 0, time: Object.fromEntries(PHASES.map(([phase], p) => [phase, totals[i].time[p]])) })),
            pools: mass.map((pool, i) => ({ database: pool.database, user: pool.user, clients: 5, waiting: i < 12 ? Math.round((12 - i) * wave * stall) : 0, active: i < 12 ? 18 : i % 7, idle: i % 5, opening: i % 3, cleaning: i % 2, limit: 20, peak: 20, max_wait: i < 12 ? 4e6 / (i + 1) : 0, waits_for: i < 12 ? "none_free" : null, failure: null, wait_p50: 100, wait_p99: 90000 / (i + 1), transactions: pool.done, time: null,
                opened: { client: pool.opened }, closed: { idle: pool.closed, lost: i % 90 ? 0 : 1 } })),
            waits: [...mass.slice(0, 3).flatMap((pool, p) => Array.from({ length: 30 - 9 * p }, (_, i) => row(true, i, pool))), ...mass.slice(0, 3).flatMap((pool, p) => Array.from({ length: 18 - 6 * p }, (_, i) => row(false, i, pool)))], pins: 3 }) });
    };
    window.fetch = async (url) => ({ ok: true, json: async () => ({ rows: url.endsWith("clients") ? Array.from({ length: 5000 }, (_, i) => ({ type: "C", user: `user_${i % 1000}`, database: names[i % 4], state: i < 40 ? "waiting" : "active", addr: `10.0.${i % 8}.${i % 250}`, port: 20000 + i, wait: i < 40 ? 4 : 0, wait_us: i, connect_time: "2026-10-01 12:00:00 UTC", request_time: "2026-10-01 12:00:01 UTC", link: "", tls: "", application_name: `app-${i % 30}`, ptr: `c${i}` })) : [] }) });
    samples = 0; last = null; databases.clear(); pools.clear();
    for (let i = 0; i < 640; i += 1) step();
    return 0;
})()"#;
