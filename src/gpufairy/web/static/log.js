// A session's log as it grows. What comes is shown as a terminal would leave it standing, without colours; nothing of it is markup.
"use strict";
(() => {
  const card = document.querySelector("[data-log]");
  if (!card) return;
  const MOST = 1 << 20; // letters that are kept in the page: the whole is one click away
  const SHOW_MS = 100; // a flood is shown so often, not at each chunk
  const AGAIN_MS = 2000, AGAIN_SPREAD_MS = 2000; // all who follow come back at another moment when the server was away
  const box = card.querySelector(".log"), pre = box.querySelector("pre"), state = card.querySelector("[data-state]");
  const toEnd = card.querySelector("[data-to-end]"), cut = card.querySelector("[data-cut]"), nothing = card.querySelector("[data-nothing]");
  const copy = card.querySelector("[data-copy]");
  const whole = document.createTextNode(pre.textContent), open = document.createTextNode("");
  pre.replaceChildren(whole, open);
  box.classList.add("follows"); // stands at its end by us now, not by its style

  let offset = Number(card.dataset.from), follows = true, waiting = "", line = "", due = null, reading = null;

  const clean = (text) => text
    .replace(/\x1b\[[0-9;?]{0,32}[@-~]|\x1b\][^\x07\x1b]{0,512}(?:\x07|\x1b\\)/g, "") // colours, cursor, title
    .replace(/\r\n/g, "\n").replace(/^.*\r(?!$)/gm, "") // a progress bar's earlier states
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}]/gu, (letter) => letter === "\n" || letter === "\t" ? letter : shown(letter));
  const shown = (letter) => {
    const code = letter.codePointAt(0);
    return code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
  };
  const atEnd = () => box.scrollHeight - box.scrollTop - box.clientHeight < 24;
  const stand = () => { if (follows) box.scrollTop = box.scrollHeight; toEnd.hidden = follows; };
  const show = () => {
    due = null;
    const text = line + waiting, last = text.lastIndexOf("\n") + 1;
    waiting = "";
    line = text.slice(last).slice(-MOST);
    if (last) whole.appendData(clean(text.slice(0, last)));
    open.data = clean(line);
    if (whole.length > MOST) {
      whole.deleteData(0, whole.data.indexOf("\n", whole.length - MOST) + 1);
      cut.hidden = false;
    }
    const any = whole.length + open.length > 0;
    box.hidden = !any;
    nothing.hidden = any;
    copy.hidden = !any;
    stand();
  };
  const take = (text) => {
    waiting += text;
    if (!due) due = setTimeout(show, SHOW_MS);
  };

  const follow = async () => {
    let goesOn = true;
    reading = new AbortController();
    const letters = new TextDecoder();
    try {
      const answer = await fetch(`${card.dataset.log}?from=${offset}`, { cache: "no-store", signal: reading.signal });
      if (answer.status === 404) return;
      if (!answer.ok) throw new Error(answer.status);
      goesOn = answer.headers.get("X-Fairy-Goes-On") === "1";
      state.textContent = goesOn ? state.dataset.following : "";
      const reader = answer.body.getReader();
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        offset += part.value.length;
        take(letters.decode(part.value, { stream: true }));
      }
    } catch {
      if (!reading.signal.aborted) state.textContent = state.dataset.lost;
    }
    if (goesOn) setTimeout(again, AGAIN_MS + Math.random() * AGAIN_SPREAD_MS);
    else state.textContent = "";
  };
  const again = () => {
    if (reading.signal.aborted && document.hidden) document.addEventListener("visibilitychange", follow, { once: true });
    else follow();
  };

  box.addEventListener("scroll", () => { follows = atEnd(); toEnd.hidden = follows; });
  toEnd.addEventListener("click", () => { follows = true; stand(); });
  document.body.addEventListener("live-rest", () => reading.abort()); // nobody sees it
  show();
  follow();
})();
