//! An OCI image layout in one tar archive, with the same bytes for the same content: entries are in the given order,
//! belong to stated users and have one date.
//!
//! Specification: `image-layout.md`, `manifest.md` and `config.md` of the OCI image format, version 1.

use std::io::Write;

use anyhow::Result;
use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

/// A file or directory of a layer. Its owner and group have the same number.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) path: String,
    pub(super) mode: u32,
    pub(super) owner: u64,
    /// `None`: a directory.
    pub(super) content: Option<Vec<u8>>,
}

/// An image with one layer.
#[derive(Clone, Debug)]
pub(super) struct Image {
    /// `amd64`, `arm64`.
    pub(super) architecture: &'static str,
    /// Name of the image and its tag, for programs that load it.
    pub(super) name: String,
    /// Date of the image as in RFC 3339, and that of its files in seconds since 1970.
    pub(super) created: String,
    pub(super) date: u64,
    /// User, entry point, environment and labels, by the names of the specification.
    pub(super) config: Value,
    pub(super) entries: Vec<Entry>,
}

/// Digest of `bytes` in hexadecimal.
pub(super) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// `bytes` compressed by gzip, without a name and a date.
pub(super) fn zipped(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut zipped = GzBuilder::new().write(Vec::new(), Compression::best());
    zipped.write_all(bytes)?;
    Ok(zipped.finish()?)
}

/// The archive.
pub(super) fn archive(image: &Image) -> Result<Vec<u8>> {
    let files = tarball(&image.entries, image.date)?;
    let layer = Blob::new("application/vnd.oci.image.layer.v1.tar+gzip", zipped(&files)?);
    let config = json!({
        "created": image.created, "architecture": image.architecture, "os": "linux", "config": image.config,
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", digest(&files))] },
        "history": [{ "created": image.created, "created_by": "cargo xtask package oci" }],
    });
    let config = Blob::json("application/vnd.oci.image.config.v1+json", &config);
    let manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST,
        "config": config.descriptor(), "layers": [layer.descriptor()],
    });
    let manifest = Blob::json(MANIFEST, &manifest);
    let mut descriptor = manifest.descriptor();
    descriptor["annotations"] = json!({ "org.opencontainers.image.ref.name": image.name });
    let index = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [descriptor],
    });
    let mut entries = vec![
        file("oci-layout", json!({ "imageLayoutVersion": "1.0.0" }).to_string().into_bytes()),
        file("index.json", index.to_string().into_bytes()),
        directory("blobs"),
        directory("blobs/sha256"),
    ];
    let blobs = [manifest, config, layer].into_iter();
    entries.extend(blobs.map(|blob| file(&format!("blobs/sha256/{}", blob.digest), blob.bytes)));
    tarball(&entries, image.date)
}

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A file of root that everybody may read.
pub(super) fn file(path: &str, content: Vec<u8>) -> Entry {
    Entry { path: path.to_owned(), mode: 0o644, owner: 0, content: Some(content) }
}

/// A directory of root that everybody may read.
pub(super) fn directory(path: &str) -> Entry {
    Entry { path: path.to_owned(), mode: 0o755, owner: 0, content: None }
}

/// Content that is found by its digest.
struct Blob {
    kind: &'static str,
    digest: String,
    bytes: Vec<u8>,
}

impl Blob {
    fn new(kind: &'static str, bytes: Vec<u8>) -> Blob {
        Blob { kind, digest: digest(&bytes), bytes }
    }

    /// Keys are sorted, because `serde_json` keeps them in a `BTreeMap`.
    fn json(kind: &'static str, value: &Value) -> Blob {
        Blob::new(kind, value.to_string().into_bytes())
    }

    fn descriptor(&self) -> Value {
        json!({ "mediaType": self.kind, "digest": format!("sha256:{}", self.digest), "size": self.bytes.len() })
    }
}

fn tarball(entries: &[Entry], date: u64) -> Result<Vec<u8>> {
    let mut tar = Builder::new(Vec::new());
    for entry in entries {
        let content = entry.content.as_deref().unwrap_or_default();
        let mut header = Header::new_ustar();
        header.set_entry_type(if entry.content.is_some() {
            EntryType::Regular
        } else {
            EntryType::Directory
        });
        header.set_mode(entry.mode);
        header.set_uid(entry.owner);
        header.set_gid(entry.owner);
        header.set_mtime(date);
        header.set_size(content.len() as u64);
        let slash = if entry.content.is_some() { "" } else { "/" };
        tar.append_data(&mut header, format!("{}{slash}", entry.path), content)?;
    }
    Ok(tar.into_inner()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::io::Read;

    fn image() -> Image {
        let secret = Entry { mode: 0o600, owner: 7, ..file("etc/a", b"text".to_vec()) };
        Image {
            architecture: "amd64",
            name: "a:1".into(),
            created: "2026-01-02T03:04:05Z".into(),
            date: 1_767_323_045,
            config: json!({ "User": "7:7" }),
            entries: vec![directory("etc"), secret],
        }
    }

    /// Content of an archive by path, with mode, owner and date.
    fn read(bytes: &[u8]) -> BTreeMap<String, (Vec<u8>, u32, u64, u64)> {
        let mut archive = tar::Archive::new(bytes);
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            let header = entry.header();
            let facts = (header.mode().unwrap(), header.uid().unwrap(), header.mtime().unwrap());
            (entry.path().unwrap().display().to_string(), (content, facts.0, facts.1, facts.2))
        });
        entries.collect()
    }

    /// The blob that a descriptor names, whose size and digest must be as stated.
    fn blob(files: &BTreeMap<String, (Vec<u8>, u32, u64, u64)>, descriptor: &Value) -> Vec<u8> {
        let named = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let bytes = files[&format!("blobs/sha256/{named}")].0.clone();
        assert_eq!((digest(&bytes).as_str(), Some(bytes.len() as u64)), (named, descriptor["size"].as_u64()));
        bytes
    }

    #[test]
    fn digest_is_that_of_the_standard() {
        assert_eq!(digest(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn index_leads_to_manifest_config_and_layer() {
        let files = read(&archive(&image()).unwrap());
        assert_eq!(files["oci-layout"].0, br#"{"imageLayoutVersion":"1.0.0"}"#);
        let json = |bytes: Vec<u8>| serde_json::from_slice::<Value>(&bytes).unwrap();
        let index = json(files["index.json"].0.clone());
        let descriptor = &index["manifests"][0];
        assert_eq!(descriptor["annotations"]["org.opencontainers.image.ref.name"], "a:1");
        let manifest = json(blob(&files, descriptor));
        let config = json(blob(&files, &manifest["config"]));
        assert_eq!((&config["config"]["User"], &config["architecture"]), (&json!("7:7"), &json!("amd64")));

        let mut layer = Vec::new();
        let zipped = blob(&files, &manifest["layers"][0]);
        flate2::read::GzDecoder::new(&*zipped).read_to_end(&mut layer).unwrap();
        assert_eq!(config["rootfs"]["diff_ids"], json!([format!("sha256:{}", digest(&layer))]));
        let date = image().date;
        let expected = [("etc/", (vec![], 0o755, 0, date)), ("etc/a", (b"text".to_vec(), 0o600, 7, date))];
        assert_eq!(read(&layer), expected.map(|(path, facts)| (path.to_owned(), facts)).into());
    }

    #[test]
    fn the_same_content_has_the_same_bytes() {
        let (one, other) = (archive(&image()).unwrap(), archive(&image()).unwrap());
        assert_eq!(one, other);
        let later = Image { date: image().date + 1, ..image() };
        assert_ne!(archive(&later).unwrap(), one);
    }
}
