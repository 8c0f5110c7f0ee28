//! A real terminal without a person: tmux.

use std::{
    env,
    fmt::Write as _,
    process::{Command, Output},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use super::support::TestStore;

/// How long a screen may take to show what it should.
const PATIENCE: Duration = Duration::from_secs(20);

/// One terminal with a shell in it.
pub(crate) struct Screen {
    socket: String,
}

impl Screen {
    /// A terminal of this size; none where tmux is missing, which is said.
    pub(crate) fn open(
        test: &TestStore,
        columns: u16,
        rows: u16,
        variables: &[(&str, &str)],
    ) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if Command::new("tmux").arg("-V").output().is_err() {
            eprintln!("skipped: tmux is not installed");
            return None;
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let screen = Self { socket: format!("wfctl-test-{}-{number}", std::process::id()) };
        let mut shell = format!(
            "env -i PATH='{}' HOME='{}' TERM=screen-256color LANG=C.UTF-8 WFCTL_STORE='{}' PS1='$ '",
            env::var("PATH").unwrap(),
            test.folder().display(),
            test.root().display()
        );
        for (name, value) in variables {
            let _ = write!(shell, " {name}='{value}'");
        }
        shell.push_str(" sh");
        let (x, y) = (columns.to_string(), rows.to_string());
        let output = screen.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &x, "-y", &y, &shell]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        screen.wait_for(|text| text.contains('$'));
        Some(screen)
    }

    fn tmux(&self, args: &[&str]) -> Output {
        Command::new("tmux").args(["-L", &self.socket]).args(args).env_remove("TMUX").output().unwrap()
    }

    /// Types a command line on an empty screen.
    pub(crate) fn enter(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.tmux(&["send-keys", "Enter"]);
    }

    pub(crate) fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// What the screen shows, without what comes after the last text.
    pub(crate) fn text(&self, options: &[&str]) -> String {
        let output = self.tmux(&[&["capture-pane", "-p"], options].concat());
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    pub(crate) fn wait_for(&self, is_there: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let text = self.text(&[]);
            if is_there(&text) {
                return text;
            }
            assert!(Instant::now() < deadline, "the screen shows\n{text}");
            thread::sleep(Duration::from_millis(30));
        }
    }

    /// Whether the terminal shows its cursor.
    pub(crate) fn shows_cursor(&self) -> bool {
        let output = self.tmux(&["display-message", "-p", "#{cursor_flag}"]);
        String::from_utf8_lossy(&output.stdout).trim() == "1"
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}
