"""Daemons that write lines to topics: rsyslog and syslog-ng, unpacked from Debian's packages."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.interop.programs.harness import Program, Work
from tools import other_programs

RSYSLOG = """
global(workDirectory="{folder}")
module(load="imfile" mode="inotify")
module(load="omkafka")
template(name="line" type="string" string="%msg%")
input(type="imfile" File="{lines_in}" Tag="numbers" readTimeout="0")
action(type="omkafka" template="line" topic="{target}" broker=[{servers}]
       confParam=["acks=all", "enable.idempotence=true"]
       resubmitOnFailure="on" keepFailedMessages="on" failedMsgFile="{folder}/failed"
       action.resumeRetryCount="-1")
"""
SYSLOG_NG = """
@version: 3.38
source numbers {{ file("{lines_in}" flags(no-parse) follow-freq(0.1)); }};
destination topic {{
  kafka-c(bootstrap-servers("{bootstrap}") topic("{target}") message("$MSG") sync-send(no)
    config(acks("all") enable.idempotence("true")));
}};
log {{ source(numbers); destination(topic); }};
"""
TRIED = "the lines of a file go to a topic"


def _program(name: str, folder: str, daemon: str, text: str, *options: str) -> Program:
    root = other_programs.FOLDER / folder / "root"
    libraries = root / "usr/lib/x86_64-linux-gnu"
    path = f"{root / 'usr/lib/syslog-ng'}:{libraries}:{root / 'lib/x86_64-linux-gnu'}"
    inside = ["env", f"LD_LIBRARY_PATH={path}", str(root / daemon)]

    def command(work: Work) -> list[str]:
        file = work.folder / "daemon.conf"
        file.write_text(filled(text, work))
        words = [option.format(root=root, folder=work.folder, file=file) for option in options]
        return [*inside, *words]

    def version() -> str:
        return other_programs.debian_version(folder)

    def missing() -> str | None:
        if not Path(root / daemon).exists():
            return f"{name} is not in peers: run `make peers`"
        libraries_said = subprocess.run(
            [*inside[:2], "ldd", str(root / daemon)], capture_output=True, text=True, check=False
        ).stdout
        return f"{name} lacks a library" if "not found" in libraries_said else None

    return Program(name, TRIED, command, version, missing, takes_lines=True)


def filled(text: str, work: Work) -> str:
    servers = ",".join(f'"{server}"' for server in work.bootstrap.split(","))
    return text.format(
        folder=work.folder,
        lines_in=work.lines_in,
        target=work.target,
        servers=servers,
        bootstrap=work.bootstrap,
    )


def rsyslog() -> Program:
    return _program(
        "rsyslog",
        "rsyslog",
        "usr/sbin/rsyslogd",
        RSYSLOG,
        *(
            "-n",
            "-f",
            "{file}",
            "-i",
            "{folder}/pid",
            "-M",
            "{root}/usr/lib/x86_64-linux-gnu/rsyslog",
        ),
    )


def syslog_ng() -> Program:
    return _program(
        "syslog-ng",
        "syslog-ng",
        "usr/sbin/syslog-ng",
        SYSLOG_NG,
        *("--foreground", "--no-caps", "--cfgfile={file}", "--persist-file={folder}/persist"),
        *("--pidfile={folder}/pid", "--control={folder}/control"),
        "--module-path={root}/usr/lib/syslog-ng/3.38",
    )
