//! `--kernel` and `--precision`, and their defaults.

use std::ffi::OsString;

use encoder::default_precision;
use kernels::{Kernels, Level, Precision};

use recalld_embedding::encoding::Encoding;

const KERNEL: Source = Source { flag: "--kernel", variable: "RECALLD_KERNEL" };
const PRECISION: Source = Source { flag: "--precision", variable: "RECALLD_PRECISION" };
/// The value that leaves the choice to the program.
const AUTO: &str = "auto";

/// The flag and the variable of one setting; the flag has precedence.
struct Source {
    flag: &'static str,
    variable: &'static str,
}

impl Source {
    /// The requested value and its origin; `None` for `auto` or if unset.
    fn asked(
        &self,
        flag: Option<&str>,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Option<(&'static str, String)> {
        let set = || variable(self.variable).filter(|value| !value.is_empty());
        let asked = match flag {
            Some(text) => (self.flag, text.to_owned()),
            None => (self.variable, set()?.to_string_lossy().into_owned()),
        };
        Some(asked).filter(|(_, text)| text != AUTO)
    }
}

/// The requested kernel level and precision, or the defaults for this CPU.
pub(super) fn chosen(
    kernel: Option<&str>,
    precision: Option<&str>,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Encoding, String> {
    let kernels = match KERNEL.asked(kernel, variable) {
        Some((by, name)) => kernels_named(by, &name)?,
        None => Kernels::detect(),
    };
    let precision = match PRECISION.asked(precision, variable) {
        Some((by, name)) => Precision::named(&name).ok_or_else(|| {
            let known: Vec<&str> = Precision::ALL.iter().map(|known| known.name()).collect();
            format!("{by}: `{name}` is no precision; auto, {}", known.join(", "))
        })?,
        None => default_precision(kernels),
    };
    Ok(Encoding { kernels, precision, ..Encoding::detect() })
}

/// As [`chosen`], for a server, whose settings are already resolved.
pub(super) fn named(kernel: Option<&str>, precision: Option<&str>) -> Result<Encoding, String> {
    chosen(Some(kernel.unwrap_or(AUTO)), Some(precision.unwrap_or(AUTO)), &|_| None)
}

fn kernels_named(by: &str, name: &str) -> Result<Kernels, String> {
    let named = Level::ALL.iter().find(|level| level.name() == name);
    let here = named.and_then(|&level| Kernels::for_level(level));
    here.ok_or_else(|| {
        let names = |levels: &mut dyn Iterator<Item = &Level>| {
            levels.map(|level| level.name()).collect::<Vec<_>>().join(", ")
        };
        let has = names(&mut Level::ALL.iter().filter(|&&it| Kernels::for_level(it).is_some()));
        match named {
            Some(_) => format!("{by}: this CPU has no {name}; it has {has} (auto takes the first)"),
            None => {
                let all = names(&mut Level::ALL.iter());
                format!("{by}: `{name}` is no level; auto, {all}, of which this CPU has {has}")
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen_by(
        kernel: Option<&str>,
        precision: Option<&str>,
        variables: &[(&str, &str)],
    ) -> Result<(Level, Precision), String> {
        let variable = |name: &str| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
        };
        let encoding = chosen(kernel, precision, &variable)?;
        assert!(encoding.threads > 0);
        Ok((encoding.kernels.level(), encoding.precision))
    }

    #[test]
    fn flags_come_before_variables_and_both_before_the_cpu() {
        let detected = Kernels::detect();
        let found = (detected.level(), default_precision(detected));
        assert_eq!(chosen_by(None, None, &[]), Ok(found));
        assert_eq!(
            chosen_by(Some("auto"), Some("auto"), &[("RECALLD_KERNEL", "scalar")]),
            Ok(found)
        );
        let set = [("RECALLD_KERNEL", "scalar"), ("RECALLD_PRECISION", "int8")];
        assert_eq!(chosen_by(None, None, &set), Ok((Level::Scalar, Precision::Int8)));
        assert_eq!(chosen_by(None, Some("f16"), &set), Ok((Level::Scalar, Precision::F16)));
        assert_eq!(chosen_by(None, None, &[("RECALLD_KERNEL", "")]), Ok(found));
        for &precision in Precision::ALL {
            let name = Some(precision.name());
            assert_eq!(chosen_by(Some("scalar"), name, &[]), Ok((Level::Scalar, precision)));
        }
    }

    #[test]
    fn what_there_is_not_is_refused_with_what_there_is() {
        let error = chosen_by(Some("sse9"), None, &[]).unwrap_err();
        assert!(error.starts_with("--kernel: `sse9` is no level; auto, "), "{error}");
        assert!(error.contains("this CPU has") && error.ends_with("scalar"), "{error}");
        let error = chosen_by(None, None, &[("RECALLD_PRECISION", "f8")]).unwrap_err();
        assert_eq!(error, "RECALLD_PRECISION: `f8` is no precision; auto, f32, f16, int8");
        for &level in Level::ALL {
            let done = chosen_by(Some(level.name()), None, &[]);
            match Kernels::for_level(level) {
                Some(_) => assert_eq!(done.unwrap().0, level),
                None => {
                    let error = done.unwrap_err();
                    let start = format!("--kernel: this CPU has no {}; it has ", level.name());
                    assert!(error.starts_with(&start), "{error}");
                }
            }
        }
    }
}
