//! Files of this machine: which may be read for an upload, and where fetched
//! documents are kept.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use rustix::fs::{Mode, OFlags};
use thiserror::Error;

use crate::lock::lock;
use crate::private;

/// Largest file that is read for an upload, in bytes: above CozyVTT's own limit.
const MAX_UPLOAD: u64 = 64 * 1024 * 1024;

/// How long fetched documents are kept.
const KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 3600);

/// How much of them is kept, in bytes; the oldest go first.
const KEPT_BYTES: u64 = 512 * 1024 * 1024;

/// How the names of half-written documents begin.
const PARTIAL: &str = ".part-";

/// What a file has to end in, and what it is then.
const DOCUMENTS: [(&str, &str); 3] = [
    ("pdf", "application/pdf"),
    ("txt", "text/plain"),
    ("md", "text/markdown"),
];

/// Why a file cannot be used.
#[derive(Debug, Error)]
pub enum FileError {
    /// There is no such file, or it is of no kind that is taken.
    #[error("file_path must reference an existing PDF/txt/md file")]
    NoDocument,
    /// It lies outside of what may be read.
    #[error(
        "file_path must lie in a folder that cozyvttd may read, and not in a hidden one: {}; \
         read_folders in the configuration allows others",
        allowed.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ")
    )]
    NotAllowed {
        /// The folders.
        allowed: Vec<PathBuf>,
    },
    /// It is too large.
    #[error("file_path must be at most {MAX_UPLOAD} bytes")]
    TooLarge,
    /// The folder of the fetched documents is a link.
    #[error("downloads must not be a symlink directory")]
    LinkedFolder,
    /// The system refused.
    #[error("the file cannot be used: {0}")]
    System(String),
}

impl From<std::io::Error> for FileError {
    fn from(error: std::io::Error) -> Self {
        Self::System(error.to_string())
    }
}

/// A file that was read for an upload.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) name: String,
    pub(super) mime: &'static str,
    pub(super) content: Vec<u8>,
}

/// The folders that may be read, hidden ones in them aside. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct ReadFolders(Arc<Mutex<Vec<PathBuf>>>);

impl ReadFolders {
    /// These.
    pub fn new(folders: Vec<PathBuf>) -> Self {
        Self(Arc::new(Mutex::new(folders)))
    }

    /// These from now on.
    pub fn replace(&self, folders: Vec<PathBuf>) {
        *lock(&self.0) = folders;
    }

    fn now(&self) -> Vec<PathBuf> {
        lock(&self.0).clone()
    }
}

/// Which files may be read and where fetched ones go.
#[derive(Debug, Clone)]
pub struct Files {
    /// The folders that may be read.
    readable: ReadFolders,
    /// The folder of the fetched documents.
    downloads: PathBuf,
    home: Option<PathBuf>,
}

impl Files {
    /// Files below `readable` may be read; fetched ones go to `downloads`.
    pub fn new(readable: ReadFolders, downloads: PathBuf, home: Option<PathBuf>) -> Self {
        Self {
            readable,
            downloads,
            home,
        }
    }

