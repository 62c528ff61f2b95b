"""The visible text of an HTML page.

Blocks begin on a line of their own, paragraphs, headings, lists and tables are set off by a blank line, and spaces
count only inside `<pre>`. Not covered: what style sheets and scripts hide or show, links, and pictures.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator

from bs4 import BeautifulSoup
from bs4.element import PreformattedString, Tag

__all__ = ["read_html"]

INVISIBLE = ["iframe", "noscript", "script", "style", "svg", "template", "title"]
LINE, PARAGRAPH = "\0-", "\0="  # breaks while the page is taken apart; a text holds no NUL
BREAKS = {
    **dict.fromkeys(["address", "article", "aside", "br", "dd", "div", "dt", "figcaption", "figure", "footer"], LINE),
    **dict.fromkeys(["form", "header", "hr", "li", "main", "nav", "section", "tr"], LINE),
    **dict.fromkeys(["blockquote", "dl", "h1", "h2", "h3", "h4", "h5", "h6"], PARAGRAPH),
    **dict.fromkeys(["ol", "p", "pre", "table", "ul"], PARAGRAPH),
}
AFTER_TAG = {**BREAKS, "td": " ", "th": " "}


def read_html(markup: str) -> tuple[str, str]:
    """Title and text of a page without NUL characters; both may be empty."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # bs4 guesses at short texts that look like paths, and at XHTML
        soup = BeautifulSoup(markup, "html.parser")
    title = soup.title.get_text() if soup.title else ""
    for tag in soup.find_all(INVISIBLE):
        tag.decompose()
    return " ".join(title.split()), _join("".join(_walk(soup)))


def _join(marked: str) -> str:
    """The text with every run of breaks, and the spaces around it, replaced by the strongest of them."""
    parts, gap = [], ""
    strings = re.split("\0([-=])", f"{LINE}{marked}")[1:]
    for mark, text in zip(strings[::2], strings[1::2], strict=True):
        gap = "\n\n" if mark == "=" or len(gap) > 1 else "\n"
        if text.strip():
            parts.append(gap + text.strip())
            gap = ""
    return "".join(parts).strip()


def _walk(soup: BeautifulSoup) -> Iterator[str]:
    """The strings in order with a break where a block begins and where it ends; one pass, however deep the tags."""
    as_written = {id(string) for pre in soup.find_all("pre") for string in pre.find_all(string=True)}
    path: list[Tag] = [soup]
    for element in soup.descendants:
        while element.parent is not path[-1]:
            yield AFTER_TAG.get(path.pop().name, "")
        if isinstance(element, Tag):
            yield BREAKS.get(element.name, "")
            path.append(element)
        elif not isinstance(element, PreformattedString):  # comments, declarations
            yield str(element) if id(element) in as_written else re.sub(r"\s+", " ", str(element))
