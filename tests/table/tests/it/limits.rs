//! The request limiters.

use cozyvtt_table::{Table, Version};
use serde_json::json;

use crate::guest::{Answer, Guest};

async fn login_from(guest: &Guest, table: &Table, address: &str, right: bool) -> Answer {
    let account = table.account("player1");
    let password = if right { &account.password } else { "wrong" };
    let request = guest
        .request(reqwest::Method::POST, "/api/auth/login")
        .header("X-Forwarded-For", address)
        .json(&json!({ "email": account.email, "password": password }));
    Guest::send(request).await.unwrap()
}

#[tokio::test]
async fn release_1_1_2_counts_every_sign_in() {
    let table = Table::builder()
        .version(Version::V1_1_2)
        .start()
        .await
        .unwrap();
    let guest = Guest::stranger(&table);
    for (left, right) in [
        ("4", false),
        ("3", true),
        ("2", true),
        ("1", false),
        ("0", true),
    ] {
        let answer = login_from(&guest, &table, "127.7.0.1", right).await;
        assert_eq!(answer.status, if right { 200 } else { 401 });
        assert_eq!(answer.header("ratelimit-policy"), Some("5;w=900"));
        assert_eq!(answer.header("ratelimit-limit"), Some("5"));
        assert_eq!(answer.header("ratelimit-remaining"), Some(left));
    }
    let refused = login_from(&guest, &table, "127.7.0.1", true).await;
    assert_eq!(refused.status, 429);
    assert_eq!(
        refused.text,
        "Too many authentication attempts, please try again later"
    );
    assert_eq!(
        refused.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((890..=900).contains(&wait));
    assert_eq!(
        refused.header("ratelimit-reset"),
        refused.header("retry-after")
    );

    // Relatives share the counter, other addresses do not, resetting frees all.
    let request = guest
        .request(reqwest::Method::POST, "/api/auth/mfa/verify-login")
        .header("X-Forwarded-For", "127.7.0.1")
        .json(&json!({ "token": "1" }));
    assert_eq!(Guest::send(request).await.unwrap().status, 429);
    assert_eq!(
        login_from(&guest, &table, "127.7.0.2", true).await.status,
        200
    );
    table.faults().reset_limits();
    assert_eq!(
        login_from(&guest, &table, "127.7.0.1", true).await.status,
        200
    );
}

#[tokio::test]
async fn release_1_5_counts_wrong_passwords_only() {
    let table = Table::builder()
        .version(Version::V1_5)
        .start()
        .await
        .unwrap();
    let guest = Guest::stranger(&table);
    for _ in 0..8 {
        assert_eq!(
            login_from(&guest, &table, "127.7.0.1", true).await.status,
            200
        );
    }
    for _ in 0..5 {
        assert_eq!(
            login_from(&guest, &table, "127.7.0.1", false).await.status,
            401
        );
    }
    assert_eq!(
        login_from(&guest, &table, "127.7.0.1", true).await.status,
        429
    );
}

#[tokio::test]
async fn the_general_limit_answers_in_json_and_spares_the_health() {
    let table = Table::builder().api_limit(3).start().await.unwrap();
    let guest = Guest::stranger(&table);
    for left in ["2", "1", "0"] {
        let answer = guest.get("/api/config").await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("ratelimit-policy"), Some("3;w=60"));
        assert_eq!(answer.header("ratelimit-remaining"), Some(left));
    }
    let refused = guest.get("/api/config").await;
    assert_eq!(refused.status, 429);
    assert_eq!(
        refused.json(),
        json!({ "error": "Too Many Requests", "message": "Rate limit exceeded. Please slow down." })
    );
    assert!(refused.header("retry-after").is_some());
    assert_eq!(guest.get("/health").await.json()["status"], "healthy");
    table.faults().api_limit(300);
    assert_eq!(guest.get("/api/config").await.status, 200);
}
