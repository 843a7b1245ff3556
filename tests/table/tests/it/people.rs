//! Signing in and out, and what a session is worth.

use std::time::Duration;

use cozyvtt_table::{Person, Scene, Version};
use serde_json::json;

use crate::guest::{Guest, table};

#[tokio::test]
async fn a_sign_in_gives_a_cookie_that_every_answer_renews() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let guest = Guest::signed_in(&table, "dm").await;
        let answer = guest.get("/api/auth/ping").await;
        assert_eq!(answer.json(), json!({ "ok": true }));
        let cookie = answer.header("set-cookie").unwrap();
        assert!(cookie.starts_with(guest.cookie.as_deref().unwrap()));
        assert!(cookie.starts_with("cozyvtt.sid=s%3A"));
        assert!(cookie.ends_with(" GMT; HttpOnly; SameSite=Lax"), "{cookie}");
        let me = guest.get("/api/auth/me").await.json();
        assert_eq!(me["user"]["displayName"], "Isolde Marrow");
        assert!(me["user"]["lastLoginAt"].is_string());
    }
}

#[tokio::test]
async fn behind_an_https_proxy_the_cookie_is_secure() {
    let table = table(Version::V1_1_2).start().await.unwrap();
    let guest = Guest::signed_in(&table, "dm").await;
    let request = guest
        .request(reqwest::Method::GET, "/api/auth/ping")
        .header("X-Forwarded-Proto", "https");
    let answer = Guest::send(request).await.unwrap();
    let cookie = answer.header("set-cookie").unwrap();
    assert!(
        cookie.ends_with("; HttpOnly; Secure; SameSite=Lax"),
        "{cookie}"
    );
}

#[tokio::test]
async fn a_second_sign_in_keeps_the_id_in_1_1_2_and_changes_it_in_1_5() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let mut guest = Guest::signed_in(&table, "dm").await;
        let first = guest.cookie.clone();
        guest.login(&table, "dm").await;
        let old = version == Version::V1_1_2;
        assert_eq!(guest.cookie == first, old);
        assert_eq!(table.sessions(), 1);
        let mut before = Guest::stranger(&table);
        before.cookie = first;
        let status = before.get("/api/auth/me").await.status;
        assert_eq!(status, if old { 200 } else { 401 });
    }
}

#[tokio::test]
async fn wrong_passwords_and_odd_bodies_are_refused_in_the_known_words() {
    let table = table(Version::V1_1_2).start().await.unwrap();
    let mut guest = Guest::stranger(&table);
    let email = &table.account("dm").email;
    for (body, status, error, message) in [
        (
            json!({ "email": email, "password": "wrong" }),
            401,
            "Authentication Failed",
            "Invalid email or password",
        ),
        (
            json!({ "email": email }),
            400,
            "Validation Error",
            "Email and password are required",
        ),
        (
            json!({ "email": 5, "password": "x" }),
            400,
            "Login Failed",
            "input.email.toLowerCase is not a function",
        ),
    ] {
        let answer = guest.login_with(&body).await;
        assert_eq!(answer.status, status);
        assert_eq!(answer.json(), json!({ "error": error, "message": message }));
        assert!(guest.cookie.is_none());
    }
    let body = json!({ "email": email.to_uppercase(), "password": table.account("dm").password });
    assert_eq!(guest.login_with(&body).await.status, 200);
}

#[tokio::test]
async fn signing_out_clears_the_cookie_and_ends_the_session() {
    let table = table(Version::V1_1_2).start().await.unwrap();
    let guest = Guest::signed_in(&table, "dm").await;
    let answer = guest.post("/api/auth/logout", &json!({})).await;
    assert_eq!(
        answer.header("set-cookie"),
        Some("cozyvtt.sid=; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT")
    );
    let after = guest.get("/api/auth/me").await;
    assert_eq!(after.status, 401);
    assert!(after.header("set-cookie").is_none());
}

