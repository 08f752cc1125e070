"""A document as one HTML file: no other file, no script needed; tables sort where there is one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

from llmprof.core.document.figures.svg import style
from llmprof.core.document.quotes import Sentence, cell_text, shown
from llmprof.core.document.sections import BESIDE, Document, Section
from llmprof.core.report.table import Cell, Figure, Prose, Table
from llmprof.core.system.text import clean

SHORT = 16  # characters of a cell that stay on one line
_CODE = re.compile(r"`([^`]+)`")
CSS = """
:root{color-scheme:light dark;--ink:#1f2730;--soft:#5b6572;--rule:#d5dae1;--page:#fbfcfd;
--shade:#f0f3f6;--accent:#0068a8}
@media screen and (prefers-color-scheme:dark){:root{--ink:#d6dde6;--soft:#98a3b1;--rule:#39424f;
--page:#10151b;--shade:#1b232d;--accent:#5ab4e8}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.5rem;max-width:74rem;background:var(--page);color:var(--ink);
font:15px/1.45 system-ui,sans-serif}
h1{font-size:1.5rem;margin:0 0 .6rem}h2{font-size:1.1rem;margin:1.4rem 0 .4rem;color:var(--accent)}
p,ul,ol{margin:.35rem 0;max-width:62rem;overflow-wrap:anywhere}
li{margin:.15rem 0}.quiet{color:var(--soft);font-size:.8rem}
code{font:.88em ui-monospace,monospace;background:var(--shade);padding:.05em .3em;border-radius:3px;
overflow-wrap:anywhere}
.wide{overflow-x:auto;margin:.5rem 0}
table{border-collapse:collapse;font-size:.76rem;font-variant-numeric:tabular-nums}
caption{text-align:left;font-weight:600;padding:.2rem 0}
th,td{padding:.15rem .35rem;text-align:left;vertical-align:bottom;
border-bottom:1px solid var(--rule)}
td{vertical-align:top}th.n,td.n{text-align:right}td.n,td.s{white-space:nowrap}
th{font-weight:600;color:var(--soft);max-width:6rem}th[data-sort]{cursor:pointer}
figure{margin:.6rem 0;overflow-x:auto}figure svg{max-width:100%;height:auto}
figcaption{color:var(--soft);font-size:.85rem}
.findings li{margin:.3rem 0}
@media screen and (max-width:76rem){table{font-size:.7rem}th,td{padding:.15rem .25rem}}
@media screen and (max-width:40rem){body{padding:.7rem}table{font-size:.64rem}
th,td{padding:.12rem .18rem}td.s{white-space:normal}}
@media print{@page{size:A4;margin:11mm}
body{padding:0;max-width:none;font-size:8.4pt;line-height:1.25;background:#fff}
h1{font-size:13pt;margin:0 0 3pt}h2{font-size:9.5pt;margin:5pt 0 1pt;break-after:avoid}
p,ul,ol{margin:1.5pt 0;max-width:none}li,.findings li{margin:0 0 1pt}
table{font-size:6.5pt;line-height:1.15}th,td{padding:.5pt 3pt}caption{padding:1pt 0}
.wide{overflow:visible;margin:2pt 0}.quiet{font-size:6.9pt}
ul,ol{padding-left:12pt}
figure{margin:2pt 0;break-inside:avoid;overflow:visible}
figure svg{width:104mm;min-width:0;height:auto}
figcaption{font-size:7.4pt}
tr{break-inside:avoid}.appendix{break-before:page}code{padding:0;background:none}}
"""
SCRIPT = """
for(const h of document.querySelectorAll('th')){h.dataset.sort='';h.addEventListener('click',()=>{
const t=h.closest('table'),b=t.tBodies[0],i=[...h.parentNode.children].indexOf(h),
d=h.dataset.sort==='up'?'down':'up';h.dataset.sort=d;
const v=r=>{const c=r.cells[i];return c.dataset.v===undefined?c.textContent:+c.dataset.v};
[...b.rows].sort((p,q)=>{const x=v(p),y=v(q),s=typeof x==='number'&&typeof y==='number'?x-y:
String(x).localeCompare(String(y));return d==='up'?s:-s}).forEach(r=>b.append(r))})}
"""


def write_html(document: Document, beside: tuple[str, ...] = ()) -> str:
    """The whole file."""
    body = "".join(_body(document, beside))
    title = escape(clean(document.title, 200))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{title}</title><style>{CSS}{style()}</style></head>\n"
        f"<body>{body}<script>{SCRIPT}</script></body></html>\n"
    )


def _body(document: Document, beside: tuple[str, ...]) -> Iterator[str]:
    yield f"<h1>{escape(clean(document.title, 200))}</h1>"
    tables = figures = 0
    for at, section in enumerate((*document.sections, *document.appendix)):
        if at == len(document.sections):
            yield _beside(beside)
            yield '<div class="appendix">'
        yield _section(section, tables, figures, appendix=at >= len(document.sections))
        tables += len(section.tables)
        figures += len(section.figures)
    yield "</div>" if document.appendix else _beside(beside)


def _beside(names: tuple[str, ...]) -> str:
    if not names:
        return ""
    listed = ", ".join(f"<code>{escape(name)}</code>" for name in names)
    return f'<p class="quiet">{BESIDE}: {listed}.</p>'


def _section(section: Section, tables: int, figures: int, *, appendix: bool) -> str:
    parts = [f"<h2>{'Appendix: ' if appendix else ''}{escape(section.title)}</h2>"]
    parts += [f"<p>{sentence(each)}</p>" for each in section.text]
    if section.items:
        kind = "ol" if section.name == "findings" else "ul"
        items = "".join(f"<li>{sentence(item)}</li>" for item in section.items)
        parts.append(f'<{kind} class="{section.name}">{items}</{kind}>')
    for question, lines in section.answers:
        told = "".join(f"<li>{sentence(line)}</li>" for line in lines)
        parts.append(f"<p><strong>{escape(question)}</strong></p><ul>{told}</ul>")
    parts += [f"<p>{sentence(each)}</p>" for each in section.after]
    for at, figure in enumerate(section.figures, figures + 1):
        caption = escape(figure.caption)
        parts.append(
            f"<figure>{figure.drawing}<figcaption>Fig. {at}. {caption}.</figcaption></figure>"
        )
    parts += [table_html(table, at) for at, table in enumerate(section.tables, tables + 1)]
    return f"<section>{''.join(parts)}</section>\n"


def table_html(table: Table, number: int) -> str:
    """A table with its caption; what all rows share stands below."""
    heads = "".join(
        f'<th class="n">{escape(column.heading)}</th>'
        if column.numeric
        else f"<th>{escape(column.heading)}</th>"
        for column in table.columns
    )
    numeric = [column.numeric for column in table.columns]
    rows = "".join(
        f"<tr>{''.join(_cell(cell, n) for cell, n in zip(row, numeric, strict=True))}</tr>"
        for row in table.rows
    )
    notes = "".join(f'<p class="quiet">{sentence((note,))}</p>' for note in table.notes)
    return (
        f'<div class="wide"><table><caption>Table {number}. {escape(clean(table.title, 200))}'
        f"</caption><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>{notes}"
    )


def _cell(cell: Cell, numeric: bool) -> str:
    value = cell.value if isinstance(cell, Figure) else cell
    number = isinstance(value, int | float) and not isinstance(value, bool)
    sort = f' data-v="{value:.12g}"' if number else ""
    text = sentence((cell,)) if isinstance(cell, Prose) else escape(clean(cell_text(cell)))
    names = ["n"] if numeric else ["s"] if len(text) < SHORT else []
    side = f' class="{names[0]}"' if names else ""
    return f"<td{side}{sort}>{text}</td>"


def sentence(pieces: Sentence) -> str:
    """A sentence; our own words may hold `code`."""
    text = escape(clean("".join(map(shown, pieces)), 2000))
    return _CODE.sub(r"<code>\1</code>", text)
