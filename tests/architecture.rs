//! The shape of the house, read from its source: floors, one owner for each effect, files of a size to read.
//!
//! The reader below knows just enough of Rust: it blanks comments and strings, drops what is compiled for tests
//! only, and lists every path that a file names, with `use` and without, written out from the crate or from the
//! library it belongs to. An exception has a name and a reason, and fails when nothing needs it any more.

#![allow(clippy::unwrap_used)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// The floors, highest first. A floor may use those below it; those that share a line know nothing of each other.
const FLOORS: &[&[&str]] = &[&["cli"], &["engine"], &["store", "process"], &["state"], &["domain"]];

/// What `main.rs` may name: it wires, and does nothing else.
const WIRED: &[&str] = &["cli", "process"];

const MOST_LINES: usize = 600;

/// An effect and the one place that has it.
struct Rule {
    effect: &'static str,
    /// Paths that have it, with all that is below them; `name!` is a macro, a bare word a keyword.
    signs: &'static [&'static str],
    /// Files or folders that own it.
    owners: &'static [&'static str],
    /// Other files, and why.
    exceptions: &'static [(&'static str, &'static str)],
}

const RULES: &[Rule] = &[
    Rule {
        effect: "reading and changing files",
        signs: &["std::fs", "rustix::fs"],
        owners: &["src/store/"],
        exceptions: &[
            ("src/process/members.rs", "reads /proc to learn which processes hold a slot"),
            ("src/process/sys.rs", "reads /proc/self/fd to close what was inherited"),
            ("src/process/child.rs", "asks whether a program and a folder can be used, for a good error"),
            ("src/process/stop.rs", "asks the lock of a slot's open file; opens nothing"),
            ("src/process/executor.rs", "names the type of an open file; opens nothing"),
            ("src/engine/attempt.rs", "names the type of an open log; opens nothing"),
            ("src/engine/notify.rs", "names the type of an open log; opens nothing"),
        ],
    },
    Rule {
        effect: "locking",
        signs: &["fs4", "rustix::fs::flock", "rustix::fs::FlockOperation", "libc::flock"],
        owners: &["src/store/lock.rs", "src/store/slots.rs", "src/process/stop.rs"],
        exceptions: &[],
    },
    Rule {
        effect: "creating processes",
        signs: &[
            "std::process::Command",
            "libc::posix_spawn",
            "libc::posix_spawnp",
            "libc::fork",
            "libc::execve",
        ],
        owners: &["src/process/"],
        exceptions: &[],
    },
    Rule {
        effect: "printing",
        signs: &[
            "print!",
            "println!",
            "eprint!",
            "eprintln!",
            "dbg!",
            "std::io::stdout",
            "std::io::stderr",
            "std::io::Stdout",
            "std::io::Stderr",
            "rustix::stdio::stdout",
            "rustix::stdio::stderr",
        ],
        owners: &["src/cli/"],
        exceptions: &[],
    },
    Rule { effect: "unsafe code", signs: &["unsafe"], owners: &["src/process/sys.rs"], exceptions: &[] },
    Rule {
        effect: "exiting",
        signs: &["std::process::exit", "std::process::abort", "libc::_exit", "libc::exit"],
        owners: &["src/main.rs"],
        exceptions: &[],
    },
    Rule {
        effect: "reading the clock",
        signs: &["chrono::Utc::now", "chrono::Local", "std::time::SystemTime", "std::time::UNIX_EPOCH"],
        owners: &["src/main.rs"],
        exceptions: &[],
    },
];

/// Files that are longer than they should be, and why.
const LONG: &[(&str, &str)] =
    &[("src/engine/attempt.rs", "one attempt from its beginning to its end; to be split")];

/// Files that do not say what they own, and why.
const SILENT: &[(&str, &str)] = &[
    ("src/cli/args/tests.rs", "tests of the file above; a line is to be added"),
    ("src/cli/error/tests.rs", "tests of the file above; a line is to be added"),
    ("src/cli/output/tests.rs", "tests of the file above; a line is to be added"),
];

