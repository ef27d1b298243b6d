#!/usr/bin/env python3
"""Draws the speed-ups of a result file of `fastkernels kernels` as an SVG, as the README shows them.

    tools/result_picture.py RESULT.json [RESULT.json ...] > docs/images/kernels.svg

Every scenario that was timed and ranked is a line: its speed-up and the 99 % interval on a logarithmic axis, beside the
baseline at 1. Needs nothing but Python.
"""
import html
import json
import math
import sys

WIDTH, ROW, LEFT, RIGHT, TOP, BOTTOM = 1060, 30, 470, 180, 64, 46
COLOURS = {"FASTER": "#2da44e", "SLOWER": "#cf222e"}
UNDECIDED = "#8c959f"


def rows_of(paths):
    rows = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        for result in document["results"]:
            timing = result.get("timing") or {}
            if "speedup" not in timing or timing.get("invalid"):
                continue
            rows.append((result["operator"], result["scenario"], timing["speedup"], timing["speedup_low"],
                         timing["speedup_high"], timing["speed_verdict"]))
    return rows


def text(x, y, words, kind="", anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{html.escape(words)}</text>'


def picture(rows):
    bounds = [1.0] + [row[3] for row in rows] + [row[4] for row in rows]
    least, most = math.log2(min(bounds)) - 0.1, math.log2(max(bounds)) + 0.1
    place = lambda speedup: LEFT + (math.log2(speedup) - least) / (most - least) * (WIDTH - LEFT - RIGHT)
    height = TOP + ROW * len(rows) + BOTTOM
    bottom = TOP + ROW * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="Speed-ups of candidates with their 99 % intervals">',
        "<style>text{font:14px system-ui,sans-serif;fill:#1f2328}.dim{fill:#59636e}.axis{stroke:#8c959f}"
        "@media (prefers-color-scheme:dark){text{fill:#f0f6fc}.dim{fill:#9198a1}}</style>",
        text(16, 26, "fastkernels kernels: candidate against baseline, 99 % intervals"),
    ]
    ticks = [t for t in (0.25, 0.5, 0.71, 1, 1.41, 2, 2.83, 4, 8) if least <= math.log2(t) <= most]
    for tick in ticks:
        x = place(tick)
        dash = "" if tick == 1 else ' stroke-dasharray="2 4"'
        parts.append(f'<line class="axis" x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{bottom}"{dash}/>')
        parts.append(text(x, bottom + 20, f"{tick:g}x", "dim", "middle"))
    parts.append(text(place(1), TOP - 14, "baseline", "dim", "middle"))
    for i, (operator, scenario, speedup, low, high, speed) in enumerate(rows):
        y = TOP + ROW * i + ROW / 2
        colour = COLOURS.get(speed, UNDECIDED)
        parts.append(text(LEFT - 16, y + 5, f"{operator} {scenario}", "", "end"))
        parts.append(f'<line x1="{place(low):.1f}" y1="{y}" x2="{place(high):.1f}" y2="{y}" stroke="{colour}" '
                     'stroke-width="6" stroke-linecap="round" opacity="0.45"/>')
        parts.append(f'<circle cx="{place(speedup):.1f}" cy="{y}" r="5" fill="{colour}"/>')
        parts.append(text(WIDTH - RIGHT + 16, y + 5, f"{speedup:.2f}x {speed}", "dim"))
    return "\n".join(parts + ["</svg>"]) + "\n"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    rows = rows_of(sys.argv[1:])
    if not rows:
        sys.exit("No scenario of these files was timed and ranked; run `fastkernels kernels` on a quiet machine.")
    sys.stdout.write(picture(rows))


if __name__ == "__main__":
    main()
