//! Parameters: bodies and queries of the form `application/x-www-form-urlencoded`.
//!
//! Owns how they are read (OAU-02 to OAU-05): bounded, each once, an empty one as if it were not there
//! (RFC 6749, sections 3.1 and 3.2). Must not know what any of them means, but that `resource` has an error of
//! its own.

use std::borrow::Cow;

use super::error::{ErrorCode, OAuthError};

/// Parameters of one request. An authorization request of the clients that are known has ten.
const PARAMETERS_MAX: usize = 64;
/// Bytes of all parameters as they are sent. A request head holds twice as many.
pub const FORM_BYTES_MAX: usize = 8 * 1024;
/// Bytes of the form of `/authorize`. It carries what came in a query, sealed and in base64, which has four digits for
/// each three bytes.
pub const SIGN_IN_FORM_BYTES_MAX: usize = 2 * FORM_BYTES_MAX;
const FORM_TYPE: &str = "application/x-www-form-urlencoded";
/// The parameter that may stand twice by its own specification (RFC 8707), and not here: there is one resource.
const RESOURCE: &str = "resource";

/// The parameters of a request.
///
/// Has no `Debug`, because they carry secrets.
pub struct Form {
    /// Name and value in the order they were sent, without empty ones.
    parameters: Vec<(String, String)>,
}

impl Form {
    /// Reads a body. `content_types` are the values of the header `Content-Type`.
    ///
    /// # Errors
    /// `invalid_request` for another content type, too much, what is not in the form, and for a parameter that
    /// stands there twice (`invalid_target` where that is `resource`).
    pub fn of_body<'a>(
        content_types: impl IntoIterator<Item = &'a str>,
        body: &[u8],
    ) -> Result<Self, OAuthError> {
        Self::of_body_within(content_types, body, FORM_BYTES_MAX)
    }

    /// The same of a body that may have so many bytes.
    pub(super) fn of_body_within<'a>(
        content_types: impl IntoIterator<Item = &'a str>,
        body: &[u8],
        bytes_max: usize,
    ) -> Result<Self, OAuthError> {
        let mut types = content_types.into_iter();
        let is_form = types.next().is_some_and(is_form_type) && types.next().is_none();
        if !is_form {
            return Err(invalid(&format!("the body must be of the type {FORM_TYPE}")));
        }
        let form = Self::read(body, bytes_max)?;
        form.each_once()?;
        Ok(form)
    }

    /// Reads a query without its `?`. Parameters may still be there twice: where the answer goes by them,
    /// [`Form::once`] asks for one, and [`Form::each_once`] for all.
    ///
    /// # Errors
    /// `invalid_request` for too much, and for what is not in the form.
    pub fn of_query(query: Option<&str>) -> Result<Self, OAuthError> {
        Self::read(query.unwrap_or_default().as_bytes(), FORM_BYTES_MAX)
    }

    fn read(bytes: &[u8], bytes_max: usize) -> Result<Self, OAuthError> {
        if bytes.len() > bytes_max {
            return Err(invalid(&format!("the parameters have more than {bytes_max} bytes")));
        }
        let mut parameters = Vec::new();
        for (number, pair) in bytes.split(|&byte| byte == b'&').enumerate() {
            if number == PARAMETERS_MAX {
                return Err(invalid(&format!("there are more than {PARAMETERS_MAX} parameters")));
            }
            let at = pair.iter().position(|&byte| byte == b'=').unwrap_or(pair.len());
            let (name, value) = (&pair[..at], pair.get(at + 1..).unwrap_or_default());
            let decoded = |part| {
                decode(part, b' ')
                    .ok_or_else(|| invalid("a parameter is not percent-encoded UTF-8"))
            };
            let (name, value) = (decoded(name)?, decoded(value)?);
            if !value.is_empty() {
                parameters.push((name, value));
            }
        }
        Ok(Self { parameters })
    }

    /// A parameter; of several of the name the first.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.named(name).next()
    }

    /// A parameter that may stand there once.
    ///
    /// # Errors
    /// `invalid_request` when it is there twice.
    pub fn once(&self, name: &str) -> Result<Option<&str>, OAuthError> {
        let mut named = self.named(name);
        let first = named.next();
        if named.next().is_some() { Err(repeated(name)) } else { Ok(first) }
    }

    /// A parameter that has to be there, once.
    ///
    /// # Errors
    /// `invalid_request` when it is not there, or twice.
    pub fn need(&self, name: &str) -> Result<&str, OAuthError> {
        self.once(name)?.ok_or_else(|| invalid(&format!("the parameter {name} is missing")))
    }

    /// Whether every parameter, known or not, stands there once.
    ///
    /// # Errors
    /// `invalid_request` that names one that does not; `invalid_target` where it is `resource`.
    pub fn each_once(&self) -> Result<(), OAuthError> {
        let mut seen = std::collections::HashSet::new();
        match self.parameters.iter().find(|(name, _)| !seen.insert(name.as_str())) {
            Some((name, _)) if name == RESOURCE => {
                let code = ErrorCode::InvalidTarget;
                Err(OAuthError::new(code, "a token is for one resource; resource is there twice"))
            }
            Some((name, _)) => Err(repeated(name)),
            None => Ok(()),
        }
    }

    fn named<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        let of_name = move |(other, _): &&(String, String)| other == name;
        self.parameters.iter().filter(of_name).map(|(_, value)| value.as_str())
    }
}

