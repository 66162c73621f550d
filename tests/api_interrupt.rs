//! A drain that waits for the API server hears a signal. Alone in its file: the signal is for the whole process.

use std::time::Duration;

use cgroup2_migrate::host::Interrupt;
use cgroup2_migrate::node::NodeApi as _;
use cgroup2_migrate::node::drain::Happening;
use nix::sys::signal::{Signal, raise};
use serde_json::json;

#[cfg(test)] // so that clippy takes its helpers for test code
#[path = "support/api_host.rs"]
mod api_host;
#[cfg(test)] // so that clippy takes its helpers for test code
#[path = "support/http.rs"]
mod http;
use api_host::node_of;
use http::{Reply, Server};

#[test]
fn a_signal_ends_the_wait_and_is_known_to_the_whole_program() {
    let server = Server::start(|asked| {
        if asked.path.contains("watch=true") {
            raise(Signal::SIGTERM).unwrap();
            std::thread::park();
        }
        Reply::new(200, json!({"metadata": {"resourceVersion": "5"}, "items": []}))
    });
    let interrupt = Interrupt::default();
    interrupt.listen().unwrap();
    let node = node_of(&server);
    let client = node.open().unwrap().with_interrupt(interrupt.clone());
    let mut port = client.drain_port("w0");
    assert_eq!(port.next(Duration::MAX), Happening::Listed(vec![]));
    assert_eq!(port.next(Duration::MAX), Happening::Interrupted);
    assert!(interrupt.came());
    drop(port);
    assert_eq!(
        client.drain_port("w0").next(Duration::MAX),
        Happening::Interrupted,
        "one that came before counts"
    );
}
