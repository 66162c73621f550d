//! A FleetLock server, asked by one node: two POSTs, and what comes back.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpListener;
use std::thread::JoinHandle;
use std::time::Duration;

use cgroup2_migrate::node::lock::fleetlock::{Answer, FleetLock, FleetLockError, Settings, node_id};
use serde_json::{Value, json};

const MACHINE: &str = "0123456789abcdef0123456789abcdef\n";

/// A request, as it came in.
struct Asked {
    line: String,
    headers: Vec<String>,
    body: Value,
}

/// A server that gives one answer and ends.
fn server(answer: &str) -> (Settings, JoinHandle<Asked>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/locks/", listener.local_addr().unwrap());
    let answer = answer.to_owned();
    let serve = move || {
        let (mut stream, _) = listener.accept().unwrap();
        let asked = read(&mut BufReader::new(stream.try_clone().unwrap()));
        stream.write_all(answer.as_bytes()).unwrap();
        asked
    };
    let settings = Settings { url, group: "workers".to_owned(), ..Settings::default() };
    (settings, std::thread::spawn(serve))
}

fn read(stream: &mut impl BufRead) -> Asked {
    let mut lines = stream.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty());
    let line = lines.next().unwrap();
    let headers: Vec<String> = lines.map(|line| line.to_lowercase()).collect();
    let length = headers.iter().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    Asked { line, headers, body: serde_json::from_slice(&body).unwrap() }
}

fn reply(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

fn client(settings: Settings) -> FleetLock {
    FleetLock::new(settings, node_id(MACHINE).unwrap())
}

#[test]
fn a_question_is_what_the_protocol_says() {
    let (settings, asked) = server(&reply("200 OK", ""));
    assert_eq!(client(settings).pre_reboot().unwrap(), Answer::Granted);
    let asked = asked.join().unwrap();
    assert_eq!(asked.line, "POST /locks/v1/pre-reboot HTTP/1.1");
    assert!(asked.headers.contains(&"fleet-lock-protocol: true".to_owned()), "{:?}", asked.headers);
    let id = "412fd15376f34a4587e16b7b08ea592d";
    assert_eq!(asked.body, json!({"client_params": {"group": "workers", "id": id}}));
}

#[test]
fn giving_back_is_the_other_path() {
    let (settings, asked) = server(&reply("200 OK", "{}"));
    assert_eq!(client(settings).steady_state().unwrap(), Answer::Granted);
    assert_eq!(asked.join().unwrap().line, "POST /locks/v1/steady-state HTTP/1.1");
}

#[test]
fn a_no_is_told_in_the_servers_words() {
    let body = r#"{"kind": "failed_lock", "value": "semaphore currently full"}"#;
    let refused = |status: &str, body: &str| {
        let (settings, asked) = server(&reply(status, body));
        let answer = client(settings).pre_reboot().unwrap();
        asked.join().unwrap();
        answer
    };
    assert_eq!(
        refused("409 Conflict", body),
        Answer::Refused("semaphore currently full (failed_lock)".to_owned())
    );
    let bare = Answer::Refused("HTTP status 502 without a reason".to_owned());
    assert_eq!(refused("502 Bad Gateway", "<html>"), bare);
}

#[test]
fn a_redirect_is_no_yes() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let moved = format!("302 Found\r\nLocation: http://{}/", listener.local_addr().unwrap());
    let (settings, asked) = server(&reply(&moved, ""));
    assert!(matches!(client(settings).pre_reboot().unwrap(), Answer::Refused(why) if why.contains("302")));
    asked.join().unwrap();
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "the redirect was followed");
}

#[test]
fn nobody_there_and_a_server_that_says_nothing_are_not_known() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for address in [gone, silent.local_addr().unwrap()] {
        let limit = Duration::from_millis(300);
        let settings = Settings { url: format!("http://{address}"), limit, ..Settings::default() };
        let FleetLockError::NoAnswer { url, .. } = client(settings).pre_reboot().unwrap_err() else {
            panic!()
        };
        assert_eq!(url, format!("http://{address}/v1/pre-reboot"));
    }
}

/// The TLS set-up is complete: a server that does not speak it is an error, and no panic in the library.
#[test]
fn plain_text_where_tls_was_asked_for_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        listener.accept().unwrap().0.write_all(reply("200 OK", "").as_bytes()).unwrap();
    });
    let error = client(Settings { url, ..Settings::default() }).pre_reboot().unwrap_err();
    assert!(matches!(&error, FleetLockError::NoAnswer { url, .. } if url.starts_with("https:")), "{error}");
    server.join().unwrap();
}
