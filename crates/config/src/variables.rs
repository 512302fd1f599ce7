//! `{env: NAME}` in place of a secret: a variable of the gateway's environment. Only the document
//! in the gateway's own configuration may name one: otherwise a document server or a route could
//! send the gateway's other variables to a cluster.

use diana_document::{Error, Value};

/// The keys of secrets.
const SECRETS: [&str; 4] = ["secret", "previous_secret", "password", "token"];
/// The key of an object that maps names to secrets.
const NAMED: &str = "tokens";
/// The keys of objects with secrets.
const PARENTS: [&str; 6] = ["store", "redis", "inspect", "access_log", "tickets", NAMED];

const NO_NAME: &str =
    "expected the name of a variable of the gateway's environment, of letters, digits and `_`";
const MISSING: &str = "the gateway's environment has no such text; a proxy-wasm filter sees the variables that \
    `vm_config.environment_variables.host_env_keys` lists";

/// Finds a variable by its name.
pub type Lookup = fn(&str) -> Option<String>;

/// Finds any variable, for tools without the gateway's environment.
pub(super) fn anything(name: &str) -> Option<String> {
    Some([name, "-in-the-environment-of-the-gateway"].concat())
}

/// Replaces each `{env: NAME}` of a secret by the variable's text, without the line break at its
/// end. The error names the first variable that cannot be read.
///
/// ```
/// use diana_config::fill_in;
///
/// let document = br#"{"inspect": {"token": {"env": "TOKEN"}}, "mode": {"env": "X"}}"#;
/// let mut value = diana_document::parse(document)?;
/// fill_in(&mut value, |name| (name == "TOKEN").then(|| "abc\n".into()))?;
/// assert_eq!(value.to_string(), r#"{"inspect":{"token":"abc"},"mode":{"env":"X"}}"#);
///
/// let mut value = diana_document::parse(document)?;
/// let error = fill_in(&mut value, |_| None).map_err(|error| error.path);
/// assert_eq!(error, Err("inspect.token".into()));
/// # Ok::<(), diana_document::Error>(())
/// ```
pub fn fill_in(value: &mut Value, lookup: Lookup) -> Result<(), Error> {
    fill(value, false, lookup).map_err(|(path, why)| Error { path, why: why.into(), key: None })
}

/// The error is the path below `value`, and why.
fn fill(value: &mut Value, has_names: bool, lookup: Lookup) -> Result<(), (String, &'static str)> {
    let Value::Object(entries) = value else { return Ok(()) };
    for (key, child) in entries {
        let name = &**key;
        let is_secret = SECRETS.contains(&name) || has_names && is_plain(key);
        let filled = match variable(child).filter(|_| is_secret) {
            Some(name) => {
                read(name, lookup).map(|text| *child = Value::Text(text)).map_err(|why| (String::new(), why))
            }
            None if is_secret || PARENTS.contains(&name) => fill(child, name == NAMED, lookup),
            None => Ok(()),
        };
        filled.map_err(|(path, why)| {
            let dot = if path.is_empty() { "" } else { "." };
            ([&**key, dot, &path].concat(), why)
        })?;
    }
    Ok(())
}

/// The value of `env`, if that is the only key.
fn variable(value: &Value) -> Option<&Value> {
    match value {
        Value::Object(entries) => match &entries[..] {
            [(key, name)] if key == "env" => Some(name),
            _ => None,
        },
        _ => None,
    }
}

fn read(name: &Value, lookup: Lookup) -> Result<String, &'static str> {
    let Value::Text(name) = name else { return Err(NO_NAME) };
    if !is_plain(name) || name.contains('-') {
        return Err(NO_NAME);
    }
    let text = lookup(name).unwrap_or_default();
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(MISSING),
        text => Ok(text.into()),
    }
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_with_names_may_be_variables_in_both_forms() {
        let filled = |document: &str| {
            let mut value = diana_document::parse(document.as_bytes()).unwrap();
            fill_in(&mut value, |name| Some(format!("text of {name}"))).map(|()| value.to_string())
        };
        let document = |ann: &str, ci: &str| {
            format!(r#"{{"inspect":{{"tokens":{{"ann":{ann},"ci":{{"token":{ci},"read":true}}}}}}}}"#)
        };
        assert_eq!(
            filled(&document(r#"{"env":"A"}"#, r#"{"env":"B"}"#)),
            Ok(document(r#""text of A""#, r#""text of B""#))
        );
        let error = filled(&document(r#"{"env":"A"}"#, r#"{"env":"$(B)"}"#)).map_err(|error| error.path);
        assert_eq!(error, Err("inspect.tokens.ci.token".into()));
        // Only secrets are variables, whatever the names around them are.
        let other = r#"{"limits":[{"tokens":{"ann":{"env":"A"}}}]}"#;
        assert_eq!(filled(other), Ok(other.into()));
    }
}