/// Whether a content type is that of a form, whatever its parameters say (RFC 9110, section 8.3.1).
fn is_form_type(value: &str) -> bool {
    let essence = value.split(';').next().unwrap_or_default();
    essence.trim_matches([' ', '\t']).eq_ignore_ascii_case(FORM_TYPE)
}

/// Text out of its percent-encoding, a `+` standing for `plus`; `None` for a `%` without two digits, for what
/// is no UTF-8, and for NUL, which no parameter has.
pub(super) fn decode(part: &[u8], plus: u8) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.iter();
    while let Some(&byte) = rest.next() {
        bytes.push(match byte {
            b'%' => digit(*rest.next()?)? * 16 + digit(*rest.next()?)?,
            b'+' => plus,
            other => other,
        });
    }
    let text = String::from_utf8(bytes).ok()?;
    if text.contains('\0') { None } else { Some(text) }
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

fn invalid(description: &str) -> OAuthError {
    OAuthError::new(ErrorCode::InvalidRequest, description)
}

fn repeated(name: &str) -> OAuthError {
    let shown: Cow<'_, str> = if name.len() > 64 { "".into() } else { name.into() };
    invalid(&format!("the parameter {shown} is there more than once"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(text: &str) -> Result<Form, OAuthError> {
        Form::of_body([FORM_TYPE], text.as_bytes())
    }

    fn refused(read: Result<Form, OAuthError>) -> (ErrorCode, String) {
        let error = read.err().expect("it is refused");
        (error.code(), error.description().to_owned())
    }

    #[test]
    fn parameters_are_read_as_forms_write_them() {
        let cases = [
            ("a=1&b=2", "a", Some("1")),
            ("a=1&b=2", "b", Some("2")),
            ("a=1&b=2", "c", None),
            ("a=x+y%20z", "a", Some("x y z")),
            ("a=%C3%A9%26%3d%2B", "a", Some("\u{e9}&=+")),
            ("a=b=c", "a", Some("b=c")),
            ("%61=1", "a", Some("1")),
            // Empty is as good as absent, however it is empty.
            ("a=", "a", None),
            ("a", "a", None),
            ("a=&a=1", "a", Some("1")),
            ("&&a=1&", "a", Some("1")),
            ("", "a", None),
            ("A=1", "a", None),
        ];
        for (text, name, wanted) in cases {
            assert_eq!(body(text).ok().unwrap().get(name), wanted, "{text}");
            assert_eq!(Form::of_query(Some(text)).ok().unwrap().get(name), wanted, "{text}");
        }
        assert_eq!(Form::of_query(None).ok().unwrap().get("a"), None);
    }

    #[test]
    fn what_is_not_in_the_form_is_refused() {
        for text in ["a=%", "a=%4", "a=%zz", "a=%+1", "%=1", "a=%ff", "a=%00", "a=%c3%28", "%ff="] {
            let (code, said) = refused(body(text));
            assert_eq!(code, ErrorCode::InvalidRequest, "{text}");
            assert!(said.contains("percent-encoded"), "{said}");
        }
    }

    #[test]
    fn a_parameter_that_is_there_twice_is_refused_known_or_not() {
        let cases = [
            ("grant_type=a&grant_type=a", ErrorCode::InvalidRequest, "grant_type"),
            ("x=1&y=2&x=3", ErrorCode::InvalidRequest, " x "),
            ("%78=1&x=3", ErrorCode::InvalidRequest, " x "),
            ("resource=a&resource=b", ErrorCode::InvalidTarget, "resource"),
        ];
        for (text, code, word) in cases {
            let (found, said) = refused(body(text));
            assert!(found == code && said.contains(word), "{text}: {found} {said}");
        }
        // A query is read all the same, so that its answer can find its way.
        let form = Form::of_query(Some("state=1&state=2&client_id=c")).ok().unwrap();
        assert_eq!(form.once("client_id").unwrap(), Some("c"));
        assert!(form.once("state").is_err() && form.each_once().is_err());
        assert_eq!(form.get("state"), Some("1"));
    }

    #[test]
    fn a_missing_parameter_is_named() {
        let form = body("a=1").ok().unwrap();
        assert_eq!(form.need("a").unwrap(), "1");
        assert!(form.need("code").unwrap_err().description().contains("code is missing"));
    }

    #[test]
    fn bounds_are_held_to_the_last_one_that_fits() {
        let many = |count: usize| {
            (0..count).map(|number| format!("p{number}=1")).collect::<Vec<_>>().join("&")
        };
        assert!(body(&many(PARAMETERS_MAX)).is_ok());
        assert!(refused(body(&many(PARAMETERS_MAX + 1))).1.contains("more than 64"));
        assert!(body(&format!("a={}", "x".repeat(FORM_BYTES_MAX - 2))).is_ok());
        let said = refused(body(&format!("a={}", "x".repeat(FORM_BYTES_MAX - 1)))).1;
        assert!(said.contains("more than 8192"), "{said}");
    }

    #[test]
    fn only_a_form_is_read_as_one() {
        for good in [FORM_TYPE, "Application/X-WWW-Form-UrlEncoded ; charset=utf-8"] {
            assert!(Form::of_body([good], b"a=1").is_ok(), "{good}");
        }
        let bad: [&[&str]; 6] = [
            &[],
            &[""],
            &["application/json"],
            &["application/x-www-form-urlencoded2"],
            &[FORM_TYPE, FORM_TYPE],
            &["multipart/form-data"],
        ];
        for types in bad {
            let (code, said) = refused(Form::of_body(types.iter().copied(), b"a=1"));
            assert!(code == ErrorCode::InvalidRequest && said.contains(FORM_TYPE), "{types:?}");
        }
    }
}
