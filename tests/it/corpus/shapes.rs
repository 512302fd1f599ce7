//! Random documents of the right shape, most with mistakes: each is read to the end and either
//! accepted or refused with well-formed messages.

use super::{fault, files};
use diana_config::compile;
use diana_document::{Value, parse};
use proptest::prelude::*;
use std::fmt::Write as _;
use std::fs;
use std::sync::LazyLock;

/// The corpus without its largest files: the documents to mutate.
static SEEDS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let paths = files("accept", "json").into_iter().chain(files("refuse", "json"));
    let bytes = paths.map(|path| fs::read(path).unwrap()).filter(|bytes| bytes.len() < 8_000);
    bytes.filter_map(|bytes| parse(&bytes).ok()).collect()
});

/// All keys and values in the seeds.
static PIECES: LazyLock<(Vec<String>, Vec<Value>)> = LazyLock::new(|| {
    fn gather(value: &Value, keys: &mut Vec<String>, values: &mut Vec<Value>) {
        values.push(value.clone());
        match value {
            Value::List(items) => items.iter().for_each(|item| gather(item, keys, values)),
            Value::Object(entries) => entries.iter().for_each(|(key, value)| {
                keys.push(key.clone());
                gather(value, keys, values);
            }),
            _ => {}
        }
    }
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    SEEDS.iter().for_each(|seed| gather(seed, &mut keys, &mut values));
    keys.sort();
    keys.dedup();
    (keys, values)
});

/// One change. `at` chooses the place and `pick` the inserted piece, each modulo the number
/// available.
#[derive(Clone, Debug)]
struct Mutation {
    kind: MutationKind,
    at: usize,
    pick: usize,
}

#[derive(Clone, Copy, Debug)]
enum MutationKind {
    Drop,
    Duplicate,
    Rename,
    Misspell,
    Swap,
    Extreme,
}

const KINDS: [MutationKind; 6] = [
    MutationKind::Drop,
    MutationKind::Duplicate,
    MutationKind::Rename,
    MutationKind::Misspell,
    MutationKind::Swap,
    MutationKind::Extreme,
];

fn extremes() -> Vec<Value> {
    let whole = [0, 1, 33, 129, 1_000_000_000, 1_000_000_001, 999_999_999_999_999, 1 << 53, u64::MAX]
        .map(Value::Whole);
    let numbers = [-1.0, 0.5, -0.5, 1e300, -1e300, 5e-324].map(Value::Number);
    let texts = [
        "",
        " ",
        "\0",
        "1k",
        "64Ki",
        "*",
        "=",
        "/",
        "`",
        "é",
        "\u{202e}",
        "0s",
        "18446744073709551615d",
        "a\n\"b",
        ".",
    ];
    let texts = texts.map(|text| Value::Text(text.into()));
    let long = Value::Text("x/".repeat(300));
    let bare = [Value::Null, Value::Bool(false), Value::List(vec![]), Value::Object(vec![]), long];
    whole.into_iter().chain(numbers).chain(texts).chain(bare).collect()
}

fn count(value: &Value) -> usize {
    match value {
        Value::List(items) => 1 + items.iter().map(count).sum::<usize>(),
        Value::Object(entries) => 1 + entries.iter().map(|(_, value)| count(value)).sum::<usize>(),
        _ => 1,
    }
}

/// Changes the value with index `at`, counted depth first.
fn mutate(value: &mut Value, at: &mut usize, mutation: &Mutation) {
    if *at == 0 {
        *at = usize::MAX;
        return change(value, mutation);
    }
    *at -= 1;
    let children: Vec<&mut Value> = match value {
        Value::List(items) => items.iter_mut().collect(),
        Value::Object(entries) => entries.iter_mut().map(|(_, value)| value).collect(),
        _ => return,
    };
    for child in children {
        if *at == usize::MAX {
            return;
        }
        mutate(child, at, mutation);
    }
}

