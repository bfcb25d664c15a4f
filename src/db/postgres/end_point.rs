//! What binds a login to the TLS channel: the hash of the server's certificate, `tls-server-end-point` of RFC 5929.

use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256, Sha384, Sha512};

/// The object identifiers of signatures and hashes by the hash that is used. Where the signature has MD5 or SHA-1, that is SHA-256.
const SHA_256: [&[u8]; 8] = [
    // MD5 and SHA-1 with RSA, SHA-256 with RSA
    &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 4],
    &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 5],
    &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 11],
    // SHA-1 and SHA-256 with ECDSA
    &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 1],
    &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2],
    // SHA-256 with DSA
    &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 3, 2],
    // SHA-1 and SHA-256 by themselves
    SHA_1,
    &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1],
];
const SHA_384: [&[u8]; 3] = [
    &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 12],
    &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 3],
    &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 2],
];
const SHA_512: [&[u8]; 3] = [
    &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 13],
    &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 4],
    &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 3],
];

/// RSASSA-PSS: its parameters say the hash, and without them it is SHA-1.
const RSA_PSS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 10];
const SHA_1: &[u8] = &[0x2b, 0x0e, 3, 2, 0x1a];

/// The tags of DER that a certificate begins with, and that of the first parameter of RSASSA-PSS.
const SEQUENCE: u8 = 0x30;
const IDENTIFIER: u8 = 0x06;
const FIRST: u8 = 0xa0;

/// The hash of a certificate; `None`: its signature has none of its own, as that of Ed25519, or one that is not known here.
pub fn certificate_hash(certificate: &CertificateDer) -> Option<Vec<u8>> {
    let algorithm = signature_algorithm(certificate)?;
    if SHA_256.contains(&algorithm) {
        Some(Sha256::digest(certificate).to_vec())
    } else if SHA_384.contains(&algorithm) {
        Some(Sha384::digest(certificate).to_vec())
    } else if SHA_512.contains(&algorithm) {
        Some(Sha512::digest(certificate).to_vec())
    } else {
        None
    }
}

/// The object identifier of a certificate's signature, or of its hash:
/// Certificate ::= SEQUENCE { tbs SEQUENCE, algorithm SEQUENCE { identifier, parameters }, … }.
fn signature_algorithm(certificate: &[u8]) -> Option<&[u8]> {
    let (certificate, _) = element(certificate, SEQUENCE)?;
    let (_, after) = element(certificate, SEQUENCE)?;
    let (algorithm, _) = element(after, SEQUENCE)?;
    let (identifier, parameters) = element(algorithm, IDENTIFIER)?;
    if identifier == RSA_PSS {
        hash_of_pss(parameters)
    } else {
        Some(identifier)
    }
}

/// The identifier of the hash in the parameters of RSASSA-PSS: `SEQUENCE { hash [0] SEQUENCE { identifier, … }, … }`, RFC 4055.
fn hash_of_pss(parameters: &[u8]) -> Option<&[u8]> {
    let (parameters, _) = element(parameters, SEQUENCE)?;
    if parameters.first() != Some(&FIRST) {
        return Some(SHA_1);
    }
    let (hash, _) = element(parameters, FIRST)?;
    let (hash, _) = element(hash, SEQUENCE)?;
    Some(element(hash, IDENTIFIER)?.0)
}

/// The content of the first element, if it has this tag, and what follows it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&[found, short], rest) = bytes.split_first_chunk::<2>()?;
    if found != tag {
        return None;
    }
    let (length, rest) = match short {
        0..=0x7f => (usize::from(short), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(short & 0x7f))?;
            let length = digits
                .iter()
                .fold(0, |sum, digit| sum << 8 | usize::from(*digit));
            (length, rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An element with this tag.
    fn der(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len()).unwrap();
        assert!(length < 0x80);
        [&[tag, length][..], content].concat()
    }

    /// The hash of a certificate that has nothing but its signature's identifier and parameters.
    fn hash(identifier: &[u8], parameters: &[u8]) -> Option<Vec<u8>> {
        let algorithm = [&der(IDENTIFIER, identifier)[..], parameters].concat();
        let parts = [der(SEQUENCE, b""), der(SEQUENCE, &algorithm)].concat();
        certificate_hash(&CertificateDer::from(der(SEQUENCE, &parts)))
    }

    #[test]
    fn the_hash_is_that_of_the_signature() {
        let length = |identifier: &[u8]| hash(identifier, b"").map(|hash| hash.len());
        for (identifiers, bytes) in [(&SHA_256[..], 32), (&SHA_384[..], 48), (&SHA_512[..], 64)] {
            for identifier in identifiers {
                assert_eq!(length(identifier), Some(bytes), "{identifier:?}");
            }
        }
        // Ed25519
        assert_eq!(length(&[0x2b, 0x65, 0x70]), None);
    }

    #[test]
    fn the_hash_of_rsa_pss_is_that_of_its_parameters() {
        let of_pss = |parameters: &[u8]| hash(RSA_PSS, parameters).map(|hash| hash.len());
        let with = |hash: &[u8]| {
            let hash = der(SEQUENCE, &[der(IDENTIFIER, hash), vec![5, 0]].concat());
            let salt = [0xa2, 3, 2, 1, 0x30];
            let parameters = [der(FIRST, &hash), salt.to_vec()].concat();
            of_pss(&der(SEQUENCE, &parameters))
        };
        assert_eq!(with(SHA_1), Some(32));
        assert_eq!(with(SHA_256[7]), Some(32));
        assert_eq!(with(SHA_384[2]), Some(48));
        assert_eq!(with(SHA_512[2]), Some(64));
        // SHA-224
        assert_eq!(with(&[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 4]), None);
        assert_eq!(of_pss(&der(SEQUENCE, b"")), Some(32));
        assert_eq!(of_pss(&der(SEQUENCE, &[0xa2, 3, 2, 1, 0x30])), Some(32));
        assert_eq!(of_pss(&der(SEQUENCE, &[FIRST, 9])), None);
        assert_eq!(of_pss(b""), None);
    }
}
