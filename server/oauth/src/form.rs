//! Parameters: bodies and queries in `application/x-www-form-urlencoded`.
//!
//! Parsing is bounded, rejects repeated parameters and ignores empty ones (OAU-02 to OAU-05; RFC 6749, sections 3.1 and
//! 3.2). The only parameter known by name is `resource`, which has an error code of its own.

use std::borrow::Cow;

use super::error::{ErrorCode, OAuthError};

/// Maximum number of parameters per request. Authorization requests of known clients have ten.
const PARAMETERS_MAX: usize = 64;
/// Maximum size of all encoded parameters in bytes; half of a request head.
pub const FORM_BYTES_MAX: usize = 8 * 1024;
/// Maximum size of the `/authorize` form in bytes. The form carries a sealed query in base64, four digits for three
/// bytes.
pub const SIGN_IN_FORM_BYTES_MAX: usize = 2 * FORM_BYTES_MAX;
const FORM_TYPE: &str = "application/x-www-form-urlencoded";
/// A parameter that RFC 8707 allows to repeat. Repetition is rejected here, as there is only one resource.
const RESOURCE: &str = "resource";

/// The parameters of a request.
///
/// Has no `Debug`, because parameters carry secrets.
pub struct Form {
    /// Name and value in the order of the request, without empty values.
    parameters: Vec<(String, String)>,
}

impl Form {
    /// Parses a body. `content_types` yields all values of the `Content-Type` header.
    ///
    /// # Errors
    /// `invalid_request` for another content type, an oversized or malformed body, and a repeated parameter
    /// (`invalid_target` for `resource`).
    pub fn of_body<'a>(
        content_types: impl IntoIterator<Item = &'a str>,
        body: &[u8],
    ) -> Result<Self, OAuthError> {
        Self::of_body_within(content_types, body, FORM_BYTES_MAX)
    }

    /// Like [`Form::of_body`], with a limit of `bytes_max`.
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

    /// Parses a query without its `?`. Repeated parameters are accepted here: parameters that select the recipient of
    /// the response are read with [`Form::once`], and [`Form::each_once`] then checks all.
    ///
    /// # Errors
    /// `invalid_request` for an oversized or malformed query.
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

    /// The first value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.named(name).next()
    }

    /// The value of a parameter that must not repeat.
    ///
    /// # Errors
    /// `invalid_request` if the parameter repeats.
    pub fn once(&self, name: &str) -> Result<Option<&str>, OAuthError> {
        let mut named = self.named(name);
        let first = named.next();
        if named.next().is_some() { Err(repeated(name)) } else { Ok(first) }
    }

    /// The value of a required parameter.
    ///
    /// # Errors
    /// `invalid_request` if the parameter is missing or repeats.
    pub fn need(&self, name: &str) -> Result<&str, OAuthError> {
        self.once(name)?.ok_or_else(|| invalid(&format!("the parameter {name} is missing")))
    }

    /// Checks that no parameter repeats, known or unknown.
    ///
    /// # Errors
    /// `invalid_request` with the name of a repeated parameter; `invalid_target` for `resource`.
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

/// Returns true for the form content type, whatever its parameters (RFC 9110, section 8.3.1).
fn is_form_type(value: &str) -> bool {
    let essence = value.split(';').next().unwrap_or_default();
    essence.trim_matches([' ', '\t']).eq_ignore_ascii_case(FORM_TYPE)
}

/// Percent-decodes text; `+` becomes `plus`. Returns `None` for a `%` without two hex digits, for invalid UTF-8, and
/// for NUL, which no parameter contains.
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
            // Any spelling of an empty value equals an absent parameter.
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
        // A query with repeated parameters is parsed all the same, so that its error can be reported to the client.
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
