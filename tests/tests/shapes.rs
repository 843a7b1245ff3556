//! The practice table answers in the shapes of a CozyVTT: the same keys, values
//! of the same types, as in the fixtures, whose data is our own.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use cozyvtt_table::{Person, Scene, Table, Version};
use cozyvtt_tests::calls::{data, event};
use cozyvtt_tests::daemon::Home;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Reads a fixture. Its keys that only release 1.5 has are taken out for 1.1.2.
macro_rules! fixture {
    ($name:literal, $version:expr) => {{
        let text = include_str!(concat!("../fixtures/", $name, ".json"));
        for_release(serde_json::from_str(text)?, $version)
    }};
}

/// Keys that a server has since 1.2.1, 1.2.2 or 1.5.0.
const NEWER: [&str; 5] = [
    "templateEditor",
    "rollHistoryClearedAt",
    "fogEnabled",
    "globalIllumination",
    "explorationEnabled",
];

fn for_release(fixture: Value, version: Version) -> Value {
    match fixture {
        _ if version != Version::V1_1_2 => fixture,
        Value::Object(object) => object
            .into_iter()
            .filter(|(key, _)| !NEWER.contains(&key.as_str()))
            .map(|(key, value)| (key, for_release(value, version)))
            .collect(),
        Value::Array(list) => {
            let list = list.into_iter();
            list.map(|value| for_release(value, version)).collect()
        }
        other => other,
    }
}

/// What differs between a value and a sample of its shape. Null takes null
/// only; each entry of a list has to be like one of the sample's.
fn differences(at: &str, sample: &Value, value: &Value) -> Vec<String> {
    match (sample, value) {
        (Value::Object(sample), Value::Object(value)) => {
            let keys: BTreeSet<&String> = sample.keys().chain(value.keys()).collect();
            keys.into_iter()
                .flat_map(|key| {
                    let at = format!("{at}.{key}");
                    match (sample.get(key), value.get(key)) {
                        (Some(sample), Some(value)) => differences(&at, sample, value),
                        (Some(_), None) => vec![format!("{at} is missing")],
                        _ => vec![format!("{at} is too much")],
                    }
                })
                .collect()
        }
        (Value::Array(samples), Value::Array(values)) => {
            if samples.is_empty() != values.is_empty() {
                return vec![format!("{at} has {} entries", values.len())];
            }
            let entries = values.iter().enumerate();
            entries
                .filter_map(|(number, value)| {
                    let at = format!("{at}[{number}]");
                    let all = samples.iter().map(|one| differences(&at, one, value));
                    all.min_by_key(Vec::len)
                })
                .flatten()
                .collect()
        }
        _ if std::mem::discriminant(sample) == std::mem::discriminant(value) => Vec::new(),
        _ => vec![format!("{at} is {value}, not like {sample}")],
    }
}

#[track_caller]
fn assert_shape(what: &str, sample: &Value, value: &Value) {
    let differences = differences(what, sample, value);
    assert!(differences.is_empty(), "{differences:#?}");
}

#[test]
fn a_shape_that_differs_is_noticed() {
    let sample = json!({"a": [{"b": 1}, {"b": null}], "c": "text", "d": []});
    for (value, wrong) in [
        (json!({"a": [{"b": 2}], "c": "x", "d": []}), 0),
        (json!({"a": [{"b": null}, {"b": 7}], "c": "", "d": []}), 0),
        (json!({"a": [{"b": "2"}], "c": 5, "d": []}), 2),
        (json!({"a": [], "c": "x", "d": [1]}), 2),
        (json!({"a": [{"b": 1, "e": 1}], "c": "x"}), 2),
        (json!([]), 1),
    ] {
        let found = differences("it", &sample, &value);
        assert_eq!(found.len(), wrong, "{value}: {found:?}");
    }
}

/// An answer of the table.
struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    text: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.text).with_context(|| self.text.clone())
    }

    /// The session's cookie, as a request carries it.
    fn cookie(&self) -> Result<String> {
        let set = self.header("set-cookie").context("no cookie")?;
        Ok(set.split(';').next().unwrap_or_default().to_owned())
    }
}

/// One HTTP request by hand: there is no client's idea of HTTP in between.
async fn ask(table: &Table, request: &str, cookie: &str, body: &Value) -> Result<Answer> {
    let (method, path) = request.split_once(' ').context("no path")?;
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let mut stream = TcpStream::connect(("127.0.0.1", table.port())).await?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nCookie: {cookie}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, text) = answer.split_once("\r\n\r\n").context("no head")?;
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1));
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let answer = Answer {
        status: status.context("no status")?.parse()?,
        headers,
        text: text.to_owned(),
    };
    ensure!(answer.header("transfer-encoding").is_none(), "in pieces");
    Ok(answer)
}

