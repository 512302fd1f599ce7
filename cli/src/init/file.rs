//! The text of the file that a plan describes.

use super::plan::Plan;
use super::target::Kind;
use super::yaml::Yaml;
use super::{envoy, nginx};
use crate::check::code::{self, Severity};
use crate::check::report::{Fleet, Report};
use crate::source::content::File;
use miette::{Result, bail};

/// The text of the file. The document in it has been compiled, and the file has been checked.
pub fn text(plan: &Plan) -> Result<String> {
    let configuration = plan.compile()?;
    let document = plan.document();
    let text = match plan.kind {
        Kind::Envoy | Kind::EnvoyNative => envoy::text(plan, &document, &configuration.policy),
        Kind::Nginx => nginx::text(plan, &document, &configuration.policy),
        Kind::Document if plan.is_json => format!("{document:#}\n"),
        Kind::Document => Yaml { indent: 0 }.document(plan, &document),
    };
    let report = Report::of(File::new(plan.kind.file(), text.as_str()), Fleet::default());
    if let Some(error) = report.findings.iter().find(|finding| finding.code.severity == Severity::Error) {
        let place = if error.code == code::WRONG_FILE { "--filter: " } else { "" };
        let hint = error.hint.as_ref().map(|hint| format!(": {hint}")).unwrap_or_default();
        bail!("{place}{}{hint}", error.message);
    }
    Ok(text)
}
