//! Files: the order of requests, unreadable lines, and files that end early.

use super::{slots, value};
use crate::log::input::{Input, decompress};
use crate::log::reader::{Counts, Logs};
use crate::log::record::Slot;
use flate2::{Compression, write::GzEncoder};
use proptest::prelude::*;
use std::io::{self, Cursor, Read, Write};

const FORMAT: &str = "%START_TIME(%s)% %REQ(:PATH)%";

/// The targets in the order in which they leave, and what was counted.
fn replayed(files: &[String], format: &str) -> (Vec<String>, Counts) {
    let input = |text: &String| Box::new(Cursor::new(text.clone().into_bytes())) as Input;
    read(files.iter().map(input).collect(), format)
}

fn read(inputs: Vec<Input>, format: &str) -> (Vec<String>, Counts) {
    let inputs = inputs.into_iter().enumerate().map(|(index, input)| (format!("{index}.log"), input));
    let logs = Logs::of_inputs(inputs.collect(), Some(format), &slots()).unwrap();
    let mut targets = Vec::new();
    let counts = logs.start().unwrap().for_each(|batch, _| {
        targets.extend(batch.iter().filter_map(|record| value(record, &Slot::Target)));
    });
    (targets, counts.unwrap())
}

#[test]
fn files_are_sorted_by_start_and_merged() {
    let files = ["5 /e\n1 /a\n\n3 /c\n".to_owned(), "2 /b\r\nbroken\n4 /d\n3 /c2".to_owned()];
    let (targets, counts) = replayed(&files, FORMAT);
    assert_eq!(targets, ["/a", "/b", "/c", "/c2", "/d", "/e"]);
    assert_eq!((counts.lines, counts.unreadable), (7, 1));
    let [example] = &counts.examples[..] else { panic!("{counts:?}") };
    assert_eq!((&*example.file, example.line), ("1.log", 2));
    assert_eq!(example.why, "the line does not match the format: `broken`");
}

#[test]
fn a_line_that_is_too_long_is_counted() {
    let long = format!("1 /a\n2 /{}\n3 /c\n", "x".repeat(2 << 20));
    let (targets, counts) = replayed(&[long], FORMAT);
    assert_eq!((targets, counts.lines, counts.unreadable), (vec!["/a".into(), "/c".into()], 3, 1));
}

#[test]
fn long_lines_fill_the_window_by_their_bytes() {
    // 100 MB, and then the line that started first.
    let long = "x".repeat(1_000_000);
    let text: String = (1..=100).map(|start| format!("{start} /{long}\n")).collect();
    let (targets, counts) = replayed(&[text + "0 /late\n"], FORMAT);
    let place = targets.iter().position(|target| target == "/late");
    assert_eq!((targets.len(), counts.unreadable), (101, 0));
    assert!(place.is_some_and(|place| (20..60).contains(&place)), "{place:?}");
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_line() {
    for (text, format) in [
        ("\u{feff}1 /a\n2 /b\n", FORMAT),
        ("\u{feff}{\"ts\": 1, \"path\": \"/a\"}\n{\"ts\": 2, \"path\": \"/b\"}\n", "json"),
    ] {
        let (targets, counts) = replayed(&[text.into(), text.into()], format);
        assert_eq!((targets, counts.unreadable), (["/a", "/a", "/b", "/b"].map(Into::into).to_vec(), 0));
    }
}

#[test]
fn lines_before_the_end_of_a_broken_file_count() {
    for lines in [3u64, 5_000] {
        let text: String = (0..lines).map(|line| format!("{line} /{}\n", line * 7_919 % 1_000)).collect();
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(text.as_bytes()).unwrap();
        let (gzip, zstd) = (gzip.finish().unwrap(), zstd::encode_all(text.as_bytes(), 0).unwrap());
        for whole in [gzip, zstd] {
            let cut = whole[..whole.len() - 9].to_vec();
            let expected = whole_lines(&cut);
            let inputs = [whole, cut].map(|bytes| decompress(Cursor::new(bytes)).unwrap());
            let (targets, counts) = read(inputs.into(), FORMAT);
            assert_eq!((counts.lines, counts.unreadable), (lines + expected, 0));
            assert_eq!(targets.len() as u64, lines + expected);
            let [ended] = &counts.ended_early[..] else { panic!("{counts:?}") };
            assert_eq!((&*ended.file, ended.line), ("1.log", expected));
            assert!(!ended.why.is_empty());
        }
    }
}

/// The whole lines that a decompressor gets out of these bytes.
fn whole_lines(bytes: &[u8]) -> u64 {
    let mut text = Vec::new();
    let _ = decompress(Cursor::new(bytes.to_vec())).unwrap().read_to_end(&mut text);
    text.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// A disk that fails after these bytes.
struct Failing(Cursor<Vec<u8>>);

impl Read for Failing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(io::Error::other("no disk")),
            count => Ok(count),
        }
    }
}

#[test]
fn a_line_without_its_end_before_an_error_does_not_count() {
    let inputs = ["1 /a\n2 /b\n3 /cut", ""].map(|text| decompress(Failing(Cursor::new(text.into()))));
    let [first, second] = inputs;
    assert!(second.is_err(), "nothing can be read");
    let (targets, counts) = read(vec![first.unwrap()], FORMAT);
    assert_eq!(targets, ["/a", "/b"]);
    let [ended] = &counts.ended_early[..] else { panic!("{counts:?}") };
    assert_eq!((counts.lines, ended.line, &*ended.why), (2, 2, "no disk"));
}

proptest! {
    #[test]
    fn any_order_within_the_window_becomes_the_order_of_starts(starts in prop::collection::vec(0u64..1000, 0..60), files in 1usize..4) {
        let mut texts = vec![String::new(); files];
        for (index, start) in starts.iter().enumerate() {
            texts[index % files] += &format!("{start} /{start}\n");
        }
        let mut sorted = starts.clone();
        sorted.sort_unstable();
        let expected: Vec<String> = sorted.iter().map(|start| format!("/{start}")).collect();
        prop_assert_eq!(replayed(&texts, FORMAT).0, expected);
    }
}
