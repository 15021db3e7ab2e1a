// What every page does: looks again when the server says that something changed, shows when it is cut off, copies, tells its time zone.
"use strict";
(() => {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "";
  if (zone && !document.cookie.includes(`fairy_zone=${zone}`)) document.cookie = `fairy_zone=${zone}; path=/; max-age=31536000; samesite=lax`;

  // What somebody is typing stays as they typed it. What a script draws or somebody opened (data-kept), and what the server
  // says is the same (data-same), is left alone.
  Idiomorph.defaults.ignoreActiveValue = true;
  const filled = (node) => node.dataset && "kept" in node.dataset, unchanged = (node) => node.dataset && "same" in node.dataset;
  Idiomorph.defaults.callbacks.beforeNodeMorphed = (old, fresh) => !filled(old) && !unchanged(fresh);

  const body = document.body;
  const SILENT_MS = 16000; // three ticks missed: cut off, whatever the browser believes
  // A page that nobody sees holds no connection, since browsers have six for all tabs of one server; it looks so often, for its title.
  const REST_MS = 5000, LOOK_MS = 30000;
  const OUT = 401; // not signed in any more
  let stream = null, heard = Date.now(), lost = 0, resting = null;

  const fire = (name) => body.dispatchEvent(new CustomEvent(name));
  const alive = () => {
    heard = Date.now();
    if (!lost) return;
    lost = 0;
    delete body.dataset.cut;
    delete body.dataset.out;
    fire("live-changed"); // what happened meanwhile
  };
  const cut = () => {
    lost = lost || Date.now();
    body.dataset.cut = new Date(lost).toLocaleTimeString();
    const place = document.getElementById("cut-since");
    if (place) place.textContent = body.dataset.cut;
  };
  const open = () => {
    if (stream) stream.close();
    heard = Date.now();
    stream = new EventSource(`/live?${body.dataset.live}`);
    stream.addEventListener("hello", alive);
    stream.addEventListener("tick", () => { alive(); fire("live-tick"); });
    stream.addEventListener("changed", () => { alive(); fire("live-changed"); });
    stream.addEventListener("error", () => { cut(); if (stream && stream.readyState === EventSource.CLOSED) refused(); });
  };
  const again = () => { if (!resting) open(); };
  // A stream does not tell why it was refused; the page does. Who has signed in again in another tab goes on here as they were.
  const refused = async () => {
    const status = await fetch(location.href, { cache: "no-store" }).then((answer) => answer.status, () => 0);
    if (status !== OUT) { setTimeout(again, 2000 + Math.random() * 4000); return; }
    body.dataset.out = "";
    if (stream) stream.close();
    stream = null;
  };
  const rest = () => {
    if (stream) stream.close();
    stream = null;
    fire("live-rest");
    resting = setInterval(() => fire("live-changed"), LOOK_MS);
  };
  const seen = () => {
    clearTimeout(resting);
    clearInterval(resting);
    resting = null;
    if (document.hidden) { resting = setTimeout(rest, REST_MS); return; }
    if (!stream || stream.readyState === EventSource.CLOSED) open();
    fire("live-changed");
  };
  if (body.dataset.live !== undefined) {
    open();
    setInterval(() => { if (stream && Date.now() - heard > SILENT_MS) { cut(); open(); } }, 2000);
    document.addEventListener("visibilitychange", seen);
    body.addEventListener("htmx:responseError", (event) => { if (event.detail.xhr.status === OUT) { cut(); refused(); } });
    if (document.hidden) seen(); // opened in a tab behind
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const from = document.getElementById(button.dataset.copy);
    navigator.clipboard.writeText(from.innerText.trim()).then(() => {
      button.dataset.copied = "";
      setTimeout(() => delete button.dataset.copied, 1500);
    });
  });
  document.addEventListener("submit", (event) => {
    const words = event.target.dataset.confirm;
    if (words && !confirm(words)) event.preventDefault();
  });
  document.addEventListener("change", (event) => {
    if (event.target.dataset.submits !== undefined) event.target.form.requestSubmit();
  });
})();
