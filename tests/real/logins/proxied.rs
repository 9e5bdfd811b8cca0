//! Clients behind a proxy that tells their addresses (PROXY protocol), and a pooler behind another one.
//!
//! Always true: the proxy is 127.0.0.2, and the programs of the tests connect from 127.0.0.1 without a header.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;

use socket2::{Domain, Socket, Type};
use tests::client::Client;
use tests::hello::client_hello;
use tests::message::{self, Complaint, SSL_CODE, packet};
use tests::peer::Peer;
use tests::pooler::Pooler;
use tests::wait::{LIMIT, wait_until};

use crate::house::House;
use crate::logins::floods::FLOOD;
use crate::logins::tls::{Stage, frame, log_in};

pub(crate) fn rules_fit_the_address_that_the_proxy_tells(house: &House) {
    let rules =
        "host all all 203.0.113.0/24 trust\nhost all all 2001:db8::/32 trust\nhost all all 127.0.0.2/32 reject\n";
    let pooler = hba_pooler(house, "proxied_rules", rules, &["application_name_add_host = 1"]);
    for header in [line("203.0.113.9", 4711), binary([203, 0, 113, 9], 4711)] {
        let mut client = login(&pooler, &header, "proxied_rules").expect("let in");
        assert_eq!(client.value("show application_name"), "test - 203.0.113.9:4711");
        assert_eq!(shown(&pooler, "proxied_rules"), [("203.0.113.9".to_owned(), "4711".to_owned())]);
        drop(client);
        wait_until("it is gone", LIMIT, || shown(&pooler, "proxied_rules").is_empty());
    }
    pooler.await_log("proxied_rules/u@203.0.113.9:4711 login attempt: db=proxied_rules user=u");
    let v6 = b"PROXY TCP6 2001:db8::9 2001:db8::1 4712 6432\r\n";
    let client = login(&pooler, v6, "proxied_rules").expect("let in");
    assert_eq!(shown(&pooler, "proxied_rules"), [("2001:db8::9".to_owned(), "4712".to_owned())]);
    drop(client);
    let refused = |header: &[u8]| login(&pooler, header, "proxied_rules").map(|_| ()).expect_err("refused").text;
    assert_eq!(refused(&line("203.0.114.9", 4711)), "no authentication method is found");
    // Health checks of the proxy itself are connections from its own address, and so is a client on a Unix socket there.
    assert_eq!(refused(LOCAL), "login rejected");
    assert_eq!(refused(b"PROXY UNKNOWN\r\n"), "login rejected");
    let unix = [&SIGNATURE[..], &[0x21, 0x31, 0, 216], &[b'/'; 216]].concat();
    assert_eq!(refused(&unix), "login rejected");
}

pub(crate) fn a_header_is_demanded_from_the_proxy_and_believed_from_nobody_else(house: &House) {
    let rules = "host all all 203.0.113.9/32 trust\nhost all all 0.0.0.0/0 reject\n";
    let pooler = hba_pooler(house, "proxied_spoof", rules, &[]);
    let spoof = [line("203.0.113.9", 4711), startup("proxied_spoof")].concat();
    let mut liar = Peer::tcp(pooler.address()).expect("the port answers");
    liar.send(&spoof);
    assert_eq!(complaint(&mut liar).text, "bad packet header: '50524f5859'");
    let mut plain = from_proxy(&pooler);
    plain.send(&startup("proxied_spoof"));
    let told = complaint(&mut plain);
    assert_eq!((&*told.code, &*told.text), ("08P01", "PROXY header expected (proxy_protocol_from)"));
    assert!(told.hint.contains("send-proxy-v2"), "{told:?}");
    let address = wait_for_line(&pooler, "closing because: PROXY header expected");
    assert!(address.contains("@127.0.0.2:"), "{address}");
    let mut garbage = from_proxy(&pooler);
    garbage.send(b"PROXY TCP4 203.0.113.9\r\n");
    assert!(complaint(&mut garbage).text.starts_with("invalid PROXY header: "));
    assert!(login(&pooler, &line("203.0.113.9", 4711), "proxied_spoof").is_ok());
}

