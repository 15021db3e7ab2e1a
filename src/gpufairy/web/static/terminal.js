// The page's terminal: what is typed goes to the session, what the session shows comes back. See api/terminal.py.
"use strict";
(() => {
  const place = document.getElementById("terminal"), said = document.getElementById("terminal-said");
  const words = (name) => place.dataset[`words${name}`];
  const FIRST_MS = 500, LONGEST_MS = 5000; // between two tries to come back
  const terminal = new Terminal({ cursorBlink: true, fontFamily: "ui-monospace, monospace", fontSize: 14, scrollback: 5000 });
  const fit = new FitAddon.FitAddon();
  const letters = new TextEncoder();
  let socket = null, pause = FIRST_MS, before = false, exit = null;

  terminal.loadAddon(fit);
  terminal.open(place);
  fit.fit();

  const send = (data) => socket && socket.readyState === WebSocket.OPEN && socket.send(data);
  const say = (text) => { said.textContent = text; };
  const over = (state, text) => {
    place.dataset.state = state;
    say(text);
    terminal.write(`\r\n\x1b[2m${text}\x1b[0m\r\n`);
  };

  const open = () => {
    const address = new URL(`/api/v1/sessions/${encodeURIComponent(place.dataset.session)}/terminal`, location.href);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    address.search = `?columns=${terminal.cols}&rows=${terminal.rows}`;
    exit = null;
    const ours = socket = new WebSocket(address);
    ours.binaryType = "arraybuffer";
    ours.addEventListener("open", () => {
      place.dataset.state = "open";
      pause = FIRST_MS;
      if (before) over("open", words("Again"));
      else say(words("Open"));
      before = true;
      fit.fit();
      terminal.focus();
    });
    ours.addEventListener("message", ({ data }) => {
      if (typeof data === "string") exit = JSON.parse(data).exit;
      else terminal.write(new Uint8Array(data));
    });
    ours.addEventListener("close", () => closed());
  };

  const closed = async () => {
    if (exit !== null) return over("closed", words("Ended").replace("{code}", exit));
    if (place.dataset.state !== "lost") over("lost", words("Lost"));
    // A socket does not tell why it was refused; the page does.
    const status = await fetch(location.href, { cache: "no-store" }).then((answer) => answer.status, () => 0);
    if (status === 401 || status === 403) return over("closed", words("Out"));
    if (status === 404 || status === 409) return over("closed", words("Over"));
    setTimeout(open, pause);
    pause = Math.min(LONGEST_MS, pause * 2);
  };

  const copy = async () => {
    const text = terminal.getSelection();
    if (!text) return say(words("Nothing"));
    await navigator.clipboard.writeText(text);
    say(words("Copied"));
    terminal.focus();
  };

  terminal.onData((text) => {
    if (place.dataset.state === "closed" && exit !== null && text === "\r") { before = false; open(); }
    else send(letters.encode(text));
  });
  terminal.onBinary((text) => send(Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
  terminal.onResize(({ cols, rows }) => send(JSON.stringify({ resize: [cols, rows] })));
  terminal.attachCustomKeyEventHandler((event) => {
    const isCopy = event.ctrlKey && event.code === "KeyC" && (event.shiftKey || terminal.hasSelection());
    if (!isCopy) return !(event.ctrlKey && event.shiftKey && event.code === "KeyV"); // pasting is the browser's own
    if (event.type === "keydown") { event.preventDefault(); copy().then(() => terminal.clearSelection()); }
    return false;
  });
  document.getElementById("terminal-copy").addEventListener("click", copy);
  document.getElementById("terminal-full").addEventListener("click", () => place.requestFullscreen());
  new ResizeObserver(() => fit.fit()).observe(place);
  open();
})();
