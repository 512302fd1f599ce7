//! How Istio and Envoy Gateway read a filter's image: a translation of `pkg/wasm/imagefetcher.go`
//! and of `internal/wasm/imagefetcher.go`, rule by rule. Both take:
//!
//! - Docker's: the manifest's type is Docker's, and the layer's is Docker's gzip.
//! - OCI "compat": the layer's type is exactly OCI's gzip. Diana's image is such a one.
//! - OCI artifact: two layers, one of the type of a Wasm module, which is the file itself.

use super::read;
use anyhow::{Context, Result, bail, ensure};
use flate2::read::GzDecoder;
use serde_json::Value;
use std::io::Read;
use std::path::Path;

/// The reader of an image.
///
/// In Docker's and in OCI's compat image, the filter is the file `plugin.wasm` in the layer's tar.
/// Envoy Gateway takes the last layer; Istio's file demanded exactly one before it took the last
/// one, too.
#[derive(Clone, Copy, Debug)]
pub enum Reader {
    Istio,
    EnvoyGateway,
}

/// The readers.
pub const READERS: [Reader; 2] = [Reader::Istio, Reader::EnvoyGateway];

/// `maxWasmSize` of Envoy Gateway.
const MAX: u64 = 256 * 1024 * 1024;

const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const DOCKER_LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";
const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const WASM_LAYER: &str = "application/vnd.module.wasm.content.layer.v1+wasm";

/// The filter in the image of a layout with one tag, in place of a registry.
pub fn filter(layout: &Path, reader: Reader) -> Result<Vec<u8>> {
    let index: Value = serde_json::from_slice(&read(&layout.join("index.json"))?)?;
    let mut descriptor = only(&index["manifests"])?.clone();
    let mut manifest: Value = serde_json::from_slice(&blob(layout, &descriptor)?)?;
    // Of an index, the image's default platform is taken: linux/amd64.
    if manifest["manifests"].is_array() {
        let all = manifest["manifests"].as_array().into_iter().flatten();
        let is_default =
            |one: &&Value| one["platform"]["os"] == "linux" && one["platform"]["architecture"] == "amd64";
        descriptor = all.into_iter().find(is_default).context("no image for linux/amd64")?.clone();
        manifest = serde_json::from_slice(&blob(layout, &descriptor)?)?;
    }
    let layers = manifest["layers"].as_array().context("a manifest without layers")?;
    if manifest["mediaType"] == DOCKER_MANIFEST {
        return standard(layout, layers, DOCKER_LAYER, reader);
    }
    standard(layout, layers, OCI_LAYER, reader).or_else(|compat| {
        artifact(layout, layers).with_context(|| format!("not a compat image either: {compat:#}"))
    })
}

/// `extractDockerImage` and `extractOCIStandardImage`.
fn standard(layout: &Path, layers: &[Value], media_type: &str, reader: Reader) -> Result<Vec<u8>> {
    if let Reader::Istio = reader {
        ensure!(layers.len() == 1, "number of layers must be 1 but got {}", layers.len());
    }
    let layer = layers.last().context("number of layers must be greater than zero")?;
    let found = layer["mediaType"].as_str().unwrap_or_default();
    ensure!(found == media_type, "invalid media type {found} (expect {media_type})");
    let bytes = blob(layout, layer)?;
    let mut tar = tar::Archive::new(GzDecoder::new(&bytes[..]).take(MAX));
    for entry in tar.entries()? {
        let mut entry = entry?;
        // `filepath.Base`: in whichever folder.
        if entry.path()?.file_name().is_some_and(|name| name == "plugin.wasm") {
            let mut filter = Vec::new();
            entry.read_to_end(&mut filter)?;
            ensure!(u64::try_from(filter.len())? == entry.header().size()?, "a part of the filter");
            return Ok(filter);
        }
    }
    bail!("plugin.wasm not found in the archive")
}

/// `extractOCIArtifactImage`.
fn artifact(layout: &Path, layers: &[Value]) -> Result<Vec<u8>> {
    ensure!(layers.len() == 2, "number of layers must be 2 but got {}", layers.len());
    let layer = layers.iter().find(|layer| layer["mediaType"] == WASM_LAYER);
    blob(layout, layer.with_context(|| format!("could not find the layer of type {WASM_LAYER}"))?)
}

fn only(list: &Value) -> Result<&Value> {
    match list.as_array().map(Vec::as_slice) {
        Some([one]) => Ok(one),
        _ => bail!("the layout has not one tag"),
    }
}

