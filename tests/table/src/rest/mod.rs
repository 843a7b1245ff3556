//! The HTTP routes.

mod answer;
mod assets;
mod auth;
mod campaigns;
mod character_life;
mod characters;
mod creatures;
mod documents;
mod fields;
mod file_kinds;
mod files;
mod front;
mod gate;
mod lead;
mod macros;
mod maps;
mod messages;
mod mfa;
mod multipart;
mod sessions;
mod shares;
mod sheet_rules;
mod sheet_shapes;
mod spoil;
mod stat_block;
mod token_moves;
mod token_rules;
mod tokens;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{delete, get, post, put};

use crate::hub::Hub;
use crate::version::Version;

pub(crate) use front::live_session;
pub(crate) use gate::Request;
pub(crate) use token_rules::fit;

/// The plain text of the sign-in limiter.
pub(crate) const TOO_MANY_LOGINS: &str = "Too many authentication attempts, please try again later";

/// All routes of the table, below its base path. `sockets` is put behind the
/// same front door, so that handshakes are logged and limited like the rest.
pub(crate) fn router(hub: &Arc<Hub>, sockets: socketioxide::layer::SocketIoLayer) -> Router {
    let mut campaign = Router::new()
        .route("/", get(campaigns::get))
        .route("/characters", get(campaigns::roster))
        .route("/members/{user}", delete(campaigns::remove_member))
        .route("/members/{user}/role", put(campaigns::set_role))
        .route("/creatures", get(creatures::list))
        .route("/creatures/seed/status", get(creatures::seed_status))
        .route("/creatures/{creature}", get(creatures::get))
        .route("/messages", get(messages::list))
        .route("/resume", put(sessions::resume))
        .route("/sessions/{session}/pause", put(sessions::pause))
        .route("/sessions/{session}/end", put(sessions::end))
        .route("/maps", get(maps::list).post(maps::create))
        .route("/maps/{map}", get(maps::get).delete(maps::delete))
        .route("/maps/{map}/set-current", put(maps::set_current))
        .route("/maps/{map}/tokens", post(tokens::add))
        .route(
            "/maps/{map}/tokens/{token}",
            put(tokens::update).delete(tokens::delete),
        );
    campaign = if hub.version().is_old() {
        campaign.route("/sessions", post(sessions::start))
    } else {
        campaign
            .route("/sessions", get(sessions::list).post(sessions::start))
            .route("/sessions/{session}/notes", put(sessions::set_notes))
            .route("/dice-rolls", get(messages::dice_rolls))
            .route("/maps/{map}/tokens/move", post(token_moves::across))
            .route("/dm", put(lead::transfer))
            .route("/documents", get(shares::list).post(shares::share))
            .route("/documents/{asset}", delete(shares::unshare))
            .route("/macros", get(macros::list).post(macros::create))
            .route(
                "/macros/{macro}",
                get(macros::get).put(macros::update).delete(macros::delete),
            )
    };
    let routes = Router::new()
        .route("/health", get(auth::health))
        .route("/api/config", get(auth::config))
        .route("/api/auth/login", post(auth::login))
        .route("/api/auth/mfa/verify-login", post(mfa::verify_login))
        .route("/api/auth/logout", post(auth::logout))
        .route("/api/auth/me", get(auth::me))
        .route("/api/auth/ping", get(auth::ping))
        .route(
            "/api/auth/registration-status",
            get(auth::registration_status),
        )
        .route("/api/auth/appearance", get(auth::appearance))
        .route("/api/auth/change-password", post(auth::change_password))
        .route("/api/campaigns", get(campaigns::list))
        .nest("/api/campaigns/{campaign}", campaign)
        .nest("/api/characters", characters())
        .nest("/api/assets", files(hub.version()))
        .fallback(front::unknown)
        .method_not_allowed_fallback(front::unknown)
        .with_state(hub.clone())
        .layer(sockets)
        .layer(from_fn_with_state(hub.clone(), front::door));
    if hub.options.base_path.is_empty() {
        routes
    } else {
        Router::new()
            .nest(&hub.options.base_path, routes)
            .fallback(front::unknown)
    }
}

/// The routes below `/api/characters`.
fn characters() -> Router<Arc<Hub>> {
    Router::new()
        .route("/", get(characters::list).post(character_life::create))
        .route(
            "/{character}",
            get(characters::get)
                .put(characters::update)
                .delete(character_life::delete),
        )
        .route("/{character}/assign", post(character_life::assign))
        .route("/{character}/copy", post(character_life::copy))
        .route("/{character}/validate", get(character_life::validate))
}

/// The routes below `/api/assets`.
fn files(version: Version) -> Router<Arc<Hub>> {
    let routes = Router::new()
        .route("/", get(assets::list))
        .route("/upload", post(assets::upload))
        .route("/{id}", get(assets::get).delete(assets::delete))
        .route("/{id}/download", get(files::download))
        // `/maps/{file}` and its like; with any other folder it is no route.
        .route("/{id}/{file}", get(files::picture));
    if version.is_old() {
        return routes;
    }
    routes
        .route("/documents", post(documents::create))
        .route("/documents/{id}", get(documents::read))
        .route("/documents/{id}/content", put(documents::rewrite))
}
