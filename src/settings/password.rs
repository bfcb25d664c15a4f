//! The password, wherever it is given. One in a file is read by the process that logs in.

use std::rc::Rc;

use zeroize::Zeroizing;

use super::libpq::service;
use super::option_file;
use super::server_url;
use super::sources::{Origin, Sources};
use crate::base::exit::{Failure, Reason};
use crate::db::{DeferredPassword, Password, Target};

/// The password of the strongest source that has one.
///
/// # Errors
/// It is not UTF-8.
pub fn password(sources: &mut Sources) -> Result<Option<Password>, Failure> {
    let given = sources.strongest_first().find_map(|(_, source)| {
        let file = source.get("password-file");
        file.or_else(|| source.get("password"))
    });
    let Some(given) = given.cloned() else {
        return Ok(None);
    };
    if given.name == "password-file" {
        let path = sources.path("password-file").unwrap_or_default();
        return Ok(Some(Password::File(path)));
    }
    sources.record("password", Some("***"), &given.place());
    match &given.origin {
        Origin::File(place) => return Ok(Some(deferred(place.clone(), given.name))),
        Origin::ServiceFile(place) => return Ok(Some(deferred_of_service(place.clone()))),
        Origin::Flag => sources.warn(
            "the password in --url can be read by every user of this host; use DBLOCK_PASSWORD, DBLOCK_URL or \
             --password-file",
        ),
        Origin::Variable(_) | Origin::Argument => {}
    }
    let password = Zeroizing::new(given.text()?.to_owned());
    Ok(Some(Password::Given(password)))
}

/// A password in an option file, or in a URL there. The process that logs in reads it.
fn deferred(place: option_file::Place, name: String) -> Password {
    let place_name = format!("the password in {place}");
    let read = move |_: &Target| {
        let value = option_file::value_at(&place, &name)?;
        if name != "url" {
            return Ok(Some(value));
        }
        let url = str::from_utf8(&value).map_err(|_| "it is not UTF-8".to_owned())?;
        let password = server_url::password_in(url);
        Ok(password.map(|text| Zeroizing::new(text.as_bytes().to_vec())))
    };
    Password::Deferred(DeferredPassword {
        place: place_name,
        read: Rc::new(read),
    })
}

/// A password in a service file.
fn deferred_of_service(place: option_file::Place) -> Password {
    Password::Deferred(DeferredPassword {
        place: format!("the password in {place}"),
        read: Rc::new(move |_| service::password_at(&place).map(Some)),
    })
}

/// Refuses a password file that exists only for this process where each of its processes reads the password: who reads it, and how often.
///
/// # Errors
/// [`Reason::Usage`].
pub fn check_that_it_stays(password: &Password, who: &str, often: &str) -> Result<(), Failure> {
    let folders = ["/dev/fd", "/dev/stdin", "/proc/self/fd"];
    match password {
        Password::File(path) if folders.iter().any(|folder| path.starts_with(folder)) => {
            let line = format!(
                "the password file {} can be read once, and {who} reads it {often}; name one that stays",
                path.display()
            );
            Err(Failure::new(Reason::Usage, line))
        }
        _ => Ok(()),
    }
}
