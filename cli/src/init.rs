//! Writes a first document and the gateway's configuration around it, from flags or from a short
//! interview. The text is checked before anything is written.

mod access_log;
mod args;
mod endpoint;
mod envoy;
mod file;
mod first_test;
mod interview;
mod limit;
mod nginx;
mod plan;
mod release;
mod target;
pub(crate) mod yaml;

pub use args::Args;
pub use endpoint::Endpoint;
pub use limit::LimitSpec;
pub use plan::Plan;
pub use target::{Kind, Redis, Remote};

use crate::output::{self, Format};
use miette::{IntoDiagnostic, Result, WrapErr, bail};
use serde::Serialize;
use std::fs::OpenOptions;
use std::io::{ErrorKind, IsTerminal, Write, stderr, stdin};
use std::path::Path;
use std::process::ExitCode;

/// What `diana init` wrote.
#[derive(Debug, Serialize)]
struct Written {
    file: String,
    /// The file with a first test, unless there was one before.
    test: Option<String>,
    kind: Kind,
    rules: Vec<String>,
    is_shadow: bool,
    warnings: Vec<String>,
    /// The command to run next.
    #[serde(skip)]
    next: String,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let has_limits = !args.limits.is_empty() || args.rpu.is_some();
    let args = match (has_limits, stdin().is_terminal() && stderr().is_terminal()) {
        (true, _) => args.clone(),
        (false, true) => interview::ask(args, &mut interview::Terminal)?,
        (false, false) => bail!(
            "no limit is given: write, for example, `--limit '100/minute per ip on /api'`, or run `diana init` in a \
             terminal, where the command asks"
        ),
    };
    let plan = Plan::of(&args)?;
    let text = file::text(&plan)?;
    let file = args.file.unwrap_or_else(|| plan.kind.file().into());
    if file == Path::new("-") {
        if args.output.format == Format::Json {
            bail!("--format json reports the name of the file: name a file with `--output FILE`");
        }
        output::print(&text)?;
        for warning in plan.compile()?.warnings {
            let _ = writeln!(stderr(), "warning: {warning}");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let test = first_test::text(&plan, &file)?;
    write(&file, &text, args.force)?;
    let test_file = first_test::file(&file);
    let is_new = args.force || !test_file.exists();
    if is_new {
        write(&test_file, &test, args.force)?;
    }
    let written = Written {
        test: is_new.then(|| test_file.display().to_string()),
        next: next(&plan, &file),
        file: file.display().to_string(),
        kind: plan.kind,
        rules: plan.limits.iter().map(|limit| limit.name.clone()).collect(),
        is_shadow: plan.is_shadow,
        warnings: plan.compile()?.warnings.iter().map(ToString::to_string).collect(),
    };
    match args.output.format {
        Format::Json => output::print_json(&written)?,
        Format::Text => output::print(&report(&written))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The file for these arguments, as text. Nothing is written.
///
/// ```
/// use clap::Parser;
/// use diana_cli::{Arguments, Command, init};
///
/// let arguments = ["diana", "init", "--kind", "document", "--limit", "100/minute per ip on /api"];
/// let Command::Init(args) = Arguments::parse_from(arguments).command else { return };
/// let text = init::text(&args).expect("a valid document");
/// assert!(text.contains("- {name: api-ip, actor: ip, rpu: 100, unit: minute}"));
/// ```
pub fn text(args: &Args) -> Result<String> {
    file::text(&Plan::of(args)?)
}

/// Writes a new file. An existing file is replaced only by force.
fn write(path: &Path, text: &str, force: bool) -> Result<()> {
    let mut options = OpenOptions::new();
    match force {
        true => options.create(true).truncate(true),
        false => options.create_new(true),
    };
    let name = path.display();
    if path.is_dir() {
        bail!("`{name}` is a folder: `--output FILE` names a file");
    }
    let mut file = match options.write(true).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("`{name}` exists: `--force` replaces it, and `--output FILE` writes another file")
        }
        file => file.into_diagnostic().wrap_err_with(|| format!("cannot write `{name}`"))?,
    };
    file.write_all(text.as_bytes()).into_diagnostic().wrap_err_with(|| format!("cannot write `{name}`"))
}

fn report(written: &Written) -> String {
    let Written { file, test, rules, is_shadow, warnings, next, .. } = written;
    let mode = if *is_shadow { ", in shadow mode: no request is refused" } else { "" };
    let warnings: String = warnings.iter().map(|warning| format!("warning: {warning}\n")).collect();
    let rules = format!("{} {}", if rules.len() == 1 { "the rule" } else { "the rules" }, rules.join(", "));
    let test =
        test.as_ref().map_or(String::new(), |test| format!("wrote `{test}`, which `diana test` runs\n"));
    format!("wrote `{file}` with {rules}{mode}\n{test}{warnings}next: {next}\n")
}

/// The command that checks the file, after what is to be filled in.
fn next(plan: &Plan, file: &Path) -> String {
    let shown = quoted(&file.display().to_string());
    let fill = match plan.missing_filter() {
        Some(name) => format!(
            "put `{name}` of a release at `{}`, or name another place with `--filter`; then ",
            plan.filter
        ),
        None => String::new(),
    };
    match plan.kind {
        Kind::Envoy | Kind::EnvoyNative => {
            let envoy = format!("envoy --mode validate -l warning -c {shown}");
            match (plan.needs_module(), &plan.modules) {
                (false, _) => format!("{fill}{envoy}"),
                (true, Some(folder)) => {
                    format!("{fill}ENVOY_DYNAMIC_MODULES_SEARCH_PATH={} {envoy}", quoted(folder))
                }
                (true, None) => format!(
                    "{fill}ENVOY_DYNAMIC_MODULES_SEARCH_PATH=FOLDER {envoy}, where FOLDER has `{}` of a release",
                    release::MODULE
                ),
            }
        }
        // nginx takes a relative path from its own folder.
        Kind::Nginx if file.is_absolute() => format!("{fill}diana check {shown} && nginx -t -c {shown}"),
        Kind::Nginx => format!("{fill}diana check {shown} && nginx -t -c \"$PWD\"/{shown}"),
        Kind::Document => match plan.limits.first() {
            Some(limit) => format!("diana explain {shown} {}", request(&limit.spec)),
            None => format!("diana check {shown}"),
        },
    }
}

/// The arguments of a request to which the limit applies.
fn request(limit: &LimitSpec) -> String {
    let method = limit.methods.first().map_or(String::new(), |method| format!(" --method {method}"));
    format!("--url {}{method}", quoted(&path(limit)))
}

/// A path that the limit's url matches.
fn path(limit: &LimitSpec) -> String {
    let segment = |segment: &'_ str| match segment {
        // A segment with a type is mostly a number.
        typed if typed.starts_with('{') && typed.contains(':') => "1".to_owned(),
        any if any.starts_with(['*', '{']) => "x".to_owned(),
        literal => literal.to_owned(),
    };
    let url = limit.url.trim_start_matches('=').trim_end_matches("/**");
    let path: Vec<String> = url.split('/').map(segment).collect();
    let path = path.join("/");
    if path.is_empty() { "/".into() } else { path }
}

/// The name of a file as a word of a shell.
fn quoted(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-".contains(c);
    match !name.starts_with('-') && name.chars().all(is_plain) {
        true => name.into(),
        false => format!("'{}'", name.replace('\'', r"'\''")),
    }
}
