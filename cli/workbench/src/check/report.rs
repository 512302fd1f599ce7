//! All findings about a file.

use super::code::{self, Severity};
use super::finding::{Finding, Findings};
use super::mistakes::{Compiled, compile, compiled};
use super::model::Model;
use super::place::Places;
use super::{
    addresses, clusters, document, envoy, files, forgeable, mistakes, nginx, partial, replicas, rules, stats,
    variables, yaml,
};
use crate::secrets::Secrets;
use crate::source::content::{File, SyntaxError, Unreadable};
use crate::source::documents::{Document, Host, documents};
use crate::source::files::Around;
use crate::source::parts::{Form, parts};
use crate::source::value::Value;
use diana_config::Configuration;
use diana_document::Error;
use diana_filter::Exports;
use diana_limiter::policy::{Enforce, Rule};
use std::collections::HashSet;
use std::ops::Range;
use std::str::FromStr;

/// What the check of a file found.
#[derive(Debug)]
pub struct Report {
    /// The file.
    pub file: File,
    /// The findings, in the order of the file.
    pub findings: Vec<Finding>,
    /// The documents without mistakes, in the order of the file.
    pub documents: Vec<Summary>,
    /// What no excerpt shows.
    pub secrets: Secrets,
}

/// What a document needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The first line of the document.
    pub line: usize,
    /// The program that reads the document.
    pub host: Host,
    /// The number of rules.
    pub rules: usize,
    /// The number of keys of the shared data, at most.
    pub keys: u64,
    /// The bytes of the shared data, at most.
    pub bytes: u64,
    /// The file of the filter with the fewest callbacks that suffice, or the native module.
    pub filter: &'static str,
    /// Whether nothing is ever refused, because all rules are in shadow.
    pub is_shadow: bool,
    /// The number of rules that are enforced for a part of their actors.
    pub partial: usize,
    /// The urls of the first two limits of which both count a request, the less specific one first.
    pub overlap: Option<[String; 2]>,
}

/// The file of the native module.
const MODULE: &str = "libdiana.so";

/// What a file does not say about the gateways that run it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fleet {
    /// Their number; by default that of the only workload in the same file.
    pub replicas: Option<u64>,
    /// The version of their Envoy.
    pub envoy: Option<Version>,
    /// The policy by which their Redis evicts counts.
    pub evicting: Option<&'static str>,
}

/// The first two numbers of a version, such as 1.40.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u16, pub u16);

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Version, String> {
        let parts: Vec<&str> = text.trim_start_matches('v').split(['.', '-']).collect();
        let number = |at: usize| parts.get(at).and_then(|part: &&str| part.parse().ok());
        match (number(0), number(1)) {
            (Some(major), Some(minor)) => Ok(Version(major, minor)),
            _ => Err("a version has the form 1.40 or 1.40.0".into()),
        }
    }
}

impl Report {
    /// The only finding about a file that cannot be read.
    #[must_use]
    pub fn unreadable(Unreadable { file, range, why }: Unreadable) -> Report {
        let message = format!("cannot read {}: {why}", diana_document::quoted(&file.name));
        let hint = (!range.is_empty()).then(|| "save the file as UTF-8".into());
        let finding = Finding { code: code::UNREADABLE, message, hint, range };
        let secrets = Secrets::of_text(&file.text);
        Report { file, findings: vec![finding], documents: Vec::new(), secrets }
    }

    /// Checks a file's text. Files that it names are not looked for.
    #[must_use]
    pub fn of(file: File, fleet: Fleet) -> Report {
        Report::around(file, fleet, None)
    }

    /// The mistakes that a reader of a file's value found, for files without documents and secrets.
    #[must_use]
    pub fn of_errors(file: File, root: &Value, errors: &[Error]) -> Report {
        let places = Places::new(root, false);
        let finding = |error: &Error| {
            let (message, hint) = mistakes::split(&error.why);
            let range = places.of(error);
            Finding {
                code: mistakes::code_of(error),
                message: message.into(),
                hint: hint.map(Into::into),
                range,
            }
        };
        let mut findings: Vec<Finding> = errors.iter().map(finding).collect();
        findings.sort_by_key(|finding| (finding.range.start, finding.range.end));
        Report { file, findings, documents: Vec::new(), secrets: Secrets::default() }
    }

