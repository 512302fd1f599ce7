//! The OCI images as [layouts](https://github.com/opencontainers/image-spec): one layer with one
//! file each, like the Dockerfiles in `deploy/images/`. They are written here, because umoci makes no
//! index of architectures, and the machine's version of it would decide the bytes.

use super::folder::{EXECUTABLE, Folder, PLAIN, sha256};
use super::source::Source;
use super::{agreement, read};
use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use std::io::Write;

/// An image.
pub struct Image {
    pub name: &'static str,
    about: &'static str,
    /// The file in the release. `ARCH` stands for the architecture.
    pub from: &'static str,
    /// The file in the image, without the first slash.
    pub to: &'static str,
    /// Whether the file is a program, and the image runs it.
    pub is_command: bool,
}

/// A user without a name, who may write nothing in a container.
pub const USER: &str = "65532:65532";

/// The images. A Dockerfile alone makes `diana-envoy`, because it adds files to another image.
pub const IMAGES: [Image; 3] = [
    Image {
        name: "diana-wasm",
        about: "Diana as a proxy-wasm filter, for Istio and Envoy Gateway",
        from: "diana.wasm",
        to: "plugin.wasm",
        is_command: false,
    },
    Image {
        name: "diana-module",
        about: "Diana as a native module of Envoy",
        from: "linux-ARCH/libdiana.so",
        to: "libdiana.so",
        is_command: false,
    },
    Image {
        name: "diana",
        about: "The command diana: checks, explains and replays rate limits",
        from: "linux-ARCH/diana",
        to: "diana",
        is_command: true,
    },
];

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
/// The one type of a layer that Istio and Envoy Gateway take.
pub const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// Writes the layouts to `oci/NAME`, with the version as their tag. Returns each image's name, and
/// its tag and digest as they follow the name in a reference.
pub fn write(folder: &Folder, version: &str, source: &Source) -> Result<Vec<(&'static str, String)>> {
    let write = |image: &Image| {
        let digest = image.write(folder, image.architectures(), version, source)?;
        Ok((image.name, format!(":{}@{digest}", tag(version))))
    };
    IMAGES.iter().map(write).collect()
}

/// A text that names the images by these tags and digests, in place of the last release's tags.
pub fn pinned(text: &str, images: &[(&str, String)]) -> String {
    let is_of_tag = |one: char| one.is_ascii_alphanumeric() || "._-".contains(one);
    let mut parts = text.split(agreement::REGISTRY);
    let mut pinned = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let tag = |name: &str| part.strip_prefix(name)?.strip_prefix(':');
        let found = images.iter().find_map(|(name, reference)| Some((name, reference, tag(name)?)));
        pinned.push_str(agreement::REGISTRY);
        match found {
            Some((name, reference, rest)) => {
                pinned.extend([name, reference.as_str(), rest.trim_start_matches(is_of_tag)]);
            }
            None => pinned.push_str(part),
        }
    }
    pinned
}

/// The tag of a version. A tag has no `+`.
pub fn tag(version: &str) -> String {
    version.replace('+', "-")
}

impl Image {
    /// The architectures that it exists for. Istio and Envoy Gateway take a filter's image for
    /// amd64, whatever machine they run on.
    pub fn architectures(&self) -> &'static [&'static str] {
        if self.from.contains("ARCH") { &["amd64", "arm64"] } else { &["amd64"] }
    }

    /// Returns the digest of what has the tag.
    fn write(
        &self,
        folder: &Folder,
        architectures: &[&str],
        version: &str,
        source: &Source,
    ) -> Result<String> {
        let home = format!("oci/{}", self.name);
        let blob = |media_type: &str, bytes: &[u8]| -> Result<Value> {
            let hash = sha256(bytes);
            folder.write(&format!("{home}/blobs/sha256/{hash}"), bytes, PLAIN)?;
            Ok(json!({"mediaType": media_type, "digest": format!("sha256:{hash}"), "size": bytes.len()}))
        };
        let annotations = self.annotations(version, source);
        let mut manifests = Vec::new();
        for architecture in architectures {
            let tar =
                self.tar(&read(&folder.path().join(self.from.replace("ARCH", architecture)))?, source)?;
            let config = self.config(architecture, &sha256(&tar), &annotations, source);
            let manifest = json!({
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": blob(CONFIG, config.to_string().as_bytes())?,
                "layers": [blob(LAYER, &gzip(&tar)?)?],
                "annotations": annotations,
            });
            let mut manifest = blob(MANIFEST, manifest.to_string().as_bytes())?;
            manifest["platform"] = json!({"architecture": architecture, "os": "linux"});
            manifests.push(manifest);
        }
        let index =
            |manifests: &[Value]| json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests});
        let mut tagged = match &manifests[..] {
            [one] => one.clone(),
            all => {
                let mut index = index(all);
                index["annotations"] = annotations;
                blob(INDEX, index.to_string().as_bytes())?
            }
        };
        let digest = tagged["digest"].as_str().context("an image without a digest")?.to_owned();
        tagged["annotations"] = json!({"org.opencontainers.image.ref.name": tag(version)});
        folder.write(&format!("{home}/index.json"), index(&[tagged]).to_string().as_bytes(), PLAIN)?;
        folder.write(&format!("{home}/oci-layout"), br#"{"imageLayoutVersion":"1.0.0"}"#, PLAIN)?;
        Ok(digest)
    }

    fn annotations(&self, version: &str, source: &Source) -> Value {
        let mut annotations = json!({
            "org.opencontainers.image.created": source.date,
            "org.opencontainers.image.description": self.about,
            "org.opencontainers.image.licenses": "Apache-2.0",
            "org.opencontainers.image.revision": source.commit,
            "org.opencontainers.image.source": env!("CARGO_PKG_REPOSITORY"),
            "org.opencontainers.image.title": self.name,
            "org.opencontainers.image.url": format!("https://{}{}", agreement::REGISTRY, self.name),
            "org.opencontainers.image.version": version,
        });
        if self.to == "plugin.wasm" {
            annotations["module.wasm.image/variant"] = "compat".into();
        }
        annotations
    }

    fn config(&self, architecture: &str, layer: &str, labels: &Value, source: &Source) -> Value {
        let mut config = json!({"Labels": labels});
        if self.is_command {
            config["Entrypoint"] = json!([format!("/{}", self.to)]);
            config["User"] = USER.into();
        }
        json!({
            "created": source.date,
            "architecture": architecture,
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer}")]},
            "history": [{"created": source.date, "created_by": "cargo xtask dist"}],
        })
    }

    fn tar(&self, bytes: &[u8], source: &Source) -> Result<Vec<u8>> {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len().try_into()?);
        header.set_mode(if self.is_command { EXECUTABLE } else { PLAIN });
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(source.epoch);
        let mut tar = tar::Builder::new(Vec::new());
        tar.append_data(&mut header, self.to, bytes).context("cannot write a layer")?;
        Ok(tar.into_inner()?)
    }
}