pub(crate) fn health_checks_leave_no_line(house: &House) {
    let pooler = house.pooler("proxied_checks", &[FROM_PROXY]);
    let mut console = pooler.client("admin", "pgbouncer");
    for said in [&b""[..], LOCAL, b"PROXY UNKNOWN\r\n", &line("203.0.113.9", 4711)] {
        drop(send(from_proxy(&pooler), said));
    }
    // Half a header is worth a line; it comes after those of the others.
    drop(send(from_proxy(&pooler), b"PROXY TCP4 "));
    pooler.await_log("closing because: client unexpected eof");
    wait_until("they are gone", LIMIT, || {
        let lists = console.query("SHOW LISTS");
        let rows = (0..lists.rows.len()).map(|row| lists.named(row));
        rows.filter(|row| row["list"] == "unauthenticated").all(|row| row["items"] == "0")
    });
    assert_eq!(pooler.log().matches("closing because").count(), 1, "{}", pooler.log());
}

pub(crate) fn a_header_that_comes_in_pieces_is_read(house: &House) {
    let pooler = house.pooler("proxied_pieces", &[FROM_PROXY]);
    for header in [line("203.0.113.9", 4711), binary([203, 0, 113, 9], 4711)] {
        let mut peer = from_proxy(&pooler);
        peer.send_slowly(&[header, startup("proxied_pieces")].concat()).expect("sent");
        assert_eq!(Client::finish_login(peer, LIMIT).expect("let in").value("select 1"), "1");
    }
    assert_eq!(pooler.log().matches("u@203.0.113.9:4711 login attempt").count(), 2);
}

pub(crate) fn tls_follows_the_header(house: &House) {
    let rules = "hostssl all all 203.0.113.0/24 trust\nhost pgbouncer all all trust\n";
    let hba = rules_file(house, rules);
    let settings = ["client_tls_sslmode = allow", FROM_PROXY, "auth_type = hba", &hba];
    let stage = Stage::new(house, "proxied_tls", &settings);
    let connect = |header: &[u8]| {
        let mut stream = stream_from_proxy(&stage.pooler);
        stream.write_all(header).expect("sent");
        stream
    };
    // A ClientHello at once, and one after an SSLRequest.
    let mut direct = stage.over(connect(&line("203.0.113.9", 4711)), &["postgresql"]);
    log_in(&mut direct, "proxied_tls");
    let mut asks = from_proxy(&stage.pooler);
    asks.send(&[binary([203, 0, 113, 9], 4712), packet(&SSL_CODE.to_be_bytes())].concat());
    assert_eq!(asks.bytes(1).expect("an answer"), b"S");
    stage.pooler.await_log("u@203.0.113.9:4711 login attempt: db=proxied_tls user=u tls=TLSv1.3");
    direct.write_all(&message::query("select 1")).expect("a query");
    assert_eq!(frame(&mut direct).0, b'T');
    // The rule asks for TLS and for the address that was told.
    let clear = login(&stage.pooler, &line("203.0.113.9", 4711), "proxied_tls");
    assert_eq!(clear.map(|_| ()).expect_err("refused").text, "no authentication method is found");
}

pub(crate) fn a_cancel_request_follows_a_header(house: &House) {
    let pooler = house.pooler("proxied_cancel", &[FROM_PROXY]);
    let mut client = login(&pooler, &line("203.0.113.9", 4711), "proxied_cancel").expect("let in");
    client.ask("select pg_sleep(60)");
    house.postgres.await_running("proxied_cancel", "pg_sleep(60)");
    let mut request = from_proxy(&pooler);
    request.send(&[line("203.0.113.9", 4712), message::cancel_request(client.key.0, &client.key.1)].concat());
    request.closed_within(LIMIT).expect("a cancel request is answered by closing");
    assert_eq!(client.answer().error().code, "57014");
}

pub(crate) fn who_sends_no_header_or_nothing_behind_it_is_closed_in_time(house: &House) {
    let pooler = house.pooler("proxied_late", &[FROM_PROXY, "client_login_timeout = 1"]);
    let header = line("203.0.113.9", 4711);
    for said in [&b""[..], &header[..20], &header, &SIGNATURE[..]] {
        let mut peer = from_proxy(&pooler);
        peer.send(said);
        assert_eq!(complaint(&mut peer).text, "client_login_timeout", "{said:?}");
    }
    let of_client = wait_for_line(&pooler, "@203.0.113.9:4711 closing because: client_login_timeout");
    assert!(!of_client.contains("127.0.0.2"));
}

