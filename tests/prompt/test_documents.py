"""Documents from files, folders, standard input and Python values, and everything that can be wrong with them."""

from __future__ import annotations

import io
import json
import os
import sys
import threading
from pathlib import Path

import pypdf
import pytest

from fewer.errors import BadInput, DocumentError
from fewer.prompt import as_documents, read_paths
from fewer.types import Document

UTF8_BOM = b"\xef\xbb\xbf"


def make_pdf(*pages: str, title: str = "", password: str | None = None) -> bytes:
    """A PDF with one line of text on each page."""
    writer = pypdf.PdfWriter()
    font = pypdf.generic.DictionaryObject()
    for key, value in (("/Type", "/Font"), ("/Subtype", "/Type1"), ("/BaseFont", "/Helvetica")):
        font[pypdf.generic.NameObject(key)] = pypdf.generic.NameObject(value)
    for text in pages:
        page = writer.add_blank_page(300, 300)
        content = pypdf.generic.StreamObject()
        content.set_data(f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode("latin-1"))
        fonts = pypdf.generic.DictionaryObject({pypdf.generic.NameObject("/F1"): font})
        page[pypdf.generic.NameObject("/Resources")] = pypdf.generic.DictionaryObject(
            {pypdf.generic.NameObject("/Font"): fonts}
        )
        page[pypdf.generic.NameObject("/Contents")] = writer._add_object(content)
    if title:
        writer.add_metadata({"/Title": title})
    if password is not None:
        writer.encrypt(user_password=password, owner_password="owner", algorithm="RC4-128")
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


def read_one(folder: Path, name: str, data: bytes | str) -> list[tuple[str, str]]:
    """Title and text of the documents in one file; the source is always its path."""
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    reading = read_paths([path])
    assert reading.skipped == ()
    assert {document.source for document in reading.documents} == {str(path)}
    return [(document.title, document.text) for document in reading.documents]


PAGE = """<!doctype html><html><head><title>My  <b>page</b></title><style>p {color: red}</style></head><body><!-- no -->
<h1>Head</h1><p>One <b>bold</b>
  word, <a href=x>link</a>.<p>Two<br>lines</p><ul><li>a</li><li>b</li></ul><script>bad()</script>
<table><tr><th>1</th><td>2</td></tr><tr><td>3</td><td>4</td></tr></table><pre>x
  y</pre>tail &amp; &eacute;</body></html>"""
