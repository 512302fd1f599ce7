//! Reads several logs on a thread of its own and merges them: requests in the order of their
//! starts, in batches. A line is written when its request ends, so a window of lines for each file
//! puts them in order.

use super::Format;
use super::begin;
use super::field::shown;
use super::input::{self, Input, Progress};
use super::known::Known;
use super::record::{Record, Slots};
use crate::Error;
use crate::summary::{EndedEarly, Unreadable};
use diana_limiter::time::Time;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::io::{self, BufRead, Read};
use std::mem::take;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

/// The requests of some lines.
pub type Batch = Vec<Box<Record>>;

/// The lines that the windows of all files hold, and the bytes of their values.
const WINDOW: usize = 1 << 16;
const WINDOW_BYTES: usize = 64 << 20;
/// The lines that tell the format. No line follows after so many bytes.
const HEAD: usize = 1_000;
const HEAD_BYTES: usize = 1 << 20;
/// The requests of a batch, the batches that wait for the decisions, and the bytes of the values
/// that complete a batch.
const BATCH: usize = 512;
const BATCH_BYTES: usize = 1 << 20;
const WAITING: usize = 8;
/// The longest line.
const MAX_LINE_BYTES: usize = 1 << 20;
/// The unreadable lines that the summary shows.
const EXAMPLES: usize = 5;
/// The mark that some programs write at the start of a file in UTF-8.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The numbers of lines, complete when all logs are read.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// All lines that are not empty.
    pub lines: u64,
    /// Lines that are no request of the format.
    pub unreadable: u64,
    /// The first of the unreadable lines.
    pub examples: Vec<Unreadable>,
    /// The files with lines of which none is a request of the format.
    pub unmatched: Vec<String>,
    /// The files that could not be read to their ends.
    pub ended_early: Vec<EndedEarly>,
    /// Which values the lines have.
    pub known: Known,
}

/// Logs that are open.
pub struct Logs {
    files: Vec<LogFile>,
    format: Format,
    progress: Progress,
}

impl Logs {
    /// Opens the files, and finds their format unless `format` names it.
    pub fn open(paths: &[PathBuf], format: Option<&str>, slots: &Slots) -> Result<Logs, Error> {
        let progress = Progress::default();
        let mut files = Vec::new();
        for path in paths {
            let name = path.display().to_string();
            let input =
                input::open(path, &progress).map_err(|source| Error::Open { file: name.clone(), source })?;
            files.push(LogFile::new(name, input));
        }
        Logs::new(files, format, slots, progress)
    }

    /// Logs in memory.
    pub fn of_inputs(
        inputs: Vec<(String, Input)>,
        format: Option<&str>,
        slots: &Slots,
    ) -> Result<Logs, Error> {
        let files = inputs.into_iter().map(|(name, input)| LogFile::new(name, input)).collect();
        Logs::new(files, format, slots, Progress::default())
    }

    fn new(
        mut files: Vec<LogFile>,
        format: Option<&str>,
        slots: &Slots,
        progress: Progress,
    ) -> Result<Logs, Error> {
        for file in &mut files {
            file.read_head();
        }
        let head = || files.iter().flat_map(|file| &file.head).map(Vec::as_slice);
        let format = match format {
            Some(format) => Format::new(format, slots).map_err(Error::Format)?,
            None => match (Format::detect(head(), slots), head().next()) {
                (Some(format), _) => format,
                (None, None) => Format::new("json", slots).map_err(Error::Format)?,
                (None, Some(line)) => {
                    let (line, advice) = (shown(line), begin::advice(head(), slots));
                    return Err(Error::UnknownFormat { line, advice });
                }
            },
        };
        Ok(Logs { files, format, progress })
    }

    /// The format.
    #[must_use]
    pub fn format(&self) -> &str {
        &self.format.name
    }

    /// Starts to read.
    pub fn start(self) -> Result<Reading, Error> {
        let Logs { files, format, progress } = self;
        let (send, batches) = queue();
        let (give_back, used) = channel();
        let share = |all: usize| all.checked_div(files.len()).unwrap_or(all).max(1);
        let (room, room_bytes) = (share(WINDOW), share(WINDOW_BYTES));
        let files = files.into_iter().enumerate().map(|(index, file)| Sorted {
            file,
            index: u32::try_from(index).unwrap_or(u32::MAX),
            format: format.clone(),
            room,
            room_bytes,
            window: BinaryHeap::new(),
            bytes: 0,
            is_unmatched: None,
        });
        let mut merge =
            Merge { files: files.collect(), send, used, free: Vec::new(), counts: Counts::default() };
        let read = move || {
            merge.run();
            let Merge { files, mut counts, .. } = merge;
            for Sorted { file, format, is_unmatched, .. } in files {
                counts.known.merge(format.known());
                counts.unmatched.extend((is_unmatched == Some(true)).then_some(file.name));
            }
            counts
        };
        let reader = if cfg!(feature = "threads") {
            Reader::Thread(thread::Builder::new().name("reader".into()).spawn(read).map_err(Error::Thread)?)
        } else {
            Reader::Done(Box::new(read()))
        };
        Ok(Reading { batches, give_back, reader, progress })
    }
}