pub(crate) fn who_floods_through_a_proxy_keeps_nobody_else_out(house: &House) {
    let settings = [FROM_PROXY, "max_unauthenticated_connections = 10", "tcp_defer_accept = 0", "verbose = 1"];
    let pooler = house.pooler("proxied_flood", &settings);
    let mut console = pooler.client("admin", "pgbouncer");
    let mut silent = Vec::new();
    for port in 1..=11 {
        silent.push(send(from_proxy(&pooler), &line("203.0.113.66", port)));
        pooler.await_log(&format!("(nouser)@203.0.113.66:{port} address told by the proxy at 127.0.0.2:"));
    }
    // The eleventh has displaced the one before it, although both came from the proxy like everybody.
    assert_eq!(complaint(&mut silent[9]).code, "53300");
    pooler.await_log("4 come from 203.0.113.66");
    let mut other = login(&pooler, &line("203.0.113.9", 4711), "proxied_flood").expect("let in");
    assert_eq!(other.value("select 1"), "1");
    assert_eq!(complaint(&mut silent[10]).code, "53300");
    // Nobody counts who has gone.
    drop(silent);
    wait_until("they are gone", LIMIT, || {
        let lists = console.query("SHOW LISTS");
        let rows = (0..lists.rows.len()).map(|row| lists.named(row));
        rows.filter(|row| row["list"] == "unauthenticated").all(|row| row["items"] == "0")
    });
    for port in 1..=10 {
        drop(login(&pooler, &line("203.0.113.66", port), "proxied_flood").expect("let in"));
    }
}

pub(crate) fn clients_of_a_proxy_take_turns_with_handshakes_of_tls(house: &House) {
    let settings = [FROM_PROXY, "workers = 1", "client_login_timeout = 0", "max_client_conn = 5000"];
    let stage = Stage::new(house, "proxied_turns", &settings);
    let asks = [line("203.0.113.66", 4711), packet(&SSL_CODE.to_be_bytes())].concat();
    let mut flood: Vec<Peer> = (0..FLOOD).map(|_| send(from_proxy(&stage.pooler), &asks)).collect();
    for peer in &mut flood {
        assert_eq!(peer.bytes(1).expect("an answer"), b"S");
    }
    let asks = [line("203.0.113.9", 4711), packet(&SSL_CODE.to_be_bytes())].concat();
    let mut other = send(from_proxy(&stage.pooler), &asks);
    assert_eq!(other.bytes(1).expect("an answer"), b"S");
    let hello = client_hello();
    flood.iter_mut().for_each(|peer| peer.send(&hello));
    other.send(&hello);
    other.bytes(1).expect("the server's part of the handshake");
    // With handshakes in order of arrival, all of them would have been served before. On a busy machine many are, while this thread waits.
    let served = flood.iter().filter(|peer| peer.has_bytes()).count();
    assert!(served < FLOOD - FLOOD / 10, "{served} of {FLOOD} handshakes came before");
}

pub(crate) fn a_limit_of_logins_by_address_counts_the_addresses_that_are_told(house: &House) {
    let rule = "storm = events=logins by=address address=203.0.113.0/24 rate=1/h burst=1 action=reject";
    let pooler = house.start(&house.ini("proxied_rate", &[FROM_PROXY]).rate_limit(rule));
    let comes = |ip: &str| login(&pooler, &line(ip, 4711), "proxied_rate").map(|_| ());
    comes("203.0.113.9").expect("let in");
    let again = comes("203.0.113.9").expect_err("refused");
    assert!(again.text.contains("storm"), "{again:?}");
    comes("203.0.113.10").expect("let in");
}

