//! Certificates and keys of every kind, made by openssl(1) once for each test process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

/// The name that the right certificates are for.
pub const HOST: &str = "db.example.test";

/// A server's: an extension, as `openssl ca` takes it.
const FOR_HOST: &str =
    "subjectAltName=DNS:db.example.test,IP:127.0.0.1,IP:::1\nextendedKeyUsage=serverAuth";

/// A folder with all of them. It goes when the test process ends, however that happens: the janitor reads a pipe that only
/// this process holds open.
#[derive(Debug)]
pub struct Certificates {
    folder: PathBuf,
    _janitor: Child,
}

impl Certificates {
    /// `ca.pem`, `other-ca.pem`; the servers' `right.pem`, `other-name.pem` and so on, all of `server-key.pem`; the clients'
    /// `client.pem` and so on, each of a key of the same name.
    pub fn shared() -> &'static Self {
        static ALL: LazyLock<Certificates> = LazyLock::new(Certificates::make);
        &ALL
    }

    /// One of the files.
    pub fn path(&self, name: &str) -> PathBuf {
        let path = self.folder.join(name);
        assert!(path.exists(), "{} was made", path.display());
        path
    }

    /// A new folder among them.
    pub fn folder(&self, name: &str) -> PathBuf {
        let path = self.folder.join(name);
        fs::create_dir(&path).expect("a new folder");
        path
    }

    fn make() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("dblock-certificates-")
            .tempdir()
            .expect("a scratch folder")
            .keep();
        let janitor = Command::new("setsid")
            .args(["sh", "-c", "trap '' HUP INT TERM; cat; rm -rf \"$0\""])
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("a janitor");
        let all = Self {
            folder,
            _janitor: janitor,
        };
        for ca in ["ca", "other-ca"] {
            all.key(ca);
            let subject = format!("/CN=dblock test {ca}");
            all.openssl(&format!("req -x509 -days 3650 -key {ca}-key.pem -subj"))
                .arg(subject)
                .args(["-out", &format!("{ca}.pem")])
                .succeed();
        }
        all.servers();
        all.clients();
        all
    }

    fn servers(&self) {
        self.key("server");
        let soon = ("", "");
        let past = ("20200101000000Z", "20210101000000Z");
        let future = ("20880101000000Z", "20890101000000Z");
        let other_name = "subjectAltName=DNS:*.elsewhere.test,IP:192.0.2.7";
        let not_for_servers = "subjectAltName=DNS:db.example.test\nextendedKeyUsage=clientAuth";
        let no_name = "basicConstraints=CA:FALSE";
        for (name, ca, extensions, dates) in [
            ("right", "ca", FOR_HOST, soon),
            ("by-other-ca", "other-ca", FOR_HOST, soon),
            ("expired", "ca", FOR_HOST, past),
            ("not-yet", "ca", FOR_HOST, future),
            ("other-name", "ca", other_name, soon),
            ("no-name", "ca", no_name, soon),
            (
                "rds",
                "ca",
                "subjectAltName=DNS:mydb.abc123.eu-west-1.rds.amazonaws.com",
                soon,
            ),
            // Of the hosts that the documents name.
            (
                "documents",
                "ca",
                "subjectAltName=DNS:*.example.com,DNS:mydb.abc123.eu-west-1.rds.amazonaws.com",
                soon,
            ),
            ("not-for-servers", "ca", not_for_servers, soon),
        ] {
            // Its common name is right: that does not count.
            self.request("server", name, HOST);
            self.sign(name, ca, extensions, dates);
        }
        self.openssl(
            "x509 -req -days 9 -in right.csr -signkey server-key.pem -extfile right.extensions -out self-signed.pem",
        )
        .succeed();
        // The server's own certificate is that of a CA, as `openssl req -x509` makes them.
        self.openssl(
            "req -x509 -days 9 -key server-key.pem -subj /CN=db.example.test -out a-ca.pem",
        )
        .succeed();
        for hash in ["sha256", "sha384"] {
            self.openssl(&format!(
                "x509 -req -days 9 -in right.csr -CA ca.pem -CAkey ca-key.pem -set_serial 2 -extfile right.extensions \
                 -{hash} -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:digest -out pss-{hash}.pem"
            ))
            .succeed();
        }
        self.request("server", "version-1", HOST);
        self.sign_version_1("version-1");
        self.chain("right-chain", "server", FOR_HOST);
    }

    fn clients(&self) {
        let (plain, soon) = ("basicConstraints=CA:FALSE", ("", ""));
        for (name, ca) in [("client", "ca"), ("client-by-other-ca", "other-ca")] {
            self.ec_key(name);
            self.request(name, name, "client");
            self.sign(name, ca, plain, soon);
        }
        self.key("client-rsa");
        self.request("client-rsa", "client-rsa", "client");
        self.sign("client-rsa", "ca", plain, soon);
        self.key("client-version-1");
        self.request("client-version-1", "client-version-1", "client");
        self.sign_version_1("client-version-1");
        self.ec_key("client-chain");
        self.chain("client-chain", "client-chain", plain);
        // The same keys, written otherwise.
        for (from, how, to) in [
            ("client-rsa", "rsa -traditional", "client-rsa-pkcs1-key"),
            ("client", "ec", "client-sec1-key"),
            ("client", "pkcs8 -topk8 -passout pass:x", "encrypted-key"),
            (
                "client-rsa",
                "rsa -traditional -aes128 -passout pass:x",
                "encrypted-pkcs1-key",
            ),
        ] {
            self.openssl(&format!("{how} -in {from}-key.pem -out {to}.pem"))
                .succeed();
        }
        let p521 = "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-521 -out p521-key.pem";
        self.openssl(p521).succeed();
    }

    fn key(&self, name: &str) {
        let algorithm = "-algorithm RSA -pkeyopt rsa_keygen_bits:2048";
        self.openssl(&format!("genpkey {algorithm} -out {name}-key.pem"))
            .succeed();
    }

    fn ec_key(&self, name: &str) {
        let algorithm = "-algorithm EC -pkeyopt ec_paramgen_curve:P-256";
        self.openssl(&format!("genpkey {algorithm} -out {name}-key.pem"))
            .succeed();
    }

    fn request(&self, key: &str, name: &str, common_name: &str) {
        self.openssl(&format!("req -new -key {key}-key.pem -out {name}.csr"))
            .args(["-subj", &format!("/CN={common_name}")])
            .succeed();
    }

    /// Signs `NAME.csr` as `NAME.pem`, for the days between these dates or for some from now on.
    fn sign(&self, name: &str, ca: &str, extensions: &str, (from, to): (&str, &str)) {
        let database = self.folder.join(format!("{name}.database"));
        let extension_file = self.folder.join(format!("{name}.extensions"));
        fs::write(&database, "").expect("a scratch file");
        fs::write(&extension_file, format!("{extensions}\n")).expect("a scratch file");
        let config = self.folder.join(format!("{name}.config"));
        let text = format!(
            "[ca]\ndefault_ca=this\n[this]\ndatabase={}\nnew_certs_dir={}\nrand_serial=yes\ndefault_md=sha256\n\
             default_days=9\npolicy=any\n[any]\ncommonName=supplied\n",
            database.display(),
            self.folder.display()
        );
        fs::write(&config, text).expect("a scratch file");
        let mut command = self.openssl(&format!(
            "ca -batch -notext -config {name}.config -cert {ca}.pem -keyfile {ca}-key.pem -in {name}.csr -out {name}.pem \
             -extfile {name}.extensions"
        ));
        if !from.is_empty() {
            command.args(["-startdate", from, "-enddate", to]);
        }
        command.succeed();
    }

    /// As many an instruction for MySQL has it.
    fn sign_version_1(&self, name: &str) {
        self.openssl(&format!(
            "x509 -req -days 9 -in {name}.csr -CA ca.pem -CAkey ca-key.pem -set_serial 1 -out {name}.pem"
        ))
        .succeed();
        let text = self
            .openssl(&format!("x509 -noout -text -in {name}.pem"))
            .output();
        let text = String::from_utf8_lossy(&text.expect("openssl(1) starts").stdout).into_owned();
        assert!(text.contains("Version: 1 "), "{text}");
    }

    /// Signs `NAME.pem` by a CA in between, which stands behind it in that file.
    fn chain(&self, name: &str, key: &str, extensions: &str) {
        let between = format!("{name}-between");
        self.ec_key(&between);
        self.request(&between, &between, &format!("dblock test {between}"));
        self.sign(
            &between,
            "ca",
            "basicConstraints=critical,CA:TRUE",
            ("", ""),
        );
        self.request(key, name, HOST);
        self.sign(name, &between, extensions, ("", ""));
        let file = self.folder.join(format!("{name}.pem"));
        let both = [file.clone(), self.path(&format!("{between}.pem"))]
            .map(|path| fs::read_to_string(path).expect("it was made"));
        fs::write(file, both.concat()).expect("a scratch file");
    }

    fn openssl(&self, words: &str) -> Command {
        let mut command = Command::new("openssl");
        command
            .args(words.split_whitespace())
            .current_dir(&self.folder)
            .stdin(Stdio::null());
        command
    }
}

trait Succeed {
    fn succeed(&mut self);
}

impl Succeed for Command {
    fn succeed(&mut self) {
        let output = self.output().expect("openssl(1) starts");
        assert!(
            output.status.success(),
            "{self:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// Puts a copy of `from` in the place of `to`, which is whole at any moment.
pub fn put_in_place(from: &Path, to: &Path) {
    let new = to.with_extension("new");
    fs::copy(from, &new).expect("a scratch file");
    fs::rename(new, to).expect("a scratch file");
}
