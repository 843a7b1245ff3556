//! The binary: one line, and a clean end.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use serde_json::Value;

#[test]
fn the_binary_prints_one_line_serves_and_ends_with_0() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_cozyvtt-table"))
        .args(["--port", "0", "--server-version", "1.1.2", "--seed", "5"])
        .args(["--tls", "--base-path", "/table"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let told: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(told["version"], "1.1.2");
    let url = told["url"].as_str().unwrap();
    assert!(url.starts_with("https://127.0.0.1:") && url.ends_with("/table"));
    for key in ["dm", "player1", "player2", "spectator", "outsider"] {
        assert!(told["accounts"][key]["email"].is_string());
        assert!(told["accounts"][key]["password"].is_string());
    }
    assert!(told["campaign_id"].is_string());
    let file = told["ca_file"].as_str().unwrap();
    assert!(
        std::fs::read_to_string(file)
            .unwrap()
            .contains("BEGIN CERTIFICATE")
    );

    let killed = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(killed.success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
    assert!(!std::path::Path::new(file).exists());
}
