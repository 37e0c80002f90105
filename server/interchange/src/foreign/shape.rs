/// An export format of another program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Entities and relations of the reference MCP memory server: `memory.jsonl`.
    McpMemory,
    /// Memories of mem0, with their history.
    Mem0,
    /// Memories of mcp-memory-service.
    McpMemoryService,
    /// A folder of Markdown notes: Obsidian, basic-memory.
    Vault,
    /// Conversations of ChatGPT.
    Chatgpt,
    /// Conversations and projects of Claude.
    Claude,
    /// JSON Lines, or a list, of objects with arbitrary keys.
    Plain,
}

impl Shape {
    /// All formats.
    pub const ALL: [Self; 7] = [
        Self::McpMemory,
        Self::Mem0,
        Self::McpMemoryService,
        Self::Vault,
        Self::Chatgpt,
        Self::Claude,
        Self::Plain,
    ];

    /// Name on the command line and in refs.
    pub fn name(self) -> &'static str {
        match self {
            Self::McpMemory => "mcp-memory",
            Self::Mem0 => "mem0",
            Self::McpMemoryService => "mcp-memory-service",
            Self::Vault => "vault",
            Self::Chatgpt => "chatgpt",
            Self::Claude => "claude",
            Self::Plain => "plain",
        }
    }

    /// Returns the format of this name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|shape| shape.name() == name)
    }
}
