// Whose workspace is shown: the operator's own, or that of a tenant, whose name stands in the address then. Set before a view
// begins; what it asks for and where its links lead follow from it.
let shown = "";

// The tenant's name; empty in the operator's own workspace.
export const workspace = () => shown;

export function within(slug) {
  shown = slug;
}

// How the command line is told the same.
export const flag = () => (shown ? ` --workspace ${shown}` : "");