/// One source file, read.
struct Source {
    /// From the root of the package.
    name: String,
    text: String,
    /// Without comments, strings and tests.
    code: String,
    /// Whether it is compiled for tests only.
    only_tests: bool,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    walk(&root.join("src"), &mut files);
    files.sort();
    let mut sources: Vec<Source> = files
        .iter()
        .map(|file| {
            let text = fs::read_to_string(file).unwrap();
            let name = file.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            Source { name, code: without_tests(&blank(&text)), text, only_tests: false }
        })
        .collect();
    // `#[cfg(test)] mod name;` makes a file one of tests, whatever it is called.
    let mut tests = BTreeSet::new();
    for source in &sources {
        let blanked = blank(&source.text);
        for (at, _) in blanked.match_indices("#[cfg(test)]") {
            let item = &blanked[at..at + item_length(&blanked[at..])];
            let words: Vec<_> = item.trim_end_matches(';').split_whitespace().collect();
            if let Some(at) = words.iter().position(|word| *word == "mod")
                && item.ends_with(';')
            {
                tests.insert(format!("{}/{}.rs", folder_of(&source.name), words[at + 1]));
            }
        }
    }
    for source in &mut sources {
        source.only_tests = tests.contains(&source.name);
    }
    sources
}

/// Where the children of a module are.
fn folder_of(name: &str) -> String {
    let (folder, file) = name.rsplit_once('/').unwrap();
    match file {
        "mod.rs" | "lib.rs" | "main.rs" => folder.to_owned(),
        _ => name.trim_end_matches(".rs").to_owned(),
    }
}

fn walk(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            walk(&entry, into);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            into.push(entry);
        }
    }
}

/// The text with comments, strings and characters as spaces.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let length = if rest.starts_with(b"//") {
            rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
        } else if rest.starts_with(b"/*") {
            comment_length(rest)
        } else if let Some(length) = raw_string_length(bytes, at) {
            length
        } else if rest[0] == b'"' {
            quoted_length(rest, b'"')
        } else if rest[0] == b'\'' && is_character(rest) {
            quoted_length(rest, b'\'')
        } else {
            at += 1;
            continue;
        };
        for byte in &mut out[at..at + length] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at += length;
    }
    String::from_utf8(out).unwrap()
}

