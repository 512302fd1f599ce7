//! `diana console` as a user starts it. The page itself is tested in a browser.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn console(folder: &std::path::Path, words: &[&str]) -> Command {
    let token = folder.join("token");
    fs::write(&token, TOKEN).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_diana"));
    command.args(["console", "--gateway", "http://127.0.0.1:1"]).args(words).arg("--token-file").arg(token);
    command.env_remove("DIANA_GATEWAYS").env_remove("DIANA_TOKEN_FILE");
    command
}

#[test]
fn the_link_is_printed_and_serves_the_page_on_loopback() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = console(folder.path(), &[]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut link = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut link).unwrap();
    let (address, key) = link.trim().strip_prefix("http://").unwrap().split_once("/#").unwrap();
    assert!(address.starts_with("127.0.0.1:") && key.len() == 32 && !link.contains(TOKEN), "{link}");
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(format!("GET / HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").as_bytes())
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("<title>Diana console</title>"),
        "{answer}"
    );
}

#[test]
fn an_address_that_is_taken_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = console(folder.path(), &["--listen", &address]).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{errors}");
    assert!(
        errors.contains(&format!("cannot listen on `{address}`")) && errors.contains("in use"),
        "{errors}"
    );
}
