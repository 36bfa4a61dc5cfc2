"""The script of the pages, run by Node.js with a document that has no more than live pages need; without Node
the test skips with a sentence."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import barnabas.console

SCRIPT = Path(barnabas.console.__file__).parent / "static" / "console.js"
DOCUMENT = """
const heard = {}, sources = [];
const hear = (name, action) => { (heard[name] ??= []).push(action); };
const happen = (name) => { for (const action of heard[name] ?? []) action({}); };
globalThis.addEventListener = hear;
globalThis.location = { pathname: "/events", search: "?kind=isr" };
globalThis.document = {
  hidden: false, body: { hasAttribute: () => true }, addEventListener: hear, getElementById: () => null,
};
globalThis.EventSource = class {
  static CLOSED = 2;
  constructor(address) { this.address = address; this.readyState = 1; this.heard = {}; sources.push(this); }
  addEventListener(name, action) { this.heard[name] = action; }
  close() { this.readyState = 2; }
};
const turn = (hidden) => { document.hidden = hidden; happen("visibilitychange"); };
const open = () => sources.filter((source) => source.readyState !== 2).length;
const seen = [];
const note = () => seen.push([sources.length, open()]);
"""
STEPS = """
note();
turn(true); note();
turn(true); note();
turn(false); note();
happen("pageshow"); note();
happen("pagehide"); note();
happen("pageshow"); note();
sources.at(-1).readyState = 2; sources.at(-1).onerror(); turn(true); turn(false); note();
sources.at(-1).heard.over(); turn(true); turn(false); note();
console.log(JSON.stringify({ seen, address: sources[0].address }));
"""


@pytest.mark.slow
def test_a_page_is_followed_while_it_is_visible_and_its_session_lasts(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node.js is not installed")
    program = tmp_path / "steps.js"
    program.write_text(DOCUMENT + SCRIPT.read_text(encoding="utf-8") + STEPS, encoding="utf-8")
    done = subprocess.run([node, program], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["address"] == "/live/events?kind=isr"
    # Event sources that were opened, and how many are open: at first, hidden twice, visible, shown again,
    # left, come back, ended by the server and looked at again, and at the session's end.
    assert found["seen"] == [
        [1, 1], [1, 0], [1, 0], [2, 1], [2, 1], [2, 0], [3, 1], [4, 1], [4, 0],
    ]  # fmt: skip