pub(crate) fn addresses_survive_an_online_restart(house: &House) {
    let rules = "host all all 203.0.113.0/24 trust\n";
    // The new process connects to the unix socket without a header.
    let mut pooler = hba_pooler(house, "proxied_restart", rules, &["proxy_protocol_from = 127.0.0.2, unix"]);
    let header = line("203.0.113.9", 4711);
    let mut idle = login(&pooler, &header, "proxied_restart").expect("let in");
    let mut inside = login(&pooler, &line("203.0.113.10", 4712), "proxied_restart").expect("let in");
    inside.run("begin");
    // Nothing, half a header, a header, and a header with half a startup packet.
    let packet = [line("203.0.113.11", 4713), startup("proxied_restart")].concat();
    let cuts = [0, 9, line("203.0.113.11", 4713).len(), packet.len() - 9];
    let mut begun = cuts.map(|cut| {
        let mut peer = from_proxy(&pooler);
        peer.send(&packet[..cut]);
        (peer, cut)
    });
    wait_until("all have arrived", LIMIT, || {
        pooler.log().matches("(nouser)@203.0.113.11:4713 address told").count() == 2
    });
    pooler.restart_online();
    let mut now = shown(&pooler, "proxied_restart");
    now.sort();
    let at = |ip: &str, port: &str| (ip.to_owned(), port.to_owned());
    assert_eq!(now, [at("203.0.113.10", "4712"), at("203.0.113.9", "4711")]);
    inside.run("commit");
    assert_eq!(idle.value("select 1"), "1");
    for (peer, cut) in &mut begun {
        peer.send(&packet[*cut..]);
    }
    for (peer, cut) in begun {
        let login = Client::finish_login(peer, LIMIT);
        assert_eq!(login.unwrap_or_else(|error| panic!("{error:?} after {cut} bytes")).value("select 2"), "2");
    }
}

pub(crate) fn a_reload_applies_to_connections_from_then_on(house: &House) {
    let pooler = house.pooler("proxied_reload", &[]);
    let mut before =
        Client::finish_login(send(from_proxy(&pooler), &startup("proxied_reload")), LIMIT).expect("let in");
    assert_eq!(pooler.console("SET proxy_protocol_from = '127.0.0.2, 10.0.0.0/8'").errors, []);
    assert_eq!(before.value("select 1"), "1");
    assert!(login(&pooler, &line("203.0.113.9", 4711), "proxied_reload").is_ok());
    assert!(complaint(&mut send(from_proxy(&pooler), &startup("proxied_reload"))).text.starts_with("PROXY header"));
    let wrong = pooler.console("SET proxy_protocol_from = '127.0.0.2, proxy.local'");
    assert!(wrong.error().detail.ends_with("not \"proxy.local\""), "{wrong:?}");
}

/// Two poolers: the first one is a client of the second one's Unix socket, which is listed there.
pub(crate) fn a_pooler_tells_the_next_one_the_client_of_a_dedicated_server(house: &House) {
    let next = house.pooler("proxied_chain", &["proxy_protocol_from = unix"]);
    let host = next.directory().display().to_string();
    for version in ["v1", "v2"] {
        let database = format!("proxied_chain = host={host} port={} proxy_protocol={version}", next.port());
        let first = house.start(&tests::pooler::Ini::new(&database).set(FROM_PROXY));
        let header = line("203.0.113.9", 4711);
        let mut client = login(&first, &header, "proxied_chain").expect("let in");
        assert_eq!(client.value("select 1"), "1");
        let parameters = [("user", "u"), ("database", "proxied_chain"), ("replication", "true")];
        let peer = send(from_proxy(&first), &[header, message::startup(0, &parameters)].concat());
        let mut replica = Client::finish_login(peer, LIMIT).expect("let in");
        assert_eq!(replica.query("IDENTIFY_SYSTEM").rows.len(), 1);
        // The cancel request reaches it with a header, too.
        client.ask("select pg_sleep(60)");
        house.postgres.await_running("proxied_chain", "pg_sleep(60)");
        let request = message::cancel_request(client.key.0, &client.key.1);
        let mut request = send(from_proxy(&first), &[line("203.0.113.9", 4712), request].concat());
        request.closed_within(LIMIT).expect("a cancel request is answered by closing");
        assert_eq!(client.answer().error().code, "57014");
    }
    let attempts =
        |of: &str| next.log().lines().filter(|line| line.contains("login attempt") && line.contains(of)).count();
    assert_eq!(attempts("proxied_chain/u@203.0.113.9:4711 "), 2, "{}", next.log());
    assert_eq!(attempts("proxied_chain/u@unix("), 2, "{}", next.log());
}

