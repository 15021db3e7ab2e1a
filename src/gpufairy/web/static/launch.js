// The slider of shares: it moves the choice below it, and that moves it. Without a script the choice alone is there.
"use strict";
(() => {
  const form = document.querySelector("form.launch"), slider = form && form.querySelector(".slider");
  if (!form) return;
  form.addEventListener("input", (event) => { // who types another one means it
    const picks = event.target.dataset.picks;
    if (picks) form.querySelector(`input[name="${picks}"][value="other"]`).checked = true;
  });
  form.addEventListener("submit", () => { form.querySelector(".button.main").setAttribute("aria-busy", "true"); });
  addEventListener("pageshow", () => { form.querySelector(".button.main").removeAttribute("aria-busy"); });
  if (!slider) return;
  const stops = [...form.querySelectorAll(".stops:not(.loose) input")];
  const show = () => {
    const place = stops.findIndex((stop) => stop.checked);
    slider.classList.toggle("off", place < 0);
    if (place >= 0) slider.value = place;
    slider.setAttribute("aria-valuetext", place < 0 ? "" : stops[place].getAttribute("aria-label"));
  };
  slider.hidden = stops.length < 2;
  slider.style.setProperty("--stops", stops.length);
  slider.addEventListener("input", () => { stops[slider.value].checked = true; show(); });
  form.addEventListener("change", show);
  form.addEventListener("input", show);
  show();
})();
