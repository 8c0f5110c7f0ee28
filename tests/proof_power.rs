//! Real power cuts: a store on an ext4 file system in a file, several commands under load, then the file system is
//! shut down without writing its log, mounted again, and an operator goes over the store.
//!
//! Needs root, loop devices and ext4. A few cuts unless `WFCTL_PROOF=full`, which makes a hundred.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod proof;

use std::{
    fs,
    os::fd::AsRawFd as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use proof::{
    Site,
    check::{Allow, Snapshot, heal_and_check},
    is_full, step,
};

/// An ext4 file system in a file, unmounted on drop.
struct PowerDisk {
    image: PathBuf,
    at: PathBuf,
}

fn does(program: &str, args: &[&str]) -> Result<(), String> {
    match Command::new(program).args(args).output() {
        Ok(out) if out.status.success() => Ok(()),
        Ok(out) => Err(format!("{program} {args:?}: {}", String::from_utf8_lossy(&out.stderr).trim())),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

impl PowerDisk {
    fn new(base: &Path) -> Result<Self, String> {
        let (image, at) = (base.join("disk.img"), base.join("disk"));
        fs::create_dir(&at).unwrap();
        fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
        does("mkfs.ext4", &["-q", "-F", "-b", "1024", image.to_str().unwrap()])?;
        let disk = Self { image, at };
        disk.mount()?;
        Ok(disk)
    }

    fn mount(&self) -> Result<(), String> {
        does("mount", &["-o", "loop", self.image.to_str().unwrap(), self.at.to_str().unwrap()])
    }

    /// The power goes: what is not on the disk by now never will be.
    #[allow(unsafe_code)]
    fn cut(&self) -> Result<(), String> {
        const EXT4_IOC_SHUTDOWN: libc::c_ulong = 0x8004_587d;
        let no_log_flush: u32 = 2;
        let folder = fs::File::open(&self.at).unwrap();
        // SAFETY: the ioctl reads one number.
        let done = unsafe { libc::ioctl(folder.as_raw_fd(), EXT4_IOC_SHUTDOWN, &raw const no_log_flush) };
        if done != 0 {
            return Err(format!("the file system cannot be shut down: {}", std::io::Error::last_os_error()));
        }
        Ok(())
    }

    fn unmount(&self) -> Result<(), String> {
        // Orphans of the cut let go of their files in a moment.
        for _ in 0..200 {
            if does("umount", &[self.at.to_str().unwrap()]).is_ok() {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(20));
        }
        does("umount", &[self.at.to_str().unwrap()])
    }
}

impl Drop for PowerDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.at).output();
    }
}

fn start(site: &Site, args: &[&str]) -> Child {
    let mut command = site.command(args);
    // In a session of its own, so that all of it can be ended when the power goes.
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Ends every process whose store is this one, as a power cut does.
#[allow(unsafe_code)]
fn end_all(site: &Site) {
    let store = site.store.as_os_str().as_encoded_bytes();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let environ = fs::read(entry.path().join("environ")).unwrap_or_default();
        let is_ours = environ.windows(store.len()).any(|window| window == store);
        if is_ours && pid != std::process::id().cast_signed() {
            // SAFETY: plain system call on a process of this test.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }
}

#[test]
fn no_power_cut_breaks_a_promise() {
    let base = proof::base();
    let disk = match PowerDisk::new(base.path()) {
        Ok(disk) => disk,
        Err(why) => {
            eprintln!("skipped: no ext4 in a file here: {why}");
            return;
        }
    };
    let cuts = if is_full() { 100 } else { 5 };
    let mut runs = 0;
    for cut in 0..cuts {
        // The effects are outside of the disk: what a step did to the world stays done.
        let name = format!("site{cut}");
        let site = Site::new(base.path().join(&name), base.path().join("work"));
        let site = Site { store: disk.at.join(&name), ..site };
        site.ok(&["init", "--capacity", "3"]);
        let outside = site.dir.to_str().unwrap();
        // The store is not beside its effects here.
        let steps = format!("{}{}", step("one", "sleep 0.01", ""), step("two", "true", ""))
            .replace("$WFCTL_STORE/..", outside);
        let gated =
            format!("{steps}[[step]]\nid = \"ask\"\ninterrupt = \"?\"\n").replace("\"two\"", "\"too\"");
        let days = |n: i64| {
            (chrono::Utc::now() - chrono::TimeDelta::days(n)).format("%Y-%m-%dT%H:%M:%SZ").to_string()
        };
        let due = |name: &str, steps: &str, n: i64, overlap: &str| {
            let file = site.workflow(&format!("{name}{cut}"), steps);
            let args = [
                "schedule",
                &file,
                "--every",
                "1d",
                "--start",
                &days(n),
                "--overlap",
                overlap,
                "--catchup",
                "all",
            ];
            site.ok(&args);
        };
        due("a", &steps, 12, "allow");
        due("b", &steps, 6, "queue");
        due("c", &gated, 4, "skip");
        let before = Snapshot::of(&site.store);
        let a = format!("a{cut}");
        let work = site.work.join(format!("a{cut}.toml"));
        let mut children = vec![
            start(&site, &["tick"]),
            start(&site, &["tick"]),
            start(&site, &["trigger", &a]),
            start(&site, &["run", work.to_str().unwrap(), "--id", "mine"]),
            start(&site, &["pause", &format!("b{cut}")]),
        ];
        thread::sleep(Duration::from_millis(15 + (cut * 37) % 400));
        // What has been acknowledged by now must be there afterwards.
        let acknowledged: Vec<bool> = children
            .iter_mut()
            .map(|child| matches!(child.try_wait(), Ok(Some(status)) if status.success()))
            .collect();
        if let Err(why) = disk.cut() {
            eprintln!("skipped: {why}");
            end_all(&site);
            children.iter_mut().for_each(|child| drop(child.wait()));
            return;
        }
        end_all(&site);
        for child in &mut children {
            let _ = child.kill();
            let _ = child.wait();
        }
        disk.unmount().unwrap();
        disk.mount().unwrap();
        let after = Snapshot::of(&site.store);
        if acknowledged[2] {
            assert!(
                after.runs.keys().any(|run| run.starts_with(&a) && run.contains("-m")),
                "the trigger is lost"
            );
        }
        if acknowledged[3] {
            let mine = after.runs.get("mine").expect("an acknowledged run is lost");
            assert_eq!(mine.events.last().unwrap()["event"], "completed");
        }
        if acknowledged[4] {
            let path = site.store.join("schedules").join(format!("b{cut}/schedule.json"));
            assert!(fs::read_to_string(path).unwrap().contains("\"paused\": {"), "the pause is lost");
        }
        let _ = site.run(&["unpause", &format!("b{cut}")]);
        let broken = heal_and_check(&site, &before, Allow::default());
        assert!(broken.is_empty(), "cut {cut}:\n{}", broken.text());
        runs += Snapshot::of(&site.store).runs.len();
        fs::remove_dir_all(&site.store).unwrap();
    }
    eprintln!("{cuts} power cuts, {runs} runs");
}
