//! The OCI images as [layouts](https://github.com/opencontainers/image-spec): one layer with one
//! file each, like the Dockerfiles in `deploy/images/`. The JSON is written here, because
//! `oci-spec`, with which the tests read it, orders annotations anew in each run.

use super::binaries::Binary;
use super::folder::{EXECUTABLE, Folder, PLAIN, sha256};
use super::source::Source;
use super::{agreement, read};
use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use std::io::Write;

/// What an image has, whatever it is made by.
pub struct Recipe {
    pub name: &'static str,
    pub about: &'static str,
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
pub const RECIPES: [Recipe; 3] = [
    Recipe {
        name: "diana-wasm",
        about: "Diana as a proxy-wasm filter, for Istio and Envoy Gateway",
        from: "diana.wasm",
        to: "plugin.wasm",
        is_command: false,
    },
    Recipe {
        name: "diana-module",
        about: "Diana as a native module of Envoy",
        from: "linux-ARCH/libdiana.so",
        to: "libdiana.so",
        is_command: false,
    },
    Recipe {
        name: "diana",
        about: "The command diana: checks, explains and replays rate limits",
        from: "linux-ARCH/diana",
        to: "diana",
        is_command: true,
    },
];

/// An image with its files.
pub struct Image {
    recipe: &'static Recipe,
    /// For each architecture, the bytes of the file.
    variants: Vec<(&'static str, Vec<u8>)>,
}

/// The images of this release.
pub fn images(folder: &Folder, binaries: &[Binary]) -> Result<Vec<Image>> {
    let mut architectures: Vec<&str> = binaries.iter().map(|binary| binary.architecture).collect();
    architectures.dedup();
    let image = |recipe: &'static Recipe| {
        // The readers of a filter take the image for amd64, whatever machine they run on.
        let is_for_all = !recipe.from.contains("ARCH");
        let architectures = if is_for_all { &["amd64"][..] } else { &architectures };
        let variant = |architecture: &&'static str| {
            let file = recipe.from.replace("ARCH", architecture);
            Ok((*architecture, read(&folder.path().join(file))?))
        };
        Ok(Image { recipe, variants: architectures.iter().map(variant).collect::<Result<_>>()? })
    };
    RECIPES.iter().map(image).collect()
}

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
/// The one type of a layer that the readers of filters take.
pub const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

