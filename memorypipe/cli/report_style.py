"""How a page looks, on light and dark screens and on paper."""

__all__ = ["STYLE"]

STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1f2328; --dim: #59636e; --line: #d1d9e0;
  --soft: #f6f8fa; --add: #1a7f37; --update: #9a6700; --delete: #cf222e; --accent: #0969da; }
@media (prefers-color-scheme: dark) { :root { --back: #0d1117; --text: #e6edf3; --dim: #9198a1;
  --line: #3d444d; --soft: #151b23; --add: #3fb950; --update: #d29922; --delete: #f85149;
  --accent: #4493f8; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 24px; max-width: 1000px; background: var(--back);
  color: var(--text); font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 22px; margin: 0 0 12px; }
h2 { font-size: 17px; margin: 32px 0 8px; padding-bottom: 4px;
  border-bottom: 1px solid var(--line); }
code { font: 12px/1.5 ui-monospace, monospace; color: var(--dim); }
.dim, footer { color: var(--dim); }
.status { border: 1px solid currentColor; border-radius: 12px; padding: 1px 10px; font-size: 14px;
  vertical-align: 3px; color: var(--update); }
.status.done { color: var(--add); } .status.planned { color: var(--accent); }
.status.failed, .status.crashed { color: var(--delete); }
dl { display: flex; flex-wrap: wrap; gap: 4px 24px; margin: 0; }
dl div { display: flex; gap: 6px; } dt { color: var(--dim); } dd { margin: 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(130px, 1fr)); gap: 8px;
  margin-top: 20px; }
.tile { background: var(--soft); border: 1px solid var(--line); border-radius: 8px;
  padding: 8px 12px; }
.tile b { display: block; font-size: 20px; font-variant-numeric: tabular-nums; }
.tile span { color: var(--dim); font-size: 13px; }
.tile.add b { color: var(--add); } .tile.update b { color: var(--update); }
.tile.delete b { color: var(--delete); }
details { margin: 8px 0; } summary { cursor: pointer; } summary span { color: var(--dim); }
.change { padding: 3px 0 3px 22px; position: relative; border-bottom: 1px solid var(--soft); }
.mark { position: absolute; left: 4px; font-weight: 700; }
.add .mark { color: var(--add); } .update .mark { color: var(--update); }
.delete .mark { color: var(--delete); }
ins { text-decoration: none; } del { color: var(--dim); }
del, ins { white-space: pre-wrap; }
time, small { color: var(--dim); font-size: 12px; } small { font-style: italic; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: left; vertical-align: top; padding: 4px 12px 4px 0;
  border-bottom: 1px solid var(--line); }
th { color: var(--dim); font-weight: 500; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
svg { width: 100%; height: auto; } svg text { fill: var(--dim); font-size: 11px; }
svg line { stroke: var(--line); } .line { fill: none; stroke: var(--accent); stroke-width: 1.5; }
.area { fill: var(--accent); opacity: .15; }
footer { margin-top: 40px; font-size: 13px; }
@media print { body { max-width: none; } .wide { overflow: visible; } }
"""
