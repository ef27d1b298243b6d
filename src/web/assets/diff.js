// Line differences by Myers' algorithm: the shortest list of removed and added lines.
export function diffLines(before, after) {
  let head = 0;
  while (head < before.length && head < after.length && before[head] === after[head]) head += 1;
  let tail = 0;
  while (tail < before.length - head && tail < after.length - head &&
         before[before.length - 1 - tail] === after[after.length - 1 - tail])
    tail += 1;
  const a = before.slice(head, before.length - tail);
  const b = after.slice(head, after.length - tail);
  const edits = [];
  for (let i = 0; i < head; i += 1) edits.push({kind: "same", a: i, b: i});
  for (const e of middle(a, b)) edits.push({kind: e.kind, a: e.a + head, b: e.b + head});
  for (let i = tail; i > 0; i -= 1) edits.push({kind: "same", a: before.length - i, b: after.length - i});
  return edits;
}

const kMostEdits = 1000;  // with more edits the texts have too little in common

function middle(a, b) {
  const most = Math.min(a.length + b.length, kMostEdits);
  const trace = [];
  let reach = new Map([[1, 0]]);
  for (let d = 0; d <= most; d += 1) {
    trace.push(reach);
    const next = new Map(reach);
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
      let x = down ? reach.get(k + 1) : reach.get(k - 1) + 1;
      let y = x - k;
      while (x < a.length && y < b.length && a[x] === b[y]) {
        x += 1;
        y += 1;
      }
      next.set(k, x);
      if (x >= a.length && y >= b.length) return walk(trace, a, b, d);
    }
    reach = next;
  }
  return [...a.map((_, i) => ({kind: "gone", a: i, b: 0})), ...b.map((_, i) => ({kind: "come", a: a.length, b: i}))];
}

function walk(trace, a, b, edits) {
  const script = [];
  let [x, y] = [a.length, b.length];
  for (let d = edits; d > 0; d -= 1) {
    const reach = trace[d];
    const k = x - y;
    const down = k === -d || (k !== d && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
    const fromK = down ? k + 1 : k - 1;
    const fromX = reach.get(fromK);
    const fromY = fromX - fromK;
    while (x > fromX && y > fromY && x > 0 && y > 0 &&
           !(down ? x === fromX && y === fromY + 1 : x === fromX + 1 && y === fromY)) {
      x -= 1;
      y -= 1;
      script.push({kind: "same", a: x, b: y});
    }
    if (down) {
      y -= 1;
      script.push({kind: "come", a: x, b: y});
    } else {
      x -= 1;
      script.push({kind: "gone", a: x, b: y});
    }
  }
  while (x > 0 && y > 0) {
    x -= 1;
    y -= 1;
    script.push({kind: "same", a: x, b: y});
  }
  return script.reverse();
}