PAGE_TEXT = "Head\n\nOne bold word, link.\n\nTwo\nlines\n\na\nb\n\n1 2\n3 4\n\nx\n  y\n\ntail & é"


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("a.txt", "One.\n\nTwo.\n", [("", "One.\n\nTwo.")]),
        ("a.TXT", "\n \n  One.\r\nTwo.\rThree. \n\n", [("", "  One.\nTwo.\nThree.")]),
        ("bom.txt", UTF8_BOM + "é".encode(), [("", "é")]),
        ("le.txt", "\ufeffé灯".encode("utf-16-le"), [("", "é灯")]),
        ("be.txt", "\ufeffé灯".encode("utf-16-be"), [("", "é灯")]),
        ("noend", "plain", [("", "plain")]),
        ("a.py", "# x\ny = 1", [("", "# x\ny = 1")]),
        ("a.md", "# The *lamp* #\n\nIt shines.\n\n## More\n", [("The *lamp*", "It shines.\n\n## More")]),
        ("b.md", "## Not a title\n\nText", [("", "## Not a title\n\nText")]),
        ("c.md", "# Only a heading\n", [("", "# Only a heading")]),
        ("d.md", "#hashtag\ntext", [("", "#hashtag\ntext")]),
        ("a.html", PAGE, [("My page", PAGE_TEXT)]),
        ("b.htm", "just words", [("", "just words")]),
        ("c.html", '<meta charset="iso-8859-1"><p>caf\xe9'.encode("latin-1"), [("", "café")]),
        ("d.html", "/etc/passwd", [("", "/etc/passwd")]),
        ("e.html", "<?xml version='1.0'?><html xmlns='x'><body>x &#0; y</body></html>", [("", "x \ufffd y")]),
        ("f.html", "<p>deep" * 2000, [("", "\n\n".join(["deep"] * 2000))]),
        ("a.json", '"one"', [("", "one")]),
        ("b.json", '{"title": "T\\n U", "text": " x\\n", "id": 7}', [("T U", " x\n")]),
        ("c.json", '["1", {"contents": "2"}, {"content": "3", "title": null}]', [("", text) for text in "123"]),
        ("d.jsonl", '{"text": "a\u2028"}\n\n"c"\r\n{"title":"T","text":"d"}', [("", "a\u2028"), ("", "c"), ("T", "d")]),
        ("a.pdf", make_pdf("Hello pdf", title="My title"), [("My title", "Hello pdf")]),
        ("b.pdf", make_pdf("One", "", "Two"), [("", "One\n\nTwo")]),
        ("c.pdf", make_pdf("Locked for editing only", password=""), [("", "Locked for editing only")]),
    ],
)  # fmt: skip
def test_formats(tmp_path: Path, name: str, data: bytes | str, expected: list[tuple[str, str]]) -> None:
    assert read_one(tmp_path, name, data) == expected


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.txt", b"", "a.txt is empty"),
        ("a.txt", " \n\t", "a.txt is empty"),
        ("a.txt", UTF8_BOM, "a.txt holds no text"),
        ("a.txt", b"caf\xe9", "a.txt is not UTF-8 text .*iconv"),
        ("a.bin", b"\x89PNG\x00\x00\xff", "a.bin is a binary file"),
        ("a.bin", b"abc\x00def", "a.bin is a binary file"),
        ("a.bin", b"\xff\xfea\x00\x00\x00b\x00", "a.bin is a binary file"),
        ("a.txt", b"\xff\xfea\x00b", "a.txt is a binary file"),
        ("a.html", b'<meta charset="utf-8">' + b"\xe9", "a.html is not utf-8 text"),
        ("a.html", '<meta charset="klingon">', "a.html is not klingon text .unknown encoding"),
        ("a.html", "<script>x</script>", "a.html holds no text"),
        ("a.json", '{"text": "x",\n "title" 3}', "a.json, line 2: not valid JSON .Expecting ':' delimiter"),
        ("a.json", "[" * 100_000, "a.json, line 1: not valid JSON"),
        ("a.json", "9" * 5000, "a.json, line 1: not valid JSON"),
        ("a.json", "[]", "a.json holds an empty list"),
        ("a.json", "3", "a.json is a number, not a document"),
        ("a.json", '[{"text": "x"}, true]', "a.json, item 2 is true or false"),
        ("a.json", "{}", "a.json has no text"),
        ("a.json", '{"text": "x", "content": "y"}', "a.json has text and content; it needs exactly one"),
        ("a.json", '{"text": ["x"]}', "a.json: text is a list, not a string"),
        ("a.json", '{"text": "x", "title": 3}', "a.json: title is a number"),
        ("a.json", '{"text": " "}', "a.json: text is empty"),
        ("a.json", '{"text": "\\ud800x"}', "Document 1 .*a.json. is not valid Unicode: character 0 is half"),
        ("a.jsonl", '{"text": "x"}\n{"text": }\n', "a.jsonl, line 2: not valid JSON .Expecting value"),
        ("a.jsonl", '"x"\n\n[1]', "a.jsonl, line 3 is a list, not a document"),
        ("a.jsonl", '"x"\n{"title": "t"}', "a.jsonl, line 2 has no text"),
        ("a.pdf", b"%PDF-1.4 nothing", "a.pdf is a broken PDF"),
        ("a.pdf", "not a pdf at all", "a.pdf is a broken PDF"),
        ("a.pdf", make_pdf("Hello")[:200], "a.pdf is a broken PDF"),
        ("a.pdf", make_pdf("Hello", password="secret"), "a.pdf is encrypted. Remove the password"),
        ("a.pdf", make_pdf("", ""), "a.pdf is a PDF without text in its 2 pages, probably a scan.*ocrmypdf"),
    ],
)
def test_files_that_cannot_be_read(
    tmp_path: Path, name: str, data: bytes | str, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(DocumentError, match=message) as caught:
        read_one(tmp_path, name, data)
    assert str(tmp_path / name) in str(caught.value)
    assert str(caught.value).count(". ") >= 1, "the way out"
    assert capfd.readouterr() == ("", "")


def test_pdf_encrypted_with_a_method_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise pypdf.errors.DependencyError

    monkeypatch.setattr(pypdf, "PdfReader", refuse)
    with pytest.raises(DocumentError, match="pip install cryptography"):
        read_one(tmp_path, "a.pdf", make_pdf("x"))


def test_pdf_text_with_halves_of_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pypdf.PageObject, "extract_text", lambda _: "a\ud83d\ude00b\ud83d c\0")
    assert read_one(tmp_path, "a.pdf", make_pdf("x")) == [("", "a😀b\ufffd c")]