fn comment_length(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match rest.get(at..at + 2) {
            Some(b"/*") => (depth, at) = (depth + 1, at + 2),
            Some(b"*/") => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// The length of `r"…"`, `r#"…"#`, `br#"…"#`, if one begins here.
fn raw_string_length(bytes: &[u8], at: usize) -> Option<usize> {
    let in_word = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    let rest = &bytes[at..];
    let mut open = match rest {
        [b'r', ..] if !in_word => 1,
        [b'b' | b'c', b'r', ..] if !in_word => 2,
        _ => return None,
    };
    let hashes = rest[open..].iter().take_while(|byte| **byte == b'#').count();
    open += hashes;
    if rest.get(open) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(hashes + 1, b'#');
    let body = &rest[open + 1..];
    let end = body.windows(close.len()).position(|window| window == close).unwrap();
    Some(open + 1 + end + close.len())
}

fn quoted_length(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// A character, and no lifetime.
fn is_character(rest: &[u8]) -> bool {
    match rest {
        [_, b'\\', ..] => true,
        [_, first, ..] if !first.is_ascii() => true,
        [_, _, third, ..] => *third == b'\'',
        _ => false,
    }
}

/// Cuts every item that is marked `#[cfg(test)]` out of blanked code.
fn without_tests(code: &str) -> String {
    let mut out = String::new();
    let mut rest = code;
    while let Some(at) = rest.find("#[cfg(test)]") {
        out.push_str(&rest[..at]);
        rest = &rest[at + item_length(&rest[at..])..];
    }
    out.push_str(rest);
    out
}

/// The length of the item that begins with an attribute: to its `;` or the end of its braces.
fn item_length(code: &str) -> usize {
    let mut depth = 0;
    for (at, char) in code.char_indices() {
        match char {
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => {
                depth -= 1;
                if depth == 0 && char == '}' {
                    return at + 1;
                }
            }
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

/// Words, `::`, and single signs.
fn tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let word = |char: char| char.is_alphanumeric() || char == '_';
        let length = if word(first) {
            rest.find(|char| !word(char)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    tokens
}

fn is_word(token: &str) -> bool {
    token.starts_with(|char: char| char.is_alphabetic() || char == '_')
}

/// Every path that a file names, written out.
fn paths(source: &Source) -> BTreeSet<String> {
    let tokens = tokens(&source.code);
    let mut found = BTreeSet::new();
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    let mut others = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at] == "use" {
            let mut imports = Vec::new();
            at = use_tree(&tokens, at + 1, &[], &mut imports);
            for (path, name) in imports {
                let path = written_out(source, &path);
                known.insert(name, path.clone());
                found.insert(path);
            }
        } else if is_word(tokens[at]) && (at == 0 || !matches!(tokens[at - 1], "::" | ".")) {
            let mut path = vec![tokens[at].to_owned()];
            while tokens.get(at + 1) == Some(&"::") && tokens.get(at + 2).is_some_and(|next| is_word(next)) {
                path.push(tokens[at + 2].to_owned());
                at += 2;
            }
            // `name!(…)`, and neither `name != …` nor `r#name`.
            if tokens.get(at + 1) == Some(&"!") && matches!(tokens.get(at + 2), Some(&("(" | "[" | "{"))) {
                found.insert(format!("{}!", path.last().unwrap()));
            }
            others.push(path);
            at += 1;
        } else {
            at += 1;
        }
    }
    for mut path in others {
        if let Some(import) = known.get(&path[0]) {
            path.splice(..1, import.split("::").map(str::to_owned));
        }
        found.insert(written_out(source, &path));
    }
    found
}

/// Reads one tree of a `use` and gives the place after it; each leaf comes with the name that it gets here.
fn use_tree(tokens: &[&str], mut at: usize, base: &[String], out: &mut Vec<(Vec<String>, String)>) -> usize {
    let mut path = base.to_vec();
    loop {
        match tokens.get(at).copied() {
            Some("{") => {
                at += 1;
                while tokens[at] != "}" {
                    at = use_tree(tokens, at, &path, out);
                    if tokens[at] == "," {
                        at += 1;
                    }
                }
                return at + 1;
            }
            Some("self") if !path.is_empty() => at += 1,
            Some("::") => at += 1,
            Some("as") => {
                out.push((path, tokens[at + 1].to_owned()));
                return at + 2;
            }
            Some("*") => {
                out.push((path, "*".to_owned()));
                return at + 1;
            }
            Some(word) if is_word(word) => {
                path.push(word.to_owned());
                at += 1;
            }
            _ => {
                let name = path.last().cloned().unwrap_or_default();
                out.push((path, name));
                return at;
            }
        }
    }
}

/// A path from the crate's root instead of from `self`, `super` or `crate`.
fn written_out(source: &Source, path: &[String]) -> String {
    let mut module: Vec<String> = folder_of(&source.name).split('/').skip(1).map(str::to_owned).collect();
    let mut rest = path;
    let mut relative = false;
    while let Some(first) = rest.first() {
        match first.as_str() {
            "crate" | "wfctl" => module.clear(),
            "self" => {}
            "super" => drop(module.pop()),
            _ => break,
        }
        relative = true;
        rest = &rest[1..];
    }
    let mut whole = if relative { [vec!["crate".to_owned()], module].concat() } else { Vec::new() };
    whole.extend(rest.iter().cloned());
    whole.join("::")
}

fn has_sign(path: &str, sign: &str) -> bool {
    path == sign || path.strip_prefix(sign).is_some_and(|rest| rest.starts_with("::"))
}

fn level(floor: &str) -> Option<usize> {
    FLOORS.iter().position(|floors| floors.contains(&floor))
}

/// Exceptions that nothing needs any more.
fn stale(exceptions: &[(&str, &str)], used: &BTreeSet<&str>) -> Vec<String> {
    let unused = exceptions.iter().filter(|(file, _)| !used.contains(file));
    unused.map(|(file, why)| format!("{file}: the exception \"{why}\" is not needed any more")).collect()
}

#[test]
fn imports_lead_down_the_floors_only() {
    let mut faults = Vec::new();
    for source in sources() {
        let own = source.name.split('/').nth(1).unwrap().trim_end_matches(".rs").to_owned();
        for path in paths(&source).iter().filter_map(|path| path.strip_prefix("crate::")) {
            let floor = path.split("::").next().unwrap();
            let Some(there) = level(floor) else { continue };
            let allowed = match own.as_str() {
                "lib" => false,
                "main" => WIRED.contains(&floor),
                own => {
                    let here = level(own).unwrap_or_else(|| panic!("{} is on no floor", source.name));
                    floor == own || there > here
                }
            };
            if !allowed {
                faults.push(format!("{} uses {path}, which is not below it", source.name));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn every_effect_has_one_owner() {
    let sources = sources();
    let mut faults = Vec::new();
    for rule in RULES {
        let mut used = BTreeSet::new();
        for source in sources.iter().filter(|source| !source.only_tests) {
            if rule.owners.iter().any(|owner| source.name.starts_with(owner)) {
                continue;
            }
            for path in paths(source) {
                if !rule.signs.iter().any(|sign| has_sign(&path, sign)) {
                    continue;
                }
                match rule.exceptions.iter().find(|(file, _)| *file == source.name) {
                    Some((file, _)) => drop(used.insert(*file)),
                    None => {
                        let owners = rule.owners.join(", ");
                        faults.push(format!(
                            "{} names {path}: {} belongs to {owners}",
                            source.name, rule.effect
                        ));
                    }
                }
            }
        }
        faults.extend(stale(rule.exceptions, &used));
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn every_owner_has_its_effect() {
    // A rule whose signs are found nowhere would prove nothing.
    let sources = sources();
    for rule in RULES {
        for owner in rule.owners {
            let mut owned = sources.iter().filter(|source| source.name.starts_with(owner));
            let has = |path: &String| rule.signs.iter().any(|sign| has_sign(path, sign));
            let printing = rule.effect == "printing";
            assert!(
                printing || owned.any(|source| paths(source).iter().any(has)),
                "{owner}: {}",
                rule.effect
            );
        }
    }
}

#[test]
fn files_are_of_a_size_to_read() {
    let mut faults = Vec::new();
    let mut used = BTreeSet::new();
    for source in sources() {
        let lines = source.text.lines().count();
        if lines > MOST_LINES {
            match LONG.iter().find(|(file, _)| *file == source.name) {
                Some((file, _)) => drop(used.insert(*file)),
                None => faults.push(format!("{} has {lines} lines, more than {MOST_LINES}", source.name)),
            }
        }
    }
    faults.extend(stale(LONG, &used));
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn every_file_begins_with_what_it_owns() {
    let mut faults = Vec::new();
    let mut used = BTreeSet::new();
    for source in sources() {
        if !source.text.starts_with("//!") {
            match SILENT.iter().find(|(file, _)| *file == source.name) {
                Some((file, _)) => drop(used.insert(*file)),
                None => faults.push(format!("{} does not begin with //!", source.name)),
            }
        }
    }
    faults.extend(stale(SILENT, &used));
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn the_reader_of_source_finds_what_is_hidden_and_nothing_else() {
    let read = |text: &str| {
        let name = "src/engine/query/run.rs".to_owned();
        paths(&Source { name, code: without_tests(&blank(text)), text: String::new(), only_tests: false })
    };
    let has = |text: &str, path: &str| read(text).contains(path);
    assert!(has("use crate::{cli::{self, args::Cli as C}, domain};", "crate::cli::args::Cli"));
    assert!(has("use crate::{cli::{self, args::Cli as C}, domain};", "crate::cli"));
    assert!(has("use super::super::find;", "crate::engine::find"));
    assert!(has("use super::super::super::super::cli::x;", "crate::cli::x"));
    assert!(has("fn f() { crate::cli::run(); }", "crate::cli::run"));
    assert!(has("use std::{io, process}; fn f() { process::exit(1) }", "std::process::exit"));
    assert!(has("use std::fs as files; fn f() { files::read(p) }", "std::fs::read"));
    assert!(has("use chrono::Utc; const F: fn() = Utc::now;", "chrono::Utc::now"));
    assert!(has("fn f() { std::println!(); }", "println!"));
    assert!(has("fn f() { unsafe { g() } }", "unsafe"));
    let quiet = r##"
        // std::fs::read and unsafe
        /* println!() /* std::fs */ unsafe */
        fn f<'a>(x: &'a str, c: char) -> bool { c != '"' && x != "std::fs::read(unsafe)" && x != r#"" unsafe"# }
        #[cfg(test)]
        mod tests { use std::fs; fn g() { println!("{}", '}'); unsafe { h() } } }
        fn after() {}
    "##;
    let found = read(quiet);
    assert!(found.contains("after"), "{found:?}");
    for sign in ["std::fs", "println!", "unsafe", "std::fs::read"] {
        assert!(!found.contains(sign), "{sign}: {found:?}");
    }
}

#[test]
fn the_tests_that_the_architecture_page_names_exist() {
    let sources = sources();
    let page = &sources.iter().find(|source| source.name == "src/lib.rs").unwrap().text;
    let table = page.split("which test shows it\n").last().unwrap();
    let mut faults = Vec::new();
    let mut named = 0;
    for row in table.lines().filter_map(|line| line.strip_prefix("//! |")) {
        let cell = row.split('|').nth(1).unwrap();
        for name in cell.split('`').skip(1).step_by(2) {
            named += 1;
            let (home, test) = name.split_once("::").unwrap_or((name, ""));
            let test = test.rsplit("::").next().unwrap();
            let outer =
                fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/{home}.rs")));
            let inner = sources.iter().filter(|source| source.name.contains(&format!("/{home}")));
            let mut texts = outer.into_iter().chain(inner.map(|source| source.text.clone()));
            if !texts.any(|text| test.is_empty() || text.contains(&format!("fn {test}("))) {
                faults.push(format!("src/lib.rs: there is no test {name}"));
            }
        }
    }
    assert!(named > 20, "only {named} tests are named");
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}
