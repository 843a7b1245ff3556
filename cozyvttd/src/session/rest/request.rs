//! What is asked of CozyVTT: the request, and what goes along with it.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::{Stream, stream};
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::Value;

use crate::session::features::Feature;
use crate::session::patience::{Patience, Transfer};

/// A file leaves in pieces of so many bytes.
const PIECE: usize = 64 * 1024;

/// One request.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// GET, POST, PUT or DELETE.
    pub method: Method,
    /// The path's segments under the instance's address.
    pub path: Vec<&'a str>,
    /// Query parameters.
    pub query: Vec<(&'static str, String)>,
    /// What goes along.
    pub body: Body,
    /// What is to come back.
    pub wants: Wants,
    /// What the answer to it shows of the server.
    pub proves: Option<Feature>,
}

/// What goes along with a request.
#[derive(Debug, Clone)]
pub enum Body {
    /// Nothing.
    None,
    /// A JSON object.
    Json(Value),
    /// A file with fields, as a form.
    Upload(Upload),
}

/// What is to come back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wants {
    /// A JSON object.
    Json,
    /// A file, unless it is still the one with this `ETag`.
    File(Option<String>),
}

/// A file with fields.
#[derive(Debug, Clone)]
pub struct Upload {
    /// The fields, in the order in which they are sent: before the file, since the
    /// server's error texts depend on it.
    pub fields: Vec<(&'static str, String)>,
    /// The file's name.
    pub file_name: String,
    /// Its MIME type.
    pub mime: &'static str,
    /// Its content.
    pub content: Bytes,
}

impl<'a> Request<'a> {
    fn new(method: Method, path: impl Into<Vec<&'a str>>, body: Body) -> Self {
        Self {
            method,
            path: path.into(),
            query: Vec::new(),
            body,
            wants: Wants::Json,
            proves: None,
        }
    }

    /// A read.
    pub fn get(path: impl Into<Vec<&'a str>>) -> Self {
        Self::new(Method::GET, path, Body::None)
    }

    /// A file that is fetched, unless it is still the one with this `ETag`.
    pub fn file(path: impl Into<Vec<&'a str>>, etag: Option<String>) -> Self {
        Self {
            wants: Wants::File(etag),
            ..Self::get(path)
        }
    }

    /// An addition.
    pub fn post(path: impl Into<Vec<&'a str>>, body: Value) -> Self {
        Self::new(Method::POST, path, Body::Json(body))
    }

    /// A change.
    pub fn put(path: impl Into<Vec<&'a str>>, body: Value) -> Self {
        Self::new(Method::PUT, path, Body::Json(body))
    }

    /// A removal.
    pub fn delete(path: impl Into<Vec<&'a str>>) -> Self {
        Self::new(Method::DELETE, path, Body::None)
    }

    /// A file that is sent.
    pub fn upload(path: impl Into<Vec<&'a str>>, upload: Upload) -> Self {
        Self::new(Method::POST, path, Body::Upload(upload))
    }

    /// Whether a file goes one way or the other: larger and slower than anything else.
    pub(super) fn is_file(&self) -> bool {
        matches!(self.wants, Wants::File(_)) || matches!(self.body, Body::Upload(_))
    }

    /// Adds a query parameter.
    #[must_use]
    pub fn query(mut self, key: &'static str, value: impl ToString) -> Self {
        self.query.push((key, value.to_string()));
        self
    }

    /// Says what the answer shows of the server: a success that it has `feature`,
    /// the words of a missing route that it has not.
    #[must_use]
    pub fn proves(mut self, feature: Feature) -> Self {
        self.proves = Some(feature);
        self
    }
}

/// The form of an upload.
pub(super) fn form(upload: &Upload, patience: &Patience) -> Form {
    let form = upload
        .fields
        .iter()
        .fold(Form::new(), |form, (name, value)| {
            form.text(*name, value.clone())
        });
    let size = upload.content.len() as u64;
    let content = reqwest::Body::wrap_stream(told(&upload.content, patience.clone()));
    let file = Part::stream_with_length(content, size).file_name(upload.file_name.clone());
    // A constant of ours, so this cannot fail.
    match file.mime_str(upload.mime) {
        Ok(file) => form.part("file", file),
        Err(_) => form,
    }
}

/// The content in pieces, each told when it leaves.
fn told(
    content: &Bytes,
    patience: Patience,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static {
    let content = content.clone();
    let of = Some(content.len() as u64);
    let pieces = (0..content.len()).step_by(PIECE);
    stream::iter(pieces.map(move |start| {
        let end = content.len().min(start + PIECE);
        patience.moved(Transfer {
            what: "uploading",
            done: end as u64,
            of,
        });
        Ok(content.slice(start..end))
    }))
}