/// A queue of batches, bounded if a thread fills it.
fn queue() -> (Batches, Receiver<Batch>) {
    if cfg!(feature = "threads") {
        let (send, batches) = sync_channel(WAITING);
        (Batches::Bounded(send), batches)
    } else {
        let (send, batches) = channel();
        (Batches::Unbounded(send), batches)
    }
}

/// The end of the queue at which batches are added.
enum Batches {
    Bounded(SyncSender<Batch>),
    Unbounded(Sender<Batch>),
}

impl Batches {
    /// Adds a batch. `None`: nobody decides any more.
    fn send(&self, batch: Batch) -> Option<()> {
        match self {
            Batches::Bounded(send) => send.send(batch).ok(),
            Batches::Unbounded(send) => send.send(batch).ok(),
        }
    }
}

/// What reads the lines.
enum Reader {
    Thread(JoinHandle<Counts>),
    /// Without threads, all lines have been read before the first decision.
    Done(Box<Counts>),
}

/// Logs that are being read.
pub struct Reading {
    batches: Receiver<Batch>,
    give_back: Sender<Batch>,
    reader: Reader,
    progress: Progress,
}

impl Reading {
    /// Calls `each` with each batch, and then with the bytes that have been read so far.
    pub fn for_each(self, mut each: impl FnMut(&Batch, u64)) -> Result<Counts, Error> {
        let Reading { batches, give_back, reader, progress } = self;
        for batch in batches {
            each(&batch, progress.bytes());
            // The reader may have ended already.
            let _ = give_back.send(batch);
        }
        match reader {
            Reader::Thread(thread) => thread.join().map_err(|_| Error::Reader),
            Reader::Done(counts) => Ok(*counts),
        }
    }
}

/// A file and its position.
struct LogFile {
    name: String,
    input: Input,
    /// The first lines, which were read to detect the format.
    head: VecDeque<Vec<u8>>,
    /// Why the file cannot be read after these lines.
    failure: Option<io::Error>,
    line: Vec<u8>,
    /// The number of lines so far.
    number: u64,
}

/// A line of a file.
enum Line {
    Text,
    TooLong,
    End,
}

impl LogFile {
    fn new(name: String, input: Input) -> LogFile {
        LogFile { name, input, head: VecDeque::new(), failure: None, line: Vec::new(), number: 0 }
    }

    fn read_head(&mut self) {
        let mut bytes = 0usize;
        while self.head.len() < HEAD && bytes < HEAD_BYTES {
            match self.read_line() {
                Ok(Line::End) => break,
                Ok(Line::Text | Line::TooLong) => {
                    bytes = bytes.saturating_add(self.line.len());
                    self.head.push_back(take(&mut self.line));
                }
                Err(error) => {
                    self.failure = Some(error);
                    break;
                }
            }
        }
        if let Some(first) = self.head.front_mut()
            && first.len() <= MAX_LINE_BYTES
            && first.starts_with(BYTE_ORDER_MARK)
        {
            first.drain(..BYTE_ORDER_MARK.len());
        }
    }

    /// Goes to the next line. The line is in `self.line`, without its end.
    fn next(&mut self) -> io::Result<Line> {
        let line = match (self.head.pop_front(), self.failure.take()) {
            (Some(line), failure) => {
                (self.line, self.failure) = (line, failure);
                if self.line.len() > MAX_LINE_BYTES { Line::TooLong } else { Line::Text }
            }
            (None, Some(failure)) => return Err(failure),
            (None, None) => self.read_line()?,
        };
        if !matches!(line, Line::End) {
            self.number = self.number.saturating_add(1);
        }
        Ok(line)
    }

    fn read_line(&mut self) -> io::Result<Line> {
        self.line.clear();
        let most = u64::try_from(MAX_LINE_BYTES).unwrap_or(u64::MAX).saturating_add(1);
        let read = self.input.by_ref().take(most).read_until(b'\n', &mut self.line)?;
        if self.line.ends_with(b"\n") {
            let end = if self.line.ends_with(b"\r\n") { 2 } else { 1 };
            self.line.truncate(self.line.len().saturating_sub(end));
        } else if self.line.len() > MAX_LINE_BYTES {
            self.input.skip_until(b'\n')?;
            return Ok(Line::TooLong);
        }
        Ok(if read == 0 { Line::End } else { Line::Text })
    }
}

