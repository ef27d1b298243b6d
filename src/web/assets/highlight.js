// Syntax highlighting of C++ and CUDA: a scanner for words, strings, numbers and comments. It yields [class, text]
// pieces whose joined texts are exactly the source, so that nothing is lost or becomes markup.
const words = new Set(
    ("alignas auto bool break case catch char class concept const consteval constexpr constinit const_cast continue " +
     "co_await decltype default delete do double dynamic_cast else enum explicit extern false float for friend goto if inline int long " +
     "mutable namespace new noexcept nullptr operator override private protected public register reinterpret_cast requires return short " +
     "signed sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef typename union " +
     "unsigned using virtual void volatile while __global__ __device__ __host__ __shared__ __restrict__ __forceinline__")
        .split(" "));
const types = /^(u?int\d*_t|size_t|ssize_t|ptrdiff_t|__m\d+\w*|bf16|half2?|nv_bfloat16|[A-Z]\w*[a-z]\w*|std)$/;

const rules = [
  ["c", /\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/y],
  ["s", /R"([^(\s]{0,16})\([\s\S]*?\)\1"|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?/y],
  ["p", /^[ \t]*#[ \t]*\w+/my],
  ["n", /(?:0[xX][\da-fA-F']+|(?:\d[\d']*\.?[\d']*|\.\d[\d']*)(?:[eE][+-]?\d+)?)[a-zA-Z]*/y],
  ["w", /[A-Za-z_]\w*/y],
  ["", /[^A-Za-z_\d"'#/]+|[\s\S]/y],
];

function pieces(source) {
  const found = [];
  let at = 0;
  while (at < source.length) {
    for (const [kind, pattern] of rules) {
      pattern.lastIndex = at;
      const match = pattern.exec(source);
      if (!match || !match[0].length) continue;
      const text = match[0];
      found.push([kind === "w" ? (words.has(text) ? "k" : types.test(text) ? "t" : "") : kind, text]);
      at += text.length;
      break;
    }
  }
  return found;
}

// The pieces of each line.
export function colouredLines(source) {
  const lines = [[]];
  for (const [kind, text] of pieces(source)) {
    text.split("\n").forEach((part, i) => {
      if (i) lines.push([]);
      if (part) lines[lines.length - 1].push([kind, part]);
    });
  }
  if (lines.length > 1 && !lines[lines.length - 1].length) lines.pop();
  return lines;
}
