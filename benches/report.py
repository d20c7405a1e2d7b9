#!/usr/bin/env python3
"""Turns rows of `hopwise bench --json` into the tables of RESULTS.md, beside what peers.csv has of others:

    benches/report.py rows.json more.json ... > tables.md

Of rows that measure the same, the last one counts. peers.csv: the fastest published or vendor's implementation.
"""

import csv
import json
import math
import sys
from pathlib import Path

TITLES = {
    "sum": "Sum",
    "min": "Minimum with its argument",
    "pna": "Mean, minimum, maximum and deviation",
    "gat": "GAT",
    "gatv2": "GATv2",
    "transformer": "Graph transformer",
}
STEPS = {"epoch-gcn": "GCN", "epoch-sage": "GraphSAGE", "epoch-gatv2": "GATv2", "epoch-transformer": "Graph transformer"}
PASSES = {"fwd": "forward", "fwd+bwd": "forward + backward"}


def read_rows(paths):
    rows = {}
    for path in paths:
        for row in json.loads(Path(path).read_text()):
            shape = (row["op"], row["graph"], row.get("order", "none"), row["heads"], row["width"], row["dtype"])
            rows[shape, row["pass"], row["backend"]] = row
    return rows


def read_peers(path):
    peers = {}
    with open(path) as file:
        for row in csv.DictReader(file):
            shape = (row["op"], row["graph"], "none", int(row["heads"]), int(row["width"]), "f32")
            for name, field in (("fwd", "fwd_ms"), ("fwd+bwd", "both_ms")):
                if row[field]:
                    peers[shape, name] = float(row[field])
    return peers


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def table(heading, rows):
    print("| " + " | ".join(heading) + " |")
    print("|" + "---|" * len(heading))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def ratio(values):
    if not values:
        return ""
    return f"{geometric_mean(values):.2f} ({len(values)} rows, least {min(values):.2f})"


def in_short(rows, peers):
    lines = []
    for op, title in TITLES.items():
        for heads in (1, 8):
            line = [title if heads == 1 else f"{title}, {heads} heads"]
            for name in PASSES:
                of_op = [
                    (key, row["ms"])
                    for (key, of_pass, backend), row in rows.items()
                    if key[0] == op and key[3] == heads and of_pass == name and backend == "cuda"
                ]
                line.append(ratio([peers[key, name] / ms for key, ms in of_op if (key, name) in peers]))
                others = [(ms, rows.get((key, name, "wgpu"))) for key, ms in of_op]
                line.append(ratio([ms / other["ms"] for ms, other in others if other]))
            if any(line[1:]):
                lines.append(line)
    heading = ["", "peer / CUDA, forward", "CUDA / wgpu, forward", "peer / CUDA, with gradients", "CUDA / wgpu, with gradients"]
    print("## In short\n")
    table(heading, lines)


def operations(rows, peers):
    for op, title in TITLES.items():
        lines = []
        shapes = sorted({key for key, _, _ in rows if key[0] == op and key[2] == "none" and key[5] == "f32"})
        shapes.sort(key=lambda key: (key[1], key[3], key[4]))
        for key in shapes:
            for name, words in PASSES.items():
                cuda, wgpu = rows.get((key, name, "cuda")), rows.get((key, name, "wgpu"))
                one = cuda or wgpu
                if not one:
                    continue
                peer = peers.get((key, name))
                lines.append(
                    [
                        key[1],
                        f"{key[3]} x {key[4]}",
                        words,
                        f"{cuda['ms']:.3f}" if cuda else "",
                        f"{peer:.3f}" if peer else "",
                        f"{peer / cuda['ms']:.2f}" if peer and cuda else "",
                        f"{one['bytes'] / 1e6:.0f}",
                        f"{one['gb_per_s']:.0f}",
                        f"{one['copy_share']:.2f}",
                        f"{wgpu['ms']:.3f}" if wgpu else "",
                    ]
                )
        if lines:
            print(f"## {title}\n")
            table(["graph", "heads x width", "pass", "CUDA", "peer", "peer / CUDA", "MB", "GB/s", "share", "wgpu"], lines)


def halves(rows):
    lines = []
    for (key, name, backend), row in sorted(rows.items()):
        if key[5] == "f32" or backend != "cuda":
            continue
        full = rows.get((key[:5] + ("f32",), name, backend))
        faster = f"{full['ms'] / row['ms']:.2f}" if full else ""
        lines.append([TITLES.get(key[0], key[0]), key[1], f"{key[3]} x {key[4]}", key[5], PASSES[name], f"{row['ms']:.3f}", faster])
    if lines:
        print("## Halves\n")
        table(["", "graph", "heads x width", "type", "pass", "CUDA", "times faster than f32"], lines)


def orders(rows):
    lines = []
    for (key, name, backend), row in sorted(rows.items()):
        if not key[1].endswith("-shuffled"):
            continue
        own = rows.get(((key[0], key[1].removesuffix("-shuffled")) + ("none",) + key[3:], name, backend))
        beside = f"{row['ms'] / own['ms']:.2f}" if own else ""
        lines.append([TITLES.get(key[0], key[0]), key[1], key[2], f"{key[3]} x {key[4]}", PASSES[name], f"{row['ms']:.3f}", beside])
    if lines:
        print("## Orders\n")
        table(["", "graph", "order", "heads x width", "pass", "ms", "times as long as the graph before it was scattered"], lines)


def steps(rows, peers):
    lines = []
    for (key, name, backend), row in sorted(rows.items()):
        if key[0] not in STEPS or backend != "cuda":
            continue
        wgpu = rows.get((key, name, "wgpu"))
        # Steps have widths of their own, whatever their row says.
        peer = next((ms for (other, _), ms in peers.items() if other[:2] == key[:2]), None)
        lines.append(
            [
                key[1],
                STEPS[key[0]],
                f"{row['ms']:.2f}",
                f"{row['peak_bytes'] / 1e6:,.0f}",
                f"{wgpu['ms']:.2f}" if wgpu else "",
                f"{peer:.1f}" if peer else "",
            ]
        )
    if lines:
        print("## Training steps\n")
        table(["graph", "model", "CUDA, ms", "peak MB", "wgpu, ms", "PyTorch Geometric, ms"], lines)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    rows = read_rows(sys.argv[1:])
    peers = read_peers(Path(__file__).with_name("peers.csv"))
    in_short(rows, peers)
    operations(rows, peers)
    halves(rows)
    orders(rows)
    steps(rows, peers)


if __name__ == "__main__":
    main()
