"""From the bytes of one file to documents: plain text, Markdown, HTML, JSON, JSON lines, PDF.

Text is UTF-8 (a byte order mark is dropped) or UTF-16 with a byte order mark; HTML may also declare its encoding.
Line ends become "\\n" and blank lines around the text of a file are dropped; texts inside JSON are kept letter for
letter. Not covered: pictures and scanned pages, tables as tables, office formats, compressed files.
"""

from __future__ import annotations

import codecs
import io
import json
import logging
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pypdf
from bs4.dammit import EncodingDetector
from pypdf.errors import DependencyError

from fewer.errors import DocumentError
from fewer.prompt.html import read_html
from fewer.types import Document

__all__ = ["SUFFIXES", "parse_file"]

TEXT_KEYS = ("text", "contents", "content")


def parse_file(name: str, suffix: str, data: bytes) -> list[Document]:
    """The documents in `data`; a suffix outside `SUFFIXES` is read as plain text.

    Only JSON and JSON lines can hold several. Raises DocumentError, naming the file, the fault and the way out, for
    an empty file, bytes that are no text, and content that does not follow its format.
    """
    if not data.strip():
        raise DocumentError(f"{name} is empty. Leave it out, or put text into it.")
    return SUFFIXES.get(suffix.lower(), _parse_text)(name, data)


def _decode(name: str, data: bytes, declared: str | None = None) -> str:
    """The bytes as text with "\\n" line ends: as their byte order mark says, then as declared, then as UTF-8."""
    encoding = declared or "UTF-8"
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "UTF-16"
    elif data.startswith(codecs.BOM_UTF8):
        encoding, data = "UTF-8", data.removeprefix(codecs.BOM_UTF8)
    binary = f"{name} is a binary file (it holds NUL bytes). Convert it to text, or leave it out."
    try:
        text = data.decode(encoding)
    except (LookupError, UnicodeError) as error:
        if b"\0" in data:
            raise DocumentError(binary) from None
        raise DocumentError(
            f"{name} is not {encoding} text ({getattr(error, 'reason', 'unknown encoding')}). Convert it, for example "
            "`iconv -f LATIN1 -t UTF-8`, or leave it out if it is not text at all."
        ) from None
    if "\0" in text:
        raise DocumentError(binary)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _document(name: str, text: str, title: str = "") -> Document:
    """A document without the blank lines around its text; no text at all is an error."""
    text = re.sub(r"\A(?:[^\S\n]*\n)+", "", text).rstrip()
    if not text.strip():
        raise DocumentError(f"{name} holds no text. Leave it out, or put text into it.")
    return Document(text, " ".join(title.split()), name)


def _parse_text(name: str, data: bytes) -> list[Document]:
    return [_document(name, _decode(name, data))]


def _parse_markdown(name: str, data: bytes) -> list[Document]:
    """Markdown as written; a leading `# heading` becomes the title."""
    text = _decode(name, data)
    heading = re.match(r"\s*#[^\S\n]+([^\n]+)", text)
    if heading and text[heading.end() :].strip():
        return [_document(name, text[heading.end() :], heading[1].rstrip().rstrip("#"))]
    return [_document(name, text)]


def _parse_html(name: str, data: bytes) -> list[Document]:
    title, text = read_html(_decode(name, data, EncodingDetector.find_declared_encoding(data, is_html=True)))
    return [_document(name, text, title)]


def _parse_json(name: str, data: bytes) -> list[Document]:
    """A string, an object with a text, or a list of them."""
    value = _load_json(name, _decode(name, data))
    if not isinstance(value, list):
        return [_row(name, name, value)]
    if not value:
        raise DocumentError(f"{name} holds an empty list. Leave it out, or put documents into it.")
    return [_row(name, f"{name}, item {number}", row) for number, row in enumerate(value, 1)]