    /// Reads a document. `cwd` is where the caller's relative paths begin; whether
    /// it may be read is the person's word, not the caller's.
    pub(super) fn read(&self, path: &str, cwd: Option<&Path>) -> Result<Document, FileError> {
        let path = self.expand(path, cwd)?;
        let mime = kind(&path).ok_or(FileError::NoDocument)?;
        // Taken hold of first and looked at then, so that nothing can be put in its
        // place in between; `PATH` alone opens neither a pipe nor a device.
        let held = hold(&path).map_err(|_| FileError::NoDocument)?;
        let meta = held.metadata().map_err(|_| FileError::NoDocument)?;
        // Where it really lies: a link must not lead out of what is allowed.
        let handle = format!("/proc/self/fd/{}", held.as_raw_fd());
        let real = std::fs::read_link(&handle)?;
        if !meta.is_file() || kind(&real).is_none() {
            return Err(FileError::NoDocument);
        }
        let readable = self.readable.now();
        let inside = readable.iter().any(|folder| {
            folder
                .canonicalize()
                .is_ok_and(|folder| real.strip_prefix(folder).is_ok_and(|rest| !hidden(rest)))
        });
        if !inside {
            return Err(FileError::NotAllowed { allowed: readable });
        }
        if meta.len() > MAX_UPLOAD {
            return Err(FileError::TooLarge);
        }
        let mut content = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or_default());
        // It may be growing meanwhile.
        File::open(handle)?
            .take(MAX_UPLOAD + 1)
            .read_to_end(&mut content)?;
        if content.len() as u64 > MAX_UPLOAD {
            return Err(FileError::TooLarge);
        }
        let name = path.file_name().unwrap_or_default();
        Ok(Document {
            name: name.to_string_lossy().into_owned(),
            mime,
            content,
        })
    }

    fn expand(&self, path: &str, cwd: Option<&Path>) -> Result<PathBuf, FileError> {
        let home = |rest: &str| self.home.as_ref().map(|home| home.join(rest));
        let expanded = match path.strip_prefix('~') {
            Some("") => home(""),
            Some(rest) if rest.starts_with('/') => home(rest.trim_start_matches('/')),
            _ => None,
        };
        let path = expanded.unwrap_or_else(|| PathBuf::from(path));
        if path.is_absolute() {
            return Ok(path);
        }
        // Without the caller's folder a relative path means nothing to us.
        cwd.map(|cwd| cwd.join(path)).ok_or(FileError::NoDocument)
    }

    /// Keeps a fetched document; gives where. The file appears whole or not at
    /// all, replaces an earlier one, and is never written through a link.
    pub(super) fn keep(&self, id: &str, mime: &str, content: &[u8]) -> Result<PathBuf, FileError> {
        let folder = &self.downloads;
        // The campaign's folder, and that of all campaigns.
        if folder.ancestors().take(2).any(Path::is_symlink) {
            return Err(FileError::LinkedFolder);
        }
        private::ensure(folder).map_err(|error| FileError::System(error.to_string()))?;
        let ending = if mime == "application/pdf" {
            "pdf"
        } else {
            "bin"
        };
        let target = folder.join(format!("{id}.{ending}"));
        // A name of its own for each call, and gone again when anything fails.
        let mut partial = tempfile::Builder::new()
            .prefix(PARTIAL)
            .tempfile_in(folder)?;
        partial.write_all(content)?;
        partial.as_file().sync_all()?;
        partial.persist(&target).map_err(|error| error.error)?;
        forget_old(folder, &target, SystemTime::now());
        Ok(target)
    }
}

/// Removes fetched documents that are too old, and the oldest when there are too
/// many; never the one that was just fetched.
fn forget_old(folder: &Path, newest: &Path, now: SystemTime) {
    let Ok(entries) = folder.read_dir() else {
        return;
    };
    let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let meta = entry.metadata().ok().filter(std::fs::Metadata::is_file)?;
            Some((meta.modified().ok()?, meta.len(), entry.path()))
        })
        .collect();
    files.sort_unstable_by(|one, other| other.cmp(one));
    let mut kept = 0;
    for (modified, size, path) in files {
        let old = now.duration_since(modified).is_ok_and(|age| age > KEPT_FOR);
        // What another call is just writing is not counted among the documents.
        if !old && is_partial(&path) {
            continue;
        }
        kept += size;
        if path != newest && (old || kept > KEPT_BYTES) {
            tracing::info!(file = %path.display(), "forgetting a fetched document");
            let _ = std::fs::remove_file(path);
        }
    }
}

fn is_partial(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(PARTIAL.as_bytes()))
}

/// Whether a path ends as the documents do that are taken.
pub(super) fn is_document(path: &str) -> bool {
    kind(Path::new(path)).is_some()
}

/// Takes hold of what a path leads to without opening it.
fn hold(path: &Path) -> std::io::Result<File> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

fn kind(path: &Path) -> Option<&'static str> {
    let ending = path.extension()?.to_str()?.to_ascii_lowercase();
    DOCUMENTS
        .iter()
        .find(|(known, _)| *known == ending)
        .map(|(_, mime)| *mime)
}

