//! What binds a login to the TLS channel: the hash of the server's certificate, `tls-server-end-point` of RFC 5929.

use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256, Sha384, Sha512};

/// The object identifiers of signatures, and their hashes. Where the signature has MD5 or SHA-1, SHA-256 is used.
const SHA_256: [&[u8]; 6] = [
    // MD5 and SHA-1 with RSA, SHA-256 with RSA
    &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 4],
    &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 5],
    &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 11],
    // SHA-1 and SHA-256 with ECDSA
    &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 1],
    &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2],
    // SHA-256 with DSA
    &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 3, 2],
];
const SHA_384: [&[u8]; 2] = [
    &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 12],
    &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 3],
];
const SHA_512: [&[u8]; 2] = [
    &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 13],
    &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 4],
];

/// The tags of DER that a certificate begins with.
const SEQUENCE: u8 = 0x30;
const IDENTIFIER: u8 = 0x06;

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

/// The object identifier of a certificate's signature: Certificate ::= SEQUENCE { tbs SEQUENCE, algorithm SEQUENCE { identifier, … }, … }.
fn signature_algorithm(certificate: &[u8]) -> Option<&[u8]> {
    let (certificate, _) = element(certificate, SEQUENCE)?;
    let (_, after) = element(certificate, SEQUENCE)?;
    let (algorithm, _) = element(after, SEQUENCE)?;
    Some(element(algorithm, IDENTIFIER)?.0)
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
