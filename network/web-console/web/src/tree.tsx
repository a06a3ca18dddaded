// EXPLAIN as a tree: what is indented further belongs to the line above.

interface Node {
  text: string;
  indent: number;
  below: Node[];
}

export function parse(lines: string[]): Node[] {
  const roots: Node[] = [];
  const open: Node[] = [];
  for (const line of lines.flatMap((line) => line.split("\n"))) {
    if (line.trim() === "") {
      open.length = 0;
      continue;
    }
    const indent = line.length - line.trimStart().length;
    const node = { text: line.trim().replace(/^->\s*/, ""), indent, below: [] };
    while (open.length > 0 && open.at(-1)!.indent >= indent) open.pop();
    (open.at(-1)?.below ?? roots).push(node);
    open.push(node);
  }
  return roots;
}

export function Tree({ lines }: { lines: string[] }) {
  return (
    <div class="tree">
      {parse(lines).map((node) => (
        <Branch node={node} />
      ))}
    </div>
  );
}

function Branch({ node }: { node: Node }) {
  const [, first, rest] = node.text.match(/^(\d+\s+\S+|\S+:?)(.*)$/s) ?? [];
  const said = (
    <>
      <b>{first}</b>
      {rest}
    </>
  );
  if (node.below.length === 0) return <p class="leaf">{said}</p>;
  return (
    <details open>
      <summary>{said}</summary>
      {node.below.map((below) => (
        <Branch node={below} />
      ))}
    </details>
  );
}
