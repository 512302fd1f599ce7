//! The parameters of a grant, which an operator writes like the keys of a document.

use diana_document::{Errors, Node, Value};
use diana_limiter::algorithm::grant;
use diana_limiter::inspect::Grant;

/// Reads `amount` and `for`. The error is a message for people.
///
/// ```
/// use diana_base::time::Span;
/// use diana_limiter::inspect::Grant;
///
/// let read = |amount: &str, lasts: &str| {
///     diana_config::grant(|name| Some(if name == "for" { lasts } else { amount }.to_owned()))
/// };
/// assert_eq!(read("5", "1h"), Ok(Grant { amount: 5, lasts: Span::from_secs(3_600) }));
/// assert_eq!(read("2k", "30s").map(|grant| grant.amount), Ok(2_000));
/// assert!(read("0", "1h").is_err() && read("5", "2d").is_err());
/// ```
pub fn grant(parameter: impl Fn(&str) -> Option<String>) -> Result<Grant, String> {
    let amount = parameter("amount").ok_or("how much? expected `amount=100`")?;
    let lasts = parameter("for").ok_or("for how long? expected `for=1h`")?;
    let amount = amount.trim().parse().map_or(Value::Text(amount), Value::Whole);
    let amount = read("amount", amount, |node| node.size(1..=grant::MAX_AMOUNT))?;
    let lasts = read("for", Value::Text(lasts), |node| node.span(grant::MIN_SPAN..=grant::MAX_SPAN))?;
    Ok(Grant { amount, lasts })
}

fn read<T>(name: &str, value: Value, by: impl Fn(Node) -> Option<T>) -> Result<T, String> {
    let errors = Errors::default();
    let read = by(Node::root(&value, &errors));
    read.ok_or_else(|| {
        errors.into_vec().first().map_or(String::new(), |error| [name, ": ", &error.why].concat())
    })
}
