//! The main job: a real cron daemon fires the same crontab line on two hosts in the same minute, and one of them runs it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use crate::harness::{Kind, PASSWORD, Server, eventually, quoted, unique, write_program};

/// A cron daemon with a host name, a process table and a crontab of its own. It ends with this value.
struct Host(Child);

impl Host {
    /// Debian's cron, which has fixed paths: a mount namespace puts this host's files there.
    fn start(folder: &Path, name: &str, crontab: &str) -> Self {
        let found = Command::new("sh")
            .args(["-c", "command -v cron"])
            .stdout(Stdio::null())
            .status();
        assert!(
            found.is_ok_and(|status| status.success()),
            "no cron daemon is installed: script/bootstrap installs it"
        );
        let spool = folder.join(name);
        fs::create_dir_all(spool.join("crontabs")).unwrap();
        fs::create_dir_all(folder.join("empty")).unwrap();
        fs::write(folder.join("nothing"), "").unwrap();
        let file = spool.join("crontabs/root");
        fs::write(&file, crontab).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let script = r#"
            hostname "$1"
            mount -t tmpfs none /run
            mount --bind "$1" /var/spool/cron
            mount --bind empty /etc/cron.d
            mount --bind nothing /etc/crontab
            exec cron -f
        "#;
        let daemon = Command::new("unshare")
            .args([
                "--mount",
                "--uts",
                "--pid",
                "--fork",
                "--mount-proc",
                "--kill-child",
            ])
            .args(["sh", "-ec", script, "sh", name])
            .current_dir(folder)
            .stdin(Stdio::null())
            .spawn();
        Self(daemon.expect("unshare starts"))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

/// One line on every host: the job lasts until the other host has given its answer.
fn line(folder: &Path, server: &Server) -> String {
    let folder = quoted(&folder.join(server.kind.to_string()));
    let name = unique("nightly");
    format!(
        "* * * * * DBLOCK_URL={url} dblock run --name {name} -- {folder}/job 2>>{folder}/stderr; \
         echo $(hostname) $? >>{folder}/codes\n",
        url = server.url(),
    )
}

#[test]
fn of_two_hosts_one_runs_the_crontab_line_and_the_other_skips_it() {
    let folder = tempfile::tempdir().unwrap();
    let servers = [Server::shared(Kind::MariaDb), Server::shared(Kind::MySql)];
    let programs = Path::new(env!("CARGO_BIN_EXE_dblock")).parent().unwrap();
    let mut crontab = format!(
        "PATH={}:/usr/bin:/bin\nDBLOCK_PASSWORD={PASSWORD}\n",
        programs.display()
    );
    for server in servers {
        crontab.push_str(&line(folder.path(), server));
        let place = folder.path().join(server.kind.to_string());
        fs::create_dir(&place).unwrap();
        let job = "#!/bin/sh\ncd ${0%/*}; echo $(hostname) >>ran\nuntil [ -s codes ]; do sleep 0.1; done\n";
        write_program(&place.join("job"), job.as_bytes());
    }
    // Both daemons are to see the same minute begin, also where they take long to start.
    eventually(
        "the minute is not almost over",
        Duration::from_secs(30),
        || {
            let now = SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap();
            now.as_secs() % 60 < 45
        },
    );
    let hosts = ["one", "two"].map(|name| Host::start(folder.path(), name, &crontab));
    let read = |server: &Server, file: &str| {
        let file = folder.path().join(server.kind.to_string()).join(file);
        fs::read_to_string(file).unwrap_or_default()
    };
    eventually(
        "both hosts have given their answer",
        Duration::from_secs(75),
        || {
            servers
                .iter()
                .all(|server| read(server, "codes").lines().count() >= 2)
        },
    );
    drop(hosts);
    for server in servers {
        let ran = read(server, "ran");
        let (ran, skipped) = if ran == "one\n" {
            ("one", "two")
        } else {
            ("two", "one")
        };
        assert_eq!(
            read(server, "ran"),
            format!("{ran}\n"),
            "one host ran it, once"
        );
        let stderr = read(server, "stderr");
        assert_eq!(
            read(server, "codes"),
            format!("{skipped} 75\n{ran} 0\n"),
            "stderr: {stderr}"
        );
        assert_eq!(
            stderr.lines().count(),
            1,
            "the skip is told, and nothing else: {stderr}"
        );
        assert!(
            stderr.starts_with("dblock: nightly-") && stderr.ends_with("; not run\n"),
            "{stderr}"
        );
    }
}