def test_folder(tmp_path: Path) -> None:
    for name in [
        "b/2.md",
        "b/10.txt",
        "a.txt",
        "c.JSONL",
        ".hidden.txt",
        ".git/x.txt",
        "b/notes.rst",
        "b/.x/y.txt",
        "z",
    ]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'"{name}"')
    (tmp_path / "loop").symlink_to(tmp_path)
    reading = read_paths([str(tmp_path), tmp_path / "a.txt"])
    names = ["a.txt", "b/10.txt", "b/2.md", "c.JSONL", "a.txt"]
    assert [document.source for document in reading.documents] == [str(tmp_path / name) for name in names]
    assert reading.documents[3].text == "c.JSONL"
    assert reading.skipped == (tmp_path / "b/notes.rst", tmp_path / "loop", tmp_path / "z")


def test_folder_without_text(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"holds no file to read \(0 of another kind\)"):
        read_paths([tmp_path])
    (tmp_path / "x.png").write_bytes(b"x")
    with pytest.raises(DocumentError, match=r"\(1 of another kind\).*\.txt, \.md"):
        read_paths([tmp_path])
    (tmp_path / "empty.txt").touch()
    with pytest.raises(DocumentError, match=r"empty.txt is empty"):
        read_paths([tmp_path])


def test_folder_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(DocumentError, match=r"cannot be read .Permission denied"):
        read_paths([tmp_path])


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError(13, "Permission denied"), "permission denied.*chmod"),
        (OSError(5, "Input/output error"), "Input/output error"),
    ],
)
def test_file_that_cannot_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, message: str
) -> None:
    def refuse(_: Path) -> bytes:
        raise error

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(DocumentError, match=message):
        read_one(tmp_path, "a.txt", "x")


def test_missing_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DocumentError, match=rf"^no.txt does not exist. .*{tmp_path}"):
        read_paths(["no.txt"])
    with pytest.raises(DocumentError, match="cannot be read"):
        read_paths(["a\0b"])
    with pytest.raises(DocumentError, match="neither a file nor a folder"):
        read_paths([os.devnull])
    with pytest.raises(BadInput, match=r"paths is 'no.txt'; it must be a list"):
        read_paths("no.txt")
    assert read_paths([]).documents == ()


def test_name_that_is_not_text(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/caf\xe9.txt"
    with open(path, "w") as file:
        file.write("x")
    (document,) = read_paths([os.fsdecode(path)]).documents
    assert document.source == f"{tmp_path}/caf\ufffd.txt"


def test_named_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("through a pipe",))
    writer.start()
    (document,) = read_paths([pipe]).documents
    writer.join()
    assert document.text == "through a pipe"


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_paths(["-"], io.StringIO("é\n")).documents == (Document("é", source="standard input"),)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(UTF8_BOM + b"x"), encoding="ascii"))
    assert read_paths(["-"]).documents == (Document("x", source="standard input"),)
    for data, message in ((b"", "is empty"), (b"\x00", "binary"), (b"\xe9", "not UTF-8")):
        with pytest.raises(DocumentError, match=f"standard input .*{message}"):
            read_paths(["-"], io.TextIOWrapper(io.BytesIO(data)))


def test_values() -> None:
    given = Document(" kept\n as it is ", "T", "s")
    found = as_documents(["text", {"text": "x"}, {"title": "T", "text": "y"}, given])
    assert found == (Document("text"), Document("x"), Document("y", "T"), given)
    assert as_documents(()) == ()
    assert as_documents([json.loads('"\\ud83d\\ude00"')])[0].text == "😀"


@pytest.mark.parametrize(
    ("items", "error", "message"),
    [
        ("text", BadInput, "documents is 'str'; it must be a list"),
        ({"text": "x"}, BadInput, "documents is 'dict'"),
        (Document("x"), BadInput, "documents is 'Document'"),
        (iter(["x"]), BadInput, "it must be a list"),
        (None, BadInput, "documents is 'NoneType'"),
        (["x", 3], BadInput, r"documents\[1\] is 'int'"),
        ([{"title": "T"}], BadInput, r"documents\[0\] is \['title'\]; it must be a mapping with the keys text"),
        ([{"text": "x", "url": "y"}], BadInput, r"documents\[0\] is \['text', 'url'\]"),
        ([{"text": None}], BadInput, r"documents\[0\].text is 'NoneType'; it must be a string"),
        ([Document("x", None)], BadInput, r"documents\[0\].title is 'NoneType'"),
        (["x", ""], DocumentError, "Document 2 is empty"),
        ([{"title": "T", "text": " "}], DocumentError, r"Document 1 \(T\) is empty"),
        (["\udcff"], DocumentError, "Document 1 is not valid Unicode: character 0"),
        ([{"text": "x", "title": "\udcff"}], DocumentError, r"Document 1 \(\?\) is not valid Unicode"),
    ],
)
def test_values_that_are_no_documents(items: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        as_documents(items)
