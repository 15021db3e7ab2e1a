// The page's terminal: what is typed goes to the session, what the session shows comes back. See api/terminal.py.
"use strict";
const place = document.getElementById("terminal");
const terminal = new Terminal({ cursorBlink: true, fontFamily: "ui-monospace, monospace", scrollback: 5000 });
const fit = new FitAddon.FitAddon();
terminal.loadAddon(fit);
terminal.open(place);
fit.fit();

const address = new URL(`/api/v1/sessions/${encodeURIComponent(place.dataset.session)}/terminal`, location.href);
address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
address.search = `?columns=${terminal.cols}&rows=${terminal.rows}`;
const socket = new WebSocket(address);
socket.binaryType = "arraybuffer";
let ending = "The connection has ended: the session is over, you were signed out, or the server restarts.";

const send = (data) => socket.readyState === WebSocket.OPEN && socket.send(data);
const letters = new TextEncoder();
terminal.onData((text) => send(letters.encode(text)));
terminal.onBinary((text) => send(Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
terminal.onResize(({ cols, rows }) => send(JSON.stringify({ resize: [cols, rows] })));
addEventListener("resize", () => fit.fit());

socket.addEventListener("open", () => { place.dataset.state = "open"; fit.fit(); terminal.focus(); });
socket.addEventListener("message", ({ data }) => {
  if (typeof data === "string") ending = `The shell has ended with code ${JSON.parse(data).exit}.`;
  else terminal.write(new Uint8Array(data));
});
socket.addEventListener("close", () => {
  place.dataset.state = "closed";
  terminal.write(`\r\n${ending} Load the page again for another.\r\n`);
});
