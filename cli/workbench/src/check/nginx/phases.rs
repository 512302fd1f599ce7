//! Findings about what nginx does around the filter, which runs before `rewrite`, `return` and
//! `if`, while its refusal is sent later, by the content handler of the location that the request
//! is in by then.

use crate::check::code::{self, Code};
use crate::check::finding::Findings;
use crate::source::nginx::{Directive, LONGEST_ARGUMENT, Word};
use crate::source::recognize::is_of_diana;
use diana_document::quoted;
use serde_json::Value;
use std::collections::HashSet;

const ONLY_IN_ANSWERING: &str = "write `proxy_wasm diana` only in the location that answers";
const EMPTY: &str = r#"`proxy_wasm diana '{"limits": []}';`"#;

/// Adds all findings about a configuration with its included files.
///
/// Findings in an included file point to the `include`.
pub fn surroundings(directives: &[Directive], findings: &mut Findings) {
    let (tree, mut reported) = (Tree { directives }, HashSet::new());
    for (index, directive) in directives.iter().enumerate() {
        if is_of_diana(directive) {
            if directive.included.is_none() {
                length(directive, findings);
            }
            tree.repeated(index, directive, findings);
            continue;
        }
        match directive.texts()[..] {
            ["rewrite", _, replacement, ref flag @ ..] => {
                tree.rewrite(index, replacement, flag.first().copied(), findings);
            }
            ["return", first, ..] => tree.response(index, first, findings),
            ["try_files", .., last] => tree.try_files(index, last.strip_prefix('='), findings),
            ["error_page", _, .., uri] => tree.error_page(index, uri, findings),
            [name @ ("auth_request" | "mirror" | "add_before_body" | "add_after_body"), uri] => {
                tree.subrequest(index, name, uri, findings);
            }
            ["location", ..] => tree.unlimited_pages(index, &mut reported, findings),
            ["slice", size] if size != "0" => tree.slice(index, findings),
            ["include", path] => tree.unseen(index, path, findings),
            ["ssi", "on"] => tree.ssi(index, findings),
            [name, ..] if is_handler(name) && directive.block == "if" => tree.handler(index, findings),
            _ => {}
        }
    }
}

/// Whether a directive sets the content handler of its block.
fn is_handler(name: &str) -> bool {
    name.ends_with("_pass") || name == "js_content" || name.starts_with("content_by_lua")
}

/// Whether an included file has this name by custom and has no directive that matters here.
fn sets_only_values(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name == "mime.types" || name.ends_with("_params")
}

fn length(directive: &Directive, findings: &mut Findings) {
    let [_, _, document, ..] = &directive.words[..] else { return };
    // JSON is always in quotes here.
    let bytes = document.range.len().saturating_sub(2);
    if bytes <= LONGEST_ARGUMENT {
        return;
    }
    let compact =
        serde_json::from_str::<Value>(&document.text).map_or(bytes, |value| value.to_string().len());
    let hint = match compact <= LONGEST_ARGUMENT {
        true => format!("without blanks the document has {compact} bytes"),
        false => "write each limit only in the locations whose paths it concerns, or give the location \
            several directives, which charge in turn"
            .into(),
    };
    findings.add(
        code::DOCUMENT_LENGTH,
        &directive.words.get(1).map_or(document.range.clone(), |name| name.range.clone()),
        format!(
            "the document has {bytes} bytes, but nginx refuses an argument of more than {LONGEST_ARGUMENT}"
        ),
        Some(&hint),
    );
}

/// Whether a document of Diana limits nothing.
fn is_empty(directive: &Directive) -> bool {
    let document = directive.words.get(2).and_then(|word| serde_json::from_str::<Value>(&word.text).ok());
    document.is_some_and(|document| {
        let has_limits =
            document.get("limits").and_then(Value::as_array).is_none_or(|limits| !limits.is_empty());
        !has_limits && document.get("deny").is_none()
    })
}

/// The directives by their blocks. A block is the index of the directive that opens it; `None` is
/// the whole file.
struct Tree<'a> {
    directives: &'a [Directive],
}

type Block = Option<usize>;