    /// The mistake at which the text of a file stops being YAML or JSON.
    #[must_use]
    pub fn of_syntax(file: File, error: &SyntaxError) -> Report {
        let (message, hint) = mistakes::split(&error.why);
        let range = error.at..error.at.saturating_add(1);
        let finding =
            Finding { code: code::SYNTAX, message: message.into(), hint: hint.map(Into::into), range };
        Report { file, findings: vec![finding], documents: Vec::new(), secrets: Secrets::default() }
    }

    /// Checks a file, and whether the files exist that it names, if the files around it are given.
    #[must_use]
    pub fn around(file: File, fleet: Fleet, around: Option<Around>) -> Report {
        let parts = parts(&file);
        let mut found = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            let content = &part.content;
            let line = |at: usize| file.position(content.origin.outer(at)).line;
            let mut findings = Findings::new(content, &mut found);
            match &part.form {
                Form::Wrong(error) => {
                    let (message, hint) = mistakes::split(&error.why);
                    findings.add(code::SYNTAX, &(error.at..error.at.saturating_add(1)), message, hint);
                }
                Form::Nginx(directives) => nginx::missing_ends(directives, &mut findings),
                Form::Document(_) | Form::Envoy(_) | Form::Kubernetes(_) => {}
            }
            yaml::dropped_keys(part, &line, &mut findings);
            let earlier = index.checked_sub(1).and_then(|index| parts.get(index));
            yaml::ignored_document(part, earlier, &mut findings);
        }
        let fleet = Fleet { replicas: fleet.replicas.or_else(|| replicas::replicas(&parts)), ..fleet };
        let documents = documents(&parts);
        if documents.is_empty() && found.iter().all(|finding| finding.code != code::SYNTAX) {
            Findings::new(&file.content(), &mut found).add(
                code::NO_CONFIGURATION,
                &(0..1),
                "the file has no Diana document",
                Some(mistakes::NO_DOCUMENT),
            );
        }
        let mut summaries = Vec::new();
        // A file may have thousands of parts, so no part looks through the documents of others.
        for documents in documents.chunk_by(|one, next| std::ptr::eq(one.part, next.part)) {
            let Some(part) = documents.first().map(|document| document.part) else { continue };
            let mut zone = nginx::Zone::default();
            let listener = listener(documents);
            for document in documents {
                if let Some(around) = around.filter(|_| part.content.origin == file.content().origin) {
                    files::missing(document, around, &mut Findings::new(&part.content, &mut found));
                }
                if let Some(configuration) =
                    check(document, listener.as_deref(), fleet, &file, &mut zone, &mut found)
                {
                    summaries.push(summary(document, &configuration, &file));
                }
            }
            if let (Form::Nginx(directives), true) = (&part.form, zone.has_documents) {
                // A manifest does not show the folder of its files.
                let whole = around.filter(|_| parts.len() == 1);
                nginx::surroundings(directives, whole, &zone, &mut Findings::new(&part.content, &mut found));
            }
        }
        found.sort_by_key(|finding| (finding.range.start, finding.range.end));
        // The value of a YAML anchor is checked at the anchor and at each alias.
        let mut known = HashSet::new();
        found.retain(|finding| {
            known.insert((finding.range.clone(), finding.code.name, finding.message.clone()))
        });
        let secrets = Secrets::of(&file.text, &parts, &documents);
        for finding in &mut found {
            finding.message = secrets.redacted(std::mem::take(&mut finding.message));
            finding.hint = finding.hint.take().map(|hint| secrets.redacted(hint));
        }
        Report { file, findings: found, documents: summaries, secrets }
    }

    /// Whether the file cannot be read.
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        self.findings.iter().any(|finding| finding.code == code::UNREADABLE)
    }

    /// The number of findings of a severity.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.code.severity == severity).count()
    }
}

/// The only listener document of a text's documents, if that document is valid. Documents of routes
/// overlay it.
fn listener(documents: &[Document]) -> Option<Vec<u8>> {
    let mut listeners = documents.iter().filter(|document| document.host == Host::Module);
    let (only, None) = (listeners.next()?, listeners.next()) else {
        return None;
    };
    let json = only.json().into_owned();
    diana_config::compile(&json).is_ok().then_some(json)
}

