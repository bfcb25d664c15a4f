//! Service files: connection parameters under a name, as libpq reads them (`parseServiceInfo`).

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf, absolute};
use std::rc::Rc;

use zeroize::Zeroizing;

use super::files;
use crate::base::exit::{Failure, Reason};
use crate::base::file;
use crate::base::text::in_words;
use crate::settings::option_file::{FileStatus, Place, error_at, folder};
use crate::settings::server_url::parameters::Parameter;
use crate::settings::sources::{Given, Origin};
use crate::settings::value::shown_safely;

/// The system's service file, and the folders that distributions keep it in.
const SYSTEM_FILE: &str = "pg_service.conf";
const SYSTEM_FOLDERS: [&str; 2] = ["/etc/postgresql-common", "/etc/sysconfig/pgsql"];

/// What was found of a service.
#[derive(Debug, Default)]
pub struct Service {
    /// Its settings, with dblock's names of them. A password has no value here: [`password_at`] reads it when it is needed.
    pub settings: Vec<(&'static str, Given)>,
    /// The files that were looked for, with their statuses.
    pub files: Vec<(Rc<Path>, FileStatus)>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

impl Service {
    /// Looks up a service: in this `file`, or else in the home folder, and then in the system's file.
    ///
    /// # Errors
    /// [`Reason::Configuration`]: no file has it, or one is malformed.
    pub fn find(&mut self, name: &str, file: Option<&Path>) -> Result<(), Failure> {
        let usual = || files::at_home(".pg_service.conf");
        let own = file.map(Path::to_path_buf).or_else(usual);
        let system = match folder("PGSYSCONFDIR") {
            Some(folder) => vec![folder],
            None => SYSTEM_FOLDERS.map(PathBuf::from).to_vec(),
        };
        let system = system.into_iter().map(|folder| folder.join(SYSTEM_FILE));
        for (number, path) in own.into_iter().chain(system).enumerate() {
            let is_named = number == 0 && file.is_some();
            let path: Rc<Path> = Rc::from(absolute(&path).unwrap_or(path));
            let (bytes, metadata) = match file::read(&path) {
                Ok(read) => read,
                // As in libpq: what stat(2) does not find is passed over, also in a folder that this user cannot look into.
                Err(error) if !is_named && fs::metadata(&path).is_err() => {
                    let status = match error.kind() {
                        io::ErrorKind::PermissionDenied => FileStatus::Unreadable,
                        _ => FileStatus::Absent,
                    };
                    self.files.push((path, status));
                    continue;
                }
                Err(error) => {
                    let why = in_words(&error);
                    let line = format!("cannot read the service file {}: {why}", path.display());
                    self.files.push((path, FileStatus::Unusable(why)));
                    return Err(Failure::new(Reason::Configuration, line));
                }
            };
            self.files.push((Rc::clone(&path), FileStatus::Read));
            let Some(lines) = lines_of(&bytes, name) else {
                continue;
            };
            for (number, line) in lines {
                let place = Place {
                    file: Rc::clone(&path),
                    line: number,
                    group: Rc::from(name),
                };
                self.add(line, place, metadata.mode() & 0o004 != 0)?;
            }
            return Ok(());
        }
        let line = format!(
            "the service {} is not defined in a service file",
            shown_safely(name)
        );
        Err(Failure::new(Reason::Configuration, line))
    }

    fn add(&mut self, line: &[u8], place: Place, is_public: bool) -> Result<(), Failure> {
        if line.starts_with(b"ldap") {
            let why = "dblock does not ask LDAP servers for a service";
            return Err(error_at(&place, why));
        }
        let (key, value) = split(line)
            .ok_or_else(|| error_at(&place, "an = is missing in the line of a service"))?;
        if matches!(key, "service" | "servicefile") {
            return Err(error_at(&place, "a service cannot name another service"));
        }
        let parameter = Parameter::find(key).filter(|_| key != "pooler");
        let parameter = parameter.ok_or_else(|| {
            let is_word = key
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
            let shown = if is_word {
                format!(" {key:?}")
            } else {
                String::new()
            };
            error_at(&place, &format!("libpq has no parameter{shown}"))
        })?;
        let Some(setting) = parameter.setting() else {
            return Ok(());
        };
        let value = parameter
            .value(value)
            .map_err(|why| error_at(&place, &format!("{key}: {why}")))?;
        let is_known = self.settings.iter().any(|(known, _)| *known == setting);
        let Some(value) = value.filter(|_| !is_known) else {
            return Ok(());
        };
        let value = if setting == "password" {
            if is_public {
                let file = place.file.display();
                self.warnings.push(format!(
                    "the service file {file} has a password and can be read by others; chmod 600 it"
                ));
            }
            Zeroizing::default()
        } else {
            Zeroizing::new(value.into_owned())
        };
        let given = Given {
            name: key.to_owned(),
            value,
            origin: Origin::ServiceFile(place),
        };
        self.settings.push((setting, given));
        Ok(())
    }
}

/// The lines of a service with their numbers, without comments; `None`: there is no such service. Its first group counts.
fn lines_of<'a>(bytes: &'a [u8], service: &str) -> Option<Vec<(usize, &'a [u8])>> {
    let lines = (1..).zip(bytes.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii));
    let header = [b"[", service.as_bytes(), b"]"].concat();
    let mut lines = lines.skip_while(|(_, line)| !line.starts_with(&header));
    lines.next()?;
    let of_group = lines.take_while(|(_, line)| !line.starts_with(b"["));
    let is_content = |line: &[u8]| !line.is_empty() && !line.starts_with(b"#");
    Some(of_group.filter(|(_, line)| is_content(line)).collect())
}

