//! What a file really is, whatever it is called, and what it may be used for.

use super::answer::Answer;
use crate::world::AssetKind;

/// The most bytes of a typed document.
const MOST_TYPED: usize = 900 * 1024;

/// The media type that the first bytes give away.
fn sniffed(bytes: &[u8]) -> Option<&'static str> {
    let starts = |magic: &[u8]| bytes.starts_with(magic);
    let riff = |kind: &[u8]| starts(b"RIFF") && bytes.get(8..12) == Some(kind);
    if starts(b"\x89PNG\r\n\x1a\n") {
        Some("image/png")
    } else if starts(b"\xff\xd8\xff") {
        Some("image/jpeg")
    } else if riff(b"WEBP") {
        Some("image/webp")
    } else if starts(b"GIF8") {
        Some("image/gif")
    } else if starts(b"%PDF-") {
        Some("application/pdf")
    } else if starts(b"ID3") || starts(b"\xff\xfb") {
        Some("audio/mpeg")
    } else if starts(b"OggS") {
        Some("audio/ogg")
    } else if riff(b"WAVE") {
        Some("audio/wav")
    } else {
        None
    }
}

/// The media types an asset of that kind may have.
fn allowed(kind: AssetKind, old: bool) -> &'static [&'static str] {
    match kind {
        AssetKind::Map if old => &["image/png", "image/jpeg", "image/webp", "application/pdf"],
        AssetKind::Map | AssetKind::Avatar => &["image/png", "image/jpeg", "image/webp"],
        AssetKind::Token => &["image/png", "image/jpeg", "image/webp", "image/gif"],
        AssetKind::Audio => &["audio/mpeg", "audio/ogg", "audio/wav"],
        AssetKind::Document => &["application/pdf", "text/plain", "text/markdown"],
    }
}

/// The media type of plain text, by its name's ending.
fn text_type(name: &str, bytes: &[u8]) -> Option<&'static str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (_, ending) = name.rsplit_once('.')?;
    let kind = match ending.to_ascii_lowercase().as_str() {
        "txt" => "text/plain",
        "md" => "text/markdown",
        _ => return None,
    };
    (!has_controls(text)).then_some(kind)
}

/// What the file is, if it may be an asset of that kind.
pub(super) fn media_type(
    kind: AssetKind,
    name: &str,
    bytes: &[u8],
    old: bool,
) -> Result<&'static str, Answer> {
    let text = || text_type(name, bytes).filter(|_| kind == AssetKind::Document);
    let found = sniffed(bytes).or_else(text).ok_or_else(|| {
        Answer::invalid("Could not determine file type. File may be corrupted or invalid.")
    })?;
    let allowed = allowed(kind, old);
    if !allowed.contains(&found) {
        return Err(Answer::invalid(&format!(
            "Invalid file type for {}: {found} is none of {}",
            kind.as_str(),
            allowed.join(", "),
        )));
    }
    Ok(found)
}

/// The ending a media type's files are kept under.
pub(super) fn ending(mime: &str) -> &'static str {
    match mime {
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/webp" => "webp",
        "image/gif" => "gif",
        "application/pdf" => "pdf",
        "audio/mpeg" => "mp3",
        "audio/ogg" => "ogg",
        "audio/wav" => "wav",
        "text/markdown" => "md",
        _ => "txt",
    }
}

fn has_controls(text: &str) -> bool {
    text.chars()
        .any(|c| c.is_ascii_control() && !matches!(c, '\t' | '\n' | '\x0c' | '\r'))
}

/// The content of a typed document.
pub(super) fn typed(content: &serde_json::Value) -> Result<&str, Answer> {
    let content = content
        .as_str()
        .ok_or_else(|| Answer::invalid("content must be a string"))?;
    if content.len() > MOST_TYPED {
        return Err(Answer::invalid("content can be 900 KB of text at most"));
    }
    if has_controls(content) {
        return Err(Answer::invalid("content must not hold control characters"));
    }
    Ok(content)
}
