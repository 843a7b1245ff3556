//! Reading `multipart/form-data`: text fields and one file.

use axum::body::Bytes;

/// The name of the field that carries the file.
const FILE_FIELD: &str = "file";
/// 1.5 takes no more fields than this, and no longer names.
const MOST_FIELDS: usize = 100;
const LONGEST_NAME: usize = 100;

/// A form as it came.
#[derive(Debug, Default)]
pub(super) struct Form {
    fields: Vec<(String, String)>,
    pub(super) file: Option<File>,
}

/// The file of a form.
#[derive(Debug)]
pub(super) struct File {
    pub(super) name: String,
    pub(super) bytes: Bytes,
}

impl Form {
    /// A text field; none when it is missing or empty.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// Whether 1.5 finds the form too large in fields.
    pub(super) fn overflows(&self) -> bool {
        self.fields.len() > MOST_FIELDS
            || self
                .fields
                .iter()
                .any(|(name, _)| name.len() > LONGEST_NAME)
    }
}

/// Reads a body of that content type; none when it is no form.
pub(super) fn read(content_type: &str, body: &Bytes) -> Option<Form> {
    let boundary = parameter(content_type, "boundary")?;
    if !content_type.starts_with("multipart/form-data") || boundary.is_empty() {
        return None;
    }
    let marker = format!("--{boundary}").into_bytes();
    let mut form = Form::default();
    let mut at = find(body, &marker, 0)? + marker.len();
    loop {
        if body.get(at..at + 2)? == b"--" {
            return Some(form);
        }
        let head_end = find(body, b"\r\n\r\n", at)?;
        let head = String::from_utf8_lossy(&body[at..head_end]).into_owned();
        let start = head_end + 4;
        let end = find(body, &marker, start)?;
        // The line break before the boundary belongs to the boundary.
        let content = body.slice(start..end.checked_sub(2).filter(|end| *end >= start)?);
        at = end + marker.len();
        let Some(line) = head
            .lines()
            .find(|line| line.to_ascii_lowercase().starts_with("content-disposition"))
        else {
            continue;
        };
        let name = parameter(line, "name").unwrap_or_default();
        let file_name = parameter(line, "filename*")
            .and_then(|text| Some(decoded(text.split("''").nth(1)?)))
            .or_else(|| parameter(line, "filename"));
        match file_name {
            Some(file) if name == FILE_FIELD => {
                form.file = Some(File {
                    name: file,
                    bytes: content,
                });
            }
            Some(_) => {}
            None => {
                let text = String::from_utf8_lossy(&content).into_owned();
                form.fields.push((name, text));
            }
        }
    }
}

/// The value of `name=value` behind a semicolon, without its quotes.
fn parameter(line: &str, name: &str) -> Option<String> {
    line.split(';').skip(1).find_map(|part| {
        let (key, value) = part.trim().split_once('=')?;
        (key == name).then(|| value.trim_matches('"').to_owned())
    })
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = after
            .get(..2)
            .filter(|_| first == b'%')
            .and_then(|pair| std::str::from_utf8(pair).ok())
            .and_then(|pair| u8::from_str_radix(pair, 16).ok());
        if let Some(byte) = hex {
            bytes.push(byte);
            rest = &after[2..];
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Where `needle` begins in `body`, from `from` on.
fn find(body: &[u8], needle: &[u8], from: usize) -> Option<usize> {
    let first = *needle.first()?;
    let mut at = from;
    loop {
        at += body.get(at..)?.iter().position(|byte| *byte == first)?;
        if body[at..].starts_with(needle) {
            return Some(at);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_taken_apart_to_the_byte() {
        let body = Bytes::from_static(
            b"--x1\r\nContent-Disposition: form-data; name=\"type\"\r\n\r\nMAP\r\n\
              --x1\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a b.txt\"\r\n\
              Content-Type: text/plain\r\n\r\nline\r\n\r\n--x\r\n\r\n--x1--\r\n",
        );
        let form = read("multipart/form-data; boundary=x1", &body).unwrap_or_default();
        assert_eq!(form.field("type"), Some("MAP"));
        assert_eq!(form.field("scope"), None);
        let file = form.file.as_ref();
        assert_eq!(file.map(|file| file.name.as_str()), Some("a b.txt"));
        assert_eq!(
            file.map(|file| &file.bytes[..]),
            Some(&b"line\r\n\r\n--x\r\n"[..])
        );
        assert!(!form.overflows());
        assert!(read("application/json", &body).is_none());
        assert!(read("multipart/form-data; boundary=x1", &body.slice(..90)).is_none());
    }

    #[test]
    fn an_encoded_file_name_is_decoded() {
        assert_eq!(decoded("caf%C3%A9%.md"), "café%.md");
    }
}