def _parse_json_lines(name: str, data: bytes) -> list[Document]:
    """A document for each line, in the same forms as in JSON; blank lines are passed over."""
    lines = _decode(name, data).split("\n")
    return [
        _row(name, f"{name}, line {number}", _load_json(name, line, number))
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]


def _load_json(name: str, text: str, first_line: int = 1) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        line = first_line + (error.lineno - 1 if isinstance(error, json.JSONDecodeError) else 0)
        fault = getattr(error, "msg", None) or error
        raise DocumentError(
            f"{name}, line {line}: not valid JSON ({fault}). Correct it, or rename the file to .txt to read it as text."
        ) from None


def _row(name: str, place: str, row: object) -> Document:
    """One JSON value as a document; fields other than the title and the text are metadata and are not read."""
    fields = {"text": row} if isinstance(row, str) else row
    way_out = f"Write a string, or an object with a text under one of {', '.join(TEXT_KEYS)} and, if wanted, a title."
    if not isinstance(fields, dict):
        raise DocumentError(f"{place} is {_kind(row)}, not a document. {way_out}")
    keys = [key for key in TEXT_KEYS if key in fields]
    if len(keys) != 1:
        raise DocumentError(f"{place} has {' and '.join(keys) or 'no text'}; it needs exactly one text. {way_out}")
    text, title = fields[keys[0]], fields.get("title") or ""
    if not isinstance(text, str) or not isinstance(title, str):
        key, value = (keys[0], text) if not isinstance(text, str) else ("title", title)
        raise DocumentError(f"{place}: {key} is {_kind(value)}, not a string. {way_out}")
    if not text.strip():
        raise DocumentError(f"{place}: {keys[0]} is empty. Leave it out, or put text into it.")
    return Document(text, " ".join(title.split()), name)


def _kind(value: object) -> str:
    """What JSON calls the type of this value."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _parse_pdf(name: str, data: bytes) -> list[Document]:
    """The text of all pages with a blank line between pages; the title is the one in the PDF's own metadata."""
    try:
        with _quiet_pypdf():
            reader = pypdf.PdfReader(io.BytesIO(data))
            if reader.is_encrypted and not reader.decrypt(""):
                raise DocumentError(f"{name} is encrypted. Remove the password first: `qpdf --decrypt IN OUT`.")
            pages = [page.extract_text() for page in reader.pages]
            title = (reader.metadata.title if reader.metadata else None) or ""
    except DocumentError:
        raise
    except DependencyError:
        raise DocumentError(
            f"{name} is encrypted with a method that needs another package. `pip install cryptography`, or remove the "
            "encryption first: `qpdf --decrypt IN OUT`."
        ) from None
    except Exception as error:  # a broken PDF can fail anywhere inside pypdf
        raise DocumentError(
            f"{name} is a broken PDF ({type(error).__name__}: {error}). Repair it (`qpdf IN OUT`), or convert it to "
            "text (`pdftotext IN OUT`)."
        ) from None
    text = "\n\n".join(page.strip("\n") for page in pages if page.strip()).replace("\0", "")
    if not text.strip():
        raise DocumentError(
            f"{name} is a PDF without text in its {len(pages)} pages, probably a scan. Run text recognition on it "
            "first (`ocrmypdf IN OUT`)."
        )
    return [_document(name, _join_surrogates(text), _join_surrogates(str(title)))]


def _join_surrogates(text: str) -> str:
    """PDF fonts may map one character to two halves; halves without a partner become U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


@contextmanager
def _quiet_pypdf() -> Iterator[None]:
    """Keep what pypdf says about small repairs away from standard error."""
    logger = logging.getLogger("pypdf")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


SUFFIXES: dict[str, Callable[[str, bytes], list[Document]]] = {
    ".txt": _parse_text,
    ".md": _parse_markdown,
    ".html": _parse_html,
    ".htm": _parse_html,
    ".json": _parse_json,
    ".jsonl": _parse_json_lines,
    ".pdf": _parse_pdf,
}
