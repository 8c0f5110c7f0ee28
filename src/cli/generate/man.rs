//! Section 1 of the manual: a page for the program and one for every command.
//!
//! `clap_mangen` makes the parts that follow from the definition; the examples and tables of the help texts
//! are set here as they stand, because it would fill them into paragraphs.

use std::{fmt::Write as _, io};

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;

use super::visible;
use crate::cli::args::Cli;

/// The page of the program itself.
///
/// # Errors
/// None in practice: it is written to memory.
pub fn man_page() -> io::Result<Vec<u8>> {
    page(program(), &[])
}

/// All pages with their file names: `wfctl.1` and `wfctl-<command>.1`.
///
/// # Errors
/// None in practice: they are written to memory.
pub fn man_pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut pages = vec![("wfctl.1".to_owned(), man_page()?)];
    for command in visible(&Cli::command()) {
        let name = command.get_name().to_owned();
        let command = command.clone().bin_name(format!("wfctl {name}")).display_name(format!("wfctl-{name}"));
        pages.push((format!("wfctl-{name}.1"), page(command, related(&name))?));
    }
    Ok(pages)
}

fn program() -> Command {
    Cli::command().subcommand_help_heading("COMMANDS").subcommand_value_name("COMMAND")
}

/// Commands that a reader of one page looks for next.
fn related(command: &str) -> &'static [&'static str] {
    match command {
        "init" | "prune" => &["config"],
        "schedule" => &["check", "next", "tick"],
        "run" | "trigger" => &["show", "tick"],
        "tick" => &["recover", "schedule", "status"],
        "resume" => &["cancel", "show"],
        "recover" => &["resolve", "retry"],
        "cancel" => &["recover", "resolve"],
        "resolve" => &["recover", "retry"],
        "retry" => &["resolve", "tick"],
        "wait" => &["resume", "show"],
        "drain" => &["status", "undrain"],
        "undrain" => &["drain"],
        "pause" => &["unpause"],
        "unpause" => &["pause"],
        "check" | "next" | "remove" | "rewind" | "schedules" => &["schedule"],
        "status" => &["list", "schedules"],
        "history" | "list" | "logs" => &["show"],
        "show" => &["history", "logs"],
        "config" => &["init"],
        "fsck" => &["recover"],
        _ => &[],
    }
}

/// What makes an apostrophe look the same everywhere.
const PREAMBLE: &str = ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n";
/// When the manual last changed.
const DATE: &str = "2026-12-01";
const SOURCE: &str = concat!("wfctl ", env!("CARGO_PKG_VERSION"));
const GLOBAL: &str = ".PP\n\
    The global options, such as \\fB\\-\\-store\\fR and \\fB\\-\\-json\\fR,\n\
    and the exit statuses are in\n\
    .BR wfctl (1).\n";

fn page(mut command: Command, related: &[&str]) -> io::Result<Vec<u8>> {
    command.build();
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let is_program = name == "wfctl";
    let extra = command.get_after_long_help().or_else(|| command.get_after_help()).map(ToString::to_string);
    let mut parts = Vec::new();
    let man = Man::new(command);
    man.render_name_section(&mut parts)?;
    man.render_synopsis_section(&mut parts)?;
    man.render_description_section(&mut parts)?;
    man.render_options_section(&mut parts)?;
    if is_program {
        man.render_subcommands_section(&mut parts)?;
    } else {
        parts.extend_from_slice(GLOBAL.as_bytes());
    }
    let mut page = format!(
        "{PREAMBLE}.TH {} 1 \"{DATE}\" \"{SOURCE}\" \"wfctl manual\"\n",
        escape(&name.to_uppercase())
    );
    // Every part brings the same preamble along.
    let parts = String::from_utf8_lossy(&parts).replace(PREAMBLE, "");
    let lines: Vec<&str> = parts.lines().map(str::trim_end).collect();
    for (index, line) in lines.iter().enumerate() {
        // A break beside vertical space, which an empty line is too, breaks nothing, and mandoc warns of it.
        let is_sp = |index: Option<usize>| matches!(index.and_then(|i| lines.get(i)), Some(&("" | ".sp")));
        if *line == ".br" && (is_sp(index.checked_sub(1)) || is_sp(Some(index + 1))) {
            continue;
        }
        page.push_str(if line.is_empty() { ".sp" } else { line });
        page.push('\n');
    }
    page.push_str(&sections(extra.as_deref().unwrap_or_default()));
    page.push_str(&see_also(is_program, related));
    Ok(page.into_bytes())
}

/// The sections of a help text: a heading is a line that ends with a colon and is not indented.
fn sections(text: &str) -> String {
    let mut roff = String::new();
    let mut is_open = false;
    for line in text.lines() {
        let heading = line.strip_suffix(':').filter(|heading| !heading.starts_with(' '));
        if heading.is_some() && is_open {
            roff.push_str(".fi\n.RE\n");
        }
        match heading {
            Some(heading) => {
                let _ = write!(roff, ".SH \"{}\"\n.RS 4\n.nf\n", escape(&heading.to_uppercase()));
                is_open = true;
            }
            None if line.is_empty() => {}
            None => {
                let _ = writeln!(roff, "{}", escape(line.strip_prefix("  ").unwrap_or(line)));
            }
        }
    }
    if is_open {
        roff.push_str(".fi\n.RE\n");
    }
    roff.replace(".SH \"EXAMPLE\"", ".SH \"EXAMPLES\"")
}

fn see_also(is_program: bool, related: &[&str]) -> String {
    let mut pages: Vec<(String, u8)> = Vec::new();
    if !is_program {
        pages.push(("wfctl".to_owned(), 1));
    }
    pages.extend(related.iter().map(|name| (format!("wfctl-{name}"), 1)));
    pages.push(("wfctl-workflow".to_owned(), 5));
    pages.push(("wfctl-store".to_owned(), 5));
    if is_program {
        pages.push(("crontab".to_owned(), 5));
    }
    pages.sort_by(|(a, section_a), (b, section_b)| (section_a, a).cmp(&(section_b, b)));
    let mut roff = ".SH \"SEE ALSO\"\n".to_owned();
    let last = pages.len() - 1;
    for (i, (name, section)) in pages.iter().enumerate() {
        let comma = if i == last { "" } else { "," };
        let _ = writeln!(roff, ".BR {} ({section}){comma}", escape(name));
    }
    roff
}

/// Text that roff takes as it is.
fn escape(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('"', "\\(dq").replace('\'', "\\(aq");
    if text.starts_with('.') { format!("\\&{text}") } else { text }
}
