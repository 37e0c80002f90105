use std::ops::Range;

/// Kinds of secrets, named by the service that accepts them or by their position.
macro_rules! kinds {
    ($($(#[$about:meta])* $one:ident = $name:literal,)+) => {
        /// Kind of a secret.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind { $($(#[$about])* $one,)+ }

        impl Kind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$one),+];

            /// Name in reports and rules.
            pub fn name(self) -> &'static str {
                match self { $(Self::$one => $name,)+ }
            }
        }
    };
}

kinds! {
    /// A private key block: PEM, OpenSSH, PGP, age.
    PrivateKey = "private_key",
    /// An AWS access key id, or the secret key that goes with it.
    Aws = "aws_key",
    /// A GitHub token.
    GitHub = "github_token",
    /// A GitLab token.
    GitLab = "gitlab_token",
    /// A Slack token or webhook URL.
    Slack = "slack_token",
    /// A Stripe key.
    Stripe = "stripe_key",
    /// A Google key or token.
    Google = "google_key",
    /// An npm token.
    Npm = "npm_token",
    /// A PyPI token.
    PyPi = "pypi_token",
    /// An OpenAI key.
    OpenAi = "openai_key",
    /// An Anthropic key.
    Anthropic = "anthropic_key",
    /// A key issued by recalld.
    Recalld = "recalld_key",
    /// A token of another service, by its prefix.
    Service = "service_token",
    /// A signed JSON Web Token.
    Jwt = "jwt",
    /// A password in a URL.
    Url = "url_password",
    /// A password in a URL or connection string of a database or message queue.
    Connection = "connection_string",
    /// The value of an `Authorization` header.
    Authorization = "authorization",
    /// A value beside a name for a password.
    Password = "password",
    /// A value beside a name for a key, secret or token.
    ApiKey = "api_key",
}

/// Kind and byte range of a finding.
pub(super) type Hit = (Kind, Range<usize>);
