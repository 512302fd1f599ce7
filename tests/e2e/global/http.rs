//! A server that speaks HTTP in place of Redis, behind the bridge and behind a tunnel.

use super::{PATIENCE, assert_alone, in_redis, quota};
use gateway::{Carrier, Config, Gateway, wait_until};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

/// Answers each connection as web servers answer bytes that are no request.
fn web_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = |mut connection: TcpStream| {
        if connection.read(&mut [0; 65_536])? == 0 {
            return Ok(0);
        }
        connection
            .write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")?;
        connection.shutdown(Shutdown::Write)?;
        connection.read_to_end(&mut Vec::new())
    };
    thread::spawn(move || {
        listener.incoming().flatten().for_each(|connection| _ = thread::spawn(move || answer(connection)));
    });
    address
}

#[test]
fn a_cluster_that_speaks_http_is_named() {
    let address = web_server();
    for carrier in [Carrier::Bridge, Carrier::Tunnel] {
        let store = in_redis(json!({"timeout": "2s"}));
        let config = Config::new(json!({"limits": quota(), "store": store}));
        let gateway = Gateway::start(carrier.lead(config, address, &json!({})).unwrap()).unwrap();
        assert_alone(std::slice::from_ref(&gateway), "ann");
        let says = || gateway.logs().contains("this cluster speaks HTTP, not Redis").then_some(());
        wait_until("the log to name the mistake", PATIENCE, says)
            .unwrap_or_else(|error| panic!("{carrier:?}: {error}\n{}", gateway.logs()));
    }
}