async fn get(table: &Table, path: &str, cookie: &str) -> Result<Answer> {
    ask(table, &format!("GET {path}"), cookie, &Value::Null).await
}

async fn login(table: &Table, account: &str) -> Result<Answer> {
    let account = table.account(account);
    let body = json!({"email": account.email, "password": account.password, "rememberMe": true});
    ask(table, "POST /api/auth/login", "", &body).await
}

/// A fixture with a status, a body, and maybe header fields.
#[track_caller]
fn assert_answer(what: &str, fixture: &Value, answer: &Answer) -> Result<()> {
    assert_eq!(fixture["status"], answer.status, "{what}: {}", answer.text);
    for (name, value) in fixture["headers"].as_object().into_iter().flatten() {
        assert_eq!(answer.header(name), value.as_str(), "{what}: {name}");
    }
    for name in fixture["seconds"].as_array().into_iter().flatten() {
        let name = name.as_str().unwrap_or_default();
        let seconds = answer.header(name).context("missing")?;
        assert!(seconds.parse::<u64>()? > 0, "{what}: {name}");
    }
    match fixture["body_text"].as_str() {
        Some(text) => assert_eq!(answer.text, text, "{what}"),
        None => assert_shape(what, &fixture["body"], &answer.json()?),
    }
    // Clients go by these words, so they are the server's to the letter.
    for key in ["error", "code"] {
        if let Some(word) = fixture["body"].get(key) {
            assert_eq!(answer.json()?[key], *word, "{what}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn signing_in_is_answered_as_cozyvtt_answers_it() -> Result<()> {
    let scene = Scene::default()
        .person(Person::new("careful", "Careful").mfa("246810", &["BACKUP01"]))
        .person(Person::new("new", "New").must_change_password());
    for version in Version::ALL {
        let auth = fixture!("auth", version);
        let table = Table::builder()
            .version(version)
            .scene(scene.clone())
            .login_limit(100)
            .start()
            .await?;
        let ok = login(&table, "dm").await?;
        assert_answer("login_ok", &auth["login_ok"], &ok)?;
        let again = login(&table, "dm").await?;
        assert_answer("login_again", &auth["login_again"], &again)?;
        let flags = |cookie: &str| -> Vec<String> {
            let mut parts = cookie.split("; ").map(|part| {
                let (name, value) = part.split_once('=').unwrap_or((part, ""));
                // Neither the session's id nor its end is the same twice.
                let varies = matches!(name, "cozyvtt.sid" | "Expires");
                format!("{name}={}", if varies { "" } else { value })
            });
            let mut flags: Vec<_> = parts.by_ref().collect();
            flags.sort();
            flags
        };
        let expected = auth["login_ok"]["set_cookie"]
            .as_str()
            .context("no cookie")?;
        let cookie = ok.header("set-cookie").context("no cookie")?;
        assert_eq!(flags(cookie), flags(expected), "{version}");
        assert!(cookie.starts_with("cozyvtt.sid=s%3A"), "{cookie}");

        let ping = get(&table, "/api/auth/ping", &ok.cookie()?).await?;
        assert_answer("ping", &auth["ping"], &ping)?;
        assert!(ping.header("set-cookie").is_some(), "cookies roll");
        assert_answer(
            "health",
            &auth["health"],
            &get(&table, "/health", "").await?,
        )?;
        let stranger = get(&table, "/api/campaigns", "").await?;
        assert_answer("not_signed_in", &auth["not_signed_in"], &stranger)?;
        let wrong = json!({"email": table.account("dm").email, "password": "wrong"});
        let wrong = ask(&table, "POST /api/auth/login", "", &wrong).await?;
        assert_answer("wrong_password", &auth["wrong_password"], &wrong)?;

        let half = login(&table, "careful").await?;
        assert_answer("mfa_required", &auth["mfa_required"], &half)?;
        let verify = "POST /api/auth/mfa/verify-login";
        let code = json!({"token": "000000"});
        let refused = ask(&table, verify, &half.cookie()?, &code).await?;
        assert_answer("mfa_wrong_code", &auth["mfa_wrong_code"], &refused)?;

        let flagged = login(&table, "new").await?;
        assert_eq!(flagged.json()?["mustChangePassword"], true);
        let gated = get(&table, "/api/campaigns", &flagged.cookie()?).await?;
        let sample = &auth["password_change_required"];
        assert_answer("password_change_required", sample, &gated)?;
    }
    Ok(())
}

#[tokio::test]
async fn too_many_requests_are_refused_as_cozyvtt_refuses_them() -> Result<()> {
    for version in Version::ALL {
        let auth = fixture!("auth", version);
        let table = Table::builder().version(version).start().await?;
        let wrong = json!({"email": "nobody@table.example", "password": "wrong"});
        for _ in 0..5 {
            let answer = ask(&table, "POST /api/auth/login", "", &wrong).await?;
            assert_eq!(answer.status, 401, "{version}");
        }
        let sixth = ask(&table, "POST /api/auth/login", "", &wrong).await?;
        assert_answer("login", &auth["login_rate_limited"], &sixth)?;

        let table = Table::builder()
            .version(version)
            .api_limit(3)
            .start()
            .await?;
        for _ in 0..3 {
            assert_eq!(
                get(&table, "/api/config", "").await?.status,
                200,
                "{version}"
            );
        }
        let fourth = get(&table, "/api/config", "").await?;
        assert_answer("api", &auth["api_rate_limited"], &fourth)?;
        assert_eq!(
            get(&table, "/health", "").await?.status,
            200,
            "not under /api"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_campaign_its_maps_and_its_chat_have_the_shapes_of_cozyvtts() -> Result<()> {
    for version in Version::ALL {
        let table = Table::builder().version(version).start().await?;
        let cookie = login(&table, "dm").await?.cookie()?;
        let campaign = format!("/api/campaigns/{}", table.campaign_id());
        let answer = get(&table, &campaign, &cookie).await?;
        assert_answer("campaign", &fixture!("campaign_get", version), &answer)?;
        let answer = get(&table, &format!("{campaign}/maps"), &cookie).await?;
        assert_answer("maps", &fixture!("maps_list", version), &answer)?;

        let page = fixture!("messages_page", version);
        let messages = format!("{campaign}/messages?limit=2");
        let first = get(&table, &messages, &cookie).await?;
        if version == Version::V1_1_2 {
            assert_answer("messages", &page["offset_form"], &first)?;
            continue;
        }
        assert_answer("messages", &page["cursor_form"], &first)?;
        let body = first.json()?;
        let cursor = body["pagination"]["nextCursor"]
            .as_str()
            .context("no cursor")?;
        let last = get(&table, &format!("{messages}&cursor={cursor}"), &cookie).await?;
        assert_answer("last page", &page["cursor_last_page"], &last)?;
        let bad = get(&table, &format!("{messages}&cursor=mine"), &cookie).await?;
        assert_answer("bad cursor", &page["bad_cursor"], &bad)?;
        assert_eq!(bad.json()?, page["bad_cursor"]["body"]);
    }
    Ok(())
}

/// As the daemon journals them, which is verbatim.
#[tokio::test]
async fn rolls_and_the_idle_order_of_combat_have_the_shapes_of_cozyvtts() -> Result<()> {
    for version in Version::ALL {
        let mut rolls = fixture!("ws_dice_rolled", version);
        if version == Version::V1_1_2 {
            let samples = rolls.as_object_mut().into_iter().flatten();
            for (_, sample) in samples {
                let payload = sample.get_mut("payload").and_then(Value::as_object_mut);
                payload.and_then(|payload| payload.remove("id"));
            }
        }
        let idle = fixture!("ws_initiative_state", version);
        let table = Table::builder().version(version).start().await?;
        let (dm, player) = (Home::at(&table, "dm")?, Home::at(&table, "player1")?);
        let _daemons = (dm.start_at_table().await?, player.start_at_table().await?);
        let state = event(&dm, 0, "initiative.state").await;
        assert_eq!(state["payload"], idle["idle"]["payload"], "{version}");
        let expression = "4d6kh3+1d4-2";
        for (sample, arguments) in [
            (
                "public",
                json!({"expression": expression, "purpose": "p", "character_name": "c"}),
            ),
            ("public_bare", json!({"expression": expression})),
            (
                "secret_to_roller",
                json!({"expression": expression, "is_secret": true}),
            ),
        ] {
            let receipt = data(&player, "dice_roll", arguments).await?;
            let since = receipt["since"].as_u64().context("no since")?;
            let roll = event(&player, since, "dice.rolled").await;
            assert_shape(sample, &rolls[sample]["payload"], &roll["payload"]);
        }
        let audit = event(&dm, 0, "dice.rolled.secret").await;
        assert_shape(
            "audit",
            &rolls["secret_to_dm"]["payload"],
            &audit["payload"],
        );
        assert_eq!(audit["payload"]["isAuditView"], true);
    }
    Ok(())
}
