//! The log of a running service: one line per event on standard error.
//!
//! Defines levels, fields and escaping; independent of requests, tenants and stores. A caller describes the event in a
//! constant text and passes values as fields. Values are escaped, so nobody can forge a line, and secrets are never
//! passed (no credential, no question, no body, no path chosen by a client).
//!
//! An own implementation and not `tracing` with its subscriber: these lines need no spans, no filters by module and no
//! macros, and that pair adds some twenty crates for the rest.
//!
//! In a server, a bounded queue passes the lines to a writer thread: the event loop logs too, and must not wait for the
//! reader of standard error. If the queue is full, lines are dropped and counted; the count is logged as soon as there
//! is room.

mod said;

use std::cell::Cell;
use std::fmt::{self, Display, Write as _};
use std::io::{self, Write as _};
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{OnceLock, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use said::Said;

use crate::limits::LOG_QUEUE_MAX;
use recalld_common::limits::REQUEST_ID_BYTES_MAX;

/// Severity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Level {
    /// An unexpected failure.
    Error,
    /// A condition that an operator may want to correct.
    Warn,
    /// An event of the service as a whole.
    Info,
    /// Events of single requests.
    Debug,
}

impl Level {
    /// All levels, most severe first.
    pub const ALL: &'static [Self] = &[Self::Error, Self::Warn, Self::Info, Self::Debug];

    /// Word in the settings.
    pub fn name(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }
}

/// Format of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// `recalld: event name=value`, for people.
    Text,
    /// JSON Lines, for programs.
    Json,
}

impl Format {
    /// All formats.
    pub const ALL: &'static [Self] = &[Self::Text, Self::Json];

    /// Word in the settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

/// Settings of the log.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The least severe level that is written.
    pub level: Level,
    /// Format of the lines.
    pub format: Format,
    /// True if each request is logged, whatever the level.
    pub access: bool,
    /// Wall clock for `time` in JSON. Text lines contain no time, because terminals and journals add their own.
    pub clock: fn() -> SystemTime,
}

/// Value of a field.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    /// Arbitrary text.
    Text(&'a dyn Display),
    /// A count.
    Count(u64),
    /// A duration, written in seconds.
    Seconds(Duration),
}

/// Ordered fields of a line.
pub(crate) type Fields<'a> = [(&'a str, Value<'a>)];

const PLAIN: Settings =
    Settings { level: Level::Info, format: Format::Text, access: false, clock: || UNIX_EPOCH };

/// Message to the writer thread.
enum Order {
    Line(String),
    /// Dropped by the writer thread when all earlier lines are written.
    Flush(#[expect(dead_code, reason = "dropping it is the message")] SyncSender<()>),
}

struct Logger {
    settings: RwLock<Settings>,
    queue: SyncSender<Order>,
    dropped: AtomicU64,
}

static LOGGER: OnceLock<Logger> = OnceLock::new();

thread_local! {
    /// Id of the request that this thread processes; length 0 if there is none.
    static REQUEST: Cell<([u8; REQUEST_ID_BYTES_MAX], u8)> =
        const { Cell::new(([0; REQUEST_ID_BYTES_MAX], 0)) };
}

/// Sets the log's settings and starts the writer thread. Also logs panics as lines. The first call counts. Without a
/// call, lines are text and written synchronously.
///
/// # Errors
/// The system cannot start a thread.
pub fn start(settings: Settings) -> io::Result<()> {
    let (queue, orders) = sync_channel(LOG_QUEUE_MAX);
    if LOGGER
        .set(Logger { settings: RwLock::new(settings), queue, dropped: AtomicU64::new(0) })
        .is_ok()
    {
        thread::Builder::new().name("log".to_owned()).spawn(move || write_all(&orders))?;
        std::panic::set_hook(Box::new(log_panic));
    }
    Ok(())
}

/// Changes the settings of a started log ([`start`]).
pub fn change(level: Level, format: Format, access: bool) {
    if let Some(logger) = LOGGER.get() {
        let mut settings = logger.settings.write().unwrap_or_else(PoisonError::into_inner);
        *settings = Settings { level, format, access, ..*settings };
    }
}

/// Logs one event. `what` is a constant text of the program.
pub fn event(level: Level, what: &str, fields: &Fields<'_>) {
    if level <= settings().level {
        put(line(&settings(), level, what, fields));
    }
}

/// Logs one request if access logging is on.
pub fn access(fields: &Fields<'_>) {
    if wants_access() {
        put(line(&settings(), Level::Debug, "request", fields));
    }
}

/// Returns true if [`access`] writes lines.
pub fn wants_access() -> bool {
    let settings = settings();
    settings.access || settings.level >= Level::Debug
}

/// Waits until all earlier lines are written, at most one second.
pub fn flush() {
    const PATIENCE: Duration = Duration::from_secs(1);
    let Some(logger) = LOGGER.get() else { return };
    let (done, is_done) = sync_channel(0);
    let queue = logger.queue.clone();
    // The queue may be full and the writer thread blocked, so a separate thread waits for room.
    let asking = thread::Builder::new().name("log-flush".to_owned());
    if asking.spawn(move || queue.send(Order::Flush(done))).is_ok() {
        // `Disconnected` means success; a timeout means that nobody reads standard error.
        let _written_or_late = is_done.recv_timeout(PATIENCE);
    }
}

/// Runs `work` for a request. Lines of this thread contain the request's id meanwhile, including a panic's line.
pub fn for_request<T>(id: &str, work: impl FnOnce() -> T) -> T {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            REQUEST.set(([0; REQUEST_ID_BYTES_MAX], 0));
        }
    }
    let mut text = [0; REQUEST_ID_BYTES_MAX];
    let length = id.len().min(REQUEST_ID_BYTES_MAX);
    text[..length].copy_from_slice(&id.as_bytes()[..length]);
    REQUEST.set((text, u8::try_from(length).unwrap_or(0)));
    let _reset = Reset;
    work()
}

