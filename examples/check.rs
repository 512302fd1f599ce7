//! Checks configurations before a gateway reads them: `cargo run --quiet --example check -- FILE…`.
//!
//! A FILE is a Diana document in JSON, or an nginx configuration file. In an nginx file the check
//! reads every `proxy_wasm diana '…'`, unescaped as nginx does it, and the zone of `shm_kv`. The
//! check does not read included files. The exit code is 0 if a gateway would accept everything, 1
//! if there is a mistake, and 2 if a file cannot be read.

use diana_filter::nginx;
use std::process::ExitCode;
use std::{env, fs};

fn main() -> ExitCode {
    let files: Vec<String> = env::args().skip(1).collect();
    if files.is_empty() {
        eprintln!("usage: check FILE…\neach FILE is a Diana document in JSON or an nginx configuration file");
        return ExitCode::from(2);
    }
    let mut mistakes = 0;
    for file in files {
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) => {
                eprintln!("{file}: {error}");
                return ExitCode::from(2);
            }
        };
        let report = check(&text);
        report.lines.iter().for_each(|line| println!("{file}: {line}"));
        mistakes += report.mistakes;
    }
    ExitCode::from(u8::from(mistakes > 0))
}

/// The findings about a file.
#[derive(Debug, Default)]
pub struct Report {
    /// One line for each document that is accepted, each mistake and each warning.
    pub lines: Vec<String>,
    /// How many of the lines are mistakes.
    pub mistakes: usize,
}

impl Report {
    fn mistake(&mut self, place: &str, why: &str) {
        self.lines.push(format!("{place}mistake: {why}"));
        self.mistakes += 1;
    }

    fn warning(&mut self, place: &str, why: &str) {
        self.lines.push(format!("{place}warning: {why}"));
    }
}

/// Checks the text of a file.
pub fn check(text: &str) -> Report {
    let mut report = Report::default();
    if text.trim_start().starts_with(['{', '[']) {
        document(&mut report, "", text, false);
        return report;
    }
    if text.lines().any(|line| line.trim_end() == "static_resources:" || line.starts_with("resources:")) {
        report.mistake("", "this is Envoy's YAML: check it with `envoy --mode validate -l warning -c FILE`");
        return report;
    }
    let directives = match directives(text) {
        Ok(directives) => directives,
        Err(why) => {
            report.mistake("", &why);
            return report;
        }
    };
    let mut documents: Vec<&str> = Vec::new();
    let mut needed = 0;
    for Directive { line, words } in &directives {
        if let [directive, module, document] = &words[..]
            && directive == "proxy_wasm"
            && module == "diana"
        {
            let size = self::document(&mut report, &format!("line {line}: "), document, true);
            // The same document in two places counts in the same keys.
            if !documents.contains(&&**document) {
                needed += size;
            }
            documents.push(document);
        }
    }
    match documents.is_empty() {
        true => {
            report.mistake("", "the file has neither a JSON document nor a directive `proxy_wasm diana '…'`")
        }
        false => zone(&mut report, &directives, needed),
    }
    report
}

/// Checks a document, and returns how many bytes it needs in an nginx zone.
fn document(report: &mut Report, place: &str, text: &str, is_nginx: bool) -> u64 {
    let mut configuration = match diana_config::compile(text.as_bytes()) {
        Ok(configuration) => configuration,
        Err(errors) => {
            errors.iter().for_each(|error| report.mistake(place, &error.to_string()));
            return 0;
        }
    };
    configuration.warnings.iter().for_each(|warning| report.warning(place, &warning.to_string()));
    if is_nginx {
        nginx::refusals(&configuration).iter().for_each(|why| report.mistake(place, why));
        if configuration.policy.refuse_to_wait() {
            report.warning(place, "nginx cannot hold requests: a request that would wait is refused");
        }
    }
    let (keys, bytes) = configuration.policy.footprint();
    let rules = configuration.policy.rules().count();
    let kib = bytes.div_ceil(1024);
    report.lines.push(format!("{place}rules: {rules}; at most {keys} keys and {kib} KiB of shared data"));
    nginx::zone_bytes(&configuration.policy)
}

/// Checks the zone that holds the keys of all documents.
fn zone(report: &mut Report, directives: &[Directive], needed: u64) {
    let zones = |name: &str| {
        let named = move |directive: &&Directive| matches!(&directive.words[..], [first, zone, _, ..] if first == "shm_kv" && zone == name);
        directives.iter().find(named)
    };
    let Some(Directive { line, words }) = zones("diana").or_else(|| zones("*")) else {
        return report
            .mistake("", "`shm_kv diana SIZE eviction=lru;` is missing: no worker starts without it");
    };
    let place = format!("line {line}: ");
    if !words.iter().any(|word| word == "eviction=lru") {
        report.warning(
            &place,
            "write `eviction=lru`: `slru`, the default, may crash workers, and `none` fails requests",
        );
    }
    let kib = needed.div_ceil(1024);
    match size(&words[2]) {
        Some(bytes) if bytes >= needed => {}
        Some(_) => {
            report.warning(&place, &format!("the zone is too small: the documents need up to {kib} KiB"))
        }
        None => report.mistake(&place, &format!("`{}` is not a size", words[2])),
    }
}

/// The bytes of a size in nginx's notation, such as `64m`.
fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// An nginx directive: its words without quotes and escapes, and the line of the first word.
#[derive(Debug)]
struct Directive {
    line: usize,
    words: Vec<String>,
}

/// All directives of a configuration file in order, inner blocks included
/// (`ngx_conf_read_token`).
fn directives(text: &str) -> Result<Vec<Directive>, String> {
    let mut directives = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let (mut line, mut first) = (1, 1);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' => line += 1,
            c if c.is_whitespace() => {}
            '#' => while chars.next_if(|c| *c != '\n').is_some() {},
            ';' | '{' | '}' => {
                if !words.is_empty() {
                    directives.push(Directive { line: first, words: std::mem::take(&mut words) });
                }
            }
            c => {
                if words.is_empty() {
                    first = line;
                }
                let quote = ['\'', '"'].into_iter().find(|quote| *quote == c);
                let mut word = String::new();
                if quote.is_none() {
                    escaped(c, &mut chars, &mut word);
                }
                loop {
                    let ends = |next: &char| match quote {
                        Some(quote) => *next == quote,
                        None => next.is_whitespace() || ";{".contains(*next),
                    };
                    match chars.next_if(|next| !ends(next)) {
                        Some(next) => {
                            line += usize::from(next == '\n');
                            escaped(next, &mut chars, &mut word);
                        }
                        None => break,
                    }
                }
                if quote.is_some() && chars.next().is_none() {
                    return Err(format!("line {first}: a quoted string does not end"));
                }
                words.push(word);
            }
        }
    }
    match words.is_empty() {
        true => Ok(directives),
        false => Err(format!("line {first}: a directive does not end with `;`")),
    }
}

/// Appends a character, or the character that an escape stands for.
fn escaped(c: char, chars: &mut std::iter::Peekable<std::str::Chars>, word: &mut String) {
    let next = if c == '\\' { chars.next() } else { None };
    match next {
        Some(quoted @ ('"' | '\'' | '\\')) => word.push(quoted),
        Some('t') => word.push('\t'),
        Some('r') => word.push('\r'),
        Some('n') => word.push('\n'),
        other => {
            word.push(c);
            word.extend(other);
        }
    }
}
