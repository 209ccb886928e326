// Which box of a rank stands above which, for few crossings: as dagre orders them, by barycenters in sweeps
// to and fro (Sugiyama, Tagawa and Toda, 1981), but over arrays of numbers. Of a graph of 500 boxes, with
// 4,500 places for the bends of its edges, dagre takes a second for it, and this some 50 ms.

// What dagre's graphs have of theirs: edges lead from each rank to the next.
export interface Ranked {
  nodes: () => string[];
  node: (id: string) => unknown; // gets its `order`
  edges: () => { v: string; w: string; name?: string }[];
  edge: (edge: { v: string; w: string; name?: string }) => unknown;
}

interface Next {
  to: number;
  weight: number;
}
type Ranks = number[][]; // nodes, by rank and order

const IN_VAIN = 4; // sweeps without a better order, after which the best one is kept

export function order(graph: Ranked): void {
  const ids = graph.nodes();
  const at = new Map(ids.map((id, i) => [id, i]));
  const rankOf = ids.map((id) => (graph.node(id) as { rank: number }).rank);
  const before: Next[][] = ids.map(() => []);
  const after: Next[][] = ids.map(() => []);
  for (const edge of graph.edges()) {
    const { weight = 1 } = graph.edge(edge) as { weight?: number };
    const [from, to] = [at.get(edge.v)!, at.get(edge.w)!];
    after[from]!.push({ to, weight });
    before[to]!.push({ to: from, weight });
  }
  let ranks = begin(rankOf, after);
  let best = ranks;
  let fewest = crossings(ranks, after);
  for (let sweep = 0, vain = 0; vain < IN_VAIN && fewest > 0; ++sweep, ++vain) {
    const down = sweep % 2 === 1;
    ranks = swept(ranks, down ? before : after, down, sweep % 4 >= 2);
    const now = crossings(ranks, after);
    if (now >= fewest) continue;
    [best, fewest, vain] = [ranks, now, -1];
  }
  for (const rank of best)
    rank.forEach((node, i) => ((graph.node(ids[node]!) as { order: number }).order = i));
}

// Each node beside those that it is reached with, the first ranks first.
function begin(rankOf: number[], after: Next[][]): Ranks {
  const ranks: Ranks = Array.from({ length: Math.max(...rankOf) + 1 }, () => []);
  const seen = rankOf.map(() => false);
  const first = rankOf.map((_, node) => node).sort((a, b) => rankOf[a]! - rankOf[b]!);
  for (const root of first) {
    const stack = [root];
    while (stack.length > 0) {
      const node = stack.pop()!;
      if (seen[node]) continue;
      seen[node] = true;
      ranks[rankOf[node]!]!.push(node);
      const next = after[node]!;
      for (let i = next.length - 1; i >= 0; --i) stack.push(next[i]!.to);
    }
  }
  return ranks;
}

function placesOf(ranks: Ranks, nodes: number): number[] {
  const places = new Array<number>(nodes).fill(0);
  for (const rank of ranks) rank.forEach((node, i) => (places[node] = i));
  return places;
}

// Each rank ordered by where the neighbours of its nodes stand in the rank before, the way of the sweep.
function swept(ranks: Ranks, neighbours: Next[][], down: boolean, right: boolean): Ranks {
  const places = placesOf(ranks, neighbours.length);
  const next: Ranks = [...ranks];
  for (let i = 1; i < ranks.length; ++i) {
    const at = down ? i : ranks.length - 1 - i;
    next[at] = ordered(ranks[at]!, neighbours, places, right);
    next[at].forEach((node, place) => (places[node] = place));
  }
  return next;
}

// A node without neighbours stays where it is, and the others go around it. `right`: of two that would stand
// equally well the later one comes first.
function ordered(rank: number[], neighbours: Next[][], places: number[], right: boolean): number[] {
  const center = (node: number) => {
    const all = neighbours[node]!;
    const weight = all.reduce((sum, one) => sum + one.weight, 0);
    return all.reduce((sum, one) => sum + one.weight * places[one.to]!, 0) / weight;
  };
  const moved = rank
    .filter((node) => neighbours[node]!.length > 0)
    .map((node) => ({ node, center: center(node), place: places[node]! }))
    .sort((a, b) => a.center - b.center || (right ? b.place - a.place : a.place - b.place));
  let i = 0;
  return rank.map((node) => (neighbours[node]!.length > 0 ? moved[i++]!.node : node));
}

// How many crossings there are, by the weights of the edges (Barth, Jünger and Mutzel, 2002).
function crossings(ranks: Ranks, after: Next[][]): number {
  const places = placesOf(ranks, after.length);
  let count = 0;
  for (let i = 0; i + 1 < ranks.length; ++i) {
    let first = 1;
    while (first < ranks[i + 1]!.length) first *= 2;
    const tree = new Array<number>(2 * first - 1).fill(0);
    first -= 1;
    for (const node of ranks[i]!) {
      const ends = after[node]!.map(({ to, weight }) => ({ place: places[to]!, weight }));
      ends.sort((a, b) => a.place - b.place);
      for (const { place, weight } of ends) {
        let at = place + first;
        tree[at]! += weight;
        let over = 0;
        while (at > 0) {
          if (at % 2 === 1) over += tree[at + 1]!;
          at = (at - 1) >> 1;
          tree[at]! += weight;
        }
        count += weight * over;
      }
    }
  }
  return count;
}
