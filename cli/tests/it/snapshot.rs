//! Compares output with a file beside the tests. `UPDATE=1` writes the file.

use std::path::Path;
use std::{env, fs};

/// Compares `actual` with the file at this path below `cli/tests/it`.
#[track_caller]
pub fn matches(path: &str, actual: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it").join(path);
    if env::var_os("UPDATE").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, actual).unwrap();
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        actual == expected,
        "`{path}` differs; UPDATE=1 writes it.\n--- found\n{actual}\n--- expected\n{expected}"
    );
}