/// A blob, whose size and digest a client of registries checks.
fn blob(layout: &Path, descriptor: &Value) -> Result<Vec<u8>> {
    let digest = descriptor["digest"].as_str().context("a descriptor without a digest")?;
    let hash = digest.strip_prefix("sha256:").context("a digest of another kind")?;
    let bytes = read(&layout.join("blobs/sha256").join(hash))?;
    ensure!(super::folder::sha256(&bytes) == hash, "the blob {hash} has another digest");
    ensure!(descriptor["size"] == bytes.len(), "the blob {hash} has another size");
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::folder::{Folder, sha256};
    use super::super::image::{Image, LAYER};
    use super::super::source::Source;
    use super::*;
    use serde_json::json;
    use std::fs;
    use std::time::SystemTime;

    fn image(place: &Path, architectures: &[&'static str]) -> std::path::PathBuf {
        let source = Source {
            commit: "0123456789ab".into(),
            time: SystemTime::UNIX_EPOCH,
            epoch: 0,
            date: "1970-01-01T00:00:00Z".into(),
            tags: Vec::new(),
            is_dirty: false,
        };
        let folder = Folder::create(place).unwrap();
        let variants = architectures.iter().map(|one| (*one, format!("\0asm {one}").into())).collect();
        Image::new("diana-wasm", variants).write(&folder, "1.2.3", &source).unwrap();
        place.join("oci/diana-wasm")
    }

    #[test]
    fn both_readers_find_the_filter() {
        let place = tempfile::tempdir().unwrap();
        for architectures in [&["amd64"][..], &["arm64", "amd64"]] {
            let layout = image(place.path(), architectures);
            for reader in READERS {
                assert_eq!(filter(&layout, reader).unwrap(), b"\0asm amd64", "{reader:?}");
            }
        }
    }

    /// Changes a manifest. The second argument stores a blob, and returns its descriptor.
    type Change = fn(&mut Value, &mut dyn FnMut(&[u8]) -> Value);

    /// Changes the manifest of the image, and says what each reader says then.
    fn changed(change: impl Fn(&mut Value, &mut dyn FnMut(&[u8]) -> Value)) -> Vec<Result<Vec<u8>>> {
        let place = tempfile::tempdir().unwrap();
        let layout = image(place.path(), &["amd64"]);
        let mut put = |bytes: &[u8]| {
            let hash = sha256(bytes);
            fs::write(layout.join("blobs/sha256").join(&hash), bytes).unwrap();
            json!({"digest": format!("sha256:{hash}"), "size": bytes.len()})
        };
        let index: Value = serde_json::from_slice(&read(&layout.join("index.json")).unwrap()).unwrap();
        let old = blob(&layout, &index["manifests"][0]).unwrap();
        let mut manifest: Value = serde_json::from_slice(&old).unwrap();
        change(&mut manifest, &mut put);
        let index = json!({"manifests": [put(manifest.to_string().as_bytes())]});
        fs::write(layout.join("index.json"), index.to_string()).unwrap();
        READERS.into_iter().map(|reader| filter(&layout, reader)).collect()
    }

    #[test]
    fn any_other_layout_is_refused() {
        let refused = |change: Change, why: &str| {
            for result in changed(change) {
                let error = format!("{:#}", result.unwrap_err());
                assert!(error.contains(why), "{error}");
            }
        };
        for media_type in ["application/vnd.oci.image.layer.v1.tar", "…v1.tar+zstd", DOCKER_LAYER] {
            for result in changed(|manifest, _| manifest["layers"][0]["mediaType"] = media_type.into()) {
                assert!(format!("{:#}", result.unwrap_err()).contains("invalid media type"));
            }
        }
        refused(|manifest, _| manifest["mediaType"] = DOCKER_MANIFEST.into(), "invalid media type");
        refused(|manifest, _| manifest["layers"] = json!([]), "number of layers");
        refused(
            |manifest, put| {
                let tar = tar::Builder::new(Vec::new()).into_inner().unwrap();
                let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                std::io::Write::write_all(&mut gzip, &tar).unwrap();
                manifest["layers"] = json!([put(&gzip.finish().unwrap())]);
                manifest["layers"][0]["mediaType"] = LAYER.into();
            },
            "plugin.wasm not found",
        );
        refused(|manifest, _| manifest["layers"][0]["size"] = json!(1), "another size");
    }

    /// A base image below, as `FROM alpine` makes.
    #[test]
    fn a_layer_below_is_refused_by_one_reader() {
        let results = changed(|manifest, put| {
            let below = put(b"");
            manifest["layers"].as_array_mut().unwrap().insert(0, below);
        });
        assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn an_artifact_is_read() {
        for result in changed(|manifest, put| {
            let mut wasm = put(b"\0asm bare");
            wasm["mediaType"] = WASM_LAYER.into();
            manifest["layers"] = json!([put(b"{}"), wasm]);
        }) {
            assert_eq!(result.unwrap(), b"\0asm bare");
        }
    }
}
