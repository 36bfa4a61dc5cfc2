// Live parts, keys, and the theme. Pages work without it; it adds what a link cannot do.
(() => {
  "use strict";
  const byId = (id) => document.getElementById(id);

  // -- live: the server sends the page's parts when they changed; only what differs is replaced ----

  const shown = new Map();
  const strip = byId("connection");
  const say = (text) => {
    if (!strip) return;
    strip.textContent = text;
    strip.hidden = !text;
    byId("live")?.classList.toggle("off", Boolean(text));
  };

  const place = (old, fresh) => {
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    const target = focused?.getAttribute("href");
    for (const box of old.querySelectorAll("details[open][data-key]")) {
      const same = fresh.querySelector(`details[data-key="${CSS.escape(box.dataset.key)}"]`);
      if (same) same.open = true;
    }
    const top = [...old.querySelectorAll(".wide, .scroll")].map((box) => [box.scrollLeft, box.scrollTop]);
    old.replaceWith(fresh);
    fresh.querySelectorAll(".wide, .scroll").forEach((box, index) => {
      if (top[index]) [box.scrollLeft, box.scrollTop] = top[index];
    });
    if (target) [...fresh.querySelectorAll("a[href]")].find((a) => a.getAttribute("href") === target)?.focus();
  };

  // A part that the reader presses on or selects in stays until that is over: a click on an element that was
  // replaced since the button went down would be lost. The newest message is shown then.
  let pressed = null, newest = null;
  const isHeld = (part) => {
    if (pressed && part.contains(pressed)) return true;
    const selection = getSelection();
    return Boolean(selection) && !selection.isCollapsed && part.contains(selection.anchorNode);
  };

  const take = (message) => {
    const fresh = new DOMParser().parseFromString(message.html, "text/html");
    if (message.status !== 200) {
      say(fresh.querySelector(".strip")?.textContent ?? "The cluster does not answer.");
      return;
    }
    say("");
    newest = null;
    for (const part of fresh.querySelectorAll("[data-part]")) {
      const name = part.dataset.part;
      const old = document.querySelector(`[data-part="${CSS.escape(name)}"]`);
      if (!old || shown.get(name) === part.outerHTML) continue;
      if (isHeld(old)) { newest = message; continue; }
      shown.set(name, part.outerHTML);
      place(old, document.importNode(part, true));
    }
    document.dispatchEvent(new Event("parts"));
  };

  const takeNewest = () => { if (newest) take(newest); };
  const release = () => { pressed = null; setTimeout(takeNewest); };
  addEventListener("pointerdown", (event) => { pressed = event.target; });
  for (const end of ["pointerup", "pointercancel", "dragend"]) addEventListener(end, release);
  document.addEventListener("selectionchange", takeNewest);

  let source = null, isOver = false;
  const unfollow = () => { source?.close(); source = null; };
  const follow = () => {
    if (source || isOver || document.hidden) return;
    const opened = source = new EventSource(`/live${location.pathname}${location.search}`);
    opened.onmessage = (message) => take(JSON.parse(message.data));
    opened.addEventListener("over", () => { isOver = true; unfollow(); say("Your session is over: reload the page."); });
    opened.onerror = () => {
      const hasEnded = opened.readyState === EventSource.CLOSED;
      if (hasEnded && source === opened) source = null;
      say(hasEnded ? "Live updates have ended: reload the page." : "The console does not answer; trying again.");
    };
  };
  if (document.body.hasAttribute("data-live")) {
    follow();
    document.addEventListener("visibilitychange", () => (document.hidden ? unfollow() : follow()));
    addEventListener("pagehide", unfollow);
    addEventListener("pageshow", follow);
  }

  // -- keys ---------------------------------------------------------------------------------------

  const isTyping = (at) => at.closest("input:not([type=checkbox]), textarea, select, [contenteditable]");
  let before = "";

  const step = (by) => {
    const links = [...document.querySelectorAll("main tbody a[href], main .timeline a[href]")];
    if (!links.length) return;
    const now = links.indexOf(document.activeElement);
    links[Math.min(Math.max(now + by, 0), links.length - 1)].focus();
  };

  const keys = {
    "/": () => { const box = document.querySelector("[data-filter]"); box?.focus(); box?.select(); },
    "?": () => byId("help")?.showModal(),
    d: () => turnTheme(),
    j: () => step(1),
    k: () => step(-1),
  };

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && isTyping(event.target)) { event.target.blur(); return; }
    if (isTyping(event.target) || byId("help")?.open) return;
    const last = before;
    before = event.key === "g" && last !== "g" ? "g" : "";
    if (last === "g") {
      if (event.key === "g") scrollTo({ top: 0 });
      else document.querySelector(`[data-go="${CSS.escape(event.key)}"]`)?.click();
      event.preventDefault();
    } else if (Object.hasOwn(keys, event.key)) {
      keys[event.key]();
      event.preventDefault();
    }
  });

  // -- buttons ------------------------------------------------------------------------------------

  const turnTheme = () => {
    const root = document.documentElement;
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* storage may be forbidden */ }
  };
  byId("theme")?.addEventListener("click", turnTheme);
  byId("help-button")?.addEventListener("click", () => byId("help").showModal());

  addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
      button.textContent = "copied";
    } catch {
      button.textContent = "select and copy it";
    }
  });
})();