fn hidden(path: &Path) -> bool {
    path.components().any(
        |part| matches!(part, Component::Normal(name) if name.as_encoded_bytes().starts_with(b".")),
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    struct Place {
        dir: tempfile::TempDir,
        files: Files,
    }

    fn place() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path();
        for folder in ["games", "games/.secret", "other"] {
            std::fs::create_dir(base.join(folder)).unwrap();
        }
        for file in [
            "games/a.md",
            "games/.secret/b.txt",
            "other/c.TXT",
            "games/d.docx",
        ] {
            std::fs::write(base.join(file), "text").unwrap();
        }
        let files = Files::new(
            ReadFolders::new(vec![base.join("games")]),
            base.join("downloads"),
            Some(base.to_path_buf()),
        );
        Place { dir, files }
    }

    #[test]
    fn a_document_in_an_allowed_folder_is_read_with_its_kind() {
        let place = place();
        let document = place.files.read("~/games/a.md", None).unwrap();
        assert_eq!(
            (document.name.as_str(), document.mime),
            ("a.md", "text/markdown")
        );
        let cwd = place.dir.path().join("games");
        let document = place.files.read("./a.md", Some(&cwd)).unwrap();
        assert_eq!(
            (document.mime, document.content.as_slice()),
            ("text/markdown", &b"text"[..])
        );
        // Where a caller stands gives it no right to read there.
        let elsewhere = place.dir.path().join("other");
        let refusal = place.files.read("c.TXT", Some(&elsewhere));
        assert!(matches!(refusal, Err(FileError::NotAllowed { .. })));
    }

    #[test]
    fn what_is_hidden_or_elsewhere_or_behind_a_link_is_refused() {
        let place = place();
        let base = place.dir.path();
        symlink(base.join("other/c.TXT"), base.join("games/link.txt")).unwrap();
        symlink(base.join("other"), base.join("games/linked")).unwrap();
        for path in [
            "~/other/c.TXT",
            "~/games/.secret/b.txt",
            "~/games/link.txt",
            "~/games/linked/c.TXT",
            "~/games/../other/c.TXT",
        ] {
            let refusal = place.files.read(path, None);
            assert!(
                matches!(refusal, Err(FileError::NotAllowed { .. })),
                "{path}: {refusal:?}"
            );
        }
    }

    #[test]
    fn a_pipe_that_looks_like_a_document_is_refused_without_being_opened() {
        let place = place();
        let pipe = place.dir.path().join("games/pipe.txt");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let refusal = place.files.read("~/games/pipe.txt", None);
        assert!(matches!(refusal, Err(FileError::NoDocument)), "{refusal:?}");
    }

    #[test]
    fn t_doc_07_what_is_no_document_is_refused() {
        let place = place();
        for path in ["~/games/none.md", "~/games", "~/games/d.docx", "a.md", ""] {
            let refusal = place.files.read(path, None);
            assert!(
                matches!(refusal, Err(FileError::NoDocument)),
                "{path}: {refusal:?}"
            );
        }
    }

    #[test]
    fn t_doc_06_a_fetched_document_appears_whole_and_never_through_a_link() {
        let place = place();
        let keep = |content: &[u8]| place.files.keep("d1", "application/pdf", content);
        let path = keep(b"one").unwrap();
        assert_eq!(keep(b"two").unwrap(), path);
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        let folder = path.parent().unwrap();
        assert_eq!(folder.read_dir().unwrap().count(), 1);
        assert_eq!(
            folder.metadata().unwrap().permissions().mode() & 0o777,
            0o700
        );
        let other = place
            .files
            .keep("d2", "application/octet-stream", b"x")
            .unwrap();
        assert!(other.ends_with("d2.bin"));

        let link = place.dir.path().join("linked");
        symlink(place.dir.path().join("other"), &link).unwrap();
        for downloads in [link.clone(), link.join("campaign")] {
            let linked = Files::new(ReadFolders::default(), downloads, None);
            assert!(matches!(
                linked.keep("d1", "application/pdf", b"x"),
                Err(FileError::LinkedFolder)
            ));
        }
    }

    #[test]
    fn fetched_documents_are_forgotten_when_they_are_old() {
        let place = place();
        let first = place.files.keep("d1", "application/pdf", b"x").unwrap();
        let second = place.files.keep("d2", "application/pdf", b"x").unwrap();
        let later = SystemTime::now() + KEPT_FOR + Duration::from_secs(60);
        forget_old(&place.files.downloads, &second, later);
        assert!(!first.exists() && second.exists());
    }
}