fn settings() -> Settings {
    let now = |logger: &Logger| *logger.settings.read().unwrap_or_else(PoisonError::into_inner);
    LOGGER.get().map_or(PLAIN, now)
}

fn put(line: String) {
    let Some(logger) = LOGGER.get() else { return write(&line) };
    match logger.queue.try_send(Order::Line(line)) {
        Ok(()) => {}
        Err(TrySendError::Full(_)) => {
            logger.dropped.fetch_add(1, Ordering::Relaxed);
        }
        // The writer thread ends only with the process.
        Err(TrySendError::Disconnected(Order::Line(line))) => write(&line),
        Err(TrySendError::Disconnected(Order::Flush(_))) => {}
    }
}

/// Main loop of the writer thread.
fn write_all(orders: &Receiver<Order>) {
    for order in orders {
        if let Order::Line(line) = order {
            write(&line);
        }
        let Some(logger) = LOGGER.get() else { continue };
        let dropped = logger.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            let fields = [("lines", Value::Count(dropped))];
            write(&self::line(&settings(), Level::Warn, "log lines were dropped", &fields));
        }
    }
}

fn write(line: &str) {
    // A single write, so that concurrent output of others does not split the line. An error is ignored: then there is
    // no reader.
    let _unheard = io::stderr().lock().write_all(line.as_bytes());
}

/// Formats a line with its line end.
fn line(settings: &Settings, level: Level, what: &str, fields: &Fields<'_>) -> String {
    let (text, length) = REQUEST.get();
    let request = std::str::from_utf8(&text[..usize::from(length)]).unwrap_or_default();
    let request = (!request.is_empty()).then_some(("request_id", Value::Text(&request)));
    let fields = fields.iter().copied().chain(request);
    let mut out = String::with_capacity(128);
    let written = match settings.format {
        Format::Text => text_line(&mut out, level, what, fields),
        Format::Json => json_line(&mut out, (settings.clock)(), level, what, fields),
    };
    written.expect("a String takes every write");
    out.push('\n');
    out
}

fn text_line<'a>(
    out: &mut String,
    level: Level,
    what: &str,
    fields: impl Iterator<Item = (&'a str, Value<'a>)>,
) -> fmt::Result {
    out.push_str("recalld: ");
    match level {
        Level::Error | Level::Warn if !what.starts_with(level.name()) => {
            write!(out, "{}: ", if level == Level::Warn { "warning" } else { "error" })?;
        }
        _ => {}
    }
    out.push_str(what);
    for (name, value) in fields {
        write!(out, " {name}=")?;
        match value {
            Value::Text(text) => push_quoted(out, &text.to_string())?,
            Value::Count(count) => write!(out, "{count}")?,
            Value::Seconds(took) => write!(out, "{:.6}", took.as_secs_f64())?,
        }
    }
    Ok(())
}

/// Appends a value, quoted if ambiguous. Escapes everything not printable: line ends, terminal sequences, bidirectional
/// control characters.
fn push_quoted(out: &mut String, text: &str) -> fmt::Result {
    let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\\' | '=');
    if !text.is_empty() && text.chars().all(is_plain) {
        out.push_str(text);
        return Ok(());
    }
    out.push('"');
    for c in text.chars() {
        match c {
            '\'' => out.push(c),
            _ => write!(out, "{}", c.escape_debug())?,
        }
    }
    out.push('"');
    Ok(())
}

