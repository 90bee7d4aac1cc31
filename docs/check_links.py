"""Checks that every relative link in the pages names a file, and every fragment a heading.

usage: check_links.py
Links to other sites are not followed.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)|^\[[^\]]+\]:\s*(\S+)", re.M)
FENCE = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)


def prose(path):
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    return re.sub(r"`[^`\n]*`", lambda code: "" if "](" in code[0] else code[0], text)


def anchors(path):
    """The names that GitHub gives to a page's headings."""
    found = set()
    for heading in re.findall(r"^#{1,6}\s+(.+?)\s*#*$", prose(path), re.M):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        unique, n = name, 0
        while unique in found:
            n += 1
            unique = f"{name}-{n}"
        found.add(unique)
    return found


def main():
    pages = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md"), *ROOT.glob("tests/**/*.md")})
    wrong = []
    for page in pages:
        for match in LINK.finditer(prose(page)):
            link = match[1] or match[2]
            if re.match(r"[a-z][a-z0-9+.-]*:", link, re.I):
                continue
            name, _, fragment = link.partition("#")
            target = (page.parent / name).resolve() if name else page
            if not target.exists():
                wrong.append(f"{page.relative_to(ROOT)}: {link}: no such file")
            elif fragment and target.suffix == ".md" and fragment not in anchors(target):
                wrong.append(f"{page.relative_to(ROOT)}: {link}: no such heading")
    for line in wrong:
        print(line)
    print(f"{len(pages)} pages, {len(wrong)} broken links")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
