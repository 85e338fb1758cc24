#!/usr/bin/env python3
"""Draws the last product of a trace as SVG, which is readable on light and on dark pages.

    docs/pictures/shared_product.py TRACE.json 'TITLE' > PICTURE.svg
"""

import json
import sys
from html import escape

WIDTH, LEFT, RIGHT, LANE, GAP, TOP = 960, 150, 24, 26, 12, 76
#: What a task does, by its category: words for the legend, and the colours on light and dark pages.
KINDS = {
    "cpu_compute": ("CPU computes a chunk", "#0069b4", "#4ca8f0"),
    "kernel": ("GPU computes a chunk", "#00875f", "#35c796"),
    "upload": ("copy to the GPU", "#b07a00", "#eab53c"),
    "download": ("copy from the GPU", "#d4500c", "#ff8b52"),
    "stage": ("host prepares a copy", "#77818e", "#8e98a6"),
    "merge": ("host merges rows of Y", "#6c55b0", "#b3a0f2"),
}
STYLE = """
text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; fill: #20252c; }
.title { font-size: 16px; font-weight: 600; } .device { font-weight: 600; } .small { font-size: 12px; fill: #5a6370; }
.paper { fill: #ffffff; } .lane { fill: #f3f5f8; } .grid { stroke: #dfe3e9; }
"""
DARK = """
text { fill: #e6e9ee; } .small { fill: #9aa4b2; } .paper { fill: #14171c; } .lane { fill: #1b2027; } .grid { stroke: #333a45; }
"""


def last_product(events):
    """The spans of the tasks of the last product, in microseconds from its start, by device and lane."""
    names = {"process_name": {}, "thread_name": {}}
    for event in events:
        if event["ph"] == "M" and event["name"] in names:
            names[event["name"]][event["pid"], event["tid"] * (event["name"] == "thread_name")] = event["args"]["name"]
    tasks = [event for event in events if event["ph"] == "X" and event["cat"] in KINDS]
    runs = [event["args"]["run"] for event in tasks if "run" in event["args"]]
    tasks = [event for event in tasks if event["args"].get("run") == max(runs)]
    begin = min(event["ts"] for event in tasks)
    lanes = {}
    for event in tasks:
        device = next(name for (pid, _), name in names["process_name"].items() if pid == event["pid"])
        lane = names["thread_name"][event["pid"], event["tid"]]
        lanes.setdefault((device, lane), []).append((event["ts"] - begin, event["dur"], event["cat"], event["name"]))
    # The host first, then each device; lanes in the order of a product.
    order = ["stage", "cpu_compute", "upload", "kernel", "download", "merge"]
    first = lambda lane: min(order.index(span[2]) for span in lanes[lane])
    return {lane: lanes[lane] for lane in sorted(lanes, key=lambda lane: (lane[0] != "cpu", lane[0], first(lane)))}


def drawn(lanes, title):
    end = max(start + length for spans in lanes.values() for start, length, _, _ in spans)
    scale = (WIDTH - LEFT - RIGHT) / end
    step = next(step for step in (5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 10**9) if end / step <= 9)
    parts, y, before = [], TOP, None
    for (device, lane), spans in lanes.items():
        if device != before:
            y += GAP
            parts.append(f'<text class="device" x="12" y="{y + 17}">{escape(device)}</text>')
            before = device
        parts.append(f'<text class="small" x="{LEFT - 8}" y="{y + 17}" text-anchor="end">{escape(lane)}</text>')
        parts.append(f'<rect class="lane" x="{LEFT}" y="{y}" width="{WIDTH - LEFT - RIGHT}" height="{LANE - 4}"/>')
        for start, length, kind, name in spans:
            x, width = LEFT + start * scale, max(length * scale - 0.6, 0.8)
            parts.append(
                f'<rect class="{kind}" x="{x:.2f}" y="{y}" width="{width:.2f}" height="{LANE - 4}" rx="1.5">'
                f"<title>{escape(name)}: {length:.1f} µs</title></rect>"
            )
        y += LANE
    ticks = [tick * step for tick in range(int(end / step) + 1)]
    unit, of = ("ms", 1000) if end >= 2000 else ("µs", 1)
    for tick in ticks:
        x = LEFT + tick * scale
        label = f"{tick / of:g}" + (f" {unit}" if tick == ticks[-1] else "")
        parts.insert(0, f'<path class="grid" d="M{x:.1f} {TOP + 4}V{y + 2}"/>')
        parts.append(f'<text class="small" x="{x:.1f}" y="{y + 18}" text-anchor="middle">{label}</text>')
    x, used = 12, {span[2] for spans in lanes.values() for span in spans}
    for kind, (words, _, _) in KINDS.items():
        if kind in used:
            parts.append(f'<rect class="{kind}" x="{x}" y="46" width="12" height="12" rx="2"/>')
            parts.append(f'<text x="{x + 17}" y="57">{words}</text>')
            x += 34 + 7.1 * len(words)
    height = y + 30
    light = "".join(f".{kind} {{ fill: {light}; }}\n" for kind, (_, light, _) in KINDS.items())
    dark = "".join(f".{kind} {{ fill: {dark}; }}\n" for kind, (_, _, dark) in KINDS.items())
    body = "\n".join(parts)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img">
<title>{escape(title)}</title>
<style>{STYLE}{light}@media (prefers-color-scheme: dark) {{{DARK}{dark}}}
</style>
<rect class="paper" width="{WIDTH}" height="{height}" rx="6"/>
<text class="title" x="12" y="28">{escape(title)}</text>
{body}
</svg>
"""


if __name__ == "__main__":
    trace, title = sys.argv[1:]
    with open(trace) as file:
        print(drawn(last_product(json.load(file)["traceEvents"]), title), end="")
