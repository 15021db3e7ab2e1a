// A class list is sent as the bytes it is: the browser would take any encoding for UTF-8.
"use strict";
(() => {
  const CHUNK = 0x8000; // bytes at a time: more are too many arguments for one call

  const base64 = (bytes) => {
    let text = "";
    for (let at = 0; at < bytes.length; at += CHUNK) text += String.fromCharCode(...bytes.subarray(at, at + CHUNK));
    return btoa(text);
  };

  document.addEventListener("change", async (event) => {
    const input = event.target;
    if (input.dataset.reads === undefined || !input.form) return;
    const kept = input.form.elements[input.dataset.reads], button = input.form.querySelector("button");
    button.disabled = true; // until the file is read
    kept.value = input.files.length ? base64(new Uint8Array(await input.files[0].arrayBuffer())) : "";
    button.disabled = false;
  });
})();