impl<'a> Tree<'a> {
    fn get(&self, block: Block) -> Option<&'a Directive> {
        self.directives.get(block?)
    }

    fn parent(&self, block: Block) -> Block {
        self.get(block)?.parent
    }

    fn within(&self, block: Block) -> impl Iterator<Item = (usize, &'a Directive)> {
        self.directives.iter().enumerate().filter(move |(_, directive)| directive.parent == block)
    }

    /// The block itself and all blocks around it, the whole file last.
    fn blocks_around(&self, block: Block) -> impl Iterator<Item = Block> {
        std::iter::successors(Some(block), |block| block.map(|_| self.parent(*block)))
    }

    fn is(&self, block: Block, name: &str) -> bool {
        self.get(block).is_some_and(|directive| directive.texts().first() == Some(&name))
    }

    /// The innermost block of this name around a directive.
    fn around(&self, index: usize, name: &str) -> Block {
        self.blocks_around(self.parent(Some(index))).find(|block| self.is(*block, name)).flatten()
    }

    /// The directives of Diana that hold in a block: its own ones, or those of the next block
    /// around it that has any `proxy_wasm`.
    fn effective(&self, block: Block) -> Vec<&'a Directive> {
        let filters = self.holding(block, &["proxy_wasm"]).into_iter().map(|(_, directive)| directive);
        filters.filter(|directive| is_of_diana(directive)).collect()
    }

    /// Whether requests are limited in a block.
    fn limits(&self, block: Block) -> bool {
        self.effective(block).iter().any(|directive| !is_empty(directive))
    }

    /// Adds a finding about a word of a directive.
    fn add(
        &self,
        findings: &mut Findings,
        code: Code,
        (index, word): (usize, usize),
        message: impl Into<String>,
        hint: Option<&str>,
    ) {
        let Some(directive) = self.get(Some(index)) else { return };
        let word = directive.words.get(word).or(directive.words.first());
        let range = word.map_or(0..0, |word: &Word| word.range.clone());
        let message = match &directive.included {
            Some(place) => format!("{}: {}", quoted(place), message.into()),
            None => message.into(),
        };
        findings.add(code, &range, message, hint);
    }

    /// An included file that cannot be read.
    fn unseen(&self, index: usize, path: &str, findings: &mut Findings) {
        let parent = self.parent(Some(index));
        let has_requests = ["http", "server", "location", "if"].iter().any(|name| self.is(parent, name));
        if has_requests && !sets_only_values(path) && self.limits(parent) {
            self.add(
                findings,
                code::UNSEEN_INCLUDE,
                (index, 1),
                "this file cannot be read, so what it does around the limits is not checked",
                Some("check the configuration where nginx has it, with its included files"),
            );
        }
    }

    /// A second directive of Diana in the same block.
    fn repeated(&self, index: usize, directive: &Directive, findings: &mut Findings) {
        let mut own = self.within(directive.parent).filter(|(_, other)| is_of_diana(other));
        if own.next().is_some_and(|(first, _)| first < index) {
            self.add(
                findings,
                code::SEVERAL_DIRECTIVES,
                (index, 0),
                "two directives in one block decide in turn: a request that the second one refuses stays \
                 charged by the first one",
                Some("write one document with all limits"),
            );
        }
    }

    /// `rewrite` in a location. At server level it runs before the filter.
    fn rewrite(&self, index: usize, replacement: &str, flag: Option<&str>, findings: &mut Findings) {
        let is_redirect =
            ["http://", "https://", "$scheme"].iter().any(|scheme| replacement.starts_with(scheme));
        if is_redirect || matches!(flag, Some("redirect" | "permanent")) {
            let status = if flag == Some("permanent") { "301" } else { "302" };
            return self.response(index, status, findings);
        }
        let stays = || {
            let mut later = self.within(self.parent(Some(index))).filter(|(other, _)| *other > index);
            flag.is_none() && later.any(|(_, directive)| directive.texts() == ["break"])
        };
        let location = self.around(index, "location");
        if location.is_some() && flag != Some("break") && !self.effective(location).is_empty() && !stays() {
            self.lost(
                index,
                "the request leaves the location after it was counted, and a refusal is lost",
                &format!("{ONLY_IN_ANSWERING}, or write `rewrite … break`, or rewrite at server level"),
                findings,
            );
        }
    }

    /// `return` in a location, with a status or an address.
    fn response(&self, index: usize, first: &str, findings: &mut Findings) {
        let location = self.around(index, "location");
        if location.is_none() || !self.limits(location) {
            return;
        }
        let status = if first.bytes().all(|byte| byte.is_ascii_digit()) { first } else { "302" };
        if self.is_caught(index, status) {
            self.caught(index, findings);
        } else if self.around(index, "if").is_none() || status.starts_with('2') {
            // Any other status in an `if` grants nothing that the limit protects.
            self.lost(
                index,
                "nginx responds here after the request was counted, and a refusal is lost",
                &format!("write {EMPTY} in this location, or `return` at server level"),
                findings,
            );
        }
    }

    /// Whether an `error_page` turns a status into a response that the limit may protect.
    fn is_caught(&self, index: usize, status: &str) -> bool {
        let has_text = self.get(Some(index)).is_some_and(|it| matches!(it.texts()[..], ["return", _, _]));
        // nginx sends a text at once, but looks for a page if the status is a redirect.
        if status.starts_with('2') || has_text && !status.starts_with('3') {
            return false;
        }
        let pages = self.holding(self.parent(Some(index)), &["error_page"]);
        pages.into_iter().any(|(page, directive)| match directive.texts()[..] {
            ["error_page", ref statuses @ .., uri] => {
                statuses.contains(&status) && !self.keeps_status(page, statuses, uri)
            }
            _ => false,
        })
    }

    /// Whether an `error_page` redirects the client, or sends a file with the status of an error.
    fn keeps_status(&self, index: usize, statuses: &[&str], uri: &str) -> bool {
        if ["http://", "https://", "$scheme"].iter().any(|scheme| uri.starts_with(scheme)) {
            return true;
        }
        let changes = statuses.last().and_then(|last| last.strip_prefix('='));
        if !uri.starts_with('/') || changes.is_some_and(|status| status.is_empty() || status.starts_with('2'))
        {
            return false;
        }
        let answers = |block: Block| {
            self.directives.iter().enumerate().any(|(inner, directive)| {
                let name = directive.texts().first().copied().unwrap_or_default();
                (is_handler(name) || matches!(name, "rewrite" | "try_files"))
                    && self.blocks_around(Some(inner)).any(|around| around == block)
            })
        };
        let mut locations = self.servers(index).into_iter().filter_map(|server| self.location(server, uri));
        !locations.any(answers)
    }

    /// The status with which an access module turns requests away in a block, and its directive.
    /// These modules run between the filter and the content handler.
    fn denials(&self, block: Block) -> impl Iterator<Item = (String, &'static str)> {
        const DENIALS: [(&[&str], &str); 6] = [
            (&["deny", "allow"], "403"),
            (&["auth_basic"], "401"),
            (&["auth_request"], "401"),
            (&["auth_request"], "403"),
            (&["limit_req"], "503"),
            (&["limit_conn"], "503"),
        ];
        DENIALS.into_iter().filter_map(move |(names, status)| {
            let name = names.first()?;
            let holding = self.holding(block, names);
            let denies =
                |it: &Directive| it.texts().first() == Some(name) && it.texts().last() != Some(&"off");
            holding.iter().any(|(_, it)| denies(it)).then_some(())?;
            let own_status = self.holding(block, &[&format!("{name}_status")]);
            let own_status = own_status.first().and_then(|(_, it)| Some((*it.texts().get(1)?).to_owned()));
            Some((own_status.unwrap_or_else(|| status.into()), *name))
        })
    }

    /// The directives with one of these names that hold in a block: those of the nearest block that
    /// has any.
    fn holding(&self, block: Block, names: &[&str]) -> Vec<(usize, &'a Directive)> {
        let own = |block: Block| {
            let is_named = |it: &Directive| it.texts().first().is_some_and(|name| names.contains(name));
            self.within(block).filter(|(_, it)| is_named(it)).collect::<Vec<_>>()
        };
        self.blocks_around(block).map(own).find(|own| !own.is_empty()).unwrap_or_default()
    }

    /// Reports each `error_page` that makes a success of a denial in this limited location, and
    /// leads to a location without limits. `reported` has those of other locations.
    fn unlimited_pages(&self, location: usize, reported: &mut HashSet<usize>, findings: &mut Findings) {
        let block = Some(location);
        if !self.limits(block) {
            return;
        }
        let pages = self.holding(block, &["error_page"]);
        for (status, name) in self.denials(block) {
            for (page, directive) in &pages {
                let ["error_page", ref statuses @ .., change, uri] = directive.texts()[..] else { continue };
                let is_success =
                    change.strip_prefix('=').is_some_and(|to| to.is_empty() || to.starts_with('2'));
                if !is_success || !statuses.contains(&&*status) || !uri.starts_with(['/', '@']) {
                    continue;
                }
                let servers = self.servers(location).into_iter();
                let mut targets = servers.map(|server| self.location(server, uri).unwrap_or(server));
                let Some(target) = targets.find(|target| !self.limits(*target) && !self.turns_away(*target))
                else {
                    continue;
                };
                if reported.insert(*page) {
                    self.add(
                        findings,
                        code::UNLIMITED_PAGE,
                        (*page, 0),
                        format!(
                            "`{name}` in {} sends requests here before a refusal is sent, and {} has no limits",
                            self.named(block, uri),
                            self.named(target, uri)
                        ),
                        Some("write `proxy_wasm diana` with the limits in that location too, or leave `=` out"),
                    );
                }
            }
        }
    }

    /// Whether a location only redirects the client or responds with an error.
    fn turns_away(&self, block: Block) -> bool {
        self.within(block)
            .any(|(_, it)| matches!(it.texts()[..], ["return", first, ..] if !first.starts_with('2')))
    }

    fn caught(&self, index: usize, findings: &mut Findings) {
        self.lost(
            index,
            "`error_page` sends this status to another location after the request was counted, and a \
             refusal is lost",
            &format!(
                "choose the upstream by a `map` and a variable; or write {EMPTY} in this location, and \
                 `proxy_wasm diana` with the limits in each location that answers"
            ),
            findings,
        );
    }

    /// A handler in an `if` in a location.
    fn handler(&self, index: usize, findings: &mut Findings) {
        let location = self.around(index, "location");
        let postpones = || self.directives.iter().any(|it| it.texts() == ["wasm_postpone_rewrite", "on"]);
        if location.is_some() && self.limits(location) && !postpones() {
            self.lost(
                index,
                "this handler answers in place of the location's, and a refusal is lost",
                "write `wasm_postpone_rewrite on;` in `http`, or choose the upstream by a `map` and a variable",
                findings,
            );
        }
    }

    /// `try_files`, whose last argument is a path or a status.
    fn try_files(&self, index: usize, status: Option<&str>, findings: &mut Findings) {
        if !self.limits(self.parent(Some(index))) {
            return;
        }
        if let Some(status) = status {
            if self.is_caught(index, status) {
                self.caught(index, findings);
            }
        } else {
            self.lost(
                index,
                "the last path leaves the location: a refusal is lost, and the request counts again there",
                &format!("write `error_page 404 = …` in place of `try_files`, and {EMPTY} in its location"),
                findings,
            );
        }
    }

    fn lost(&self, index: usize, message: &str, hint: &str, findings: &mut Findings) {
        self.add(findings, code::LOST_REFUSAL, (index, 0), message, Some(hint));
    }

    fn subrequest(&self, index: usize, name: &str, uri: &str, findings: &mut Findings) {
        let Some(target) = self.limited_target(index, uri) else { return };
        let hint = format!("write {EMPTY} in {}", self.named(target, uri));
        let is_exact = self.get(target).is_some_and(|location| location.texts().last() == Some(&uri));
        let is_unseen = |server: Block| {
            self.within(server)
                .any(|(_, it)| matches!(it.texts()[..], ["include", path] if !sets_only_values(path)))
        };
        if !is_exact && self.servers(index).into_iter().any(is_unseen) {
            self.add(
                findings,
                code::UNSEEN_INCLUDE,
                (index, 1),
                format!(
                    "the subrequest of `{name}` is charged too, unless a file that cannot be read has a \
                     location for it"
                ),
                Some(&hint),
            );
            return;
        }
        self.add(
            findings,
            code::SUBREQUEST,
            (index, 1),
            format!(
                "the subrequest of `{name}` runs the filter too: it is charged, and if it is refused, the \
                 request fails"
            ),
            Some(&hint),
        );
    }

    fn slice(&self, index: usize, findings: &mut Findings) {
        if self.limits(self.parent(Some(index))) {
            self.add(
                findings,
                code::SUBREQUEST,
                (index, 0),
                "each slice but the first is a subrequest to the same location, which is charged",
                Some("leave `slice` out where `proxy_wasm diana` holds"),
            );
        }
    }

    fn ssi(&self, index: usize, findings: &mut Findings) {
        if self.limits(self.parent(Some(index))) {
            self.add(
                findings,
                code::COUNTED_AGAIN,
                (index, 0),
                "each included page is a subrequest, which runs the filter of its location",
                Some(&format!("write {EMPTY} in the locations of the included pages")),
            );
        }
    }

    fn error_page(&self, index: usize, uri: &str, findings: &mut Findings) {
        if let Some(target) = self.limited_target(index, uri) {
            self.add(
                findings,
                code::COUNTED_AGAIN,
                (index, 0),
                format!("the request counts once more in {}", self.named(target, uri)),
                Some(&format!(
                    "write {EMPTY} in that location, if no `return` and no access check leads there: they \
                     would bypass the limits"
                )),
            );
        }
    }

    /// The block to which a directive sends requests by this path, if requests are limited there.
    fn limited_target(&self, index: usize, uri: &str) -> Option<Block> {
        if !uri.starts_with(['/', '@']) {
            return None;
        }
        let targets =
            self.servers(index).into_iter().map(|server| self.location(server, uri).unwrap_or(server));
        targets.into_iter().find(|target| self.limits(*target))
    }

    /// The server around a directive. A directive outside of all servers concerns each; a file
    /// without servers is included in one.
    fn servers(&self, index: usize) -> Vec<Block> {
        let own = self.around(index, "server");
        let mut servers: Vec<Block> = own.map(Some).into_iter().collect();
        if servers.is_empty() {
            let all = (0..self.directives.len()).map(Some);
            servers = all.filter(|block| self.is(*block, "server")).collect();
        }
        if servers.is_empty() {
            servers.push(None);
        }
        servers
    }

    /// The location in a server that serves a path, by nginx's rules. Only the part of the path in
    /// front of a variable is known.
    fn location(&self, server: Block, uri: &str) -> Option<Block> {
        if uri.starts_with('@') {
            let is_named = |it: &Directive| matches!(it.texts()[..], ["location", name] if name == uri);
            return self.within(server).find(|(_, it)| is_named(it)).map(|(index, _)| Some(index));
        }
        let path = uri.split(['$', '?']).next().unwrap_or_default();
        self.find(server, path, !uri.contains('$')).map(|(index, _)| Some(index))
    }

    /// The location in a block that serves a path, and whether the choice is final. If it is not,
    /// a regex of a block around comes first (nginx's `ngx_http_core_find_location`).
    fn find(&self, block: Block, path: &str, is_whole: bool) -> Option<(usize, bool)> {
        let mut longest = None::<(usize, usize, bool)>;
        let mut regexes = Vec::new();
        for (index, directive) in self.within(block) {
            let texts = directive.texts();
            let (operator, pattern) = match texts[..] {
                ["location", operator, pattern] => (operator, pattern),
                // The operator may stand directly before the pattern.
                ["location", text] => {
                    let operator = ["=", "^~", "~*", "~"].into_iter().find(|it| text.starts_with(it));
                    let operator = operator.unwrap_or_default();
                    (operator, text.get(operator.len()..).unwrap_or_default())
                }
                _ => continue,
            };
            match operator {
                "=" if is_whole && pattern == path => return Some((index, true)),
                "" | "^~"
                    if path.starts_with(pattern)
                        && longest.is_none_or(|(length, ..)| pattern.len() > length) =>
                {
                    longest = Some((pattern.len(), index, operator == "^~"));
                }
                "~" => regexes.push((index, pattern.to_owned())),
                "~*" => regexes.push((index, format!("(?i){pattern}"))),
                _ => {}
            }
        }
        let within = |index| self.find(Some(index), path, is_whole);
        let prefix = longest.map(|(_, index, _)| within(index).unwrap_or((index, false)));
        let stops = longest.is_some_and(|(.., stops)| stops) || prefix.is_some_and(|(_, is_final)| is_final);
        let matches = |regex: &str| regex_lite::Regex::new(regex).is_ok_and(|regex| regex.is_match(path));
        let by_regex = regexes.into_iter().filter(|_| is_whole && !stops).find(|(_, regex)| matches(regex));
        match by_regex {
            Some((index, _)) => Some((within(index).map_or(index, |(inner, _)| inner), true)),
            None => prefix,
        }
    }

    /// A block in the words of the file.
    fn named(&self, block: Block, uri: &str) -> String {
        match self.get(block).filter(|_| self.is(block, "location")) {
            Some(directive) => quoted(&directive.texts().join(" ")),
            None => quoted(&format!("location = {}", uri.split(['$', '?']).next().unwrap_or_default())),
        }
    }
}