#[tokio::test]
async fn a_session_that_is_not_used_runs_out_unless_it_is_to_be_remembered() {
    let table = table(Version::V1_5)
        .session_age(Duration::ZERO)
        .start()
        .await
        .unwrap();
    let mut guest = Guest::signed_in(&table, "dm").await;
    assert_eq!(guest.get("/api/auth/ping").await.status, 401);
    let account = table.account("dm");
    let body = json!({
        "email": account.email, "password": account.password, "rememberMe": true,
    });
    guest.login_with(&body).await;
    assert_eq!(guest.get("/api/auth/ping").await.status, 200);
}

#[tokio::test]
async fn the_second_step_opens_the_half_open_session() {
    for version in Version::ALL {
        let scene =
            Scene::default().person(Person::new("warden", "Odo Grey").mfa("271828", &["QUILL-7"]));
        let table = table(version).scene(scene).start().await.unwrap();
        let mut guest = Guest::stranger(&table);
        let answer = guest.login(&table, "warden").await;
        assert_eq!(
            (answer.status, answer.json()["mfaRequired"] == true),
            (200, true)
        );
        assert_eq!(
            guest.get("/api/campaigns").await.message(),
            "MFA verification required. Please complete MFA login."
        );
        let verify = "/api/auth/mfa/verify-login";
        let wrong = guest.post(verify, &json!({ "token": "000000" })).await;
        assert_eq!(
            (wrong.status, wrong.json()["error"] == "Invalid Code"),
            (401, true)
        );
        assert_eq!(guest.post(verify, &json!({})).await.status, 400);
        let right = guest
            .post(verify, &json!({ "backupCode": "QUILL-7" }))
            .await;
        assert_eq!(right.status, 200);
        assert_eq!(right.json()["remainingBackupCodes"], 0);
        let cookie = right
            .header("set-cookie")
            .unwrap()
            .split(';')
            .next()
            .unwrap();
        let kept = guest.cookie.as_deref() == Some(cookie);
        assert_eq!(kept, version == Version::V1_1_2);
        guest.cookie = Some(cookie.to_owned());
        assert_eq!(guest.get("/api/auth/me").await.status, 200);
    }
}

#[tokio::test]
async fn a_forced_change_of_password_bars_everything_else() {
    let scene =
        Scene::default().person(Person::new("novice", "Pell Underhill").must_change_password());
    let table = table(Version::V1_5).scene(scene).start().await.unwrap();
    let mut guest = Guest::stranger(&table);
    let answer = guest.login(&table, "novice").await;
    assert_eq!(answer.json()["mustChangePassword"], true);
    let barred = guest.get("/api/campaigns").await;
    assert_eq!(barred.status, 403);
    assert_eq!(barred.json()["code"], "PASSWORD_CHANGE_REQUIRED");
    assert_eq!(guest.get("/api/auth/me").await.status, 200);
    assert_eq!(guest.get("/api/config").await.status, 200);
    let mut peer = guest.socket().await;
    peer.send("40").await;
    assert_eq!(peer.error().await, "Unauthorized");

    let body = json!({
        "currentPassword": table.account("novice").password, "newPassword": "Brighter-Lantern-3",
    });
    assert_eq!(
        guest.post("/api/auth/change-password", &body).await.status,
        200
    );
    assert_eq!(guest.get("/api/campaigns").await.status, 200);
}

#[tokio::test]
async fn cross_site_requests_are_refused_since_1_5() {
    for version in Version::ALL {
        let table = table(version).start().await.unwrap();
        let guest = Guest::signed_in(&table, "dm").await;
        let request = guest
            .request(reqwest::Method::POST, "/api/auth/logout")
            .header("Sec-Fetch-Site", "cross-site");
        let answer = Guest::send(request).await.unwrap();
        let old = version == Version::V1_1_2;
        assert_eq!(answer.status, if old { 200 } else { 403 });
    }
}
