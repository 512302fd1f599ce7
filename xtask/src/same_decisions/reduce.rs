//! Reduces a case that two drivers decide differently: steps first, then requests and the document.

use anyhow::Result;
use serde_json::Value;

/// Whether a case still shows the difference.
type Differs<'a> = &'a mut dyn FnMut(&Value) -> Result<bool>;

/// The size by which cases are compared.
pub fn size(case: &Value) -> usize {
    case.to_string().len()
}

/// The case without all that its difference does not need.
pub fn reduce(mut case: Value, differs: Differs) -> Result<Value> {
    loop {
        let before = size(&case);
        steps(&mut case, differs)?;
        let requests = case["requests"].as_array().map_or(0, Vec::len);
        for request in 0..requests {
            // The lines of a request, not the two texts of a line.
            items(&mut case, &[Key::Name("requests".into()), Key::At(request)], 1, differs)?;
        }
        items(&mut case, &[Key::Name("document".into())], usize::MAX, differs)?;
        if size(&case) == before {
            return Ok(case);
        }
    }
}

/// Removes runs of steps, long ones first, and shortens bursts.
fn steps(case: &mut Value, differs: Differs) -> Result<()> {
    let mut run = case["steps"].as_array().map_or(0, Vec::len).div_ceil(2);
    while run > 0 {
        let mut end = case["steps"].as_array().map_or(0, Vec::len);
        while end > 0 {
            let from = end.saturating_sub(run);
            let mut without = case.clone();
            without["steps"].as_array_mut().into_iter().for_each(|steps| _ = steps.drain(from..end));
            if differs(&without)? {
                *case = without;
            }
            end = from;
        }
        run /= 2;
    }
    for at in 0..case["steps"].as_array().map_or(0, Vec::len) {
        while let Some(times) = case["steps"][at]["ask"]["times"].as_u64().filter(|times| *times > 1) {
            let mut shorter = case.clone();
            shorter["steps"][at]["ask"]["times"] = (times / 2).into();
            if !differs(&shorter)? {
                shorter["steps"][at]["ask"]["times"] = (times - 1).into();
                if !differs(&shorter)? {
                    break;
                }
            }
            *case = shorter;
        }
    }
    Ok(())
}

/// A step from a value to a part of it.
#[derive(Clone)]
enum Key {
    Name(String),
    At(usize),
}

/// Removes what the value at `path` contains, from the outside in, `depth` levels deep.
fn items(case: &mut Value, path: &[Key], depth: usize, differs: Differs) -> Result<()> {
    let keys: Vec<Key> = match at(case, path) {
        Some(Value::Object(object)) => object.keys().cloned().map(Key::Name).collect(),
        Some(Value::Array(list)) => (0..list.len()).map(Key::At).collect(),
        _ => return Ok(()),
    };
    // From the end, so that the places before stay.
    for key in keys.into_iter().rev() {
        let mut without = case.clone();
        match (at(&mut without, path), &key) {
            (Some(Value::Object(object)), Key::Name(name)) => _ = object.remove(name),
            (Some(Value::Array(list)), Key::At(place)) => _ = list.remove(*place),
            _ => continue,
        }
        if differs(&without)? {
            *case = without;
        } else if depth > 1 {
            let path: Vec<Key> = path.iter().cloned().chain([key]).collect();
            items(case, &path, depth - 1, differs)?;
        }
    }
    Ok(())
}

fn at<'v>(case: &'v mut Value, path: &[Key]) -> Option<&'v mut Value> {
    path.iter().try_fold(case, |value, key| match key {
        Key::Name(name) => value.get_mut(name),
        Key::At(place) => value.get_mut(*place),
    })
}
