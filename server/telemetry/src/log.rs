//! What a running service says of itself: one line for each event, on standard error.
//!
//! Knows levels, fields and escaping; must not know requests, tenants or stores. Whoever logs names
//! what happened in words of our own and hands over values as fields: values are escaped, so nobody
//! can write a line of ours, and nothing secret is ever handed over (no credential, no question, no
//! body, no path that a client chose).
//!
//! Our own and not `tracing` with its subscriber: these lines need no spans, no filters by module and
//! no macros, and that pair brings some twenty crates for what fits here.
//!
//! In a server the lines go through a bounded queue to a thread of their own: the event loop logs too,
//! and must not wait for whoever reads the other end. Lines that find the queue full are counted and
//! dropped, and the count is logged once there is room.

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

/// How much something matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Level {
    /// Something failed that nobody asked to fail.
    Error,
    /// Something that an operator may want to mend.
    Warn,
    /// What the service does as a whole.
    Info,
    /// Each request.
    Debug,
}

impl Level {
    /// Each, the most important first.
    pub const ALL: &'static [Self] = &[Self::Error, Self::Warn, Self::Info, Self::Debug];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }
}

/// How a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// `recalld: what happened name=value`, for people.
    Text,
    /// One JSON object a line, for programs.
    Json,
}

impl Format {
    /// Each.
    pub const ALL: &'static [Self] = &[Self::Text, Self::Json];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

/// What is logged, and how.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The least important level that is written.
    pub level: Level,
    /// How.
    pub format: Format,
    /// Whether each request is written, whatever the level.
    pub access: bool,
    /// The wall clock, for `time` in JSON; text has none, as terminals and journals have their own.
    pub clock: fn() -> SystemTime,
}

/// A field's value.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    /// A text, whatever is in it.
    Text(&'a dyn Display),
    /// A count.
    Count(u64),
    /// A duration, written in seconds.
    Seconds(Duration),
}

/// Fields of a line, in their order.
pub(crate) type Fields<'a> = [(&'a str, Value<'a>)];

const PLAIN: Settings =
    Settings { level: Level::Info, format: Format::Text, access: false, clock: || UNIX_EPOCH };

/// What goes to the writing thread.
enum Order {
    Line(String),
    /// Everything before it has been written once this is dropped.
    Flush(#[expect(dead_code, reason = "dropping it is the message")] SyncSender<()>),
}

struct Logger {
    settings: RwLock<Settings>,
    queue: SyncSender<Order>,
    dropped: AtomicU64,
}

static LOGGER: OnceLock<Logger> = OnceLock::new();

thread_local! {
    /// The request that this thread works for; length 0 where there is none.
    static REQUEST: Cell<([u8; REQUEST_ID_BYTES_MAX], u8)> =
        const { Cell::new(([0; REQUEST_ID_BYTES_MAX], 0)) };
}

/// Sets how this process logs, and starts the thread that writes; also writes panics as lines. The
/// first call counts; without one, lines are text and written at once.
///
/// # Errors
/// The system started no thread.
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

/// Changes what is logged from now on, where [`start`] was called.
pub fn change(level: Level, format: Format, access: bool) {
    if let Some(logger) = LOGGER.get() {
        let mut settings = logger.settings.write().unwrap_or_else(PoisonError::into_inner);
        *settings = Settings { level, format, access, ..*settings };
    }
}

/// Logs one event. `what` is our own words.
pub fn event(level: Level, what: &str, fields: &Fields<'_>) {
    if level <= settings().level {
        put(line(&settings(), level, what, fields));
    }
}

/// Logs one request, where requests are wanted.
pub fn access(fields: &Fields<'_>) {
    if wants_access() {
        put(line(&settings(), Level::Debug, "request", fields));
    }
}

/// Whether [`access`] writes anything.
pub fn wants_access() -> bool {
    let settings = settings();
    settings.access || settings.level >= Level::Debug
}

/// Waits until all lines so far are written, or a second.
pub fn flush() {
    const PATIENCE: Duration = Duration::from_secs(1);
    let Some(logger) = LOGGER.get() else { return };
    let (done, is_done) = sync_channel(0);
    let queue = logger.queue.clone();
    // The queue may be full, and whoever should empty it stuck: a thread waits for a place.
    let asking = thread::Builder::new().name("log-flush".to_owned());
    if asking.spawn(move || queue.send(Order::Flush(done))).is_ok() {
        // Disconnected is the good outcome; on a timeout nobody reads our standard error.
        let _written_or_late = is_done.recv_timeout(PATIENCE);
    }
}

/// Does `work` for a request: what this thread logs meanwhile, a panic included, names it.
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
        // The thread is gone, which only the end of the process does.
        Err(TrySendError::Disconnected(Order::Line(line))) => write(&line),
        Err(TrySendError::Disconnected(Order::Flush(_))) => {}
    }
}

/// The life of the writing thread.
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
    // In one piece, so that what others write at the same time stands before it or behind it. Where
    // nobody can hear it, nobody has to.
    let _unheard = io::stderr().lock().write_all(line.as_bytes());
}

/// A whole line, its end included.
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

/// A value as it is, or in quotes where it could be taken for something else. Whatever is not
/// printable is escaped: line ends, terminal sequences, marks that turn the direction of writing.
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

/// A JSON string, with everything escaped that JSON asks for or that is not printable.
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

/// A panic as one line. Its message is written only where it is a fixed text of the program's, or at
/// level debug: one that was put together may quote what somebody asked or stored.
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
