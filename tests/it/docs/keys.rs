//! The reference page of all keys, which is printed from the table, and the pages that explain
//! them. A key's values and default stand in the list alone.

use super::names::anchor;
use super::text;
use diana_config::keys::{DefaultValue, Definition, Key, Object, Shape, definitions};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::{env, fs};

const FOLDER: &str = "docs/configuration/";

/// `UPDATE=1 cargo test --test it docs::keys` writes the page.
#[test]
fn the_list_of_keys_is_that_of_the_table() {
    let file = format!("{FOLDER}keys.md");
    let printed = page();
    if env::var_os("UPDATE").is_some() {
        fs::write(format!("{}/{file}", env!("CARGO_MANIFEST_DIR")), &printed).unwrap();
    }
    assert!(text(&file) == printed, "{file} differs; UPDATE=1 writes it");
}

/// A remote document and that of a route may have all keys but these.
#[test]
fn the_pages_of_upper_documents_name_each_key_that_is_replaced() {
    const OF_THE_LOWER: [&str; 5] = ["local", "store", "remote", "inspect", "tickets"];
    let all = definitions().into_iter().find(|one| one.name == "document").unwrap();
    let names = keys(&all).into_iter().map(|key| key.name);
    let expected: BTreeSet<&str> = names.filter(|name| !OF_THE_LOWER.contains(name)).collect();
    for page in ["remote", "routes"] {
        let page = text(&format!("{FOLDER}{page}.md"));
        let (_, list) = page.split_once("replaces the same key of the").unwrap();
        let (list, _) = list.split_once(" A key").unwrap();
        let named: BTreeSet<&str> = list.split('`').skip(1).step_by(2).collect();
        assert_eq!(named, expected);
    }
}

/// The section that a key names has the key in code, and each word that is a value of the key.
#[test]
fn the_page_of_each_key_explains_the_key() {
    let (mut count, mut unexplained) = (0, Vec::new());
    for definition in definitions() {
        for key in keys(&definition) {
            let section = section(key.page);
            let place = format!("`{}.{}` in {}", definition.name, key.name, key.page);
            let codes = section.split('`').skip(1).step_by(2);
            let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let words: BTreeSet<&str> =
                codes.flat_map(|code| code.split(|letter| !is_part(letter))).collect();
            unexplained.extend((!words.contains(key.name)).then(|| place.clone()));
            let values = choices(&key.shape).into_iter().filter(|word| !section.contains(word));
            unexplained.extend(values.map(|word| format!("{place}: {word}")));
            count += 1;
        }
    }
    assert_eq!(unexplained, [""; 0]);
    assert!(count > 120, "{count}");
}

/// What the pages write as keys, with dots or with values, are keys of the document.
#[test]
fn every_key_of_the_reference_exists() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    // The list of keys has all names from the table.
    for file in super::REFERENCE.into_iter().filter(|page| *page != "keys") {
        let text = text(&format!("{FOLDER}{file}.md"));
        let codes = text.split("```").step_by(2).flat_map(|prose| prose.split('`').skip(1).step_by(2));
        for code in codes {
            let exists = exists(code);
            count += usize::from(exists.is_some());
            wrong.extend((exists == Some(false)).then(|| format!("{file}.md: `{code}`")));
        }
        let headings = text.lines().filter_map(|line| line.strip_prefix("## `"));
        let named = headings.flat_map(|line| line.split('`').step_by(2)).filter(|name| is_name(name));
        wrong.extend(named.filter(|name| !is_key(name)).map(|name| format!("{file}.md: ## `{name}`")));
    }
    assert_eq!(wrong, [""; 0]);
    assert!(count > 80, "{count}");
    for mistake in
        ["store.rsl", "redis: {port: 1}", "{rate: 5}", "limits: {rule: []}", "penalty: {before: 5}"]
    {
        assert_eq!(exists(mistake), Some(false), "{mistake}");
    }
}

/// Keys of Envoy, of a request and of an example, which the pages write like keys of a document.
const OTHERS: [&str; 10] = [
    "admin",
    "allow_on_headers_stop_iteration",
    "allow_paths",
    "authorization",
    "env",
    "stream_options",
    "tier",
    "use_remote_address",
    "wait_for_warm_on_init",
    "who",
];

