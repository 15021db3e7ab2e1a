// The cluster page asks again only for the hosts that are on the screen: of a thousand GPUs some thirty.
"use strict";
(() => {
  const near = new Set();
  const NEAR = "400px"; // what is this close is asked for too, so that scrolling meets fresh figures
  let due = 0;
  const watch = new IntersectionObserver((entries) => {
    let stale = false;
    for (const entry of entries) {
      if (!entry.isIntersecting) { near.delete(entry.target.dataset.host); continue; }
      near.add(entry.target.dataset.host);
      stale = stale || Date.now() - Number(entry.target.dataset.at || 0) > 3000;
    }
    if (!stale) return;
    clearTimeout(due);
    due = setTimeout(() => document.body.dispatchEvent(new CustomEvent("live-changed")), 150); // when the scrolling rests
  }, { rootMargin: NEAR });
  const look = (all) => document.querySelectorAll("#hosts > .host").forEach((host) => {
    if (all || near.has(host.dataset.host)) host.dataset.at = Date.now();
    watch.observe(host);
  });
  look(true);
  document.body.addEventListener("htmx:configRequest", (event) => {
    if (event.detail.elt.id === "live") event.detail.headers["X-Fairy-Shown"] = [...near].map(encodeURIComponent).join(",");
  });
  document.body.addEventListener("htmx:afterSettle", (event) => { if (event.detail.target.id === "live") look(false); });
})();
