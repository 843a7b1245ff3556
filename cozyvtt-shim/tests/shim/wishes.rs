//! What the shim asks of the daemon for its client: to read only, and where to sit.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use serde_json::{Value, json};

use crate::stage::{Shim, Stage, request};

/// A password that is nowhere but in the hello.
const CANARY: &str = "canary-5f0c";

/// The variables of a client that was set up for another bridge.
const COMPLETE: [(&str, &str); 4] = [
    ("COZYVTT_URL", "https://table.example"),
    ("COZYVTT_EMAIL", "dm@table.example"),
    ("COZYVTT_PASSWORD", CANARY),
    ("COZYVTT_CAMPAIGN_ID", "c1"),
];

/// What a hello says in answer to these wishes.
fn wishes(hello: &Value) -> Value {
    let hello = &hello["cozyvtt"];
    json!([hello["read_only"], hello["expects"], hello["settings"]])
}

/// What the hello of this command says of its wishes.
fn wishes_of(stage: &Stage, command: &mut Command) -> Value {
    let daemon = stage.daemon();
    let mut shim = Shim::start(command);
    let hello = daemon.accept().welcome();
    // Before another one comes to this place.
    shim.end();
    shim.exit();
    wishes(&hello)
}

fn complete(stage: &Stage) -> Command {
    let mut command = stage.command();
    command.envs(COMPLETE);
    command
}

#[test]
fn without_flags_and_variables_nothing_is_asked_for() {
    let stage = Stage::new();
    let none = json!([null, null, null]);
    assert_eq!(wishes_of(&stage, &mut stage.command()), none);
    let mut empty = stage.command();
    empty.envs(COMPLETE.map(|(name, _)| (name, "")));
    assert_eq!(wishes_of(&stage, &mut empty), none);
}

#[test]
fn the_hello_says_what_the_flags_and_the_environment_ask_for() {
    let stage = Stage::new();
    let mut reader = stage.command();
    reader.args(["--read-only", "--campaign", "c2"]);
    reader.env("COZYVTT_CAMPAIGN_ID", "c1");
    assert_eq!(
        wishes_of(&stage, &mut reader),
        json!([true, {"campaign": "c2"}, null])
    );
    assert_eq!(
        wishes_of(&stage, &mut complete(&stage)),
        json!([
            null,
            {"url": "https://table.example", "email": "dm@table.example", "campaign": "c1"},
            {
                "url": "https://table.example", "email": "dm@table.example",
                "password": CANARY, "campaign": "c1",
            },
        ])
    );
}

#[test]
fn an_incomplete_set_offers_nothing_and_keeps_the_password() {
    for missing in ["COZYVTT_EMAIL", "COZYVTT_CAMPAIGN_ID"] {
        let stage = Stage::new();
        let mut command = complete(&stage);
        let daemon = stage.daemon();
        let _shim = Shim::start(command.env_remove(missing));
        let mut peer = daemon.accept();
        let hello = peer.welcome();
        assert!(!hello.to_string().contains(CANARY), "{missing}");
        assert_eq!(wishes(&hello)[2], json!(null), "{missing}");
        assert_eq!(hello["cozyvtt"]["expects"]["url"], "https://table.example");
    }
    let stage = Stage::new();
    let mut alone = stage.command();
    alone.env("COZYVTT_PASSWORD", CANARY);
    assert_eq!(wishes_of(&stage, &mut alone), json!([null, null, null]));
}

#[test]
fn settings_are_offered_again_to_a_daemon_that_was_restarted() {
    let stage = Stage::new();
    let daemon = stage.daemon();
    let mut command = complete(&stage);
    let mut shim = Shim::start(command.arg("--read-only"));
    let mut peer = daemon.accept();
    let first = peer.welcome();
    assert_eq!(first["cozyvtt"]["settings"]["password"], CANARY);
    drop((peer, daemon));
    let daemon = stage.daemon();
    shim.ask(1, "tools/list");
    let mut peer = daemon.accept();
    let second = peer.welcome();
    assert_eq!(second["cozyvtt"]["previous_instance"], "i");
    assert_eq!(wishes(&first), wishes(&second));
    assert_eq!(peer.hear(), request(1, "tools/list"));
}

