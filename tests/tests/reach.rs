//! The way to the table: TLS, paths, proxies and what they ask for.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result};
use cozyvtt_proto::control::HopState;
use cozyvtt_table::{Table, Version};
use cozyvtt_tests::asked::logins;
use cozyvtt_tests::calls::{data, hop};
use cozyvtt_tests::daemon::Home;
use cozyvtt_tests::until;
use serde_json::json;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

/// A look at the maps, and a roll that comes back.
async fn plays(home: &Home) -> Result<()> {
    let maps = data(home, "map_list", json!({})).await?;
    assert!(maps["maps"].is_array(), "{maps}");
    let roll = data(home, "dice_roll", json!({"expression": "1d20"})).await?;
    assert_eq!(roll["status"], "pending");
    Ok(())
}

#[tokio::test]
async fn a_table_below_a_path_behind_tls_is_reached_with_its_own_authority() -> Result<()> {
    for version in Version::ALL {
        let table = Table::builder()
            .version(version)
            .tls(true)
            .base_path("/games/table")
            .start()
            .await?;
        let mut home = Home::at(&table, "dm")?;
        let authority = table.ca_file().and_then(Path::to_str).context("no file")?;
        home.set("COZYVTT_CA_FILE", authority);
        let _daemon = home.start_at_table().await?;
        plays(&home).await?;
        let url = home.status().await?.url.unwrap_or_default();
        assert!(
            url.starts_with("https://") && url.ends_with("/games/table"),
            "{url}"
        );
        assert_eq!(logins(&table), 1);
    }
    Ok(())
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_named_and_costs_no_password() -> Result<()> {
    let table = Table::builder().tls(true).start().await?;
    let home = Home::at(&table, "dm")?;
    let _daemon = home.start().await?;
    let detail = until("the table is not reached", || async {
        let status = home.status().await.ok()?;
        let rest = hop(&status, "rest").ok()?;
        (rest.state == HopState::Broken).then(|| rest.detail.clone())
    })
    .await;
    assert!(
        detail.contains("certificate") && detail.contains("ca_file"),
        "{detail}"
    );
    assert_eq!(logins(&table), 0);
    Ok(())
}

#[tokio::test]
async fn an_authority_that_cannot_be_read_is_a_matter_of_the_configuration() -> Result<()> {
    let table = Table::builder().tls(true).start().await?;
    let mut home = Home::at(&table, "dm")?;
    home.set("COZYVTT_CA_FILE", "/nowhere/ca.pem");
    let _daemon = home.start().await?;
    let envelope = home.call("map_list", json!({})).await?.envelope;
    let error = envelope["error"].as_str().unwrap_or_default();
    assert!(
        error.contains("ca_file /nowhere/ca.pem") && error.contains("mend the configuration"),
        "{error}"
    );
    Ok(())
}

#[tokio::test]
async fn the_fields_of_an_access_proxy_go_along_with_everything_and_are_never_shown() -> Result<()>
{
    let table = Table::builder().start().await?;
    let mut home = Home::at(&table, "dm")?;
    home.configure("[extra_headers]\nX-Access-Secret = 'canary-7f3'\nX-Access-Id = 'door'\n")?;
    home.set("COZYVTT_LOG", "trace");
    let _daemon = home.start_at_table().await?;
    plays(&home).await?;
    let requests = table.log().requests();
    assert!(requests.len() >= 4, "{}", requests.len());
    for request in &requests {
        let fields = (
            request.header("x-access-secret"),
            request.header("x-access-id"),
        );
        assert_eq!(
            fields,
            (Some("canary-7f3"), Some("door")),
            "{}",
            request.path
        );
    }
    assert!(
        requests
            .iter()
            .any(|request| request.path.starts_with("/socket.io"))
    );
    let shown = serde_json::to_string(&home.status().await?)?;
    for text in [home.log(), shown] {
        assert!(!text.contains("canary-7f3"), "{text}");
    }
    Ok(())
}

#[tokio::test]
async fn fields_that_would_break_a_request_are_refused_by_name() -> Result<()> {
    let table = Table::builder().start().await?;
    let home = Home::at(&table, "dm")?;
    home.configure("[extra_headers]\nCookie = 'canary-7f3'\n")?;
    let _daemon = home.start().await?;
    let envelope = home.call("map_list", json!({})).await?.envelope;
    let error = envelope["error"].as_str().unwrap_or_default();
    assert!(
        error.contains("Cookie") && !error.contains("canary"),
        "{error}"
    );
    assert!(table.log().requests().is_empty());
    Ok(())
}

/// A proxy that carries whatever it gets to the table; gives its address and how
/// many connections it has carried.
async fn proxy(port: u16) -> Result<(String, Arc<AtomicUsize>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}", listener.local_addr()?);
    let carried = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&carried);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                if let Ok(mut table) = TcpStream::connect(("127.0.0.1", port)).await {
                    let _ = copy_bidirectional(&mut client, &mut table).await;
                }
            });
        }
    });
    Ok((address, carried))
}

#[tokio::test]
async fn a_proxy_of_the_environment_carries_rest_and_the_live_link() -> Result<()> {
    let table = Table::builder().start().await?;
    let (address, carried) = proxy(table.port()).await?;
    let mut home = Home::at(&table, "dm")?;
    // A name that nobody but the proxy could resolve.
    home.set("COZYVTT_URL", "http://table.invalid");
    home.set("HTTP_PROXY", &address);
    let _daemon = home.start_at_table().await?;
    plays(&home).await?;
    assert!(carried.load(Ordering::SeqCst) >= 2);
    Ok(())
}

#[tokio::test]
async fn a_table_on_this_machine_is_reached_past_the_proxy() -> Result<()> {
    let table = Table::builder().start().await?;
    let (address, carried) = proxy(table.port()).await?;
    let mut home = Home::at(&table, "dm")?;
    home.set("HTTP_PROXY", &address);
    let _daemon = home.start_at_table().await?;
    plays(&home).await?;
    assert_eq!(carried.load(Ordering::SeqCst), 0);
    Ok(())
}