/// A file whose requests leave in the order of their starts, as far as the window reaches.
struct Sorted {
    file: LogFile,
    index: u32,
    format: Format,
    /// The most requests in the window, and the bytes of their values from which on no further
    /// request comes.
    room: usize,
    room_bytes: usize,
    window: BinaryHeap<Waiting>,
    /// The bytes of the values in the window.
    bytes: usize,
    /// Whether no line so far is a request, `None` before the first line.
    is_unmatched: Option<bool>,
}

impl Sorted {
    /// Fills the window.
    fn fill(&mut self, free: &mut Batch, counts: &mut Counts) {
        while self.window.len() < self.room && self.bytes < self.room_bytes {
            let line = match self.file.next() {
                Ok(Line::End) => break,
                Ok(line) => line,
                Err(error) => {
                    let LogFile { name, number, .. } = &self.file;
                    counts.ended_early.push(EndedEarly {
                        file: name.clone(),
                        line: *number,
                        why: error.to_string(),
                    });
                    self.file.input = Box::new(io::empty());
                    break;
                }
            };
            if self.file.line.is_empty() {
                continue;
            }
            counts.lines = counts.lines.saturating_add(1);
            self.is_unmatched.get_or_insert(true);
            if matches!(line, Line::TooLong) {
                self.unreadable("the line is longer than 1 MiB".into(), counts);
                continue;
            }
            let mut record = free.pop().unwrap_or_default();
            match self.format.read(&self.file.line, &mut record) {
                Ok(()) => {
                    self.is_unmatched = Some(false);
                    (record.file, record.line) = (self.index, self.file.number);
                    self.bytes = self.bytes.saturating_add(record.bytes());
                    self.window.push(Waiting { order: (record.start, record.line), record });
                }
                Err(why) => {
                    free.push(record);
                    let why = format!("{why}: `{}`", shown(&self.file.line));
                    self.unreadable(why, counts);
                }
            }
        }
    }

    fn unreadable(&self, why: String, counts: &mut Counts) {
        counts.unreadable = counts.unreadable.saturating_add(1);
        if counts.examples.len() < EXAMPLES {
            let (file, line) = (self.file.name.clone(), self.file.number);
            counts.examples.push(Unreadable { file, line, why });
        }
    }

    /// The request with the earliest start.
    fn pop(&mut self) -> Option<Box<Record>> {
        let Waiting { record, .. } = self.window.pop()?;
        self.bytes = self.bytes.saturating_sub(record.bytes());
        Some(record)
    }

    fn earliest(&self) -> Option<Time> {
        self.window.peek().map(|waiting| waiting.order.0)
    }
}

/// A request in the window. The earliest start is the greatest; of equal starts, the first line.
struct Waiting {
    /// The start and the line, here because a comparison that reads the record takes twice as long.
    order: (Time, u64),
    record: Box<Record>,
}

impl Ord for Waiting {
    fn cmp(&self, other: &Waiting) -> Ordering {
        other.order.cmp(&self.order)
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Waiting) -> bool {
        self.order == other.order
    }
}

impl Eq for Waiting {}

/// Merges the files.
struct Merge {
    files: Vec<Sorted>,
    send: Batches,
    /// Used batches, returned for reuse.
    used: Receiver<Batch>,
    free: Batch,
    counts: Counts,
}

impl Merge {
    fn run(&mut self) {
        let (mut batch, mut bytes) = (Batch::with_capacity(BATCH), 0usize);
        for file in &mut self.files {
            file.fill(&mut self.free, &mut self.counts);
        }
        loop {
            let earliest = self.files.iter_mut().filter_map(|file| Some((file.earliest()?, file)));
            // If starts are equal, the first file wins.
            let Some((_, file)) = earliest.min_by_key(|(start, file)| (*start, file.index)) else { break };
            if let Some(record) = file.pop() {
                bytes = bytes.saturating_add(record.bytes());
                batch.push(record);
            }
            file.fill(&mut self.free, &mut self.counts);
            if batch.len() == BATCH || bytes > BATCH_BYTES {
                bytes = 0;
                if self.send.send(batch).is_none() {
                    return;
                }
                batch = match self.used.try_recv() {
                    Ok(mut used) => {
                        self.free.append(&mut used);
                        used
                    }
                    Err(_) => Batch::with_capacity(BATCH),
                };
            }
        }
        // If the receiver is gone, nobody needs the batch.
        let _ = self.send.send(batch);
    }
}
