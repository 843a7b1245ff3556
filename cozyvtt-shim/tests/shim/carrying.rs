//! While all is well: whole lines, unchanged, both ways.

use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::stage::{DEADLINE, Stage, request};

#[test]
fn the_hello_comes_first_and_tells_who_is_there() {
    let stage = Stage::new();
    let daemon = stage.daemon();
    let mut shim = stage.shim();
    shim.ask(1, "initialize");
    let mut peer = daemon.accept();
    let hello = peer.welcome();
    assert_eq!(hello["cozyvtt"]["protocol"], 1);
    assert_eq!(hello["cozyvtt"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(hello["cozyvtt"]["pid"], shim.pid);
    assert_eq!(
        hello["cozyvtt"]["client_id"].as_str().map(str::len),
        Some(32)
    );
    assert_eq!(peer.hear(), request(1, "initialize"));
}

#[test]
fn two_shims_have_different_names() {
    let stage = Stage::new();
    let daemon = stage.daemon();
    let _shims = (stage.shim(), stage.shim());
    let names = [(); 2].map(|()| daemon.accept().welcome()["cozyvtt"]["client_id"].clone());
    assert_ne!(names[0], names[1]);
}

#[test]
fn lines_pass_unchanged_both_ways() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    let lines = [
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}\n",
        "{ \"method\" : \"a\\u00e4\" , \"id\" : \"1\", \"params\": {\"ö\":1.0, \"x\":1e400} }\r\n",
        "{\"jsonrpc\":\"2.0\",\"id\":9007199254740993,\"method\":\"🎲\"}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n",
        "not JSON at all\n",
        "[{\"id\":1,\"method\":\"a\"},{\"id\":2,\"method\":\"b\"}]\n",
    ];
    for line in lines {
        shim.say(line);
    }
    for line in lines {
        assert_eq!(peer.hear(), line);
    }
    for line in lines {
        peer.say(line);
    }
    for line in lines {
        assert_eq!(shim.hear(), line);
    }
}

#[test]
fn an_answer_finds_its_request_however_the_daemon_writes_the_number() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    for (asked, answered) in [
        ("1e2", "100.0"),
        ("1e2", "100"),
        ("9007199254740993", "9007199254740993"),
    ] {
        let line = |id: &str, rest: &str| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{rest}}}\n");
        let request = line(asked, "\"method\":\"a\"");
        shim.say(&request);
        assert_eq!(peer.hear(), request);
        // Neither a string nor a neighbour is this number.
        for stray in ["\"1e2\"", "\"100\"", "9007199254740992"] {
            peer.say(&line(stray, "\"result\":{}"));
        }
        peer.say(&line(answered, "\"result\":{ \"x\":1e2 }"));
        assert_eq!(shim.hear(), line(asked, "\"result\":{ \"x\":1e2 }"));
    }
}

#[test]
fn lines_of_a_mebibyte_pass_unchanged_both_ways() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    let long = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{}\"}}\n",
        "würfel🎲".repeat(110_000)
    );
    assert!(long.len() > 1024 * 1024);
    // Nobody reads while it is said, so it has to be said on the side.
    let said = long.clone();
    let client = std::thread::spawn(move || {
        shim.say(&said);
        shim
    });
    assert!(peer.hear() == long);
    let mut shim = client.join().unwrap();
    peer.say(&long);
    assert!(shim.hear() == long);
}

#[test]
fn empty_lines_are_dropped() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    shim.say("\n  \r\n");
    shim.ask(1, "a");
    assert_eq!(peer.hear(), request(1, "a"));
    peer.say("\n");
    peer.say(&request(2, "b"));
    assert_eq!(shim.hear(), request(2, "b"));
}

#[test]
fn the_environment_names_the_folder_when_no_flag_does() {
    let stage = Stage::new();
    let daemon = stage.daemon();
    let mut child = Command::new(env!("CARGO_BIN_EXE_cozyvtt-shim"))
        .env("COZYVTT_SOCKET_DIR", stage.socket().parent().unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    daemon.accept().welcome();
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_stdio_that_was_left_non_blocking_carries_as_well() {
    let stage = Stage::new();
    let daemon = stage.daemon();
    let (client, stdio) = UnixStream::pair().unwrap();
    stdio.set_nonblocking(true).unwrap();
    client.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut child = stage
        .command()
        .stdin(OwnedFd::from(stdio.try_clone().unwrap()))
        .stdout(OwnedFd::from(stdio))
        .spawn()
        .unwrap();
    let mut peer = daemon.accept();
    peer.welcome();
    (&client).write_all(request(1, "a").as_bytes()).unwrap();
    assert_eq!(peer.hear(), request(1, "a"));
    // More than the buffers hold, so that the shim has to wait for the client.
    let long = format!("{{\"id\":1,\"result\":\"{}\"}}\n", "x".repeat(2_000_000));
    let said = long.clone();
    let saying = std::thread::spawn(move || peer.say(&said));
    let mut heard = String::new();
    BufReader::new(&client).read_line(&mut heard).unwrap();
    assert!(heard == long);
    saying.join().unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn bytes_that_are_no_text_pass_too() {
    let stage = Stage::new();
    let daemon = stage.daemon();
    let mut command = stage.command();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut peer = daemon.accept();
    peer.welcome();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"\xff\xfe\n").unwrap();
    assert_eq!(peer.hear_bytes(), b"\xff\xfe\n");
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_line_over_the_limit_is_answered_and_the_session_goes_on() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    let long = format!(
        "{{\"id\":1,\"method\":\"{}\"}}\n",
        "x".repeat(16 * 1024 * 1024)
    );
    shim.say(&long);
    let (id, error) = shim.hear_error();
    assert_eq!(id, json!(null));
    assert_eq!(error["code"], -32600);
    assert!(
        error["message"].as_str().unwrap().contains("16777216"),
        "{error}"
    );
    shim.ask(2, "a");
    assert_eq!(peer.hear(), request(2, "a"));
}

#[test]
fn an_answer_over_the_limit_is_replaced_by_an_error_under_its_id() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    shim.say("{\"jsonrpc\":\"2.0\",\"id\":\"big\",\"method\":\"tools/call\"}\n");
    peer.hear();
    let long = "x".repeat(16 * 1024 * 1024);
    peer.say(&format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":\"big\",\"result\":\"{long}\"}}\n"
    ));
    let (id, error) = shim.hear_error();
    assert_eq!(id, "big");
    assert_eq!(error["data"]["kind"], "answer_too_long");
    peer.say(&request(2, "next"));
    assert_eq!(shim.hear(), request(2, "next"));
}

#[test]
fn the_memory_of_long_lines_is_given_back() {
    let stage = Stage::new();
    let (mut shim, mut peer) = stage.connected();
    let long = format!(
        "{{\"id\":1,\"method\":\"{}\"}}\n",
        "x".repeat(10 * 1024 * 1024)
    );
    for _ in 0..3 {
        let said = long.clone();
        let client = std::thread::spawn(move || {
            shim.say(&said);
            shim
        });
        assert!(peer.hear() == long);
        shim = client.join().unwrap();
        peer.say(&long);
        assert!(shim.hear() == long);
    }
    // Once a later line has come through, the shim is done with the long ones.
    shim.ask(2, "a");
    peer.hear();
    peer.say(&request(2, "a"));
    shim.hear();
    let resident = resident_kib(shim.pid);
    assert!(resident < 8 * 1024, "{resident} KiB");
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap()
}