fn change(value: &mut Value, mutation: &Mutation) {
    let pick = mutation.pick;
    let (keys, values) = &*PIECES;
    match (mutation.kind, value) {
        (MutationKind::Drop, Value::Object(entries)) if !entries.is_empty() => {
            entries.remove(pick % entries.len());
        }
        (MutationKind::Drop, Value::List(items)) if !items.is_empty() => {
            items.remove(pick % items.len());
        }
        (MutationKind::Duplicate, Value::Object(entries)) if !entries.is_empty() => {
            let entry = entries[pick % entries.len()].clone();
            entries.push(entry);
        }
        (MutationKind::Duplicate, Value::List(items)) if !items.is_empty() => {
            let item = items[pick % items.len()].clone();
            items.push(item);
        }
        (MutationKind::Rename, Value::Object(entries)) if !entries.is_empty() => {
            let at = pick % entries.len();
            entries[at].0 = keys[pick % keys.len()].clone();
        }
        (MutationKind::Misspell, Value::Object(entries)) if !entries.is_empty() => {
            let at = pick % entries.len();
            let key = &mut entries[at].0;
            match key.pop() {
                Some(last) if key.is_empty() => key.extend([last, last]),
                last => key.extend(last.filter(|_| pick.is_multiple_of(3)).map(|_| '\n')),
            }
        }
        (MutationKind::Swap, value) => *value = values[pick % values.len()].clone(),
        (_, value) => {
            let mut extremes = extremes();
            *value = extremes.swap_remove(pick % extremes.len());
        }
    }
}

/// The document as text, with numbers as a gateway may print them.
fn write(value: &Value, out: &mut String) {
    let text = |text: &str| {
        let escaped = text.chars().map(|c| match c {
            '"' | '\\' => format!("\\{c}"),
            c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
            c => c.to_string(),
        });
        format!("\"{}\"", escaped.collect::<String>())
    };
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => write!(out, "{flag}").unwrap(),
        Value::Whole(number) => write!(out, "{number}").unwrap(),
        Value::Number(number) => write!(out, "{number:e}").unwrap(),
        Value::Text(value) => out.push_str(&text(value)),
        Value::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(entries) => {
            out.push('{');
            for (index, (key, value)) in entries.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                write!(out, "{}:", text(key)).unwrap();
                write(value, out);
            }
            out.push('}');
        }
    }
}

/// Accepted, or refused with at least one well-formed message.
fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    if let Err(errors) = compile(bytes) {
        prop_assert!(!errors.is_empty(), "refused without a reason");
        for (index, error) in errors.iter().enumerate() {
            prop_assert_eq!(fault(error), None, "{}", error);
            prop_assert!(!errors[..index].contains(error), "reported twice: {}", error);
        }
    }
    Ok(())
}

fn mutation() -> impl Strategy<Value = Mutation> {
    (proptest::sample::select(&KINDS[..]), any::<usize>(), any::<usize>())
        .prop_map(|(kind, at, pick)| Mutation { kind, at, pick })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_document_with_mistakes_is_read_to_the_end(
        seed: usize,
        mutations in proptest::collection::vec(mutation(), 0..6),
    ) {
        let mut document = SEEDS[seed % SEEDS.len()].clone();
        for mutation in &mutations {
            let mut at = mutation.at % count(&document);
            mutate(&mut document, &mut at, mutation);
        }
        let mut text = String::new();
        write(&document, &mut text);
        prop_assert_eq!(parse(text.as_bytes()).map_err(|error| error.to_string()), Ok(document), "{}", text);
        check(text.as_bytes())?;
    }

    #[test]
    fn a_damaged_text_is_refused_with_a_message(seed: usize, at: usize, byte: u8) {
        let mut text = String::new();
        write(&SEEDS[seed % SEEDS.len()], &mut text);
        let mut bytes = text.into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        check(&bytes)?;
        check(&bytes[..at])?;
    }
}