/// Whether all keys in this code exist. `None` if it is not written like keys: `local.max_actors`,
/// `cost: {header: x-cost}` or `{present: true}`.
fn exists(code: &str) -> Option<bool> {
    if let Some((first, rest)) = code.split_once('.')
        && is_key(first)
        && rest.split('.').all(is_name)
    {
        return Some(rest.split('.').all(is_key));
    }
    if !code.contains(": ") {
        return None;
    }
    let value: Value = serde_norway::from_str(code).ok()?;
    value.as_object()?.keys().all(|key| is_name(key)).then(|| all_exist(&value))
}

/// Whether the names in this object are keys, and so on in its values, unless these have free
/// names.
fn all_exist(value: &Value) -> bool {
    let is_free = |name: &str| {
        OTHERS.contains(&name) || of_any().any(|key| key.name == name && has_free_names(&key.shape))
    };
    value.as_object().is_none_or(|object| {
        object.iter().all(|(name, value)| is_key(name) && (is_free(name) || all_exist(value)))
    })
}

fn has_free_names(shape: &Shape) -> bool {
    match shape {
        Shape::Map(_) | Shape::AnyObject => true,
        Shape::Any(shapes) => shapes.iter().any(has_free_names),
        _ => false,
    }
}

fn is_name(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_')
}

/// Whether a definition or the list of others has the key.
fn is_key(name: &str) -> bool {
    OTHERS.contains(&name) || of_any().any(|key| key.name == name)
}

/// The keys of all definitions.
fn of_any() -> impl Iterator<Item = Key> {
    definitions().flat_map(|definition| keys(&definition))
}

/// The keys that a page has to explain.
fn keys(definition: &Definition) -> Vec<Key> {
    let keys = definition.shape.object().into_iter().flat_map(Object::keys);
    keys.filter(|key| key.is_offered).collect()
}

/// The words among the values of a shape.
fn choices(shape: &Shape) -> Vec<&'static str> {
    match shape {
        Shape::Any(shapes) => shapes.iter().flat_map(choices).collect(),
        Shape::OneOrMany(item, _) | Shape::List(item, ..) | Shape::Map(item) => choices(item),
        Shape::Choice(words) => words.to_vec(),
        Shape::Exact(word) => vec![word],
        _ => Vec::new(),
    }
}

/// The section of a page such as `limits.md#rules`, up to the next heading of its level; empty if
/// there is none.
fn section(place: &str) -> String {
    let (page, wanted) = place.split_once('#').unwrap_or((place, ""));
    let (mut level, mut section, mut is_code) = (None, String::new(), false);
    for line in text(&format!("{FOLDER}{page}")).lines() {
        is_code ^= line.starts_with("```");
        let (marks, heading) = line.split_at(line.find(|letter| letter != '#').unwrap_or(0));
        let is_heading = !is_code && !marks.is_empty();
        match level {
            None if is_heading && (wanted.is_empty() || anchor(heading) == wanted) => {
                level = Some(marks.len())
            }
            Some(level) if is_heading && marks.len() <= level => break,
            _ => {}
        }
        if level.is_some() {
            section.push_str(line);
            section.push('\n');
        }
    }
    section
}

fn page() -> String {
    let mut page = String::from(
        "# All keys\n\n\
         Every key of a document, with its values and its default. A link leads to the page that explains\n\
         the key. The list comes from the table in `crates/config/src/keys`, as do the filter's hints and the\n\
         [JSON Schema](../cli/schema.md).\n\n\
         Values and defaults are in italics. A [size](limits.md#sizes) is text with a unit, such as `10k`.\n",
    );
    for definition in definitions() {
        section_of(&definition, &mut page).unwrap();
    }
    page
}

