//! Opens logs: plain, gzip or zstd by their first bytes, or standard input.

use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes that have been read of all files, for the progress.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<AtomicU64>);

impl Progress {
    /// The bytes read so far, before decompression.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts the bytes that are read.
struct Counting<R> {
    inner: R,
    progress: Progress,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.progress.0.fetch_add(u64::try_from(count).unwrap_or(0), Ordering::Relaxed);
        Ok(count)
    }
}

/// The lines of a log.
pub type Input = Box<dyn BufRead + Send>;

const BUFFER_BYTES: usize = 256 << 10;
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Opens a file; `-` is standard input.
pub fn open(path: &Path, progress: &Progress) -> io::Result<Input> {
    let progress = progress.clone();
    if path.as_os_str() == "-" {
        return decompress(Counting { inner: io::stdin(), progress });
    }
    decompress(Counting { inner: File::open(path)?, progress })
}

/// The sum of the sizes of these files; `None` if one has no size, such as standard input.
#[must_use]
pub fn total_bytes<'p>(mut paths: impl Iterator<Item = &'p Path>) -> Option<u64> {
    paths.try_fold(0u64, |sum, path| {
        let metadata = std::fs::metadata(path).ok().filter(|metadata| metadata.is_file())?;
        Some(sum.saturating_add(metadata.len()))
    })
}

/// Decompresses what begins as gzip or zstd. A gzip file may have several members, for example
/// after `cat` joined rotated files.
pub fn decompress(mut raw: impl Read + Send + 'static) -> io::Result<Input> {
    let mut magic = Vec::with_capacity(4);
    raw.by_ref().take(4).read_to_end(&mut magic)?;
    let (is_gzip, is_zstd) = (magic.starts_with(GZIP), magic == ZSTD);
    let whole = BufReader::with_capacity(BUFFER_BYTES, Cursor::new(magic).chain(raw));
    Ok(match (is_gzip, is_zstd) {
        (true, _) => Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(whole))),
        (_, true) => of_zstd(whole)?,
        _ => Box::new(whole),
    })
}

#[cfg(feature = "zstd")]
fn of_zstd(whole: impl BufRead + Send + 'static) -> io::Result<Input> {
    let decoder = zstd::stream::read::Decoder::with_buffer(whole)?;
    Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, decoder)))
}

#[cfg(not(feature = "zstd"))]
fn of_zstd(_: impl BufRead + Send + 'static) -> io::Result<Input> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "the log is compressed by zstd: decompress it first"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    fn text(bytes: Vec<u8>) -> io::Result<String> {
        let mut text = String::new();
        decompress(Cursor::new(bytes))?.read_to_string(&mut text)?;
        Ok(text)
    }

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn the_first_bytes_tell_the_compression() {
        let zstd = |text: &str| zstd::encode_all(text.as_bytes(), 0).unwrap();
        for bytes in [b"a\nb\n".to_vec(), gzip("a\nb\n"), zstd("a\nb\n")] {
            assert_eq!(text(bytes).unwrap(), "a\nb\n");
        }
        assert_eq!(text([gzip("a\n"), gzip("b\n")].concat()).unwrap(), "a\nb\n", "two members");
        assert_eq!(text([zstd("a\n"), zstd("b\n")].concat()).unwrap(), "a\nb\n", "two frames");
        for short in ["", "a", "abc"] {
            assert_eq!(text(short.into()).unwrap(), short);
        }
    }

    #[test]
    fn a_file_that_ends_early_is_an_error() {
        let whole = gzip(&"a line\n".repeat(100));
        assert!(text(whole[..whole.len() - 9].to_vec()).is_err());
    }
}
