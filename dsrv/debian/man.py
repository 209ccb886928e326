#!/usr/bin/python3
"""Writes the man pages into a folder, from what --help says and from the page on machines.

  man.py BIN MACHINES.md FOLDER     BIN holds dsrv and dcli"""
import gzip
import pathlib
import re
import subprocess
import sys


def said(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def roff(text):
    """Text as roff shows it: dashes are what one types, and no line is a request by accident."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return re.sub(r"^\.", r"\\&.", text, flags=re.M)


def head(name, section, what):
    return f'.TH {name.upper()} {section} "" dfsmr "dfsmr"\n.SH NAME\n{roff(name)} \\- {roff(what)}\n'


class Help:
    """What --help printed, as (heading, lines) with an empty heading for what comes first."""

    def __init__(self, text):
        self.sections = [("", [])]
        for line in text.rstrip().splitlines():
            heading = re.fullmatch(r"([A-Z][A-Za-z ,]*?)(, before or after the command)?:(.*)", line)
            if heading:
                rest = heading[3].strip()
                self.sections.append((heading[1], [rest] if rest else []))
            else:
                self.sections[-1][1].append(line)

    def of(self, heading):
        return next((lines for name, lines in self.sections if name == heading), [])


def rows(lines):
    """Rows of two columns; a second column may go on in lines of its own, and stand below."""
    found = []
    for line in lines:
        row = re.fullmatch(r" {1,6}(\S.*?)(?: {2,}(\S.*))?", line)
        if row:
            found.append([row[1], [row[2]] if row[2] else []])
        elif line.strip() and found:
            found[-1][1].append(line.strip())
    return found


def table(lines, level=".TP"):
    return "".join(f"{level}\n.B {roff(left)}\n{roff(' '.join(right))}\n" for left, right in rows(lines))


def example(lines):
    return ".nf\n" + "".join(f"{roff(line.strip())}\n" for line in lines if line.strip()) + ".fi\n"


def dcli(program):
    top = Help(said(program, "help"))
    page = head("dcli", 1, "define machines and plans, start and watch instances, run workers")
    page += ".SH SYNOPSIS\n" + example(re.sub("^dcli ", "dcli ", l) for l in top.of("Usage"))
    page += f".SH DESCRIPTION\n{roff(' '.join(top.sections[0][1]).strip())}\n.SH COMMANDS\n"
    for name, _ in rows(top.of("Commands")):
        command = Help(said(program, name, "--help"))
        usage = command.of("Usage")[0].removeprefix("dcli ")
        page += f".SS {roff(usage)}\n{roff(' '.join(command.sections[0][1]).strip())}\n"
        page += table(command.of("Flags"))
        shown = command.of("Example") or command.of("Examples")
        page += ".PP\n" + example(shown)
    page += ".SH OPTIONS\n" + table(top.of("Global flags"))
    page += f".SH EXIT STATUS\n{roff(' '.join(top.of('Exit status')[:1]))}\n"
    return page + ".SH SEE ALSO\n.BR dsrv (8),\n.BR dfsmr\\-machines (5)\n"


def server(program):
    """The page of dsrv, and the page of its file of settings: each flag is a key."""
    top = Help(said(program, "--help"))
    options = top.of("Options") or top.of("OPTIONS")
    page = head("dsrv", 8, "the server of dfsmr, the distributed finite state machine runner")
    page += ".SH SYNOPSIS\n.B dsrv\n[OPTIONS]\n.SH DESCRIPTION\n"
    page += ("Keeps machines, plans and their instances in one folder, hands what is ready to the programs\n"
             "that ask for it, and serves them by gRPC. Under systemd it tells when it is ready and lives by\n"
             "the watchdog; SIGHUP reads certificates, tokens, keys and the log level again, SIGUSR1 logs its\n"
             "counters, SIGTERM stops it in order.\n")
    page += ".SH OPTIONS\n" + table(options)
    page += ".SH COMMANDS\n" + table(top.of("Commands"))
    page += ".SH EXIT STATUS\n0 after an orderly stop, 1 when the disk or the store fails or verify finds anything, 2 for wrong flags.\n"
    page += ".SH FILES\n.TP\n.I /etc/dfsmr/dsrv.yaml\nThe settings: dsrv.yaml(5).\n"
    page += ".TP\n.I /var/lib/dfsmr\nThe store.\n"
    page += ".SH SEE ALSO\n.BR dcli (1),\n.BR dsrv.yaml (5),\n.BR dfsmr\\-machines (5)\n"
    keys = head("dsrv.yaml", 5, "settings of the server of dfsmr")
    keys += (".SH DESCRIPTION\nA file in YAML for\n.BR \"dsrv \\-\\-config\" .\nIts keys are the flags of\n"
             ".BR dsrv (8)\nwithout their dashes, and flags on the command line win over it. A key that is not\n"
             "known is an error, told with its line and column.\n.SH KEYS\n")
    for left, right in rows(options):
        names = [n for n in re.findall(r"--([a-z-]+)", left.split(" ")[0]) if n not in ("help", "version", "config")]
        if names:
            value = re.sub(r"^\S+ ?", "", left)
            keys += f".TP\n.B {roff(names[0])}: {roff(value or 'true')}\n{roff(' '.join(right))}\n"
    keys += (".SH EXAMPLE\n.nf\ndata: /var/lib/dfsmr\naddr: localhost:3004\nretention: 30d\n.fi\n"
             ".SH SEE ALSO\n.BR dsrv (8)\n")
    return page, keys


def machines(markdown):
    page = said("lowdown", "-sTman", "-M", "title=dfsmr-machines", "-M", "section=5", "-M", "source=dfsmr", markdown)
    name = ".SH NAME\ndfsmr\\-machines \\- how machines and plans of dfsmr are written\n"
    return re.sub(r"(?m)^(\.TH .*\n)", lambda th: th[1] + name, page, count=1)


def main():
    binaries, markdown, folder = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    service, settings = server(binaries / "dsrv")
    pages = {"dcli.1": dcli(binaries / "dcli"), "dsrv.8": service, "dsrv.yaml.5": settings,
             "dfsmr-machines.5": machines(markdown)}
    for name, page in pages.items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(page.encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