impl Image {
    #[cfg(test)]
    pub fn new(name: &str, variants: Vec<(&'static str, Vec<u8>)>) -> Self {
        Self { recipe: RECIPES.iter().find(|recipe| recipe.name == name).unwrap(), variants }
    }

    /// Writes the layout to `oci/NAME`, with the version as its tag.
    pub fn write(&self, folder: &Folder, version: &str, source: &Source) -> Result<()> {
        let home = format!("oci/{}", self.recipe.name);
        let blob = |media_type: &str, bytes: &[u8]| -> Result<Value> {
            let hash = sha256(bytes);
            folder.write(&format!("{home}/blobs/sha256/{hash}"), bytes, PLAIN)?;
            Ok(json!({"mediaType": media_type, "digest": format!("sha256:{hash}"), "size": bytes.len()}))
        };
        let annotations = self.annotations(version, source);
        let mut manifests = Vec::new();
        for (architecture, bytes) in &self.variants {
            let tar = self.tar(bytes, source)?;
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
        let mut tagged = match &manifests[..] {
            [one] => one.clone(),
            all => {
                let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": all, "annotations": annotations});
                blob(INDEX, index.to_string().as_bytes())?
            }
        };
        tagged["annotations"] = json!({"org.opencontainers.image.ref.name": version});
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [tagged]});
        folder.write(&format!("{home}/index.json"), index.to_string().as_bytes(), PLAIN)?;
        folder.write(&format!("{home}/oci-layout"), br#"{"imageLayoutVersion":"1.0.0"}"#, PLAIN)
    }

    fn annotations(&self, version: &str, source: &Source) -> Value {
        let mut annotations = json!({
            "org.opencontainers.image.created": source.date,
            "org.opencontainers.image.description": self.recipe.about,
            "org.opencontainers.image.licenses": "Apache-2.0",
            "org.opencontainers.image.revision": source.commit,
            "org.opencontainers.image.source": env!("CARGO_PKG_REPOSITORY"),
            "org.opencontainers.image.title": self.recipe.name,
            "org.opencontainers.image.url": format!("https://{}{}", agreement::IMAGES, self.recipe.name),
            "org.opencontainers.image.version": version,
        });
        if self.recipe.to == "plugin.wasm" {
            annotations["module.wasm.image/variant"] = "compat".into();
        }
        annotations
    }

    fn config(&self, architecture: &str, layer: &str, labels: &Value, source: &Source) -> Value {
        let mut config = json!({"Labels": labels});
        if self.recipe.is_command {
            config["Entrypoint"] = json!([format!("/{}", self.recipe.to)]);
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
        header.set_mode(if self.recipe.is_command { EXECUTABLE } else { PLAIN });
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(source.epoch);
        let mut tar = tar::Builder::new(Vec::new());
        tar.append_data(&mut header, self.recipe.to, bytes).context("cannot write a layer")?;
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
    use oci_spec::image::{Arch, ImageConfiguration, ImageIndex, ImageManifest, MediaType, OciLayout};
    use std::fs;
    use std::path::Path;
    use std::time::SystemTime;

    fn source() -> Source {
        Source {
            commit: "0123456789abcdef".into(),
            time: SystemTime::UNIX_EPOCH,
            epoch: 1_700_000_000,
            date: "2023-11-14T22:13:20Z".into(),
            tags: Vec::new(),
            is_dirty: false,
        }
    }

    fn written(place: &Path, name: &str, architectures: &[&'static str]) -> Folder {
        let folder = Folder::create(&place.join(name)).unwrap();
        let variants = architectures.iter().map(|one| (*one, format!("for {one}").into_bytes())).collect();
        Image::new(name, variants).write(&folder, "1.2.3", &source()).unwrap();
        folder
    }

    /// The blob with this digest, which must be the one of its bytes.
    fn blob(folder: &Folder, name: &str, digest: &str) -> Vec<u8> {
        let hash = digest.strip_prefix("sha256:").unwrap();
        let bytes = read(&folder.path().join(format!("oci/{name}/blobs/sha256/{hash}"))).unwrap();
        assert_eq!(sha256(&bytes), hash);
        bytes
    }

    #[test]
    fn another_crate_reads_the_images() {
        let place = tempfile::tempdir().unwrap();
        let folder = written(place.path(), "diana", &["amd64", "arm64"]);
        let home = folder.path().join("oci/diana");
        assert_eq!(OciLayout::from_file(home.join("oci-layout")).unwrap().image_layout_version(), "1.0.0");
        let index = ImageIndex::from_file(home.join("index.json")).unwrap();
        let [tagged] = &index.manifests()[..] else { panic!("one tag") };
        let tag = tagged.annotations().as_ref().unwrap().get("org.opencontainers.image.ref.name");
        assert_eq!((tagged.media_type(), tag.unwrap().as_str()), (&MediaType::ImageIndex, "1.2.3"));
        let inner = blob(&folder, "diana", tagged.digest().as_ref());
        let inner = ImageIndex::from_reader(&inner[..]).unwrap();
        assert_eq!(inner.manifests().len(), 2);
        for (descriptor, arch) in inner.manifests().iter().zip([Arch::Amd64, Arch::ARM64]) {
            assert_eq!(descriptor.platform().as_ref().unwrap().architecture(), &arch);
            let manifest = blob(&folder, "diana", descriptor.digest().as_ref());
            assert_eq!(manifest.len(), usize::try_from(descriptor.size()).unwrap());
            let manifest = ImageManifest::from_reader(&manifest[..]).unwrap();
            let config = blob(&folder, "diana", manifest.config().digest().as_ref());
            let config = ImageConfiguration::from_reader(&config[..]).unwrap();
            let run = config.config().as_ref().unwrap();
            assert_eq!(config.architecture(), &arch);
            assert_eq!(run.entrypoint().as_deref(), Some(&["/diana".to_owned()][..]));
            assert_eq!(run.user().as_deref(), Some(USER));
            let [layer] = &manifest.layers()[..] else { panic!("one layer") };
            assert_eq!(layer.media_type(), &MediaType::ImageLayerGzip);
            let layer = blob(&folder, "diana", layer.digest().as_ref());
            // Neither a name nor a time: no flags, four zeros.
            assert_eq!(layer[3..8], [0; 5]);
            let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(&layer[..]));
            let entries: Vec<_> = tar.entries().unwrap().map(Result::unwrap).collect();
            let [entry] = &entries[..] else { panic!("one file") };
            let header = entry.header();
            assert_eq!(entry.path().unwrap(), Path::new("diana"));
            let owner = (header.uid().unwrap(), header.gid().unwrap());
            assert_eq!((header.mode().unwrap(), owner), (EXECUTABLE, (0, 0)));
            assert_eq!(header.mtime().unwrap(), 1_700_000_000);
        }
    }

    #[test]
    fn an_image_for_one_architecture_has_no_inner_index() {
        let place = tempfile::tempdir().unwrap();
        let folder = written(place.path(), "diana-module", &["amd64"]);
        let index = ImageIndex::from_file(folder.path().join("oci/diana-module/index.json")).unwrap();
        assert_eq!(index.manifests()[0].media_type(), &MediaType::ImageManifest);
    }

    #[test]
    fn an_image_is_the_same_each_time() {
        let place = tempfile::tempdir().unwrap();
        let hashes =
            |name: &str| written(&place.path().join(name), "diana-wasm", &["amd64"]).hashes().unwrap();
        assert_eq!(hashes("one"), hashes("two"));
    }

    /// What a Dockerfile says is what the image has.
    #[test]
    fn each_dockerfile_makes_the_same_image() {
        for Recipe { name, from, to, is_command, .. } in &RECIPES {
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
        // And the recipe that is a Dockerfile alone.
        let names = folder::files(&root().join("deploy/images")).unwrap();
        assert_eq!(names.len(), RECIPES.len() + 1, "{names:?}");
    }
}
