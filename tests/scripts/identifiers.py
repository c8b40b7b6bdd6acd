#!/usr/bin/env python3
"""identifiers.py SOURCE COMMAND [--write]: names that users, files and other programs know and that no rename may touch.

The keys of systole train, ops with their attributes, and every string literal of the sources without a space: environment
variables, metadata keys, claims, columns, tags, names of states and callbacks, prefixes of the cache. Names may join;
one that is gone from the list beside this file is an error. When that is meant, --write writes the list again.
"""
import json, os, re, subprocess, sys

SOURCE, COMMAND = sys.argv[1:3]
LIST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "identifiers.txt")
# A comment, a raw string, a string or a character.
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|R"(?P<fence>[^(\s]*)\((?P<raw>.*?)\)(?P=fence)"|"(?P<text>(?:[^"\\\n]|\\.)*)"|\'(?:[^\'\\\n]|\\.)+\'',
                   re.S)
NAME = re.compile(r"[A-Za-z_%][\w.:/%@{}*-]+")
# A list of names, some of which a macro turns into strings: #define LIST(X) X(name) …
NAMES = re.compile(r"^[ \t]*#define \w+\((\w+)\)((?:.*\\\n)*.*)", re.M)


def said(*arguments):
    environment = dict(os.environ, SYSTOLE_LOG="off")
    return subprocess.run([COMMAND, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
                          env=environment).stdout


def keys():
    section = ""
    for line in said("train", "--keys").splitlines():
        if found := re.fullmatch(r"\[(.+)\]", line):
            section = found[1]
        elif found := re.match(r"  (\w+) ", line):
            yield f"key {section}.{found[1]}"


def ops():
    for op in json.loads(said("ops", "--json")):
        yield f"op {op['name']}"
        for attribute in op["attributes"]:
            yield f"attribute {op['name']}.{attribute['name']}"


def literals():
    for root in ("include", "src"):
        for folder, _, files in os.walk(os.path.join(SOURCE, root)):
            for name in files:
                if not name.endswith((".cpp", ".h", ".def")):
                    continue
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    whole = file.read()
                    for parameter, body in NAMES.findall(whole):
                        for listed in re.findall(rf"\b{parameter}\((?:[\w.]+, )?(\w+)", body):
                            yield f"listed {listed}"
                    text = re.sub(r"^\s*#\s*include[^\n]*", "", whole, flags=re.M)
                for token in TOKEN.finditer(text):
                    if token["text"] is not None and NAME.fullmatch(token["text"]):
                        yield f"literal {token['text']}"
                    for word in re.findall(r"\bS_[A-Z][A-Z0-9_]*|\bSYSTOLE_[A-Z0-9_]+", token["raw"] or token["text"] or ""):
                        yield f"literal {word}"


def main():
    now = sorted({*keys(), *ops(), *literals()})
    if "--write" in sys.argv:
        with open(LIST, "w") as file:
            file.writelines(line + "\n" for line in now)
        return 0
    with open(LIST) as file:
        known = file.read().splitlines()
    gone = sorted(set(known) - set(now))
    for line in gone:
        print(f"gone: {line}")
    if gone:
        print(f"{len(gone)} names are gone that files or other programs may know. Keep them, or say in CHANGELOG.md what a "
              f"user must change and run {sys.argv[0]} {SOURCE} {COMMAND} --write")
    return 1 if gone else 0


if __name__ == "__main__":
    sys.exit(main())
