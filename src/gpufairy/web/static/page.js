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
  let stream = null, heard = Date.now(), lost = 0;

  const fire = (name) => body.dispatchEvent(new CustomEvent(name));
  const alive = () => {
    heard = Date.now();
    if (!lost) return;
    lost = 0;
    delete body.dataset.cut;
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
    stream = new EventSource("/live");
    stream.addEventListener("tick", () => { alive(); fire("live-tick"); });
    stream.addEventListener("changed", () => { alive(); fire("live-changed"); });
    stream.addEventListener("error", () => { cut(); if (stream.readyState === EventSource.CLOSED) setTimeout(open, 3000); });
  };
  if (body.dataset.live !== undefined) {
    open();
    setInterval(() => { if (Date.now() - heard > SILENT_MS) { heard = Date.now(); cut(); open(); } }, 2000);
    document.addEventListener("visibilitychange", () => { if (!document.hidden) fire("live-changed"); });
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