fn section_of(definition: &Definition, page: &mut String) -> std::fmt::Result {
    let Definition { name, shape } = definition;
    writeln!(page, "\n## `{name}`\n")?;
    let users: Vec<String> = definitions()
        .flat_map(|user| keys(&user).into_iter().map(move |key| (user.name, key)))
        .filter(|(_, key)| names(&key.shape, name))
        .map(|(user, key)| format!("[`{user}`](#{user}).`{}`", key.name))
        .collect();
    match users.as_slice() {
        [] if *name == "document" => writeln!(page, "The keys at the top.\n")?,
        [] => writeln!(page, "An item of a list of the document.\n")?,
        users => writeln!(page, "Of {}.\n", users.join(", "))?,
    }
    let others = match shape {
        Shape::Any(shapes) => shapes.iter().filter(|shape| shape.object().is_none()).map(values).collect(),
        shape if shape.object().is_none() => vec![values(shape)],
        _ => Vec::new(),
    };
    let Some(object) = shape.object() else {
        return writeln!(page, "Values: {}.", others.join("; "));
    };
    if !others.is_empty() {
        writeln!(page, "Without an object: {}.\n", others.join("; "))?;
    }
    if object.is_change {
        let keys: Vec<String> = keys(definition).iter().map(|key| format!("`{}`", key.name)).collect();
        let keys = keys.join(", ");
        return writeln!(
            page,
            "The keys {keys} of [`rule`](#rule). Without a key, the rule's value applies."
        );
    }
    if object.is_single {
        writeln!(page, "Exactly one of the keys:\n")?;
    }
    let offered = keys(definition);
    let is_offered = |name: &&&str| offered.iter().any(|key| key.name == **name);
    for keys in object.one_of {
        let keys: Vec<String> = keys.iter().filter(is_offered).map(|key| format!("`{key}`")).collect();
        match keys.as_slice() {
            [only] => writeln!(page, "{only} is required.\n")?,
            keys => writeln!(page, "Exactly one of {} is required.\n", keys.join(", "))?,
        }
    }
    for key in offered {
        let Key { name, about, shape, page: place, .. } = key;
        let required = match object.required_unless {
            _ if key.is_required => "required. ".to_owned(),
            Some(unless) if unless.required == name => {
                let words: Vec<String> = unless.words.iter().map(|word| format!("`{word}`")).collect();
                format!("required, unless `{}` is {}. ", unless.key, words.join(" or "))
            }
            _ => String::new(),
        };
        let default = match key.default {
            None => String::new(),
            Some(DefaultValue::Text("")) => "; default empty".into(),
            Some(DefaultValue::Text(text)) => format!("; default `{text}`"),
            Some(DefaultValue::Whole(number)) => format!("; default {}", grouped(number)),
            Some(DefaultValue::Flag(flag)) => format!("; default `{flag}`"),
        };
        let about = about.strip_suffix('.').unwrap_or(about);
        writeln!(page, "- [`{name}`]({place}): {required}{about}. *{}{default}*", values(&shape))?;
    }
    Ok(())
}

/// Whether a shape names this definition.
fn names(shape: &Shape, definition: &str) -> bool {
    match shape {
        Shape::Any(shapes) => shapes.iter().any(|shape| names(shape, definition)),
        Shape::OneOrMany(item, _) | Shape::List(item, ..) | Shape::Map(item) => names(item, definition),
        Shape::Def(name) => *name == definition,
        _ => false,
    }
}

/// The values of a shape, in words.
fn values(shape: &Shape) -> String {
    match shape {
        Shape::Flag => "`true`, `false`".into(),
        Shape::Only(flag) => format!("`{flag}`"),
        Shape::Text | Shape::Scalar => "text".into(),
        Shape::Exact(word) => format!("`{word}`"),
        Shape::Matching(_, words) => (*words).into(),
        Shape::Whole(min, max) if min == max => grouped(*min),
        Shape::Whole(min, max) => format!("{} to {}", grouped(*min), grouped(*max)),
        Shape::Size(min, max) => format!("{} to {}, or a size", grouped(*min), grouped(*max)),
        Shape::Span(min, max) => format!("`{min}` to `{max}`"),
        Shape::Percent(min, max) => format!("`{min}%` to `{max}%`"),
        Shape::Decimal(0, max) => format!("0.001 to {}", grouped(max.unsigned_abs())),
        Shape::Decimal(min, max) => {
            format!("-{} to {}", grouped(min.unsigned_abs()), grouped(max.unsigned_abs()))
        }
        Shape::Choice(words) => {
            words.iter().map(|word| format!("`{word}`")).collect::<Vec<String>>().join(", ")
        }
        Shape::OneOrMany(item, _) => format!("{}, or a list", values(item)),
        Shape::List(item, _, None) => format!("a list: {}", values(item)),
        Shape::List(item, min, Some(max)) => format!("a list of {min} to {max}: {}", values(item)),
        Shape::Map(item) => format!("by name: {}", values(item)),
        Shape::Object(_) => "`{}`".into(),
        Shape::Variable => "`{env: NAME}`".into(),
        Shape::AnyObject => "an object".into(),
        Shape::AnyList => "a list".into(),
        Shape::Any(shapes) => shapes.iter().map(values).collect::<Vec<String>>().join("; "),
        Shape::Def(name) => format!("[`{name}`](#{name})"),
    }
}

/// A number with a comma between groups of digits, as on the other pages.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