/// Compresses without a name and a time.
fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut gzip = GzBuilder::new().write(Vec::new(), Compression::best());
    gzip.write_all(bytes)?;
    Ok(gzip.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::folder;
    use gateway::root;
    use std::fs;

    /// What a Dockerfile says is what the image has.
    #[test]
    fn each_dockerfile_makes_the_same_image() {
        for Image { name, from, to, is_command, .. } in &IMAGES {
            let file = root().join(format!("deploy/images/{name}.Dockerfile"));
            let text = fs::read_to_string(&file).unwrap();
            let lines: Vec<&str> =
                text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
            let mut expected = vec!["FROM scratch".to_owned()];
            if from.contains("ARCH") {
                expected.push("ARG TARGETARCH=amd64".into());
            }
            expected.push(format!("COPY {} /{to}", from.replace("ARCH", "${TARGETARCH}")));
            if *is_command {
                expected.extend([format!("USER {USER}"), format!("ENTRYPOINT [\"/{to}\"]")]);
            }
            assert_eq!(lines, expected, "{name}");
        }
        // And the image that is a Dockerfile alone.
        let names = folder::files(&root().join("deploy/images")).unwrap();
        assert_eq!(names.len(), IMAGES.len() + 1, "{names:?}");
    }

    /// A registry serves by the digest what the layout has by the tag.
    #[test]
    fn the_digest_of_an_image_is_that_of_its_tag() {
        let source = Source {
            commit: "0".repeat(40),
            epoch: 1_700_000_000,
            date: "2023-11-14T22:13:20Z".into(),
            tags: Vec::new(),
            is_dirty: false,
        };
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::create(&place.path().join("release")).unwrap();
        for image in &IMAGES {
            let file = |architecture: &&str| image.from.replace("ARCH", architecture);
            image.architectures().iter().for_each(|one| folder.write(&file(one), b"abc", PLAIN).unwrap());
        }
        for (name, reference) in write(&folder, "1.2.3-dev+abc", &source).unwrap() {
            let digest = reference.strip_prefix(":1.2.3-dev-abc@sha256:").unwrap();
            let home = folder.path().join("oci").join(name);
            let index: Value = serde_json::from_slice(&read(&home.join("index.json")).unwrap()).unwrap();
            assert_eq!(index["manifests"][0]["digest"], format!("sha256:{digest}"), "{name}");
            assert_eq!(sha256(&read(&home.join("blobs/sha256").join(digest)).unwrap()), digest, "{name}");
        }
    }

    #[test]
    fn a_release_names_each_of_its_images_by_the_digest() {
        let images = IMAGES.map(|image| (image.name, format!(":1.2.3@sha256:{}", "0".repeat(64))));
        let mut named = Vec::new();
        for (file, _) in Source::read().unwrap().files(&["examples", "deploy"]).unwrap() {
            let text = fs::read_to_string(root().join(&file)).unwrap();
            let pinned = pinned(&text, &images);
            for part in pinned.split(agreement::REGISTRY).skip(1) {
                let is_pinned = |(name, reference): &&(&str, String)| {
                    let rest = part.strip_prefix(name).and_then(|rest| rest.strip_prefix(&**reference));
                    rest.is_some_and(|rest| rest.starts_with(['"', '\n', '}', ' ']))
                };
                named.push(images.iter().find(is_pinned).unwrap_or_else(|| panic!("{file}: {part}")).0);
            }
        }
        assert!(images.iter().all(|(name, _)| named.contains(name)), "{named:?}");
    }
}