/// Checks a document and the configuration around it. Returns its configuration.
fn check(
    document: &Document,
    listener: Option<&[u8]>,
    fleet: Fleet,
    file: &File,
    zone: &mut nginx::Zone,
    found: &mut Vec<Finding>,
) -> Option<Configuration> {
    zone.has_documents |= document.host == Host::Nginx;
    envoy::warnings(document, &mut Findings::new(&document.part.content, found));
    let line = |range: &Range<usize>| file.position(document.content().outer(range).start).line;
    let (compiled, spelt) = compile(document, listener, &line, &mut Findings::new(document.content(), found));
    let value = spelt.as_ref().or(document.value())?;
    let errors = if let Compiled::Wrong(errors) = &compiled { &errors[..] } else { &[] };
    if !errors.iter().any(addresses::concerns) {
        addresses::warnings(document, &Model::of(value), found);
    }
    stats::tags(document, value, &mut Findings::new(&document.part.content, found));
    variables::unlisted(document, value, &mut Findings::new(document.content(), found));
    clusters::unknown(document, value, &mut Findings::new(document.content(), found));
    clusters::carriers(document, value, fleet, &mut Findings::new(document.content(), found));
    match compiled {
        Compiled::Whole(configuration) => {
            let whole = Judged { value, configuration: *configuration, is_whole: true };
            let configuration = judge(document, whole, fleet, zone, found);
            spelt.is_none().then_some(configuration)
        }
        Compiled::Wrong(errors) => {
            let partial = without_mistakes(document, value, &errors, listener);
            if let Some((value, configuration)) = partial {
                let rest = Judged { value: &value, configuration, is_whole: false };
                judge(document, rest, fleet, zone, found);
            }
            None
        }
        Compiled::Route => None,
    }
}

/// The parts of a document that have no mistakes, and their configuration.
fn without_mistakes(
    document: &Document,
    value: &Value,
    errors: &[Error],
    listener: Option<&[u8]>,
) -> Option<(Value, Configuration)> {
    let partial = partial::without_mistakes(value, errors)?;
    match compiled(document.host, partial.to_json().as_bytes(), listener) {
        Ok(Compiled::Whole(configuration)) => Some((partial, *configuration)),
        _ => None,
    }
}

/// A document, or the parts of a document without mistakes.
struct Judged<'a> {
    value: &'a Value,
    configuration: Configuration,
    /// Whether nothing is left out.
    is_whole: bool,
}

/// Adds the warnings about a document. Returns its configuration.
fn judge(
    document: &Document,
    judged: Judged,
    fleet: Fleet,
    zone: &mut nginx::Zone,
    found: &mut Vec<Finding>,
) -> Configuration {
    let Judged { value, mut configuration, is_whole } = judged;
    let mut findings = Findings::new(document.content(), found);
    document::warnings(document, value, &configuration, fleet, is_whole, &mut findings);
    envoy::bodies(document, &configuration, &mut Findings::new(&document.part.content, found));
    let mut findings = Findings::new(document.content(), found);
    forgeable::quotas(document, &Model::of(value), &mut findings);
    if document.host == Host::Nginx {
        zone.add(value, &mut configuration, &mut findings);
    }
    configuration
}

fn summary(document: &Document, configuration: &Configuration, file: &File) -> Summary {
    let (keys, bytes) = configuration.policy.footprint();
    let rules = || configuration.policy.rules().map(|(_, rule)| rule);
    let is_partial = |rule: &&Rule| rule.enforced() && rule.enforce() < Enforce::EVERYBODY;
    Summary {
        line: file.position(document.range().start).line,
        host: document.host,
        rules: rules().count(),
        keys,
        bytes,
        filter: match document.host {
            Host::Any | Host::Wasm => Exports::Useful.file(),
            Host::Nginx => Exports::All.file(),
            Host::Module | Host::Route => MODULE,
        },
        is_shadow: rules().next().is_some() && rules().all(|rule| !rule.enforced()),
        partial: rules().filter(is_partial).count(),
        overlap: document.value().and_then(|value| rules::overlap(&Model::of(value))),
    }
}