pub(crate) fn a_shared_server_tells_the_ends_of_its_own_socket(house: &House) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    let database = format!("proxied_v1 = host=127.0.0.1 port={} proxy_protocol=v1", address.port());
    let pooler = house.start(&tests::pooler::Ini::new(&database).set("server_tls_sslmode = disable"));
    let _client = send(Peer::tcp(pooler.address()).expect("the port answers"), &startup("proxied_v1"));
    listener.set_nonblocking(true).expect("a listener");
    let (stream, from) = tests::wait::wait_for("the pooler connects", LIMIT, || listener.accept().ok());
    let mut server = Peer::accepted(stream).expect("a connection");
    let header = format!("PROXY TCP4 127.0.0.1 127.0.0.1 {} {}\r\n", from.port(), address.port());
    assert_eq!(String::from_utf8_lossy(&server.bytes(header.len()).expect("a header")), header);
    assert_eq!(server.packet().expect("a startup packet")[..4], [0, 3, 0, 0]);
}

/// A pooler with these rules, to which clients of the console are added.
fn hba_pooler(house: &House, database: &str, rules: &str, settings: &[&str]) -> Pooler {
    let rules = format!("host pgbouncer all 127.0.0.1/32 trust\n{rules}");
    let hba = rules_file(house, &rules);
    let settings = [&[FROM_PROXY, "verbose = 1", "auth_type = hba", &hba], settings].concat();
    house.pooler(database, &settings)
}

/// The setting for a file with these rules.
fn rules_file(house: &House, rules: &str) -> String {
    let file: PathBuf = house.place.directory().join("hba");
    house.place.write(&file, rules);
    format!("auth_hba_file = {}", file.display())
}

/// A connection from the proxy.
fn from_proxy(pooler: &Pooler) -> Peer {
    Peer::tcp_from(PROXY, pooler.address()).expect("the port answers")
}

fn stream_from_proxy(pooler: &Pooler) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from((PROXY, 0)).into()).expect("an address of this machine");
    socket.connect(&pooler.address().into()).expect("the port answers");
    socket.into()
}

fn send(mut peer: Peer, bytes: &[u8]) -> Peer {
    peer.send(bytes);
    peer
}

/// A login through the proxy, which begins with this header.
fn login(pooler: &Pooler, header: &[u8], database: &str) -> Result<Client, Complaint> {
    Client::finish_login(send(from_proxy(pooler), &[header, &startup(database)].concat()), LIMIT)
}

fn startup(database: &str) -> Vec<u8> {
    message::startup(0, &[("user", "u"), ("database", database), ("application_name", "test")])
}

fn complaint(peer: &mut Peer) -> Complaint {
    Complaint::read(&peer.frame_within(LIMIT).expect("a reason"))
}

/// The clients of a database, by address and port.
fn shown(pooler: &Pooler, database: &str) -> Vec<(String, String)> {
    let clients = pooler.console("SHOW CLIENTS");
    let rows = (0..clients.rows.len()).map(|row| clients.named(row));
    rows.filter(|row| row["database"] == database).map(|row| (row["addr"].clone(), row["port"].clone())).collect()
}

/// The first line of the log that contains this.
fn wait_for_line(pooler: &Pooler, text: &str) -> String {
    pooler.await_log(text);
    pooler.log().lines().find(|line| line.contains(text)).unwrap_or_default().to_owned()
}

/// A header of version 1.
fn line(ip: &str, port: u16) -> Vec<u8> {
    format!("PROXY TCP4 {ip} 192.0.2.1 {port} 6432\r\n").into_bytes()
}

/// A header of version 2.
fn binary(ip: [u8; 4], port: u16) -> Vec<u8> {
    let ports = [port.to_be_bytes(), 6432_u16.to_be_bytes()].concat();
    // With a TLV.
    [&SIGNATURE[..], &[0x21, 0x11, 0, 18], &ip, &[192, 0, 2, 1], &ports, &[4, 0, 3, 0, 0, 0]].concat()
}

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
const PROXY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const FROM_PROXY: &str = "proxy_protocol_from = 127.0.0.2";