/// The name and the value in a line. As in libpq, there is no white space around the `=`.
fn split(line: &[u8]) -> Option<(&str, &[u8])> {
    let equals = line.iter().position(|&byte| byte == b'=')?;
    let key = str::from_utf8(&line[..equals]).unwrap_or(" ");
    Some((key, &line[equals + 1..]))
}

/// Reads the password of the service in this place, also if the file was changed since.
///
/// # Errors
/// It is not there any more, or the file cannot be read. The error ends a sentence.
pub fn password_at(place: &Place) -> Result<Zeroizing<Vec<u8>>, String> {
    let (bytes, _) = file::read(&place.file).map_err(|error| in_words(&error))?;
    let lines = lines_of(&bytes, &place.group).unwrap_or_default();
    let mut settings = lines.into_iter().filter_map(|(_, line)| split(line));
    let found = settings.find(|(key, value)| *key == "password" && !value.is_empty());
    let (_, password) = found.ok_or("it is no longer there")?;
    Ok(Zeroizing::new(password.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(text: &str, name: &str) -> Result<Vec<(&'static str, String)>, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut service = Service::default();
        let found = service.find(name, Some(file.path()));
        found.map_err(|failure| failure.line)?;
        let settings = service.settings.into_iter();
        let text = |given: Given| String::from_utf8_lossy(&given.value).into_owned();
        Ok(settings
            .map(|(setting, given)| (setting, text(given)))
            .collect())
    }

    #[test]
    fn a_service_has_the_lines_of_its_first_group() {
        let text = "nonsense\n[other]\nhost=x\n  [prod] rest\n# comment\n\n host=a,b \nhost=later\nsslmode=require\npassword=S3CRET\n\
            connect_timeout=-1\napplication_name=x\n[prod]\nuser=u\n";
        let expected = [("host", "a,b"), ("ssl-mode", "require"), ("password", "")];
        let expected = expected.map(|(setting, value)| (setting, value.to_owned()));
        assert_eq!(service(text, "prod"), Ok(expected.to_vec()));
        assert_eq!(service(text, "pro").ok(), None);
    }

    #[test]
    fn a_malformed_service_is_refused_with_its_line() {
        for (line, said) in [
            ("host =a", ":2: libpq has no parameter"),
            ("nonsense=1", ":2: libpq has no parameter \"nonsense\""),
            ("password S3CRET=1", ":2: libpq has no parameter"),
            ("S3CRET", ":2: an = is missing"),
            ("service=x", ":2: a service cannot name another"),
            ("ldap://x", ":2: dblock does not ask LDAP"),
            ("sslmode=S3CRET@", ":2: sslmode: "),
        ] {
            let why = service(&format!("[a]\n{line}\n"), "a").unwrap_err();
            assert!(why.contains(said) && !why.contains("S3CRET"), "{why}");
        }
    }
}
