//! The text of the file that a plan describes.

use super::plan::Plan;
use super::target::Kind;
use super::yaml::Yaml;
use super::{envoy, nginx};
use miette::Result;

/// The text of the file. The document in it has been compiled.
pub fn text(plan: &Plan) -> Result<String> {
    plan.warnings()?;
    let document = plan.document();
    Ok(match plan.kind {
        Kind::Envoy | Kind::EnvoyNative => envoy::text(plan, &document),
        Kind::Nginx => nginx::text(plan, &document),
        Kind::Document => Yaml { indent: 0 }.document(plan, &document),
    })
}