fn json_line<'a>(
    out: &mut String,
    now: SystemTime,
    level: Level,
    what: &str,
    fields: impl Iterator<Item = (&'a str, Value<'a>)>,
) -> fmt::Result {
    let micros = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    let time =
        recalld_common::names::time(engine::Micros(i64::try_from(micros).unwrap_or(i64::MAX)));
    write!(out, r#"{{"time":"{time}","level":"{}","message":"#, level.name())?;
    push_json(out, what)?;
    for (name, value) in fields {
        write!(out, ",\"{name}\":")?;
        match value {
            Value::Text(text) => push_json(out, &text.to_string())?,
            Value::Count(count) => write!(out, "{count}")?,
            Value::Seconds(took) => write!(out, "{:.6}", took.as_secs_f64())?,
        }
    }
    out.push('}');
    Ok(())
}

/// Appends a JSON string. Escapes everything that JSON requires or that is not printable.
fn push_json(out: &mut String, text: &str) -> fmt::Result {
    out.push('"');
    for c in text.chars() {
        let is_printable = c.escape_debug().len() == 1 || c == '\'';
        match c {
            '"' | '\\' => write!(out, "\\{c}")?,
            _ if is_printable => out.push(c),
            _ => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    write!(out, "\\u{unit:04x}")?;
                }
            }
        }
    }
    out.push('"');
    Ok(())
}

/// Logs a panic as one line. The message is written only if it is a constant of the program, or at level debug: a
/// formatted message may quote a question or stored data.
fn log_panic(info: &PanicHookInfo<'_>) {
    let place = info.location().map_or_else(String::new, ToString::to_string);
    let fixed = info.payload().downcast_ref::<&'static str>().copied();
    let made = info.payload().downcast_ref::<String>().map(String::as_str);
    let made = made.filter(|_| settings().level >= Level::Debug);
    let message = fixed.or(made).unwrap_or("not shown; --log-level debug shows it");
    let thread = thread::current();
    let fields = [
        ("at", Value::Text(&place)),
        ("message", Value::Text(&message)),
        ("thread", Value::Text(&thread.name().unwrap_or("unnamed"))),
    ];
    event(Level::Error, "a panic", &fields);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: Format, what: &str, fields: &Fields<'_>) -> String {
        line(&Settings { format, ..PLAIN }, Level::Info, what, fields)
    }

    #[test]
    fn people_read_text_and_programs_read_json() {
        let fields = [
            ("peer", Value::Text(&"127.0.0.1:80")),
            ("bytes", Value::Count(12)),
            ("took", Value::Seconds(Duration::from_micros(1500))),
            ("why", Value::Text(&"not \"here\"")),
            ("empty", Value::Text(&"")),
        ];
        assert_eq!(
            written(Format::Text, "it happened", &fields),
            "recalld: it happened peer=127.0.0.1:80 bytes=12 took=0.001500 \
             why=\"not \\\"here\\\"\" empty=\"\"\n"
        );
        let json: serde_json::Value =
            serde_json::from_str(&written(Format::Json, "it happened", &fields)).unwrap();
        let wanted = serde_json::json!({
            "time": "1970-01-01T00:00:00Z", "level": "info", "message": "it happened",
            "peer": "127.0.0.1:80", "bytes": 12, "took": 0.0015, "why": "not \"here\"", "empty": "",
        });
        assert_eq!(json, wanted);
        let warned = line(&PLAIN, Level::Warn, "it is late", &[]);
        assert_eq!(warned, "recalld: warning: it is late\n");
    }

    #[test]
    fn no_value_makes_a_line_or_reaches_a_terminal() {
        let hostile = "a\nrecalld: forged\r\n\u{1b}[2J\u{7f}\u{0}\u{85}\u{2028}\u{202e} b=c";
        for format in [Format::Text, Format::Json] {
            let line = written(format, "it happened", &[("value", Value::Text(&hostile))]);
            assert_eq!(line.matches('\n').count(), 1, "{line:?}");
            let shown = line.trim_end_matches('\n');
            assert!(shown.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{line:?}");
        }
    }

    #[test]
    fn lines_of_a_request_name_it() {
        let named = for_request("id-1", || written(Format::Text, "it happened", &[]));
        assert_eq!(named, "recalld: it happened request_id=id-1\n");
        assert_eq!(written(Format::Text, "it happened", &[]), "recalld: it happened\n");
        let panicked = std::panic::catch_unwind(|| for_request("id-2", || panic!("on purpose")));
        assert!(panicked.is_err());
        assert_eq!(written(Format::Text, "it happened", &[]), "recalld: it happened\n");
    }
}