#[test]
fn a_daemon_that_does_not_know_a_wish_is_sent_nothing_until_it_is_a_newer_one() {
    let older = |knows: &[&str]| json!({"protocol": 1, "version": "0.0.9", "instance": "i", "knows": knows});
    for (flags, variables, knows, unknown) in [
        (
            &["--read-only"][..],
            &[][..],
            &["expects", "settings"][..],
            "read_only",
        ),
        (&["--campaign", "c1"], &[], &["read_only"], "expects"),
        (&[], &COMPLETE, &["read_only", "expects"], "settings"),
    ] {
        let stage = Stage::new();
        let mut command = stage.command();
        command.args(flags).envs(variables.iter().copied());
        let daemon = stage.daemon();
        let mut shim = Shim::start(&mut command);
        shim.ask(1, "tools/call");
        let mut peer = daemon.accept();
        peer.reply(&older(knows));
        let (id, error) = shim.hear_error();
        assert_eq!(id, 1);
        assert_eq!(
            error["data"],
            json!({"kind": "refused", "hop": "shim -> daemon"})
        );
        let message = error["message"].as_str().unwrap();
        for part in [
            unknown,
            "0.0.9",
            env!("CARGO_PKG_VERSION"),
            "cargo install --path cozyvttd",
            "Nothing was sent",
        ] {
            assert!(message.contains(part), "{message}");
        }
        assert!(!message.contains('\n'), "{message}");
        assert_eq!(peer.hear(), "", "nothing was passed on");
        // The shim goes on looking, and takes the newer one.
        drop(daemon);
        let daemon = stage.daemon();
        shim.ask(2, "tools/call");
        let mut peer = daemon.accept();
        peer.welcome();
        assert_eq!(peer.hear(), request(2, "tools/call"));
    }
}

#[test]
fn a_daemon_that_sits_elsewhere_refuses_in_its_own_words() {
    let stage = Stage::new();
    let daemon = stage.daemon();
    let mut shim = Shim::start(&mut complete(&stage));
    shim.ask(1, "tools/list");
    daemon.accept().reply(&json!({
        "protocol": 1, "version": "0.1.0",
        "refused": "It sits at https://a, the client expects https://table.example.",
    }));
    let (id, error) = shim.hear_error();
    assert_eq!(id, 1);
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("the client expects"), "{message}");
}

#[test]
fn the_password_is_in_no_output_whatever_goes_wrong() {
    let stage = Stage::new();
    let mut command = complete(&stage);
    command.env("RUST_BACKTRACE", "full");
    let mut shim = Shim::start(&mut command);
    let mut said = Vec::new();
    // Nobody listens; then what listens is too old, is no daemon, or hangs up.
    shim.ask(1, "tools/list");
    said.push(shim.hear());
    let daemon = stage.daemon();
    for answer in [
        "{\"cozyvtt\":{\"protocol\":1,\"version\":\"0.0.9\",\"instance\":\"i\"}}\n",
        "{\"cozyvtt\":{\"protocol\":2,\"version\":\"9.0.0\",\"refused\":\"No.\"}}\n",
        "{\"cozyvtt\":7}\n",
        "",
    ] {
        shim.ask(2, "tools/list");
        let mut peer = daemon.accept();
        assert!(peer.hear().contains(CANARY));
        peer.say(answer);
        drop(peer);
    }
    drop(daemon);
    let _ = std::fs::remove_file(stage.socket());
    shim.end();
    let (code, lines, log) = shim.exit();
    assert_eq!(code, Some(0));
    said.extend(lines);
    said.push(log);
    for flag in ["--help", "-h", "--list-toolsets", "--campaign="] {
        let output = complete(&stage).arg(flag).output().unwrap();
        said.extend([output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()));
    }
    assert!(said.len() > 8);
    for text in said {
        assert!(!text.contains(CANARY), "{text}");
    }
}

#[test]
fn a_variable_that_is_no_text_is_named_before_anything_begins() {
    let stage = Stage::new();
    let mut command = complete(&stage);
    command.env("COZYVTT_PASSWORD", OsStr::from_bytes(b"canary-5f0c\xff"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("COZYVTT_PASSWORD"), "{told}");
    assert!(!told.contains(CANARY), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
}
