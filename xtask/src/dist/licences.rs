//! The texts of the licences of everything that is linked. Equal texts stand there once.

use super::linked::{Linked, Origin, Part};
use super::read;
use anyhow::{Context, Result, bail};
use gateway::root;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// All texts, each below the names of the parts that have it.
pub fn text(linked: &[Linked]) -> Result<String> {
    let parts: BTreeSet<&Part> = linked.iter().flat_map(|one| &one.parts).collect();
    let apache = normal(&read(&root().join("LICENSE"))?);
    let mut owners: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for part in parts.into_iter().filter(|part| part.origin != Origin::Workspace) {
        let texts = texts(part, &apache)?;
        let owner = format!("{} {} ({})", part.name, part.version, part.licence);
        texts.into_iter().for_each(|text| owners.entry(text).or_default().push(owner.clone()));
    }
    // By the first owner.
    let mut sections: Vec<(Vec<String>, String)> = owners.into_iter().map(|(text, of)| (of, text)).collect();
    sections.sort();
    let rule = "=".repeat(80);
    let mut all = "The files of this release link the software below, under these licences.\n".to_owned();
    for (owners, text) in sections {
        all.push_str(&format!("\n{rule}\n{}\n{rule}\n\n{text}\n", owners.join("\n")));
    }
    Ok(all)
}

/// The texts of a part. Without any, the Apache License applies if the part offers it.
fn texts(part: &Part, apache: &str) -> Result<BTreeSet<String>> {
    let mut texts = BTreeSet::new();
    for file in files(&part.texts)? {
        texts.insert(normal(&read(&file)?));
    }
    if texts.is_empty() {
        let Part { name, licence, .. } = part;
        if !licence.split(' ').any(|word| word.trim_matches(['(', ')']) == "Apache-2.0") {
            bail!("`{name}` has no text of its licence {licence}");
        }
        texts.insert(apache.to_owned());
    }
    Ok(texts)
}

/// These files, and the files of licences in these folders and in their folders.
fn files(places: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for place in places {
        if place.is_file() {
            found.push(place.clone());
            continue;
        }
        for path in entries(place)? {
            if path.is_dir() {
                found.extend(entries(&path)?.into_iter().filter(|path| is_licence(path)));
            } else if is_licence(&path) {
                found.push(path);
            }
        }
    }
    Ok(found)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read `{}`", folder.display()))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

fn is_licence(path: &Path) -> bool {
    const BEGINNINGS: [&str; 6] = ["license", "licence", "copying", "copyright", "notice", "unlicense"];
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    path.is_file() && BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

/// The text without what differs between copies of one licence.
fn normal(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n").trim_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, licence: &str, texts: Vec<PathBuf>) -> Part {
        let (name, version, licence) = (name.into(), "1.0.0".into(), licence.into());
        Part { name, version, licence, origin: Origin::Toolchain, texts }
    }

    #[test]
    fn equal_texts_stand_there_once_and_none_is_missing() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = place.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("one/LICENSE-MIT", "Take it.\r\n");
        write("one/inner/COPYING", "Keep this.");
        write("one/lib.rs", "no licence");
        write("two/licence.txt", "Take it.  \n\n");
        write("three/lib.rs", "");
        let folder = |name: &str| vec![place.path().join(name)];
        let parts = vec![
            part("one", "MIT", folder("one")),
            part("two", "MIT", folder("two")),
            part("three", "MIT OR Apache-2.0", folder("three")),
        ];
        let edges = vec![BTreeSet::new(); 3];
        let all = text(&[Linked { root: 0, parts, edges }]).unwrap();
        assert_eq!(all.matches("Take it.").count(), 1, "{all}");
        assert!(all.contains("one 1.0.0 (MIT)\ntwo 1.0.0 (MIT)\n"), "{all}");
        assert!(all.contains("Keep this.") && !all.contains("no licence"));
        assert!(all.contains("three 1.0.0 (MIT OR Apache-2.0)") && all.contains("Apache License"));
        let error = texts(&part("four", "MIT", folder("three")), "").unwrap_err().to_string();
        assert_eq!(error, "`four` has no text of its licence MIT");
    }
}
