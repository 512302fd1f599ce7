//! `diana completions` and `diana man`: every command and every option is there.

use clap::{Arg, Command, CommandFactory};
use diana_cli::Arguments;
use std::process;

fn diana(words: &[&str]) -> (i32, String, String) {
    let output = process::Command::new(env!("CARGO_BIN_EXE_diana")).args(words).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_program_tells_its_version() {
    let version = format!("diana {}\n", diana_filter::VERSION);
    assert_eq!(diana(&["--version"]), (0, version, String::new()));
}

fn commands() -> Vec<Command> {
    let mut program = Arguments::command();
    program.build();
    program.get_subcommands().filter(|command| command.get_name() != "help").cloned().collect()
}

#[test]
fn every_shell_completes_every_command_and_option() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, script, errors) = diana(&["completions", shell]);
        assert_eq!((code, errors.as_str()), (0, ""), "{shell}");
        for command in commands() {
            assert!(script.contains(command.get_name()), "{shell}: {}", command.get_name());
            for option in command.get_arguments().filter_map(Arg::get_long) {
                assert!(script.contains(option), "{shell}: {} --{option}", command.get_name());
            }
        }
    }
    let (code, _, errors) = diana(&["completions", "cmd"]);
    assert!(code == 2 && errors.contains("bash"), "{errors}");
}

#[test]
fn the_script_for_bash_is_valid() {
    let (_, script, _) = diana(&["completions", "bash"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("diana.bash");
    std::fs::write(&file, script + "\ncomplete -p diana\n").unwrap();
    let output = process::Command::new("bash").arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("_diana"));
}

#[test]
fn the_manual_lists_all_commands_and_each_command_has_a_page() {
    let (code, page, errors) = diana(&["man"]);
    assert_eq!((code, errors.as_str()), (0, ""));
    assert!(page.contains(".TH diana 1"), "{page}");
    for command in commands() {
        let name = command.get_name();
        assert!(page.contains(&format!("diana\\-{name}(1)")), "{name}: {page}");
        let (code, own, errors) = diana(&["man", name]);
        assert_eq!((code, errors.as_str()), (0, ""), "{name}");
        assert!(own.contains(&format!(".TH diana-{name} 1  \"diana ")), "{own}");
        assert!(own.contains(&format!("\\fBdiana {name}\\fR")), "{own}");
        for option in command.get_arguments().filter_map(Arg::get_long) {
            assert!(own.contains(&format!("\\-\\-{}", option.replace('-', "\\-"))), "{name} --{option}");
        }
    }
    let (code, _, errors) = diana(&["man", "nothing"]);
    assert_eq!(code, 2);
    assert!(errors.contains("unknown command `nothing`, expected check, explain"), "{errors}");
}
