//! The set-ups of docs/connection.md, as they stand there, as far as they can be tried without the clouds.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use mysql::prelude::Queryable;

use crate::harness::certificates::Certificates;
use crate::harness::{Dblock, Kind, PASSWORD, Proxy, both_servers, unique, works};
use crate::tls::{Secured, with_hosts};

/// The section of the page under this heading.
fn section(heading: &str) -> String {
    let page =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/connection.md")).unwrap();
    let start = page.find(&format!("### {heading}")).expect("the heading");
    let section = &page[start + 3..];
    section[..section.find("\n### ").unwrap_or(section.len())].to_owned()
}

/// What stands behind `DBLOCK_URL=` there.
fn url(section: &str) -> String {
    let line = section
        .lines()
        .find_map(|line| line.trim().strip_prefix("DBLOCK_URL="));
    line.expect("a URL").to_owned()
}

fn the_bundle_of_rds(kind: Kind) {
    let secured = Secured::shared(kind).showing("rds");
    let section = section("Amazon RDS");
    let (_, file) = section.split_once("<<'EOF'\n").expect("the option file");
    let (file, _) = file.split_once("    EOF").expect("its end");
    let file = file.replace("\n    ", "\n");
    let file = file.trim();
    let folder = tempfile::tempdir().unwrap();
    // A bundle has the certificates of many CAs.
    let certificates = Certificates::shared();
    let [other, own] =
        ["other-ca.pem", "ca.pem"].map(|name| fs::read_to_string(certificates.path(name)).unwrap());
    let bundle = folder.path().join("rds-global-bundle.pem");
    fs::write(&bundle, format!("{other}{own}")).unwrap();
    let account = unique("rds");
    let create = section
        .lines()
        .find(|line| line.contains("CREATE USER"))
        .expect("the account");
    let create = create
        .split(';')
        .next()
        .unwrap()
        .replace("'dblock'", &format!("'{account}'"));
    secured.admin().query_drop(create).unwrap();
    let path = folder.path().join("dblock.cnf");
    let file = file
        .replace(
            "/etc/ssl/certs/rds-global-bundle.pem",
            &bundle.display().to_string(),
        )
        .replace(
            "user     = dblock",
            &format!("user = {account}\nport = {}", secured.port),
        );
    fs::write(&path, &file).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let run = |path: &Path| {
        let dblock = Dblock::bare().env_remove("DBLOCK_SSL_MODE").args([
            "run",
            "--name",
            &unique("rds"),
            "--defaults-file",
        ]);
        with_hosts(
            dblock.arg(path),
            "127.0.0.1 mydb.abc123.eu-west-1.rds.amazonaws.com other.rds.amazonaws.com\n",
        )
    };
    works(run(&path).0);
    // Another instance's certificate is no proof, and the account wants TLS.
    fs::write(&path, file.replace("mydb.abc123.eu-west-1", "other")).unwrap();
    run(&path)
        .0
        .command(["true"])
        .output()
        .expect_code(78)
        .expect_one_line("other.rds.amazonaws.com");
    fs::write(&path, file.replace("verify-identity", "disabled")).unwrap();
    run(&path).0.command(["true"]).output().expect_code(77);
}

#[test]
fn the_bundle_of_rds_on_mariadb() {
    the_bundle_of_rds(Kind::MariaDb);
}

#[test]
fn the_bundle_of_rds_on_mysql() {
    the_bundle_of_rds(Kind::MySql);
}

both_servers! {
    fn the_proxy_of_cloud_sql(server) {
        let proxy = Proxy::to(server);
        let account = unique("sql");
        // Its first login, which on MySQL takes the long way.
        server.admin().query_drop(format!("CREATE USER '{account}'@'%' IDENTIFIED BY '{PASSWORD}'")).unwrap();
        let url = url(&section("Google Cloud SQL")).replace("3306", &proxy.port.to_string()).replace("dblock@", &format!("{account}@"));
        let run = |name: &str| {
            let dblock = Dblock::bare().env_remove("DBLOCK_SSL_MODE").args(["run", "--name", name]);
            dblock.env("DBLOCK_URL", &url).env("DBLOCK_PASSWORD", PASSWORD)
        };
        let name = unique("proxy");
        works(run(&name));
        // It is the server behind it that excludes.
        let _held = server.hold(&name);
        run(&name).command(["true"]).output().expect_code(75);
    }

    fn a_server_on_the_same_host(server) {
        let section = section("A server on the same host");
        let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().expect("a name").name;
        let plugin = match server.kind {
            Kind::MariaDb => "VIA unix_socket",
            Kind::Postgres => unreachable!("a test of MySQL"),
            Kind::MySql => "WITH auth_socket",
        };
        if server.kind == Kind::MySql {
            let _ = server.admin().query_drop("INSTALL PLUGIN auth_socket SONAME 'auth_socket.so'");
        }
        let create = section.lines().find(|line| line.contains(plugin)).expect("the account");
        let create = create.split(';').next().unwrap().replace("'app'", &format!("'{user}'"));
        // One of that name may be there.
        let _ = server.admin().query_drop(&create);
        server.admin().query_drop(create.replace("CREATE", "ALTER")).unwrap();
        let url = url(&section).replace("/run/mysqld/mysqld.sock", &server.socket.display().to_string());
        works(Dblock::bare().env_remove("DBLOCK_SSL_MODE").args(["run", "--name", &unique("local")]).env("DBLOCK_URL", url));
    }
}
